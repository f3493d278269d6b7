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
from typing import Sequence  # noqa: E402

from brain_runtime import ros_args  # noqa: E402
from brain_wire import safe_text, standby, threads  # noqa: E402
from brain_runtime.ending import Ending, leave  # noqa: E402
from brain_runtime.graph import GraphError  # noqa: E402
from brain_wire.logs import survive_full_disk  # noqa: E402
from brain_wire.parameters import ParameterError  # noqa: E402
from brain_runtime.predecessors import Predecessors  # noqa: E402
from brain_runtime.process_arguments import arguments, spec_of  # noqa: E402
from brain_runtime.region import moves  # noqa: E402
from brain_runtime.run.keeper import end_with_keeper  # noqa: E402
from brain_runtime.run.second import LAST_PATIENCE, stand_behind  # noqa: E402
from brain_wire import NameProblem, NoRouter, SessionProblem, open_session  # noqa: E402
from brain_wire.rosout import Rosout  # noqa: E402
from brain_wire.sched_slice import ask_for_short_slices  # noqa: E402
from brain_runtime.hosts.node_parameters import known  # noqa: E402
from brain_runtime.hosts.process import run_region, warm_up  # noqa: E402
from brain_runtime.hosts.zenoh import ZenohHost  # noqa: E402

log = logging.getLogger(__name__)

SWITCH = 0.001  # s; how soon a thread that receives gets the interpreter from one that steps


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a region until it is told to end; returns the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    ending = Ending()
    try:
        ros, rest = ros_args.parse(argv)
        parser = arguments("brain_runtime.process")
        parser.add_argument("--router", help="Zenoh endpoint, as tcp/localhost:7447")
        options = parser.parse_args(rest)
        survive_full_disk()
        ask_for_short_slices()
        declared = options.name or options.cls.rpartition(":")[2].lower()
        safe_text.log_to(sys.stderr, ros.log_level or logging.INFO,
                         f"%(asctime)s %(levelname)s [{safe_text.line(declared).replace('%', '%%')}] %(message)s")
        cls = spec_of(options, declared).load()
        name, namespace = ros.node_name(declared), ros.namespace(declared)
        parameters = ros.parameters(name, namespace, known(cls.Parameters))
        if options.standby or moves(cls):
            warm_up(cls)
        if options.standby:
            restarts = standby.wait_for_work(ending.asked)
            if restarts is None:
                return 0
            options.restarts = restarts
        first = stand_behind() if moves(cls) else ending.first
        if first is not None:
            ending.first = first
            end_with_keeper()
        with threads.threads(threads.REGION):
            session = open_session(options.router, identity=name, **(
                {"patience": LAST_PATIENCE} if first is None else {"patience": math.inf, "stop": ending.asked}))
        with session:
            if first is None:
                return ZenohHost(spec_of(options, name).make(), session, name=name, namespace=namespace,
                                 parameters=parameters, topic=lambda topic: ros.topic(topic, name, namespace)
                                 ).last_word()
            before = Predecessors.named(argv)
            rosout: list[logging.Handler] = []
            sys.setswitchinterval(SWITCH)

            def make() -> ZenohHost:
                host = ZenohHost(
                    spec_of(options, name).make(), session, name=name, namespace=namespace, parameters=parameters,
                    seed=options.seed, topic=lambda topic: ros.topic(topic, name, namespace),
                    state_dir=options.state_dir, critical=options.critical, restarts=options.restarts,
                    autostart=not options.manual, before=before)
                for handler in rosout:
                    logging.getLogger().removeHandler(handler)
                rosout[:] = [Rosout(host.node)]
                logging.getLogger().addHandler(*rosout)
                log.info("%s runs as %s, pid %d", options.cls, host.node.fqn, os.getpid())
                gc.collect()
                gc.freeze()  # what was imported stays; the collector need not look at it in the middle of a step
                return host

            return run_region(make, ending)
    except NoRouter:
        if first is None:
            log.error("%s cannot be brought to rest: no router answers", declared)
        if ending.asked.is_set() or first is None:
            return 0
        raise
    except (ros_args.RosArgsError, GraphError, ParameterError, NameProblem, SessionProblem) as problem:
        print(f"cannot start: {safe_text.line(problem)}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    leave(main())
