# SPDX-License-Identifier: Apache-2.0
"""The process of a device: its region on a ZenohHost, or on a LocalHost while there is no router.

Who keeps it says on its standard input, a socket, what the device is and what is wanted of it, and hears there how it
is, see :mod:`.device_manager`. It may have half a gigabyte, and gives way to the robot's own processes.
"""
from __future__ import annotations

import json
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from typing import Any, BinaryIO, NoReturn

from brain_edge.devices.driver import Around
from brain_edge.devices.drivers.brain_link import identity
from brain_edge.devices.models import Property, node_name, read_device
from brain_edge.devices.owned_files import with_paths
from brain_edge.devices.protocols import checked
from brain_edge.devices.region import DeviceRegion, topics
from brain_edge.devices.reserved import COMMANDS, Topics, check_said
from brain_edge.schema import FormProblem
from brain_runtime.contract.stepper import RegionError
from brain_runtime.hosts.local import LocalHost
from brain_runtime.hosts.zenoh import ZenohHost
from brain_runtime.run.ending import Ending
from brain_wire import NoRouter, Session, SessionProblem, open_session, safe_text, threads
from brain_wire.names import NameProblem, absolute, expand
from brain_wire.qos import QoS

MEMORY = 512 * 2**20    # bytes of data, threads' stacks among them
NICE = 5                # below the regions of the brain, which run at 0
REFUSED = 3             # exit status where the device cannot be meant so
AT_ONCE = 0.5           # s that a router which is there gets to answer before the device begins without it
AGAIN = 0.5             # s until a router that is not there is tried again
TELL = 0.2              # s between two looks at whether there is something to tell
ALIVE = 1.0             # s after which it is told that nothing is new
LOOK = 1.0              # s between two looks at whether the brain takes commands on a topic of the device

log = logging.getLogger("brain.devices")


class ManagerLink:
    """Link to the manager of this process, over its standard input."""

    def __init__(self) -> None:
        self._socket = socket.socket(fileno=os.dup(0))
        self.lines: BinaryIO = self._socket.makefile("rb")
        self._lock = threading.Lock()
        nobody = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nobody, 0)      # no driver is to hear what is said here
        os.close(nobody)

    def say(self, **fields: Any) -> None:
        """Says a line."""
        with self._lock:
            self._socket.sendall(json.dumps(fields, separators=(",", ":")).encode() + b"\n")

    def refuse(self, why: str) -> NoReturn:
        """Says that the device cannot be meant so, and ends."""
        self.say(refused=safe_text.line(why, 300))
        os._exit(REFUSED)

    def follow(self, region: DeviceRegion) -> None:
        """Has done what is wanted from now on, and tells of the twin whenever that has changed."""
        threading.Thread(target=self._hear, args=(region,), daemon=True).start()
        threading.Thread(target=self._tell, args=(region,), daemon=True).start()

    def _hear(self, region: DeviceRegion) -> None:
        for line in self.lines:
            region.want(json.loads(line)["desired"])
        os.kill(os.getpid(), signal.SIGTERM)    # nobody keeps it any more

    def _tell(self, region: DeviceRegion) -> None:
        told, at, progress = None, -math.inf, -1
        while True:
            now = time.monotonic()
            with region.lock:
                region.twin.look(now)
                twin = region.twin.to_dict(), region.twin.waits()
            region.progress += region.rests
            if twin != told:
                self.say(progress=region.progress, twin=twin[0], waits=twin[1])
            elif now - at >= ALIVE and progress != region.progress:
                self.say(progress=region.progress)
            else:
                time.sleep(TELL)
                continue
            told, at, progress = twin, now, region.progress
            time.sleep(TELL)


