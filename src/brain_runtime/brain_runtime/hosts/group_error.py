# SPDX-License-Identifier: Apache-2.0
"""GroupError, and what torch says of it, for those who only report it: importing it loads no torch."""


class GroupError(RuntimeError):
    """A static process group cannot be, or has lost a rank; says which and why."""


def first_line(error: Exception) -> str:
    """The first line of what an error says; of those of torch, all that a person can use."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
