# SPDX-License-Identifier: Apache-2.0
"""Refusals: reasons for which a server does not do what it was asked for."""
from __future__ import annotations


class Refused(Exception):
    """A request is refused; the message is for people.

    Args:
        status: name of gRPC's status, as ``parameters.proto`` explains them.
        why: one sentence.
    """

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


def stale(why: str) -> Refused:
    """The push rests on parameters that are too old."""
    return Refused("ABORTED", why)


def unfit(why: str) -> Refused:
    """The worker is of another training, or not registered any more."""
    return Refused("FAILED_PRECONDITION", why)


def wrong(why: str) -> Refused:
    """Something in the request is wrong."""
    return Refused("INVALID_ARGUMENT", why)


def too_much(why: str) -> Refused:
    """There is no place for it."""
    return Refused("RESOURCE_EXHAUSTED", why)
