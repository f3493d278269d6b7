# SPDX-License-Identifier: Apache-2.0
"""The command line that a region's process has on every host, beside ``--ros-args``."""
from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from brain_runtime.hosts.backends import DEFAULT, TIMEOUT
from brain_runtime.graph import RegionSpec
from brain_runtime.run.state_folder import StateFolderProblem, usable
from brain_wire.standby import OPTION


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, as the rest of what keeps a region from starting."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"cannot start: {message}\n")


def _state_dir(text: str) -> Path:
    try:
        return usable(Path(text))
    except StateFolderProblem as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def arguments(program: str) -> argparse.ArgumentParser:
    """Options of ``program``, such as ``brain_runtime.process``; a host adds its own."""
    parser = _Parser(prog=program, description="Runs one region.")
    parser.add_argument("--class", dest="cls", required=True, help="package.module:Class")
    parser.add_argument("--name", help="node name; default: the class's")
    parser.add_argument("--seed", type=int, default=0, help="of the region's random stream")
    parser.add_argument("--state-dir", type=_state_dir, help="folder of the snapshots; without it none are made")
    parser.add_argument("--critical", action="store_true", help="the robot must not move without this region")
    parser.add_argument("--manual", action="store_true", help="wait for `ros2 lifecycle` instead of starting at once")
    parser.add_argument("--restarts", type=int, default=0, help="times it was started again")
    parser.add_argument(OPTION, action="store_true", help="load everything, then wait on standard input for the number "
                        "of restarts; without one, end")
    parser.add_argument("--shards", type=int, default=1, help="processes over which its network is spread")
    parser.add_argument("--shard-backend", default=DEFAULT, help="of torch.distributed, by which those talk")
    parser.add_argument("--shard-timeout", type=float, default=TIMEOUT, help="s that a step waits for one of them")
    return parser


def spec_of(options: argparse.Namespace, name: str) -> RegionSpec:
    """Makes the region's entry of a graph from the options."""
    return RegionSpec(name, options.cls, shards=options.shards, backend=options.shard_backend,
                      shard_timeout=options.shard_timeout)
