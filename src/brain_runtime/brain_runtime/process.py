# SPDX-License-Identifier: Apache-2.0
"""A region's process: ``python -m brain_runtime.process --class brain_regions.vision:Vision --name vision``.

The supervisor, launch files and ``brain run`` all start regions so. Status 0: ended in good order; 1: the region
failed; 2: it could not start, and starting it again in the same way will not help.
"""
from __future__ import annotations

import os
import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)    # until it is loaded; what follows takes a second
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy or torch are imported: regions share few cores

import gc  # noqa: E402
import logging  # noqa: E402
import math  # noqa: E402
import sys  # noqa: E402
from typing import Any, Sequence  # noqa: E402

from brain_runtime.hosts import ros_args  # noqa: E402
from brain_wire import safe_text, standby, threads  # noqa: E402
from brain_runtime.run.ending import End, Ending, leave  # noqa: E402
from brain_runtime.graph import GraphError  # noqa: E402
from brain_wire.logs import survive_full_disk  # noqa: E402
from brain_wire.parameters import ParameterError  # noqa: E402
from brain_runtime.hosts.predecessors import Predecessors  # noqa: E402
from brain_runtime.hosts.process_arguments import arguments, spec_of  # noqa: E402
from brain_runtime.contract.region import Region, moves  # noqa: E402
from brain_runtime.run.keeper import end_with_keeper  # noqa: E402
from brain_runtime.run.second import LAST_PATIENCE, stand_behind  # noqa: E402
from brain_wire import NameProblem, NoRouter, Session, SessionProblem, open_session  # noqa: E402
from brain_wire.rosout import Rosout  # noqa: E402
from brain_wire.sched_slice import ask_for_short_slices  # noqa: E402
from brain_runtime.hosts.node_parameters import known  # noqa: E402
from brain_runtime.hosts.process import run_region, warm_up  # noqa: E402
from brain_runtime.hosts.zenoh import ZenohHost  # noqa: E402

log = logging.getLogger(__name__)

SWITCH = 0.001  # s; how soon a thread that receives gets the interpreter from one that steps
LINE = "%(asctime)s %(levelname)s [{}] %(message)s"
REFUSED = ros_args.RosArgsError, GraphError, ParameterError, NameProblem, SessionProblem
"""What keeps a region from starting, however often it is tried."""


class Asked:
    """Region that a command line asks for.

    Args:
        argv: without the program's name.

    Attributes:
        options: what stands in front of ``--ros-args``.
        ros: what stands behind it.
        declared: the node's name before remapping.
        cls, name, namespace, parameters: class, name and namespace of the node and what it is given, once loaded.

    Raises:
        RosArgsError: a part of it is wrong.
    """

    cls: type[Region]
    name: str
    namespace: str
    parameters: dict[str, Any]

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self.ros, rest = ros_args.parse(self._argv)
        parser = arguments("brain_runtime.process")
        parser.add_argument("--router", help="Zenoh endpoint, as tcp/localhost:7447")
        self.options = parser.parse_args(rest)
        self.declared = self.options.name or self.options.cls.rpartition(":")[2].lower()

    def load(self) -> None:
        """Loads the class, and finds what the region is given. Raises one of :data:`REFUSED`."""
        self.cls = spec_of(self.options, self.declared).load()
        self.name, self.namespace = self.ros.node_name(self.declared), self.ros.namespace(self.declared)
        self.parameters = self.ros.parameters(self.name, self.namespace, known(self.cls.Parameters))

    def host(self, session: Session, **more: Any) -> ZenohHost:
        """Makes the region and its host, which takes ``more``. Raises one of :data:`REFUSED`."""
        return ZenohHost(spec_of(self.options, self.name).make(), session, name=self.name, namespace=self.namespace,
                         parameters=self.parameters, **more,
                         topic=lambda topic: self.ros.topic(topic, self.name, self.namespace))

    def run(self, session: Session, end: End, restarts: int) -> int:
        """Runs the region until its end; returns the exit status. Raises one of :data:`REFUSED`.

        Args:
            restarts: times it was started again.
        """
        before = Predecessors.named(self._argv)
        rosout: list[logging.Handler] = []
        sys.setswitchinterval(SWITCH)

        def make() -> ZenohHost:
            host = self.host(session, seed=self.options.seed, state_dir=self.options.state_dir,
                             critical=self.options.critical, restarts=restarts, autostart=not self.options.manual,
                             before=before)
            _take_away(rosout)
            rosout.append(Rosout(host.node))
            logging.getLogger().addHandler(rosout[0])
            log.info("%s runs as %s, pid %d", self.options.cls, host.node.fqn, os.getpid())
            gc.collect()
            gc.freeze()  # what was imported stays; the collector need not look at it in the middle of a step
            return host

        try:
            return run_region(make, end)
        finally:
            _take_away(rosout)


def _take_away(handlers: list[logging.Handler]) -> None:
    while handlers:
        logging.getLogger().removeHandler(handlers.pop())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a region until it is told to end; returns the exit status."""
    ending = Ending()
    try:
        asked = Asked(sys.argv[1:] if argv is None else argv)
        options = asked.options
        survive_full_disk()
        ask_for_short_slices()
        safe_text.log_to(sys.stderr, asked.ros.log_level or logging.INFO,
                         LINE.format(safe_text.line(asked.declared).replace("%", "%%")))
        asked.load()
        if options.standby or moves(asked.cls):
            warm_up(asked.cls)
        if options.standby:
            restarts = standby.wait_for_work(ending.asked)
            if restarts is None:
                return 0
            options.restarts = restarts
        first = stand_behind() if moves(asked.cls) else ending.first
        if first is not None:
            ending.first = first
            end_with_keeper()
        with threads.threads(threads.REGION):
            session = open_session(options.router, identity=asked.name, **(
                {"patience": LAST_PATIENCE} if first is None else   # of all hearers a router knows, and no peer at once
                {"patience": math.inf, "stop": ending.asked, "direct": True}))
        with session:
            return asked.host(session).last_word() if first is None else asked.run(session, ending, options.restarts)
    except NoRouter:
        if first is None:
            log.error("%s cannot be brought to rest: no router answers", asked.declared)
        if ending.asked.is_set() or first is None:
            return 0
        raise
    except REFUSED as problem:
        print(f"cannot start: {safe_text.line(problem)}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    leave(main())
