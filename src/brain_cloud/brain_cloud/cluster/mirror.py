# SPDX-License-Identifier: Apache-2.0
"""The fleet as Kubernetes resources: a FleetNode for each robot, and a FleetOrder for each order.

Both go by what ``brain fleet`` asks and orders of the cloud, so the cloud stays the one that knows. A FleetNode is
only shown; a FleetOrder is ordered of the cloud when it is made or changed, and taken back before it is gone.
"""
from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any, Callable, Mapping

from brain_cloud.cluster.api import Api, ApiProblem
from brain_cloud.cluster.kinds import FLEET, FLEET_NODE, FLEET_ORDER
from brain_cloud.jobs.status import condition, seconds, stamp, with_condition
from brain_edge.processes.asking import Asking, NoCloud
from brain_edge.state.kinds import API_VERSION
from brain_edge.state.manifests import ALL
from brain_wire import SessionProblem
from brain_wire.rate_limited_log import RateLimitedLog

EVERY = 5.0         # s between two looks at the cloud
HEARD = 60.0        # s by which the time of the last message may be older than it is, so that it is seldom written
SHOWN = 200         # robots in the status of an order; those that have not done it come first
ALL_ROBOTS = "*"
MIRRORED = f"{FLEET}/mirrored"      # label of the nodes that this operator has made

log = logging.getLogger("brain.operator")
limited_log = RateLimitedLog(log)


class Fleet:
    """The cloud of a fleet, asked over a session that is opened again where it was lost.

    Args:
        cloud: endpoint; None: this machine's.
        credentials: folder or file; None: nothing is secured.
    """

    def __init__(self, cloud: str | None, credentials: Path | None) -> None:
        self._cloud, self._credentials = cloud, credentials
        self._asking: Asking | None = None
        self._lock = threading.Lock()

    def __call__(self, do: str, **more: Any) -> dict[str, Any]:
        """The answer to an order.

        Raises:
            NoCloud: it does not answer, or refuses.
        """
        with self._lock:
            try:
                if self._asking is None:
                    self._asking = Asking(self._cloud, self._credentials)
                return self._asking(do, **more)
            except SessionProblem as problem:
                raise NoCloud(str(problem)) from None

    def close(self) -> None:
        """Ends the session."""
        with self._lock:
            if self._asking is not None:
                self._asking.close()
                self._asking = None


def node_name(robot: str) -> str:
    """The name of a robot's FleetNode: - for _, which no name in Kubernetes may have; no two robots have the same."""
    stem = robot.rstrip("_")
    return stem.replace("_", "-") + (f".u{len(robot) - len(stem)}" if len(robot) > len(stem) else "")


def manifest_of(order: Mapping[str, Any]) -> dict[str, Any]:
    """A FleetOrder as the cloud takes it."""
    spec, robots = order["spec"], order["spec"]["robots"]
    return {"apiVersion": API_VERSION, "kind": spec["kind"], "spec": spec["order"], "metadata": {
        "name": order["metadata"]["name"], "robots": ALL if robots == [ALL_ROBOTS] else robots}}


def node_status(robot: Mapping[str, Any] | None, old: Mapping[str, Any], now: float) -> dict[str, Any]:
    """The status of a FleetNode.

    Args:
        robot: as the cloud tells of it; None: the cloud is not reached, and nobody knows.
        old: status as it is.
    """
    conditions = old.get("conditions") or ()
    if robot is None:
        new = {**condition("Ready", False, "CloudUnreachable", "the cloud of the fleet does not answer", now, 0),
               "status": "Unknown"}
        return {**old, "conditions": with_condition(conditions, new)}
    why = {"connected": "it is connected", "away": "it is not connected", "unknown": "it has not come yet"}
    here, state = robot["state"] == "connected", robot["state"]
    new = condition("Ready", here, state.capitalize(), robot["apart"] or why.get(state, state), now, 0)
    status: dict[str, Any] = {
        "state": state, "software": robot["software"] or "", "waiting": robot["waiting"], "version": robot["version"],
        "resources": robot["resources"], "conditions": with_condition(conditions, new)}
    heard, before = None if robot["heard_s"] is None else now - robot["heard_s"], old.get("lastHeardTime")
    if heard is not None:
        known = seconds(before)
        status["lastHeardTime"] = before if known is not None and abs(heard - known) < HEARD else stamp(heard)
    elif before is not None:
        status["lastHeardTime"] = before
    return status


def order_status(order: Mapping[str, Any], found: list[Mapping[str, Any]], now: float) -> dict[str, Any]:
    """The status of a FleetOrder that the cloud has taken.

    Args:
        found: the cloud's resources of its kind and name, one for each robot.
    """
    old, generation = order.get("status") or {}, order["metadata"].get("generation", 0)
    counts: dict[str, int] = {}
    for one in found:
        counts[one["state"]] = counts.get(one["state"], 0) + 1
    done = sum(counts.get(state, 0) for state in ("applied", "kept"))
    rows = sorted(({name: one[name] for name in ("robot", "state", "version", "why") if name in one} for one in found),
                  key=lambda row: (row["state"] in ("applied", "kept"), row["robot"]))
    message = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "no robot has it"
    applied = condition("Applied", bool(found) and done == len(found), "AllRobots" if found and done == len(found) else
                        "NotAllRobots", message, now, generation)
    return {**old, "counts": counts, "robots": rows[:SHOWN],
            "conditions": with_condition(old.get("conditions") or (), applied)}


