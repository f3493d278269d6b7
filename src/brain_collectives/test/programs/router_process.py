# SPDX-License-Identifier: Apache-2.0
"""A router, until it is killed. Argument: its endpoint."""
import sys

from brain_wire.router import Router

with Router([sys.argv[1]]):
    print("routing", flush=True)
    sys.stdin.readline()
