# SPDX-License-Identifier: Apache-2.0
"""A region's process on ROS 2: ``python -m brain_runtime.ros_process --class brain_regions.motor:Motor --ros-args``.

Status 0: ended in good order; 1: the region failed; 2: it could not start, and starting it again in the same way will
not help; 70: a step did not end.
"""
from __future__ import annotations

import os
import signal
import sys

if __name__ == "__main__" or os.path.basename(sys.argv[0]) == "ros_region":
    signal.signal(signal.SIGINT, signal.SIG_DFL)    # until it is loaded; what follows takes seconds
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy or torch are imported: regions share few cores

import argparse  # noqa: E402
import contextlib  # noqa: E402
import logging  # noqa: E402
from typing import Callable, NoReturn, Sequence  # noqa: E402

import rclpy  # noqa: E402
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException  # noqa: E402
from rclpy.signals import SignalHandlerOptions  # noqa: E402
from rclpy.type_support import check_for_type_support  # noqa: E402
from rclpy.utilities import remove_ros_args  # noqa: E402

from brain_wire import safe_text, standby  # noqa: E402
from brain_runtime.run.workload import CANNOT_START  # noqa: E402
from brain_runtime.run.ending import Ending, leave  # noqa: E402
from brain_runtime.graph import GraphError  # noqa: E402
from brain_wire.logs import survive_full_disk  # noqa: E402
from brain_wire.parameters import ParameterError  # noqa: E402
from brain_wire.sched_slice import ask_for_short_slices  # noqa: E402
from brain_wire.standby import OPTION  # noqa: E402
from brain_runtime.hosts.predecessors import Predecessors  # noqa: E402
from brain_runtime.hosts.process_arguments import arguments, spec_of  # noqa: E402
from brain_runtime.rclpy_private import RCLInvalidROSArgsError, UnknownROSArgsError  # noqa: E402
from brain_runtime.contract.region import moves  # noqa: E402
from brain_runtime.hosts.ros_args import RosArgsError  # noqa: E402
from brain_runtime.run.keeper import end_with_keeper  # noqa: E402
from brain_runtime.run.second import stand_behind  # noqa: E402
from brain_runtime.hosts.process import run_region, warm_up  # noqa: E402
from brain_runtime.hosts.ros import RosHost  # noqa: E402
from brain_runtime.hosts.ros_second import RosSecond  # noqa: E402
from brain_runtime.hosts.ros_log import RosLog  # noqa: E402
from brain_runtime.hosts.ros_types import interface  # noqa: E402


class _Second:
    """The process behind: it joins before it waits, and says the last word."""

    def __init__(self, options: argparse.Namespace, declared: str, argv: list[str]) -> None:
        self._options, self._declared, self._argv = options, declared, argv
        self.host: RosSecond | None = None

    def join(self) -> Callable[[], None]:
        """Gets ready to say the last word; gives what it leaves with."""
        first = os.getppid()
        try:
            rclpy.init(args=self._argv, signal_handler_options=SignalHandlerOptions.NO)
            host = RosSecond(spec_of(self._options, self._declared).make(), name=self._declared, argv=self._argv,
                             first=first)
            host.stand_by()
            self.host = host
        except Exception as problem:    # whatever it is, this process must not run on as the first
            logging.warning("no second process stands behind %s: %s", self._declared, safe_text.line(problem))
        return _leave


def _leave() -> None:
    """Leaves the middleware.

    Its own end comes with the context's. Without it others take this process for alive for a while, and its shared
    memory stays, with a port that the next process of that domain may be given.
    """
    rclpy.try_shutdown()
    rclpy.get_default_context().destroy()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a region until it is told to end; returns the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    ending = Ending()
    # Launch starts what ends again at once, for ever; a supervisor, which says how often it did, has a measure.
    before = None if "--restarts" in argv or OPTION in argv else Predecessors.named(argv)
    if before is not None:
        before.hold_back(ending.asked)
    try:
        try:
            options = arguments("brain_runtime.ros_process").parse_args(remove_ros_args(["ros_process", *argv])[1:])
        except SystemExit as refused:   # and told
            if before is not None and refused.code == CANNOT_START:
                before.give_up(ending.asked)
            raise
        survive_full_disk()
        ask_for_short_slices()
        declared = options.name or options.cls.rpartition(":")[2].lower()
        spec = spec_of(options, declared)
        if options.standby:
            for name in warm_up(spec.load()):
                with contextlib.suppress(ModuleNotFoundError):  # of which its host tells
                    check_for_type_support(interface(name))
            restarts = standby.wait_for_work(ending.asked)
            if restarts is None:
                return 0
            options.restarts = restarts
        second = _Second(options, declared, argv)
        first = stand_behind(second.join) if moves(spec.load()) else ending.first
        if first is None:
            return 1 if second.host is None else second.host.last_word()
        ending.first = first
        end_with_keeper()
        rclpy.init(args=argv, signal_handler_options=SignalHandlerOptions.NO)
        before = before or Predecessors.named(argv)
        starts = 0 if before is None else before.starts

        def make() -> RosHost:
            host = RosHost(
                spec.make(), name=declared, seed=options.seed, state_dir=options.state_dir,
                critical=options.critical, restarts=options.restarts or starts, autostart=not options.manual,
                before=before, argv=argv)
            logging.basicConfig(level=logging.INFO, handlers=[RosLog(host.node)], force=True)
            logging.info("%s runs as %s, pid %d", options.cls, host.fqn, os.getpid())
            return host

        return run_region(make, ending)
    except (GraphError, ParameterError, RosArgsError, ModuleNotFoundError, InvalidParameterTypeException,
            InvalidParameterValueException, RCLInvalidROSArgsError, UnknownROSArgsError) as problem:
        print(f"cannot start: {safe_text.line(problem)}", file=sys.stderr)
        if before is not None:
            before.give_up(ending.asked)
        return CANNOT_START
    finally:
        _leave()


def run() -> NoReturn:
    """Runs a region's process for ``ros2 run brain_runtime ros_region``, then exits."""
    leave(main())


if __name__ == "__main__":
    run()
