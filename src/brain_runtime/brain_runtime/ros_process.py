# SPDX-License-Identifier: Apache-2.0
"""A region's process on ROS 2: ``python -m brain_runtime.ros_process --class brain_regions.motor:Motor --ros-args``.

Status 0: ended in good order; 1: the region failed; 2: it could not start, and starting it again in the same way will
not help; 70: a step did not end.
"""
from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy or torch are imported: regions share few cores

import logging  # noqa: E402
import sys  # noqa: E402
from typing import NoReturn, Sequence  # noqa: E402

import rclpy  # noqa: E402
from rclpy._rclpy_pybind11 import RCLInvalidROSArgsError, UnknownROSArgsError  # noqa: E402  (nowhere else named)
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException  # noqa: E402
from rclpy.signals import SignalHandlerOptions  # noqa: E402
from rclpy.utilities import remove_ros_args  # noqa: E402

from brain_wire import shown  # noqa: E402
from brain_runtime.ending import Ending, leave  # noqa: E402
from brain_runtime.graph import GraphError  # noqa: E402
from brain_runtime.launch_starts import restarts  # noqa: E402
from brain_runtime.launch_watch import end_with_launch  # noqa: E402
from brain_wire.logs import survive_full_disk  # noqa: E402
from brain_wire.parameters import ParameterError  # noqa: E402
from brain_wire.slices import ask_for_short_slices  # noqa: E402
from brain_runtime.process_arguments import arguments, spec_of  # noqa: E402
from brain_runtime.hosts.ros import RosHost  # noqa: E402
from brain_runtime.hosts.ros_log import RosLog  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a region until SIGINT or SIGTERM; returns the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    ending = Ending()
    end_with_launch()
    try:
        options = arguments("brain_runtime.ros_process").parse_args(remove_ros_args(["ros_process", *argv])[1:])
        survive_full_disk()
        ask_for_short_slices()
        declared = options.name or options.cls.rpartition(":")[2].lower()
        rclpy.init(args=argv, signal_handler_options=SignalHandlerOptions.NO)
        region = spec_of(options, declared).make()
        host = RosHost(region, name=declared, seed=options.seed, state_dir=options.state_dir, critical=options.critical,
                       restarts=options.restarts or restarts(argv), autostart=not options.manual)
        logging.basicConfig(level=logging.INFO, handlers=[RosLog(host.node)], force=True)
        logging.info("%s runs as %s, pid %d", options.cls, host.fqn, os.getpid())
        ending.ends(host)
        return host.run()
    except (GraphError, ParameterError, ModuleNotFoundError, InvalidParameterTypeException,
            InvalidParameterValueException, RCLInvalidROSArgsError, UnknownROSArgsError) as problem:
        print(f"cannot start: {shown.line(problem)}", file=sys.stderr)
        return 2
    finally:
        rclpy.try_shutdown()


def run() -> NoReturn:
    """What ``ros2 run brain_runtime ros_region`` calls."""
    leave(main())


if __name__ == "__main__":
    run()
