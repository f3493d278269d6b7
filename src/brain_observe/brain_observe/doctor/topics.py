# SPDX-License-Identifier: Apache-2.0
"""Findings of a robot's topics: whether they are there, meet the brain's, come in time, and are stamped as they are."""
from __future__ import annotations

from statistics import median
from typing import Iterator

from brain_observe.doctor.finding import DEGRADES, NOTE, STOPS, Finding
from brain_observe.doctor.heard import COMMAND, COMMAND_QOS, DEVICES, STAMPED, TWIST, Came, Device, Heard
from brain_wire import messages, names
from brain_wire.qos import incompatibility

BUNCHED, SHARE, ENOUGH = 0.1, 0.5, 10   # of the mean period, of the messages, and messages: so come bursts
FUTURE = 0.1                # s by which a stamp may be ahead of its publisher's own clock
BEHIND, AHEAD = 1.0, 0.1    # s by which what was sent may come late, or before it was sent, by our clock
OTHER_TIME = 1e6            # s between a stamp and its publisher's clock: it is of another time altogether
SHOWN = 4                   # names in a text


def findings(heard: Heard) -> list[Finding]:
    """All that is wrong with the topics that a robot is to have."""
    found = [one for name, device in DEVICES.items() for one in _device(heard, name, device)]
    found += [*_commands(heard), *_clocks(heard)]
    here = {endpoint.topic for endpoint in heard.endpoints}
    if heard.elsewhere and not any(heard.topic(name) in here for name in DEVICES):
        domain, nodes = max(heard.elsewhere.items(), key=lambda one: len(one[1]))
        found.append(Finding("domain-other", STOPS, f"domain {heard.domain}",
                             f"no topic of the robot is in domain {heard.domain}; in domain {domain} there are "
                             f"{_listed(nodes)}",
                             f"brain doctor --domain {domain}, and ROS_DOMAIN_ID={domain} for all"))
    return found


def _listed(found: set[str]) -> str:
    shown = sorted(found)[:SHOWN]
    return ", ".join(shown) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")


def _mismatch(ends: list[names.Endpoint], type_name: str, topic: str, who: str) -> Finding | None:
    """Finding where nobody has a topic with our type, or with our version of it."""
    if not ends or any((e.type, e.type_hash) == (type_name, messages.type_hash(type_name)) for e in ends):
        return None
    of = {e.name for e in ends}
    if any(e.type == type_name for e in ends):
        return Finding("topic-hash", STOPS, topic, f"{_listed(of)} has another version of {type_name}: they do not "
                       f"hear each other", "install the same version of its package on both sides and rebuild")
    return Finding("topic-type", STOPS, topic, f"{_listed(of)} {who} it as {_listed({e.type for e in ends})}; the "
                   f"brain needs {type_name}", "map the brain's name to a topic of that type in the profile (topics:)")


def _device(heard: Heard, name: str, device: Device) -> Iterator[Finding]:
    """Findings of one topic that the robot publishes."""
    topic, came = heard.topic(name), heard.came[name]
    publishers = heard.publishers(topic)
    if not publishers and not came:
        others = {e.topic for e in heard.endpoints if e.kind == names.PUBLISHER and e.type == device.type}
        remedy = (f"start its driver; or, of this type there is {_listed(others)}: in the profile, topics: "
                  f"{{{name}: {min(others)}}}" if others else "start its driver, and see ROS_DOMAIN_ID, --namespace "
                  "and RMW_IMPLEMENTATION=rmw_zenoh_cpp")
        yield Finding("topic-missing", device.severity, topic, f"nobody publishes it ({device.type})", remedy)
        return
    if (mismatch := _mismatch(publishers, device.type, topic, "publishes")) is not None:
        yield mismatch
        return
    if len({e.owner for e in publishers}) > 1:
        yield Finding("topic-several", DEGRADES, topic, f"{_listed({e.name for e in publishers})} publish it, and the "
                      f"brain takes them for one", "end one, or give each a topic of its own")
    for why in {incompatibility(e.qos, device.qos) for e in publishers if e.qos} - {None}:
        yield Finding("topic-qos", STOPS, topic, f"DDS would not connect it: {why}", "set its publisher's QoS")
    if broken := heard.broken.get(name):
        yield Finding("topic-broken", STOPS if not came else DEGRADES, topic,
                      f"{len(broken)} messages cannot be read: {broken[-1]}",
                      "look at its driver; both sides need one version of the type")
    elif not came:
        yield Finding("topic-silent", device.severity, topic, f"it has a publisher, but nothing came within "
                      f"{heard.seconds:.1f} s", "look at the driver's log, the sensor's cable and its power")
    if came:
        yield from _rate(heard, topic, came, device)
        yield from _stamps(heard, topic, came, device)


def _rate(heard: Heard, topic: str, came: list[Came], device: Device) -> Iterator[Finding]:
    took = came[-1].at - came[0].at
    rate = (len(came) - 1) / took if len(came) > 2 and took > 0.0 else len(came) / max(heard.seconds, 1e-3)
    if rate < device.rate:
        yield Finding("rate-low", STOPS if rate < device.rate / 4 else DEGRADES, topic,
                      f"{rate:.1f} Hz; the brain needs {device.usual}",
                      "raise the driver's rate; look at the processor and, over a radio, at the network")
    elif len(came) >= ENOUGH:
        gaps = [after.at - before.at for before, after in zip(came, came[1:])]
        bunched = sum(gap < BUNCHED / rate for gap in gaps) / len(gaps)
        if bunched >= SHARE:
            yield Finding("rate-bursty", DEGRADES, topic, f"{100 * bunched:.0f} % of its messages come at once with "
                          f"the one before, then nothing for up to {max(gaps):.2f} s",
                          "look at what gathers them: a radio that saves power, a bridge, a driver that reads blocks")


