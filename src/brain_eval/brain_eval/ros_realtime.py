# SPDX-License-Identifier: Apache-2.0
"""Runs episodes of a suite in real time on ROS 2: the nodes that launch starts, each a process of its own, on rclpy."""
from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from brain_eval import policies
from brain_eval.episodes import PATIENCE, SETTLE, Referee, run_local, text_message
from brain_runtime.graph import graphs
from brain_runtime.contract import heartbeat as beat
from brain_runtime.contract.ablation import NONE, Ablation
from brain_runtime.graph.command_lines import value_text
from brain_runtime.supervision.supervised_brain import StartError
from brain_runtime.graph import SIM_WORLD
from brain_runtime.hosts.ros_topics import profile
from brain_runtime.hosts.ros_types import interface
from brain_runtime.graph.launching import LaunchedNode, launched
from brain_runtime.supervision.listen import Latency
from brain_runtime.graph.rooms import SAID
from brain_runtime.run.processes import Processes
from brain_runtime.run.workload import NEVER, Workload
from brain_wire import messages
from brain_wire.logs import Logs
from brain_wire.observers import complain
from brain_wire.qos import LATCHED, STREAM, QoS
from brain_wire.temporary_folder import TemporaryFolder

READY = 90.0    # s for all processes to be active
TURN = 0.05     # s that one look at what has come takes at most
END = 10.0      # s for a process to end


def run_many(episodes: Sequence[Any], policy: str = "brain", *, jobs: int = 1, graph: str = graphs.DEFAULT,
             join: Sequence[str] = (), parameters: Mapping[str, Mapping[str, Any]] | None = None,
             ablation: Ablation = NONE) -> Iterator[tuple[int, dict[str, Any]]]:
    """Runs episodes one after the other, each with processes that start anew; yields (index, result).

    Raises:
        GraphError: the graph cannot run.
        ValueError: the policy or option cannot be had on ROS 2.
        StartError: the processes do not start.
    """
    if jobs != 1 or join or parameters or ablation != NONE:
        raise ValueError("on ROS 2 episodes run in real time, one after the other, as launch starts them: leave --jobs "
                         "at 1, and --join and --ablate out")
    if policy in policies.WITHOUT_BRAIN:
        for index, episode in enumerate(episodes):
            yield index, run_local(episode, policy)
        return
    if policy != "brain":
        raise ValueError(f"the policy {policy} is not made for ROS 2; leave --host at local or zenoh")
    with TemporaryFolder("eval") as folder:
        for index, episode in enumerate(episodes):
            run = Path(folder) / str(index)
            nodes = launched(graph, SIM_WORLD, seed=episode.seed, state_dir=str(run / "state"))
            yield index, run_episode(episode, nodes, run)


def command(node: LaunchedNode) -> list[str]:
    """The command line that launch would run for a node."""
    files: list[Path] = [item for item in node.parameters if not isinstance(item, Mapping)]
    given = {name: value for item in node.parameters if isinstance(item, Mapping) for name, value in item.items()}
    argv = [sys.executable, "-m", "brain_runtime.ros_process", *node.arguments,
            "--ros-args", "-r", f"__node:={node.name}"]
    for path in files:
        argv += ["--params-file", str(path)]
    for name, value in given.items():
        argv += ["-p", f"{name}:={value_text(value)}"]
    for topic, other in node.remappings:
        argv += ["-r", f"{topic}:={other}"]
    return [*argv, "--log-level", node.log_level]


def run_episode(episode: Any, nodes: Sequence[LaunchedNode], folder: Path) -> dict[str, Any]:
    """Starts the processes, runs one episode, and ends them; the result is as :func:`brain_eval.episodes.run_local`'s.

    Raises:
        StartError: the processes are not ready in time; says which, and why.
    """
    begin = time.monotonic()
    with _Brain(nodes, folder) as brain:
        brain.say("sim/episode", text_message(episode.to_json()))
        wanted = json.loads(episode.to_json())
        brain.until(lambda: brain.active() and brain.room == wanted)
        referee = Referee(episode.id)
        brain.verdict = referee.hear
        brain.turn(SETTLE)
        start, left = time.monotonic(), sorted(episode.script)
        while not referee.done and time.monotonic() - start < episode.time_limit + PATIENCE:
            while left and time.monotonic() - start >= left[0][0]:
                words = text_message(left.pop(0)[1])
                for topic in SAID:
                    brain.say(topic, words)
            brain.turn(TURN)
        result = referee.result(episode)
        simulated = time.monotonic() - start
        restarts = brain.ended()
    return {**result, "spikes": round(brain.spikes), "synops": round(brain.synops), "latency": brain.latency.report(),
            "restarts": restarts, "simulated": simulated, "wall": time.monotonic() - begin}


