# SPDX-License-Identifier: Apache-2.0
"""A router, until it is killed. Arguments: its endpoint, and those of routers that it is linked with."""
import sys

from brain_wire.router import Router

with Router([sys.argv[1]], connect=sys.argv[2:]):
    print("routing", flush=True)
    sys.stdin.readline()