def _stamps(heard: Heard, topic: str, came: list[Came], device: Device) -> Iterator[Finding]:
    if not any(one.stamp for one in came):
        yield Finding("stamp-zero", DEGRADES, topic, "header.stamp is zero", "let the driver stamp the time of "
                      "acquisition: otherwise no floor counts as seen, and commands have no latency")
        return
    steps = [after.stamp - before.stamp for before, after in zip(came, came[1:])]
    if len(steps) > 2 and sum(step <= 0.0 for step in steps) >= len(steps) / 2:
        yield Finding("stamp-stuck", DEGRADES, topic, f"header.stamp does not go on: {came[0].stamp:.3f} at first, "
                      f"{came[-1].stamp:.3f} at last", "let the driver stamp each message by itself")
        return
    late = median((one.wall if one.sent is None else one.sent) - one.stamp for one in came)
    if abs(late) > OTHER_TIME:
        simulated = any(e.topic == "/clock" for e in heard.endpoints)
        yield Finding("stamp-simulated" if simulated else "stamp-old" if late > 0 else "stamp-future",
                      NOTE if simulated else DEGRADES, topic, f"header.stamp is {came[-1].stamp:.1f} s, which is of "
                      f"another time than its publisher's clock",
                      "run the brain with use_sim_time: /clock is published" if simulated else
                      "let the driver stamp by the system's clock and not by the sensor's own")
    elif late > device.late:
        yield Finding("stamp-old", STOPS if late > 2 * device.late else DEGRADES, topic,
                      f"it is stamped {late:.2f} s before it is published",
                      "stamp the time of acquisition by the system's clock; look for a queue in the driver")
    elif late < -FUTURE:
        yield Finding("stamp-future", DEGRADES, topic, f"it is stamped {-late:.2f} s after it is published",
                      "stamp by the system's clock and not by the sensor's own, or correct its offset")


def _clocks(heard: Heard) -> Iterator[Finding]:
    """Findings of publishers whose clocks are not ours: by when they say that they sent what came."""
    apart: dict[str, list[str]] = {}
    worst = 0.0
    for name, came in heard.came.items():
        told = [one.wall - one.sent for one in came if one.sent is not None]
        if told and not -AHEAD <= median(told) <= BEHIND:
            worst = max(worst, median(told), key=abs)
            for publisher in heard.publishers(heard.topic(name)):
                apart.setdefault(publisher.name, []).append(heard.topic(name))
    if apart:
        yield Finding("clocks-apart", STOPS, _listed(set(apart)),
                      f"by this machine's clock what it publishes is sent {abs(worst):.2f} s "
                      f"{'before it comes' if worst > 0 else 'after it has come'}",
                      "synchronise both machines' clocks: chrony, or systemd-timesyncd")


def _commands(heard: Heard) -> Iterator[Finding]:
    """Findings of ``cmd_vel``: who hears it, as which type, and who else publishes it."""
    topic = heard.topic(COMMAND)
    wanted = STAMPED if heard.value("stamped", True, "brainstem") else TWIST
    bases = heard.subscriptions(topic)
    mismatch = _mismatch(bases, wanted, topic, "hears")
    if not bases:
        others = {e.topic for e in heard.endpoints if e.kind == names.SUBSCRIPTION and e.type in (TWIST, STAMPED)}
        yield Finding("command-unheard", STOPS, topic, "nobody hears it: the robot would stand", "start the base's "
                      "driver" + (f"; or {_listed(others)} is heard: in the profile, topics: {{{COMMAND}: "
                                  f"{min(others)}}}" if others else ""))
    elif mismatch is not None and {e.type for e in bases} <= {TWIST, STAMPED} - {wanted}:
        yield Finding("command-type", STOPS, topic, f"{_listed({e.name for e in bases})} hears "
                      f"{_listed({e.type for e in bases})}, and by the profile the brain publishes {wanted}",
                      f"in the profile, shared: {{stamped: {'false' if wanted == STAMPED else 'true'}}}")
    elif mismatch is not None:
        yield mismatch
    for why in {incompatibility(COMMAND_QOS, e.qos) for e in bases if e.qos} - {None}:
        yield Finding("topic-qos", STOPS, topic, f"DDS would not connect the brain to it: {why}",
                      "set the QoS of the base's subscription: reliable or best effort, volatile")
    stem = f"{heard.namespace.rstrip('/')}/brainstem"
    if rivals := {e.name for e in heard.publishers(topic)} - {stem}:
        yield Finding("command-several", DEGRADES, topic, f"{_listed(rivals)} publishes it too, and the base gets both",
                      "end it, or put twist_mux between (docs/new-robot.md, beside a joystick)")
    if (estop := [e for e in heard.publishers(names.expand("estop", heard.namespace, "brain_doctor"))
                  if e.qos is not None and not e.qos.reliable]):
        yield Finding("estop-qos", DEGRADES, estop[0].topic, f"{estop[0].name} publishes it best effort, so that a "
                      f"press may be lost", "publish it reliable")
