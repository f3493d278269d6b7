# SPDX-License-Identifier: Apache-2.0
"""A brain's processes under a supervisor, with an ear on the wire that tells it how they are."""
from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping

from brain_runtime.command.lacking import COLLECTIVES, is_installed, lacks
from brain_runtime.graph import command_lines, secured
from brain_runtime.graph.command_lines import command
from brain_runtime.contract.constants import trace_action
from brain_runtime.contract.heartbeat import UNCONFIGURED
from brain_runtime.interfaces import Trace
from brain_runtime.supervision.listen import MOVED, Ear
from brain_runtime.graph.resolved import Resolved
from brain_runtime.graph.robots import write_parameters
from brain_runtime.run import keeper
from brain_runtime.run.workload import NEVER, REGION, Event, Workload
from brain_runtime.supervision.supervisor import Heartbeats, Link, Supervisor, Together
from brain_wire import Node, NoRouter, Session, Watch, open_session, private
from brain_wire.credentials import OPERATOR, place
from brain_wire.observers import guarded
from brain_wire.endpoints import address, loopback_endpoints
from brain_wire.router import is_router
from brain_wire.session import DEFAULT_ROUTER, ROUTER_VARIABLE, Elsewhere
from brain_wire.wakeup import Flag

CONTROLLED = *MOVED, Trace.ACTION_ESTOP      # what brainstem does while all that it needs is there
LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")
ROUTER, BRAINSTEM, GROUP = "router", "brainstem", "static_group"
ONE_PROCESS = "one-process"     # no region can be called so
TRIES = 2           # restarts after which what does not come up is not waited for


class StartError(RuntimeError):
    """The processes cannot be started as asked; says why, and the remedy."""


def router_endpoint(given: str | None) -> str:
    """The router's endpoint: as given, or from ``BRAIN_ROUTER``, or the one on this machine, by TLS where secured."""
    default = DEFAULT_ROUTER if place() is None else DEFAULT_ROUTER.replace("tcp/", "tls/")
    return given or os.environ.get(ROUTER_VARIABLE, "").strip() or default


def router_child(endpoint: str, listen: Iterable[str] = ()) -> Workload | None:
    """The router as a child, or None where one answers at ``endpoint`` already.

    Args:
        listen: endpoints that open it to a network; regions of this machine reach it at ``endpoint`` whatever they are.

    Raises:
        StartError: there is none, and it cannot be started from here.
    """
    listen = list(listen)
    if is_router(endpoint):
        if listen:
            raise StartError(f"a router is running at {endpoint} already, so --listen cannot open another; end it "
                             f"first")
        return None
    refused = secured.refusal(endpoint)
    if refused:
        raise StartError(refused)
    folder = place()
    scheme = "tcp" if folder is None else "tls"
    protocol, host, port = address(endpoint)
    if protocol != scheme or host not in LOOPBACK or not port:
        more = "" if folder is None else f" --config {folder}/{ROUTER}.json5"
        raise StartError(f"no router answers at {endpoint}, and it cannot be started from here; start one there with "
                         f"`python -m brain_wire.router --listen {scheme}/0.0.0.0:7447{more}`")
    if _taken(host, port):
        raise StartError(f"port {port} is taken by a program that is no Zenoh router; end it, or choose another with "
                         f"--router {scheme}/localhost:PORT or {ROUTER_VARIABLE}")
    argv = [sys.executable, "-m", "brain_runtime.run.router"]
    if folder is not None:
        argv += ["--config", str(folder / f"{ROUTER}.json5")]
        plain = [e for e in listen if not e.startswith("tls/")]
        if plain:
            raise StartError(f"a secured router listens by TLS only, as tls/0.0.0.0:{port}, but --listen says "
                             f"{plain[0]}")
    if listen:
        own = () if any(_covers(one, port) for one in listen) else loopback_endpoints(port, scheme)
        argv += [word for one in (*listen, *own) for word in ("--listen", one)]
    else:
        argv += ["--port", str(port)]
    return Workload(ROUTER, tuple(argv), probe=Link(), stop_order=keeper.ROUTER, spare=True, lingers=True)


