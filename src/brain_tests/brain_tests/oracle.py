# SPDX-License-Identifier: Apache-2.0
"""Oracle of a change that must change nothing: SHA-256 of what the brain does and of its spikes, for each episode.

    python -m brain_tests.oracle write FILE [--episodes 40] [--jobs 2]
    python -m brain_tests.oracle check FILE [--episodes 4]
    python -m brain_tests.oracle torch [--episodes 40] [--seed 0]

The last one plays each episode on LocalHost and on a static group of torch.distributed, and compares the two: actions
to the bit, spikes and synaptic operations of each region, outcome and time.

LocalHost is equal to the bit on the same machine, packages and thread count alone, so a file tells where it was made,
and one made elsewhere is refused. Make one with the commit before a change, then check it with the change.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import struct
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")

GOLDEN = Path(__file__).parent / "golden" / "episodes.json"
SPLIT, SEED = "val", 0
PACKAGES = ("mujoco", "numpy", "torch")     # whose arithmetic it is
ACTIONS = ("motor/command", "cmd_vel")


def machine() -> dict[str, str]:
    """Describes what the bits depend on: the processor, Python and the packages that compute."""
    cpu = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = dict(line.split(":", 1) for line in info.read_text().split("\n\n")[0].splitlines() if ":" in line)
        lines = {key.strip(): value.strip() for key, value in lines.items()}
        cpu = " ".join([lines.get("model name", cpu), hashlib.sha256(lines.get("flags", "").encode()).hexdigest()[:8]])
    return {"cpu": cpu, "python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}


class Listener:
    """Takes the hashes of one episode while it runs."""

    def __init__(self) -> None:
        self._actions = hashlib.sha256()
        self._spikes: dict[str, Any] = {}

    def begin(self, host: Any, episode: Any) -> None:
        """Listens to what the robot is told to do."""
        for topic in ACTIONS:
            host.listen(topic, lambda message, topic=topic: self._act(topic, message))

    def _act(self, topic: str, message: Any) -> None:
        stamp, twist = message.header.stamp, message.twist
        self._actions.update(topic.encode() + struct.pack(
            "<iI6d", stamp.sec, stamp.nanosec, twist.linear.x, twist.linear.y, twist.linear.z, twist.angular.x,
            twist.angular.y, twist.angular.z))

    def look(self, host: Any, since: float) -> None:
        """Takes in how many spikes and synaptic operations each region has made so far."""
        for name, region in host.regions.items():
            if region.spikes or region.synops:
                self._spikes.setdefault(name, hashlib.sha256()).update(
                    struct.pack("<dQQ", since, region.spikes, region.synops))

    def hashes(self) -> dict[str, Any]:
        """SHA-256 of the actions, and of the spikes of each region."""
        return {"actions": self._actions.hexdigest(),
                "spikes": {name: digest.hexdigest() for name, digest in sorted(self._spikes.items())}}


def run(index: int) -> dict[str, Any]:
    """Runs one episode of the suite; its hashes and its outcome."""
    from brain_eval.episodes import run_local
    from brain_sim.suite import episodes

    listener = Listener()
    result = run_local(episodes(SPLIT, index + 1, SEED)[index], onlooker=listener)
    return {"outcome": result["outcome"], "time": result["time"], **listener.hashes()}


def differences(known: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Lists what of an episode is not as it was."""
    odd = [what for what in ("outcome", "time", "actions") if known[what] != found[what]]
    names = sorted({*known["spikes"], *found["spikes"]})
    return odd + [f"spikes of {n}" for n in names if known["spikes"].get(n) != found["spikes"].get(n)]


def on_both(count: int, seed: int) -> Iterator[list[str]]:
    """Lists what of each episode differs between a static group and LocalHost; nothing where all is equal.

    Raises:
        GroupError: the ranks do not start, or one is lost.
    """
    from brain_eval.episodes import resolved_for, run_local
    from brain_eval.group import run_episode
    from brain_collectives.hosts.torch_ranks import Ranks
    from brain_sim.suite import episodes

    chosen = episodes(SPLIT, count, seed)
    resolved = [resolved_for(episode, "brain") for episode in chosen]
    with Ranks(len(resolved[0].regions)) as ranks:
        for episode, how in zip(chosen, resolved):
            there, here = Listener(), Listener()
            group = run_episode(ranks.group, episode, how, lambda host: there.begin(host, episode))
            local = run_local(episode, onlooker=here)
            odd = [what for what in ("outcome", "time", "spikes", "synops", "simulated") if group[what] != local[what]]
            odd += [f"{name}'s counts" for name in {*group["by_region"], *local["by_region"]}
                    if group["by_region"].get(name) != local["by_region"].get(name)]
            yield odd + ["actions"] * (there.hashes()["actions"] != here.hashes()["actions"])


def _runs(count: int, jobs: int):
    if jobs == 1:
        yield from map(run, range(count))
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(run, range(count))


def main() -> int:
    """Writes or checks a file; 0 if nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["write", "check", "torch"])
    parser.add_argument("file", type=Path, nargs="?", default=GOLDEN)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=SEED, help="of torch's episodes")
    options = parser.parse_intermixed_args()
    if options.what == "torch":
        odd = 0
        for index, differs in enumerate(on_both(options.episodes, options.seed)):
            odd += bool(differs)
            print(f"episode {index}: {', '.join(differs) or 'equal'}", flush=True)
        print(f"{options.episodes - odd} of {options.episodes} episodes are equal on both hosts")
        return 1 if odd else 0
    here = machine()
    if options.what == "write":
        found = {str(index): told for index, told in enumerate(_runs(options.episodes, options.jobs))}
        options.file.write_text(json.dumps({"split": SPLIT, "seed": SEED, "machine": here, "episodes": found},
                                           indent=1) + "\n")
        print(f"{len(found)} episodes written to {options.file}")
        return 0
    known = json.loads(options.file.read_text())
    if known["machine"] != here:
        print(f"{options.file} was made elsewhere ({known['machine']}), and bits can be compared only on one machine "
              f"({here}); make one here with the commit before the change", file=sys.stderr)
        return 2
    count, odd = min(options.episodes, len(known["episodes"])), 0
    for index, told in enumerate(_runs(count, options.jobs)):
        differs = differences(known["episodes"][str(index)], told)
        odd += bool(differs)
        print(f"episode {index}: {', '.join(differs) or 'as it was'}", flush=True)
    print(f"{count - odd} of {count} episodes are as they were")
    return 1 if odd else 0


if __name__ == "__main__":
    sys.exit(main())
