# SPDX-License-Identifier: Apache-2.0
"""A brain on a static group, that drives a robot: ``python -m brain_collectives.static_group BRAIN.json``.

BRAIN.json is what ``brain up --host torch --dry-run --json`` prints. By itself this starts one rank for each region and
is rank 0; under torchrun each of its processes is one rank. The devices of a simulated world are not in the group, nor
is what others run. Status 0: ended in good order; 1: a rank was lost or a region failed, and with it the brain; 2: it
could not start, and starting it again in the same way will not help.
"""
from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from brain_collectives.hosts.torch import TorchHost
from brain_collectives.hosts.torch_gateway import Gateway
from brain_collectives.hosts.torch_group import Group
from brain_collectives.hosts.torch_ranks import Ranks
from brain_collectives.hosts.torch_snapshot import unpack
from brain_collectives.torch_process import end, obey, one_thread
from brain_runtime.contract import snapshot
from brain_runtime.contract.heartbeat import new_epoch
from brain_runtime.contract.stepper import RegionError
from brain_runtime.graph.resolved import Resolved
from brain_runtime.hosts.backends import GroupError
from brain_runtime.hosts.zenoh import ZenohHost
from brain_runtime.run.ending import Ending, leave
from brain_runtime.run.keeper import end_with_keeper
from brain_runtime.run.second import LAST_PATIENCE, stand_behind
from brain_wire import NameProblem, NoRouter, Session, SessionProblem, open_session, private, safe_text
from brain_wire.logs import survive_full_disk

TIMEOUT = 5.0       # s that a rank waits for another one, before the group ends
YOUNG = 1.0         # s; a region that fails so soon after it was restored may fail because of what was restored
SLOWEST, FASTEST = 1.0, 200.0   # Hz of ticks
KEPT = "static_group.safetensors"
log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a rank, or all of them, until it is told to end; returns the exit status."""
    ending = Ending()
    options = _options(argv)
    survive_full_disk()
    rank = os.environ.get("RANK")
    safe_text.log_to(sys.stderr, logging.INFO, f"%(asctime)s %(levelname)s [rank {rank or 0}] %(message)s")
    try:
        if rank not in (None, "0"):
            group = Group(options.backend, options.timeout)
            obey(group)
            group.close()
            return 0
        resolved = _ranks(Resolved.from_json(options.brain.read_text(encoding="utf-8")))
        first = stand_behind()
        if first is None:
            with open_session(options.router, patience=LAST_PATIENCE) as session:
                _last_words(resolved, session)
            return 0
        ending.first = first
        end_with_keeper()
        with open_session(options.router, patience=float("inf"), stop=ending.asked) as session, \
                _group(options, resolved, rank is None) as group:
            first.moving(True)
            try:
                status = _drive(group, resolved, session, options, ending)
            except (GroupError, RegionError):
                _last_words(resolved, session)
                first.moving(False)
                raise
            first.moving(False)     # after any other error the second process speaks
            return status
    except NoRouter:
        if ending.asked.is_set():
            return 0
        raise
    except (GroupError, RegionError) as error:
        print(safe_text.line(str(error)), file=sys.stderr)
        return 1
    except (OSError, ValueError, NameProblem, SessionProblem) as problem:
        print(f"cannot start: {safe_text.line(str(problem))}", file=sys.stderr)
        return 2


def _options(argv: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="brain_collectives.static_group", description="A brain on a static group of "
                                     "torch.distributed, one rank for each region and one for what is outside.")
    parser.add_argument("brain", type=Path, help="what `brain up --host torch --dry-run --json` prints")
    parser.add_argument("--router", help="Zenoh endpoint, as tcp/localhost:7447")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--state-dir", type=Path, help="folder for what outlives the group: the regions' states, an "
                        "emergency stop")
    parser.add_argument("--log-dir", type=Path, help="folder for one log a rank, where this starts them")
    parser.add_argument("--backend", default="gloo", help="of torch.distributed")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="s that a rank waits for another one before all "
                        "end")
    parser.add_argument("--tick", type=float, metavar="HZ", help="rate at which all ranks go on together; default: "
                        "whenever there is something to do")
    options = parser.parse_args(argv)
    if options.tick is not None and not SLOWEST <= options.tick <= FASTEST:
        parser.error(f"--tick is {options.tick:g}; it must be {SLOWEST:g} to {FASTEST:g} Hz")
    return options


def _ranks(resolved: Resolved) -> Resolved:
    """Keeps the regions of a brain that are in the group.

    Raises:
        ValueError: nothing is.
    """
    regions = tuple(region for region in resolved.regions if region.name in resolved.grouped)
    if not regions:
        raise ValueError(f"graph {resolved.name} has no region that could run in a static group, with the host "
                         f"{resolved.host}; write the file by `brain up --host torch --dry-run --json`")
    return replace(resolved, regions=regions)


@contextlib.contextmanager
def _group(options: Any, resolved: Resolved, start: bool) -> Iterator[Group]:
    """The group of all ranks: started from here, or by torchrun. Errors tell why a rank ended where that is known."""
    if not start:
        group = Group(options.backend, options.timeout)
        try:
            yield group
        finally:
            with contextlib.suppress(GroupError):   # there is nobody left to tell
                end(group)
            group.close()
        return
    with Ranks(len(resolved.regions), options.timeout, options.log_dir) as ranks:
        try:
            yield ranks.group
        except GroupError as error:
            raise ranks.why(error) from error


def _last_words(resolved: Resolved, session: Session) -> None:
    """Brings to rest what the regions move, where the group is gone and has not done it."""
    for region in filter(lambda region: region.moves, resolved.regions):
        def named(topic: str, remap: Mapping[str, str] = region.remap) -> str:
            return remap.get(topic, topic)

        log.warning("the group is lost; what %s moves is brought to rest", region.name)
        ZenohHost(region.make(), session, name=region.name, namespace=region.namespace, parameters=region.parameters,
                  topic=named).last_word()


def _drive(group: Group, resolved: Resolved, session: Session, options: Any, ending: Ending) -> int:
    folder = None
    if options.state_dir is not None:
        folder = options.state_dir / resolved.namespace.strip("/").replace("/", "%")
        private.folder(folder)
    kept = None if folder is None else folder / KEPT
    states = {} if kept is None else unpack(kept, resolved.name)
    host = TorchHost(group, resolved, options.seed, storage=folder, run=new_epoch(), states=states)
    gateway = Gateway(host, resolved, session, kept=kept, tick=options.tick)
    try:
        log.info("%d regions run as ranks 1 to %d of a static group, pid %d%s", len(resolved.regions), group.size - 1,
                 os.getpid(), f"; {len(states)} go on from {kept}" if states else "")
        ending.ends(gateway)
        gateway.run()
    except RegionError:
        if states and kept is not None and host.now < YOUNG and kept.exists():
            log.error("it failed right after its state was restored; the snapshot is set aside as %s",
                      snapshot.set_aside(kept))
        raise
    finally:
        gateway.close()
    return 0


if __name__ == "__main__":
    one_thread()
    leave(main())
