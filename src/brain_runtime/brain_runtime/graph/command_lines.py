# SPDX-License-Identifier: Apache-2.0
"""Command lines of regions' processes, made of what :func:`brain_runtime.graph.resolve.resolve` says."""
from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, Iterable, Sequence

from brain_runtime.graph.resolved import ResolvedRegion


def arguments(region: ResolvedRegion, seed: int | str, state_dir: Path | str | None = None,
              router: str | None = None) -> list[str]:
    """Makes the command line of a region's process on every host: all that stands in front of ``--ros-args``.

    Args:
        seed: of the random stream.
        state_dir: folder of the snapshots; None or empty: none are made.
        router: Zenoh endpoint, for who speaks to one.
    """
    found = ["--class", region.cls, "--name", region.name, "--seed", str(seed)]
    found += ["--state-dir", str(state_dir)] if state_dir else []
    found += ["--router", router] if router is not None else []
    if region.shards > 1:
        found += ["--shards", str(region.shards), "--shard-backend", region.backend,
                  "--shard-timeout", f"{region.shard_timeout:g}"]
    return [*found, *(["--critical"] if region.critical else [])]


AND = "+"   # between the regions of one process


def one_process(commands: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The command line of one process with the regions of several, each made by :func:`command`."""
    words = [word for line in commands for word in (AND, *line[3:])]
    return (commands[0][0], "-m", "brain_runtime.one_process", *words[1:])


def apart(argv: Iterable[str]) -> list[list[str]]:
    """Arguments of each region in those of :func:`one_process`."""
    found: list[list[str]] = [[]]
    for word in argv:
        if word == AND:
            found.append([])
        else:
            found[-1].append(word)
    return found


def value_text(value: Any) -> str:
    """A value as it stands behind ``-p name:=``."""
    from brain_runtime import yaml_text

    return yaml_text.written(value, default_flow_style=True, width=math.inf).strip().removesuffix("...").strip()


def command(region: ResolvedRegion, files: Iterable[Path] = (), *, seed: int = 0, state_dir: Path | None = None,
            router: str | None = None, python: str = sys.executable) -> tuple[str, ...]:
    """The command line of a region's process on Zenoh.

    Args:
        files: ROS parameter files, later ones win: the one beside the graph, the profile's, the user's.
        seed, state_dir, router: see :func:`arguments`.
    """
    ros = ["-r", f"__ns:={region.namespace}"] if region.namespace != "/" else []
    for topic, other in region.remap.items():
        ros += ["-r", f"{topic}:={other}"]
    for path in files:
        ros += ["--params-file", str(path)]
    for name, value in region.own.items():
        ros += ["-p", f"{name}:={value_text(value)}"]
    return (python, "-m", "brain_runtime.process", *arguments(region, seed, state_dir, router),
            *(["--ros-args", *ros] if ros else []))