class Mirror:
    """Shows the fleet in a namespace, in a thread of its own.

    Args:
        api: of the cluster.
        fleet: its cloud.
        namespace: where the nodes are shown, and orders are taken from.
        clock: s since 1970.
    """

    def __init__(self, api: Api, fleet: Callable[..., dict[str, Any]], namespace: str,
                 clock: Callable[[], float] = time.time) -> None:
        self._api, self._fleet, self._namespace, self._clock = api, fleet, namespace, clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, at the latest after one look at the cloud."""
        self._stop.set()
        self._thread.join(30.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.look()
            except ApiProblem as problem:
                limited_log("mirror", f"the fleet is not shown: {problem}")
            except Exception as error:      # whatever one look meets, the next is taken
                limited_log("mirror", f"the fleet is not shown: {type(error).__name__}", trace=True,
                            level=logging.ERROR)
            self._stop.wait(EVERY)

    def look(self) -> None:
        """Looks at the cloud once, and writes what has changed.

        Raises:
            ApiProblem: the API cannot be asked.
        """
        nodes = self._api.listed(FLEET_NODE, self._namespace, {MIRRORED: "true"})
        there = {one["metadata"]["name"]: one for one in nodes}
        try:
            robots = {node_name(one["robot"]): one for one in self._fleet("robots")["robots"]}
            resources = self._fleet("resources")["resources"]
        except NoCloud as problem:
            limited_log("cloud", f"the fleet is not shown: {problem}")
            for one in there.values():
                self._write_node(one, None)
            return
        for name, robot in robots.items():
            node = there.pop(name) if name in there else self._api.apply(FLEET_NODE, {
                "apiVersion": FLEET_NODE.api_version, "kind": FLEET_NODE.kind, "spec": {"robot": robot["robot"]},
                "metadata": {"name": name, "namespace": self._namespace, "labels": {MIRRORED: "true"}}})
            self._write_node(node, robot)
        for one in there.values():      # the cloud knows them no more
            self._api.delete(FLEET_NODE, self._namespace, one["metadata"]["name"], one["metadata"]["uid"])
        for order in self._api.listed(FLEET_ORDER, self._namespace):
            ordered = any(one["type"] == "Ordered" and one["status"] == "True"
                          for one in (order.get("status") or {}).get("conditions") or ())
            if ordered and not order["metadata"].get("deletionTimestamp"):
                self._write(FLEET_ORDER, order, order_status(order, [
                    one for one in resources if (one["kind"], one["name"]) == (
                        order["spec"]["kind"], order["metadata"]["name"])], self._clock()))

    def _write_node(self, node: Mapping[str, Any], robot: Mapping[str, Any] | None) -> None:
        self._write(FLEET_NODE, node, node_status(robot, node.get("status") or {}, self._clock()))

    def _write(self, kind: Any, one: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        old = one.get("status") or {}
        if status == old:
            return
        # A merge keeps the fields of an object that it does not name: what a robot had counted would stay.
        gone = {name: {key: None for key in old[name] if key not in status[name]} for name in ("resources", "counts")
                if isinstance(old.get(name), dict) and isinstance(status.get(name), dict)}
        patch = {name: {**gone[name], **value} if name in gone else value for name, value in status.items()}
        try:
            self._api.merge(kind, self._namespace, one["metadata"]["name"], {"status": patch}, "status")
        except ApiProblem as problem:
            if problem.status != 404:       # deleted meanwhile
                raise

    def order(self, order: Mapping[str, Any]) -> tuple[bool, str]:
        """Orders a FleetOrder of the cloud, and writes whether that was taken; whether it was, and what is told.

        Raises:
            ApiProblem: the API cannot be asked.
        """
        now, generation = self._clock(), order["metadata"].get("generation", 0)
        taken, reason, message = True, "Taken", "the cloud of the fleet has taken the order"
        if order["metadata"]["namespace"] != self._namespace:
            taken, reason, message = False, "OtherNamespace", (
                f"orders of this fleet are in namespace {self._namespace}; make it there")
        else:
            try:
                self._fleet("apply", resources=[manifest_of(order)])
            except NoCloud as problem:
                taken, reason, message = False, "Refused", str(problem)
        conditions = (order.get("status") or {}).get("conditions") or ()
        new = with_condition(conditions, condition("Ordered", taken, reason, message, now, generation))
        if new != list(conditions):
            # Once taken it is to be taken back, also where the cloud has refused what it was changed to.
            self._api.merge(FLEET_ORDER, order["metadata"]["namespace"], order["metadata"]["name"],
                            {"status": {"conditions": new, **({"taken": True} if taken else {})}}, "status")
        return taken, message

    def take_back(self, order: Mapping[str, Any]) -> None:
        """Takes a FleetOrder that is being deleted back from the cloud.

        Raises:
            NoCloud: it does not answer, or refuses.
        """
        if order["metadata"]["namespace"] == self._namespace and (order.get("status") or {}).get("taken"):
            self._fleet("delete", resources=[{"kind": order["spec"]["kind"], "name": order["metadata"]["name"]}])
