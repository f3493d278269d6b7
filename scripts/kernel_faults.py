# SPDX-License-Identifier: Apache-2.0
"""Injects a fault into the kernel of processes (brain_runtime/run), and tells which of its users' tests miss it.

    .venv/bin/python scripts/kernel_faults.py [USER ...]

Whoever keeps a process uses that kernel, so each has a test that fails with a faulty one; without the fault it passes.
No file is changed: an import hook gives every Python that a test starts the faulty module. Users on ROS need a sourced
workspace (`. .ros/install/setup.bash`) and its Python; whatever this Python lacks is left out by name.
Exit status: 1: a user's test passes with the fault, or fails without; 2: a user was left out.
"""
from __future__ import annotations

import importlib.util
import marshal
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from mutate import HOOK

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 300       # s of a test with a fault; one that waits for ever has noticed it
# What is wrong: the module, its text, and what stands in its place.
FAULTS = {
    "nothing is started again": ("reconcile", "if restart.never:", "if True:"),
    "every end is a good one": ("loop", "self._bury(one, status)", "self._bury(one, 0)"),
    "nothing is started": ("loop", "popen = self._spawn_with_channel(one, workload, more)",
                           "raise OSError('out of order')"),
    "a tree ends well": ("tree", "self.returncode = status if status >= 0 else 128 - status", "self.returncode = 0"),
}
AGAIN, GOOD, NOTHING, TREE = FAULTS
TESTS, RUNTIME, EVAL, TRAINING, CLOUD = (f"src/brain_{name}/test/test_" for name in (
    "tests", "runtime", "eval", "training", "cloud"))
ROS = "src/brain_tests/test/ros/test_"
USERS = {
    "brain up": (AGAIN, TESTS + "e2e_supervision.py::test_restart_with_growing_waits"),
    "devices": (AGAIN, CLOUD + "device_manager.py::test_a_driver_that_dies_hangs_or_lies_changes_nothing_else"),
    "router": (AGAIN, CLOUD + "belonging.py::test_the_router_is_open_again_after_it_was_killed_or_its_rules_changed_"
                              "and_a_taken_port_is_named"),
    "programs": (AGAIN, CLOUD + "programs.py::test_a_robot_runs_what_its_owner_lets_it_with_its_cloud_or_without"),
    "jobs": (TREE, CLOUD + "jobs.py::test_workers_that_die_are_started_again_within_the_policy"),
    "tier": (AGAIN, CLOUD + "joint.py::test_a_robot_with_consent_is_answered_whatever_is_killed_and_nobody_asks_for_"
                            "another"),
    "static group": (NOTHING, TESTS + "torch_host.py::test_it_computes_what_lockstep_computes"),
    "shards": (GOOD, TESTS + "shards.py::test_a_shard_that_ends_by_itself_is_named_with_its_status"),
    "parallel training": (GOOD, TRAINING + "survive.py::test_a_rank_that_dies_before_the_ranks_have_met_ends_the_"
                                           "training_at_once"),
    "elastic training": (NOTHING, TRAINING + "elastic.py::test_a_rank_that_says_why_is_not_started_again"),
    "parameter servers": (AGAIN, TRAINING + "parameter_server.py::test_servers_and_workers_that_are_killed_lose_"
                                            "nothing_that_was_acknowledged"),
    "process pool": (GOOD, TRAINING + "process_pool.py::test_each_job_has_its_result_or_why_it_has_none"),
    "collectives": (GOOD, TRAINING + "collectives_verb.py::test_a_rank_that_dies_or_freezes_ends_all_and_is_named"),
    "fleet demo": (NOTHING, TRAINING + "fleet_demo.py::test_a_demo_is_played_by_real_processes_through_a_cut_and_a_"
                                       "death"),
    "launch": (AGAIN, ROS + "launch.py::test_a_spare_takes_over_at_once_and_what_was_ordered_holds_also_where_launch_"
                            "starts_its_keeper_again"),
    "evaluation on ROS": (NOTHING, ROS + "ros_brain.py"),
}


def passes(test: str, fault: str | None) -> bool:
    """Runs a test with a fault, or without; True if it passes."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1",
                       "BRAIN_TEST_EXTENDED": "1"}
        if fault is not None:
            module, text, other = FAULTS[fault]
            path = ROOT / f"src/brain_runtime/brain_runtime/run/{module}.py"
            source = path.read_text(encoding="utf-8")
            if source.count(text) != 1:
                raise SystemExit(f"{path}: it has not once {text!r}; write the fault anew")
            code = Path(folder, "code")
            code.write_bytes(marshal.dumps(compile(source.replace(text, other), str(path), "exec")))
            Path(folder, "sitecustomize.py").write_text(HOOK.format(
                code=str(code), name=f"brain_runtime.run.{module}", path=str(path)))
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "timeout", "--timeout", str(LONGEST), "-p",
                   "no:cacheprovider", "--basetemp", f"{folder}/tmp", test]
        ended = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    if ended.returncode not in (0, 1):
        raise SystemExit(f"{test}: pytest ended with {ended.returncode}:\n{ended.stdout.decode(errors='replace')}")
    return ended.returncode == 0


def main() -> int:
    """See the module."""
    wanted = sys.argv[1:] or list(USERS)
    if odd := set(wanted) - set(USERS):
        raise SystemExit(f"no user {', '.join(sorted(odd))}; there are {', '.join(USERS)}")
    status = 0
    for name in wanted:
        fault, test = USERS[name]
        if importlib.util.find_spec("rclpy" if test.startswith(ROS) else "torch") is None:
            print(f"{name}: left out, as this Python lacks what its test needs", flush=True)
            status = status or 2
            continue
        sound, noticed = passes(test, None), not passes(test, fault)
        print(f"{name}: {fault}: " + ("noticed" if sound and noticed else
                                      "MISSED" if sound else "the test fails without a fault"), flush=True)
        status = status if sound and noticed else 1
    return status


if __name__ == "__main__":
    sys.exit(main())
