# SPDX-License-Identifier: Apache-2.0
"""What the verbs of ``brain`` share, whichever package has them: options, the terminal, and how they end."""
