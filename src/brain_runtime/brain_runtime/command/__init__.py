# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the verbs of ``brain``, whichever package has them: options, the terminal, and how they end."""
