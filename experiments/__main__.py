# SPDX-License-Identifier: Apache-2.0
"""``python -m experiments NAME ...``: the same as ``brain bench NAME ...``."""
import sys

from brain.cli import main

sys.argv[1:1] = ["bench"]
main()
