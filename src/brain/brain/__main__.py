# SPDX-License-Identifier: Apache-2.0
"""``python -m brain`` is the ``brain`` command."""
from brain.command import main

main()