def _covers(endpoint: str, port: int) -> bool:
    """Tells whether a router that listens at an endpoint is reached at a port of this machine's loopback interface."""
    _, host, its = address(endpoint)
    return its == port and host in (*LOOPBACK, "0.0.0.0", "::")


def _taken(host: str, port: int) -> bool:
    """Checks whether anybody listens at a port of this machine."""
    try:
        with socket.create_connection((host.strip("[]"), port), timeout=1.0):
            return True
    except OSError:
        return False


def region_children(resolved: Resolved, *, seed: int, folder: Path, state_dir: Path, router: str,
                    one_process: bool = False) -> list[Workload]:
    """All regions that are started here as children.

    What commands actuators is ended after the other regions of the brain, and devices of a world after that.

    Args:
        folder: of the run, in which what the robot's profile says is written down for the processes.
        one_process: regions that can share a process (:attr:`.resolved.ResolvedRegion.shares`) are one child.

    Raises:
        OSError: it cannot be written.
    """
    given = {region.name: region.profile for region in resolved.regions if region.profile}
    profile = write_parameters(given, folder / "robot.params.yaml") if given else None
    files = [*filter(None, (resolved.beside, profile)), *resolved.files]
    started = [region for region in resolved.started if region.name not in resolved.grouped]
    lines = {region.name: command(region, files, seed=seed, state_dir=state_dir, router=router) for region in started}
    probes = {region.name: Heartbeats(region.node, region.rate, region.triggers) for region in started}
    found = [Workload(region.name, lines[region.name], restart=REGION if region.restart == "always" else NEVER,
                      probe=probes[region.name], restarts_told=True,
                      stop_order=keeper.WORLD if region.device else keeper.MOVER if region.moves else 0,
                      spare=region.spare, lingers=region.device or region.moves)
             for region in started if not (one_process and region.shares)]
    shared = [region.name for region in started if one_process and region.shares]
    if shared:
        found.append(Workload(ONE_PROCESS, command_lines.one_process([lines[name] for name in shared]), restart=REGION,
                              probe=Together(tuple(probes[name] for name in shared)), restarts_told=True))
    return found


def group_child(resolved: Resolved, *, seed: int, folder: Path, state_dir: Path, router: str,
                tick: float | None = None) -> Workload:
    """The static group of a brain's regions as one child: if a rank is lost it ends, and all are started again.

    Args:
        folder: of the run; what runs is written there, and a log a rank.
        tick: rate at which all ranks go on together (Hz); None: whenever there is something to do.

    Raises:
        StartError: the brain is secured, or brain_collectives is not installed.
        OSError: it cannot be written.
    """
    if place() is not None:
        raise StartError("a static group cannot be secured: its ranks trust whoever reaches their ports, and one "
                         "process would need the rights of all regions; leave --host torch or --secure out")
    if not is_installed(COLLECTIVES):
        raise StartError(lacks(COLLECTIVES))
    path = private.folder(folder) / "brain.json"
    path.write_text(resolved.to_json(), encoding="utf-8")
    return Workload(GROUP, (sys.executable, "-m", f"{COLLECTIVES}.static_group", str(path), "--router", router,
                            "--seed", str(seed), "--state-dir", str(state_dir), "--log-dir", str(folder / "logs"),
                            *(() if tick is None else ("--tick", str(tick)))), stop_order=keeper.MOVER, lingers=True)


def refuse_twice(names: Iterable[str], endpoint: str, namespace: str, domain: int, identity: str | None = None) -> None:
    """Raises StartError if a node with one of the names is there already.

    Args:
        names: of nodes, below ``namespace``.
        endpoint: of a router.
        identity: whose credentials are used; None: the operator's.
    """
    prefix = "/" + namespace.strip("/") if namespace.strip("/") else ""
    ours = {f"{prefix}/{name}" for name in names}
    with open_session(endpoint, identity=identity or OPERATOR) as session, Watch(session, domain) as watch:
        watch.wait_for(lambda w: bool(ours & set(w.nodes())), 0.5)
        there = sorted(ours & set(watch.nodes()))
    if there:
        raise StartError(f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} running already in domain {domain}; "
                         f"end that brain, or choose another --domain or --namespace"
                         + ("" if identity is None else ", or another --name"))


