# SPDX-License-Identifier: Apache-2.0
"""The brain command, the launch files and the configuration of whole brains."""