class DeviceHost(ZenohHost):
    """ZenohHost that says nothing on a topic on which another node takes commands, whatever its name is."""

    region: DeviceRegion

    def __init__(self, region: DeviceRegion, session: Session, namespace: str) -> None:
        self._topics: Topics | None = None
        self._again = 0.0
        names = topics(region.device)
        super().__init__(region, session, name=region.name, namespace=namespace, parameters=vars(region.parameters),
                         topic=lambda topic: names.get(topic, topic))

    def publish(self, topic: str, type_name: str, qos: QoS) -> Any:
        found = super().publish(topic, type_name, qos)
        if type_name in COMMANDS:
            self._topics = self._topics or Topics(self.node)
            self._topics.watch(found.topic, type_name)
        return found

    def activate(self) -> None:
        self._check_topics()    # before the first word
        super().activate()

    def _look_about(self) -> None:
        super()._look_about()
        self._values.follow(self.region.parameters)
        if self._topics is not None and time.monotonic() >= self._again:
            self._check_topics()

    def _check_topics(self) -> None:
        for why in {} if self._topics is None else self._topics.look().values():
            self.region.refused = why
            self.stop()
        self._again = time.monotonic() + LOOK


def _limit() -> None:
    import resource

    os.nice(NICE)
    if sys.platform == "linux":     # elsewhere the limit counts something else
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def make_region(told: dict[str, Any]) -> DeviceRegion:
    """Makes the region of a device, as who keeps it describes it.

    Raises:
        FormProblem, NameProblem: it cannot be meant so.
    """
    device = read_device(told["device"], told["spec"], {name: Property(**one) for name, one in told["model"].items()})
    around = Around(device.name, told["router"], told["namespace"], told["files"])
    driver, settings, visitors = checked(device, around.named), device.settings, device.visitors
    if around.files is not None:
        visitors = {name: with_paths(driver.visitor_form, one, around.files, settings,
                                     f"spec.properties.{name}.visitor") for name, one in visitors.items()}
        settings = with_paths(driver.settings_form, settings, around.files, settings, "spec.settings")
    for mapped in device.properties.values():
        if mapped.topic is not None:
            check_said(expand(mapped.topic.name, absolute(around.namespace or "/"), node_name(device.name)),
                       mapped.topic.type)
    return DeviceRegion(device, lambda: driver(settings, visitors, around), visitors)


def run(region: DeviceRegion, router: str | None, namespace: str) -> int:
    """Runs a device until the process is told to end; returns the exit status.

    Raises:
        RegionError: the region failed while there was no router.
    """
    ending = Ending()
    found: list[Session] = []

    def look_for_router() -> None:
        said = False
        while not found:
            try:
                with threads.threads(threads.REGION):
                    found.append(open_session(router, identity=identity(region.name), patience=0.0))
            except NoRouter as problem:
                if not said and region.publishes():
                    log.warning("nothing is published yet: %s", problem)
                said = True
                time.sleep(AGAIN)
            except SessionProblem as problem:
                log.warning("it is no node, and publishes nothing: %s", problem)
                return

    looking = threading.Thread(target=look_for_router, daemon=True)
    looking.start()
    looking.join(AT_ONCE)
    if not found:
        local = LocalHost({region.name: region}, parameters={region.name: vars(region.parameters)})
        while not found:
            if ending.asked.wait(1.0 / region.rate):
                local.leave(region.name)
                return 0
            local.advance(1.0 / region.rate)
    with found[0] as session:
        host = DeviceHost(region, session, namespace or "/")
        ending.ends(host)
        return host.run()


def main() -> None:
    """Runs the device that is described on standard input, until it is told to end."""
    safe_text.log_to(sys.stderr, logging.WARNING, "%(levelname)s %(message)s")
    manager = ManagerLink()
    _limit()
    told = json.loads(manager.lines.readline())
    try:
        region = make_region(told)
    except (FormProblem, NameProblem) as problem:
        manager.refuse(str(problem))
    before = json.loads(manager.lines.readline())
    region.twin.remember(before["twin"], time.monotonic())
    region.want(before["desired"])
    manager.follow(region)
    try:
        status = run(region, told["router"], told["namespace"])
    except RegionError as error:
        if region.refused is None:
            log.error("%s", error, exc_info=error)
        status = 1
    if region.refused is not None:
        manager.refuse(region.refused)
    logging.shutdown()
    os._exit(status)


if __name__ == "__main__":
    main()
