# SPDX-License-Identifier: Apache-2.0
"""The brain that runs on a robot, as it is changed from beside it: over the ROS 2 services of its regions."""
from __future__ import annotations

import logging
from typing import Any, Mapping

from brain_edge.state.desired_state import Wanted
from brain_wire import Client, NoAnswer, Node, messages
from brain_wire.parameter_services import value_message, value_of
from brain_wire.parameters import LOCAL

ANSWER = 2.0        # s that a region gets to answer
CLIENTS = 100       # of services that are kept open

log = logging.getLogger(__name__)


class NotNow(RuntimeError):
    """Desired state that cannot be brought about at this moment; says why."""


class Never(RuntimeError):
    """Desired state that cannot be brought about as it is: the region refuses it; says why."""


class Brain:
    """The regions of a running brain, as they are reached from beside it.

    Args:
        node: of ours, in the brain's domain and namespace.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._clients: dict[str, Client] = {}       # each is a token for all to see, so it is kept

    def _call(self, region: str, service: str, kind: str, **fields: Any) -> Any:
        name = f"{region}/{service}"
        try:
            if name not in self._clients:
                if len(self._clients) >= CLIENTS:
                    self._node.let_go(self._clients.pop(next(iter(self._clients))))
                self._clients[name] = self._node.client(name, kind, ANSWER)
            return self._clients[name].call(messages.make(f"{kind}_Request", **fields), ANSWER)
        except NoAnswer as problem:
            raise NotNow(str(problem)) from problem
        except messages.MessageError as problem:
            raise NotNow(f"{region} cannot be asked: {problem}") from problem

    def set_parameters(self, region: str, values: Mapping[str, Any], ordered: bool = False) -> bool:
        """Sets those that have another value; whether there were any.

        Args:
            ordered: the values are an order's, which sets nothing that the region declares as ``local``.

        Raises:
            NotNow: the region does not answer.
            Never: it refuses a value, or an order is not to set it.
        """
        names = list(values)
        found = self._call(region, "get_parameters", "rcl_interfaces/srv/GetParameters", names=names).values
        have = dict(zip(names, map(value_of, found))) if len(found) == len(names) else {}
        other = {name: value for name, value in values.items() if not _equal(have.get(name), value)}
        if not other:
            return False
        if ordered:
            about = self._call(region, "describe_parameters", "rcl_interfaces/srv/DescribeParameters",
                               names=list(other)).descriptors
            for name, one in zip(other, about):
                if LOCAL in one.additional_constraints:
                    raise Never(f"parameter {name} of {region} is {LOCAL}; set it where the brain is started")
        try:
            # A whole number may be meant for a parameter that is a float; what it is now tells.
            fitted = {name: float(value) if type(have.get(name)) is float and type(value) is int else value
                      for name, value in other.items()}
            parameters = [messages.make("rcl_interfaces/msg/Parameter", name=name, value=value_message(value))
                          for name, value in fitted.items()]
        except (KeyError, messages.MessageError) as problem:
            raise Never(f"a value for {region} is of no type that a parameter has ({problem})") from problem
        result = self._call(region, "set_parameters_atomically", "rcl_interfaces/srv/SetParametersAtomically",
                            parameters=parameters).result
        if not result.successful:
            raise Never(result.reason)
        log.info("set %s of %s", ", ".join(f"{name} to {value}" for name, value in fitted.items()), region)
        return True

    def get_parameter(self, region: str, name: str) -> Any:
        """Value of a parameter.

        Raises:
            NotNow: the region does not answer.
            Never: it has no such parameter.
        """
        found = self._call(region, "get_parameters", "rcl_interfaces/srv/GetParameters", names=[name]).values
        value = value_of(found[0]) if len(found) == 1 else None
        if value is None:
            raise Never(f"{region} has no parameter {name}")
        return value

    def set_active(self, region: str, active: bool) -> bool:
        """Activates or deactivates a region; whether that was to be done.

        Raises:
            NotNow: the region does not answer, or is on its way.
            Never: it does not do it.
        """
        now = self._call(region, "get_state", "lifecycle_msgs/srv/GetState").current_state.label
        way = {(True, "inactive"): ["activate"], (True, "unconfigured"): ["configure", "activate"],
               (False, "active"): ["deactivate"]}.get((active, now))
        if way is None:
            if now in (("active",) if active else ("inactive", "unconfigured", "finalized")):
                return False
            ended = f"; it was ended by order on the robot, where `brain start {region}` begins it"
            raise NotNow(f"{region} is {now}" + (ended if now == "finalized" else ""))
        for label in way:
            transition = messages.make("lifecycle_msgs/msg/Transition", label=label)
            if not self._call(region, "change_state", "lifecycle_msgs/srv/ChangeState", transition=transition).success:
                raise Never(f"{region} does not {label}; its log says why")
        log.info("%s %s", "activated" if active else "deactivated", region)
        return True

    def bring_about(self, wanted: Wanted) -> dict[str, Any]:
        """Does what is wanted, where it is not so already; returns its status, as it is reported.

        Raises:
            NotNow, Never, ParameterError: it cannot be done, now or ever.
        """
        if wanted.kind == "Parameters":
            self.set_parameters(wanted.spec["region"], wanted.spec["values"], ordered=True)
        else:
            self.set_active(wanted.spec["region"], wanted.spec["active"])
        return {"state": "applied"}


def _equal(have: Any, value: Any) -> bool:
    if isinstance(have, tuple):
        return isinstance(value, list) and list(have) == value
    return have == value and isinstance(have, bool) == isinstance(value, bool)