def _domain() -> int:
    """A domain that most likely nobody else uses; DDS derives ports from it, below the ephemeral ones up to 100."""
    number = os.getpid() % 80 + 1
    return number if str(number) != os.environ.get("ROS_DOMAIN_ID") else number + 1


class _Brain:
    """The processes, and a node that listens to them and speaks with them."""

    def __init__(self, nodes: Sequence[LaunchedNode], folder: Path) -> None:
        domain = _domain()
        reach = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        self._names = [node.name for node in nodes]
        self._logs = Logs(folder, complain)
        self._children = Processes(
            [Workload(node.name, tuple(command(node)), restart=NEVER, grace=END) for node in nodes], self._logs,
            environment={"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": reach})
        self.room: Any = None
        self.verdict: Callable[[str], None] = lambda text: None
        self.latency = Latency()
        self.spikes = self.synops = 0.0
        self._beats: dict[str, tuple[Any, float]] = {}
        self._speaking: dict[str, Any] = {}
        self._context = Context()
        rclpy.init(context=self._context, domain_id=domain)
        self._node = Node("evaluation", context=self._context, use_global_arguments=False)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._hear("sim/world", "std_msgs/msg/String", LATCHED, self._show)
        self._hear("sim/verdict", "std_msgs/msg/String", LATCHED, lambda message: self.verdict(message.data))
        self._hear(beat.PORT.topic, beat.TYPE, STREAM.with_depth(100), self._beat)
        self._hear("brain/trace", "brain_interfaces/msg/Trace", STREAM.with_depth(100), self.latency.add)

    def _hear(self, topic: str, type_name: str, qos: QoS, heard: Callable[[Any], None]) -> None:
        decode = messages.decoder(type_name)
        self._node.create_subscription(interface(type_name), topic, lambda data: heard(decode(data)), profile(qos),
                                       raw=True)

    def _show(self, message: Any) -> None:
        self.room = json.loads(message.data)["request"]

    def _beat(self, message: Any) -> None:
        now = time.monotonic()
        before = self._beats.get(message.name)
        if before is not None and now - before[1] < 1.0:
            self.spikes += message.spikes_per_second * (now - before[1])
            self.synops += message.synops_per_second * (now - before[1])
        self._beats[message.name] = message, now

    def say(self, topic: str, message: Any) -> None:
        """Publishes a latched message."""
        if topic not in self._speaking:
            self._speaking[topic] = self._node.create_publisher(interface(message.__msgtype__), topic, profile(LATCHED))
        self._speaking[topic].publish(messages.encode(message))

    def active(self) -> bool:
        """Tells whether every region makes steps."""
        beats = {name.rsplit("/", 1)[-1]: message for name, (message, _) in self._beats.items()}
        return all(name in beats and beats[name].state == beat.ACTIVE for name in self._names)

    def ended(self) -> list[str]:
        """Regions whose process has ended."""
        return [f"{name} ended with status {status}" for name, status in self._children.statuses().items()]

    def turn(self, seconds: float) -> None:
        """Listens for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._executor.spin_once(timeout_sec=TURN)

    def until(self, condition: Callable[[], bool]) -> None:
        """Listens until the condition holds. Raises StartError if that takes too long, or a process has ended."""
        end = time.monotonic() + READY
        while not condition():
            self.turn(TURN)
            if self.ended() or time.monotonic() > end:
                missing = [name for name in self._names if name not in {n.strip("/") for n in self._beats}]
                told = "; ".join(f"{name}: {self._logs.path(name).read_text(errors='replace').strip()[-300:]}"
                                 for name in missing or self._names[:1])
                why = "; ".join(self.ended()) or f"no heartbeat of {', '.join(missing) or 'nobody'}"
                raise StartError(f"not ready: {why}: {told}")

    def __enter__(self) -> _Brain:
        return self

    def __exit__(self, *_: object) -> None:
        self._children.end()
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()
