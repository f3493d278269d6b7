# SPDX-License-Identifier: Apache-2.0
"""RosSecond: says the last word of a region that runs on a :class:`.ros.RosHost`, where its process is gone."""
from __future__ import annotations

from typing import Any, Sequence

from rclpy.parameter import Parameter

from brain_runtime.hosts import diagnostics, ros_args
from brain_runtime.contract import heartbeat as beat
from brain_runtime.hosts.node_parameters import RCLPYS, SIM_TIME, known
from brain_runtime.hosts.resting import UNHEARD
from brain_runtime.hosts.ros import HostNode, RosHost, hidden
from brain_runtime.hosts.ros_topics import Nowhere, RosPublication
from brain_runtime.contract.region import Region
from brain_wire.names import expand
from brain_wire.qos import QoS

ARRIVALS = 10   # received between two commands


class RosSecond(RosHost):
    """Stands by behind a process, and says its last word. Make it after ``rclpy.init``.

    It is there from the start as a hidden node that publishes what the region moves: by DDS, what comes anew is found
    after up to seconds on a loaded machine, and the robot would drive on meanwhile. It hears nothing until then, offers
    no services and no heartbeats, and says nothing unless it is to.

    Args:
        region: as the first process has it.
        name: of the first process's node, before remapping.
        argv: its command line.
        first: its process.

    Raises:
        ParameterError, ModuleNotFoundError: as for the first process.
    """

    silent = True

    def __init__(self, region: Region, *, name: str, argv: Sequence[str], first: int) -> None:
        self._first = first
        super().__init__(region, name=name, argv=argv)

    def _join(self, region: Region, name: str, namespace: str | None) -> tuple[HostNode, str, dict[str, Any]]:
        said, _ = ros_args.parse(self._argv)
        name, namespace = said.node_name(name), said.namespace(name)
        given = said.parameters(name, namespace, known(region.Parameters))
        rules = [part for rule in said.remaps(name) for part in ("-r", rule)]
        overrides = {RCLPYS: False, SIM_TIME: given.get(SIM_TIME, False)}
        node = HostNode(hidden(self._first), self, asked=False, namespace=namespace, use_global_arguments=False,
                        cli_args=["--ros-args", *rules] if rules else [],
                        parameter_overrides=[Parameter(name, value=value) for name, value in overrides.items()])
        self.own = [node.get_fully_qualified_name(), expand(name, namespace, "")]
        return node, name, given

    def publish(self, topic: str, type_name: str, qos: QoS) -> RosPublication | Nowhere:
        if topic in (beat.PORT.topic, diagnostics.TOPIC):
            return Nowhere(topic)   # heartbeats are of who is alive
        return super().publish(topic, type_name, qos)

    def _receive(self) -> None:
        for _ in range(ARRIVALS):
            self._executor.spin_once(timeout_sec=0.0)

    def _close(self) -> None:
        self._until_acknowledged(UNHEARD)
        super()._close()

    def _left_to_another(self) -> bool:
        return self.connections.replaced()