class SupervisedBrain:
    """Children under a supervisor, and the ear.

    Everything runs in the thread that calls :meth:`start` and :meth:`round`; it must live as long as the children.

    Args:
        children: regions, and the router if it is to be one of them.
        log_dir: for one log a process.
        endpoint: router's endpoint.
        namespace: of the brain.
        on_event: told of each event of the supervisor.
        limits: when a child counts as unhealthy, as the supervisor's default has it.
        domain: ROS domain of the brain; None: that of the environment.
        external: names of the regions that others run: they are waited for, and never started again from here.
        grouped: names of the regions that are ranks of the static group, which is one child.
        elsewhere: they are on another net than that of which the environment tells.
        environment: added to that of the children.
    """

    def __init__(self, children: list[Workload], log_dir: Path, endpoint: str, namespace: str = "", *,
                 on_event: Callable[[Event], None] | None = None, limits: Any = None,
                 domain: int | None = None, external: Iterable[str] = (), grouped: Iterable[str] = (),
                 elsewhere: Elsewhere | None = None, environment: Mapping[str, str] | None = None) -> None:
        more: dict[str, Any] = {} if limits is None else {"limits": limits}
        self.supervisor = Supervisor(children, log_dir, on_event=on_event, **more, environment={
            **(environment or {}), **({} if domain is None else {"ROS_DOMAIN_ID": str(domain)})})
        self.ear: Ear | None = None
        self._endpoint, self._namespace, self._domain = endpoint, namespace or "/", domain
        self._elsewhere = elsewhere
        self._session: Session | None = None
        self._node: Node | None = None
        self._external, self._grouped = ([f"/{'/'.join([*filter(None, namespace.split('/')), name])}" for name in given]
                                         for given in (external, grouped))
        self._hear = guarded(self._listen, "listening to the brain")

    def start(self, patience: float = 20.0, stop: threading.Event | Flag | None = None) -> None:
        """Starts all children and waits for the router.

        Raises:
            NoRouter: it did not answer within ``patience`` s.
            StartError: the router that was started cannot run.
            NameProblem: the namespace is no ROS 2 name.
        """
        self.supervisor.start()
        self._session = session = self._open(patience, stop)
        self._node = node = Node(session, "brain_supervisor", self._namespace, self._domain)
        self.ear = Ear(node, on_beat=self.supervisor.beat, on_token=self.supervisor.token,
                       on_link=self.supervisor.link)

    def _open(self, patience: float, stop: threading.Event | Flag | None) -> Session:
        until = time.monotonic() + patience
        while True:
            try:
                return open_session(self._endpoint, patience=0.3, stop=stop, elsewhere=self._elsewhere)
            except NoRouter:
                if time.monotonic() > until or (stop is not None and stop.is_set()):
                    raise
            self.supervisor.round()
            if ROUTER in self.supervisor.names and self.supervisor.restarts(ROUTER) >= TRIES:
                raise StartError(f"the router cannot run: {self.supervisor.last_line(ROUTER)}; its log is "
                                 f"{self.supervisor.log_path(ROUTER)}")

    @property
    def node(self) -> Node:
        """The node that the ear listens with, once it is started."""
        assert self._node is not None, "the brain has not been started"
        return self._node

    def _listen(self) -> None:
        if self.ear is not None:
            self.ear.listen(0.0)

    def round(self) -> None:
        """Hears what there is, and looks after the children once; what is heard never keeps it from that."""
        self._hear()
        self.supervisor.round()

    def wait(self, seconds: float, condition: Callable[[], bool], stop: threading.Event | Flag | None = None) -> bool:
        """Rounds until ``condition()`` holds, for up to ``seconds``; whether it does."""
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until or (stop is not None and stop.is_set()):
                return False
            self.round()
        return True

    def wait_ready(self, seconds: float, also: Callable[[], bool] = lambda: True,
                   stop: threading.Event | Flag | None = None) -> bool:
        """Waits up to ``seconds`` until :meth:`ready` and ``also()`` hold; False where they do not, or never will."""
        return self.wait(seconds, lambda: also() and self.ready() or self.hopeless(), stop) and not self.hopeless()

    def ready(self) -> bool:
        """Checks whether all regions are active, and the brainstem, if there is one, lets the robot move."""
        if self.ear is None:
            return False
        now = time.monotonic()
        nodes = [*self.supervisor.nodes, *self._grouped, *self._external]
        seen = [self.ear.regions.get(n) for n in nodes]
        if any(s is None or s.state(now) != "active" for s in seen):
            return False
        return not self.has_brainstem or (self.ear.trace is not None and self.ear.trace.action in CONTROLLED)

    @property
    def has_brainstem(self) -> bool:
        """True if there is a brainstem among the regions: without one nothing holds the robot, or moves it."""
        return any(n.rsplit("/", 1)[-1] == BRAINSTEM for n in (*self.supervisor.nodes, *self._grouped, *self._external))

    def control(self) -> str:
        """Says what is true once :meth:`ready` holds, as the beginning of a sentence."""
        count = len(self.supervisor.nodes) + len(self._grouped) + len(self._external)
        regions = "1 region is up" if count == 1 else f"{count} regions are up"
        if self.has_brainstem:
            return f"{regions} and the robot is under control"
        return f"{regions}; there is no brainstem in the graph, so the robot is not under control of this brain"

    def missing(self) -> list[str]:
        """Lists the reasons why :meth:`ready` does not hold, a line for each region."""
        found, now = [], time.monotonic()
        for node, name in self._names().items():
            seen = self.ear.regions.get(node) if self.ear else None
            state = "never heard" if seen is None else seen.state(now)
            if state != "active":
                region = node.rsplit("/", 1)[-1]
                ended = self.supervisor.fault(name)
                why = ended or (seen.beat.reason if seen else "")
                # what is heard of a region that ends and is started over and over changes from moment to moment
                if ended and (state in ("never heard", "gone", "silent") or self.supervisor.restarts(name) >= TRIES):
                    state = "not up"
                state = "in error" if state == "error" else state
                found.append(f"{region} is {state}{f' ({why})' if why else ''}; see {self.supervisor.log_path(name)}")
        for node in self._external:
            seen = self.ear.regions.get(node) if self.ear else None
            state = "never heard" if seen is None else seen.state(now)
            if state != "active":
                found.append(f"{node.rsplit('/', 1)[-1]} is {state}; it is external: whoever runs it must start it, in "
                             f"this domain and on this router")
        if not found and self.ear and self.ear.trace is not None:
            where = f"; see {self.supervisor.log_path(BRAINSTEM)}" if BRAINSTEM in self.supervisor.names else ""
            found.append(f"the brainstem does not let the robot move: {trace_action(self.ear.trace.action)}, "
                         f"{self.ear.trace.reason}{where}")
        return found

    def hopeless(self) -> bool:
        """Tells whether a region will not come up by itself.

        It has ended again and again without ever having been heard, or says that it cannot be configured.
        """
        if self.ear is None:
            return False
        seen = [self.ear.regions[node] for node in self.supervisor.nodes if node in self.ear.regions]
        if any(one.beat.state == UNCONFIGURED and one.beat.reason for one in seen):
            return True
        return any(self.supervisor.restarts(child) >= TRIES and node not in self.ear.regions
                   for node, child in self._names().items())

    def _names(self) -> dict[str, str]:
        """Names of the children that have the regions, by node."""
        return {**self.supervisor.nodes, **dict.fromkeys(self._grouped, GROUP)}

    def stop(self) -> None:
        """Ends the children in good order, then the ear."""
        self.supervisor.stop()
        if self.ear is not None:
            self.ear.close()
        if self._node is not None:
            self._node.close()
        if self._session is not None:
            self._session.close()
