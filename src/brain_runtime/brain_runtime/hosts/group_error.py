# SPDX-License-Identifier: Apache-2.0
"""GroupError, for those who only report it: importing it loads no torch."""


class GroupError(RuntimeError):
    """A static process group cannot be, or has lost a rank; says which and why."""
