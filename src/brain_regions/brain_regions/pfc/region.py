# SPDX-License-Identifier: Apache-2.0
"""Prefrontal cortex as a region: messages in, currents onto its populations; decisions out, read from their spikes."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from brain_regions import azimuth, past, spike_trains
from brain_regions.lesions import Lesionable
from brain_regions.lidars import Scanning
from brain_regions.membranes import MICRO_STEP, ticks
from brain_regions.obedience import HEARTBEATS, NOT_BELIEVED
from brain_regions.past import Past
from brain_regions.pfc import (choice, circuit, decision, detections, eyes, feedback, heading, in_front, last_look,
                               lidar, memory, polar, synapses)
from brain_regions.pfc.control import (APPROACH, AVOID, GATED, IDLE, SEARCH, STOP, TEXT, VERB_STOP, M_ARRIVED,
                                       S_APPROACHING, S_REACHED, S_SEARCHING, S_WAITING, Told, keep_away)
from brain_regions.pfc.last_look import Leave
from brain_regions.pfc.parameters import PrefrontalCortexParameters
from brain_regions.pfc.report import kind_of, report
from brain_regions.pfc.told import POPULATIONS
from brain_regions.pfc.watch import Watch
from brain_regions.scan_watch import ScanWatch
from brain_runtime import FEATURE, In, LATCHED, Out, SENSOR, STREAM, clip_utf8
from brain_runtime.contract.declared import NUMBER, Network, Picture
from brain_runtime.contract.odometry import JUMP, Odometry, from_origin, origin_of, pose_of
from brain_runtime.contract.sights import is_taught, sound
from brain_wire import messages

MODES = {"": IDLE, "idle": IDLE, "stop": STOP, "search": SEARCH, "approach": APPROACH, "avoid": AVOID}
LOOKING = 1.2           # rad: heading that makes motor turn on the spot
NEAR = 0.65             # m, from the front: where standing would say "here it is"
TOO_NEAR = 0.80         # m, from the middle, to an object that is to be kept away from
ROUTE_FROM = 1.1        # m to the target from which on the way to it is taken rather than its direction
PICTURES = tuple(Picture(f"brain_eval.panels:{name}") for name in ("memory", "choice", "undecided", "actions"))
ROUND, LATE = "looking round once more before giving up", "vision is late, and nothing is given up until it is not"
MAPS = ("place/view", "place/route")
_ASIDE = 0.15 + 0.85 * (azimuth.COS < 0.8)      # what a turn on the spot shows beyond driving on
_LEFT = azimuth.SIN > 0.0
SAME = math.radians(5.0), math.radians(40.0)    # bearings of one thing, by its taught name and by another: at most


class PrefrontalCortex(Lesionable, Scanning):
    """Chooses between search, approach, avoid, stop and idle; see the modules of this package."""

    rate = 10.0
    spiking = True
    Parameters = PrefrontalCortexParameters
    network = Network("brain_regions.pfc.circuit:circuit", work=(
        "_memory.move", "_memory.see", "_memory.run", "_choice.run", "_decision.run"))
    populations = tuple(POPULATIONS.values())
    baselines = {"ann": "brain_eval.baselines.ann_pfc:AnnPrefrontalCortex",
                 "conventional": "brain_eval.baselines.table_pfc:TablePrefrontalCortex"}
    ablations = {
        "silent": {"silent": True}, **{f"qpfc={mode}": {"qpfc": mode} for mode in feedback.MODES},
        "qpfc=constant:ALPHA": {"qpfc": "constant", "qpfc_alpha": NUMBER},
        "integration=off": {"integrate": False}, "integration=on": {"integrate": True}}
    pictures = PICTURES

    objects = In("vision/objects", "brain_interfaces/msg/DetectedObjects", FEATURE.with_depth(4), trigger=True,
                 key="source")
    language = In("lang/features", "brain_interfaces/msg/LanguageFeatures", FEATURE, trigger=True)
    features = In("sensor/features", "brain_interfaces/msg/SensorFeatures", FEATURE.with_depth(10), key="source",
                  device=True)
    headings = In("place/headings", "brain_interfaces/msg/HeadingValues", FEATURE, key="source")
    odom = In("odom", "nav_msgs/msg/Odometry", SENSOR, device=True)
    motor = In("motor/status", "brain_interfaces/msg/MotorStatus", FEATURE)
    heartbeats = HEARTBEATS

    control = Out("pfc/control", "brain_interfaces/msg/Control", FEATURE, gated=GATED)
    status = Out("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED)
    target = Out("pfc/target", "geometry_msgs/msg/PoseStamped", FEATURE, on_demand=True)
    memory = Out("pfc/memory", "brain_interfaces/msg/DetectedObjects", FEATURE, on_demand=True)
    belief = Out("pfc/choice", "brain_interfaces/msg/Choice", FEATURE, on_demand=True)
    sheet = Out("pfc/sheet", "sensor_msgs/msg/Image", SENSOR, on_demand=True)
    spike_train = Out("brain/spikes", "brain_interfaces/msg/SpikeTrain", STREAM, on_demand=True,
                      gated=spike_trains.GATED)

    def configure(self, parameters) -> None:
        """Wires the populations."""
        super().configure(parameters)
        p = self.parameters
        how = {"rate": not self.spiking, "silent": p.silent}
        self._how = how
        self._memory = memory.ObjectMemory(min(memory.TAU, p.forget), p.forget, self._lesions.get("memory"))
        self._choice = choice.Choice(p.evidence, **how, lesions=self._lesions)
        self._decision = decision.Decision(p.search_time, **how, lesions=self._lesions)
        self._past, self._odometry = Past(), Odometry()
        # what the newest messages say, which does not change while they are the newest
        self._known_maps: dict[str, tuple[Any, np.ndarray]] = {}
        self._known_front: tuple[Any, Any] = (None, None)
        self._lidar, self._detections = ScanWatch(), detections.port()
        self._known_view: tuple[Any, tuple[float, float, bool]] = (None, (0.0, 0.0, False))
        self._known_goal: tuple[Any, Told] | None = None
        self._watched = 0           # steps with a watch; what is shown only is no state

    def publishes(self):
        """The ports of the class, and one of ``vision_msgs`` where that is installed."""
        return {**super().publishes(), **_installed()}

    @classmethod
    def would_publish(cls, parameters):
        """See :meth:`publishes`."""
        return {**super().would_publish(parameters), **_installed()}

    @staticmethod
    def circuit():
        """The populations for other simulators, asked for a blue box and to keep away from a red ball.

        The goal is in the weights; :func:`.circuit.circuit` makes them for others, and says what differs from here.
        """
        return circuit.circuit(goal=(3, 2, 1, 1))

    def initial_state(self):
        return {**self._memory.rest(), **choice.empty(), **decision.empty(), **last_look.empty(), **in_front.empty(),
                **feedback.empty(azimuth.BINS), "goal": np.zeros(7, np.float32), "text": np.zeros(TEXT, np.float32),
                "pose": np.zeros(4, np.float32), "far": np.zeros(2, np.float32),
                "told": np.zeros(1, np.float32), "left": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        self._lesions.draw_by(rng)
        state = dict(state)
        new_goal = self._hear(inbox, state)
        remark = "" if new_goal else self._remark(inbox, state)
        pose = self._move(inbox, state)
        self.trouble = self._odometry.refusal(inbox, 0.5)
        sight = self._look(inbox, state, pose, dt)
        told = self._goal(state)
        watch = self._watch()
        steps, left, _ = ticks(dt, float(state["left"][0]))
        state["left"] = np.array([left], np.float32)
        wanted, avoided = choice.gates(told.kinds)
        asked = told.number > 0 and told.understood and told.verb != VERB_STOP
        if not asked:
            wanted, avoided = np.zeros_like(wanted), np.zeros_like(avoided)
        held, fired = self._memory.run(state, steps, rate=self._how["rate"], silent=self._how["silent"], watch=watch)
        h, alpha, temperature, threshold = feedback.feed_back(
            state, self._choice.distribution(state), dt, rng, self.parameters.qpfc, self.parameters.qpfc_alpha)
        chosen = self._choice.run(state, held, steps, wanted, avoided, threshold, watch)
        believed = self._choice.read(state, held, wanted)
        turned, ahead = (float(x) for x in state["owed"])
        if math.isfinite(believed.bearing):
            bearing, distance = polar.carried(believed.bearing, believed.distance, turned, ahead)
            believed = believed._replace(bearing=bearing, distance=distance)
        believed = believed._replace(avoid=[polar.carried(b, d, turned, ahead) for b, d in believed.avoid])
        view, route = self._maps(inbox)
        ways = heading.told(inbox.each("headings", 1.0))
        front = self._points(inbox)
        # what stands inside the outline may hide the rest: there is more to be seen than can be got to
        nothing_left = not (self._lidar.crowded or ways is not None and np.isfinite(ways[0]).any()
                            or self._unseen(view)[2])
        leave, ending = self._last_look(state, sight, nothing_left, dt)
        searched = nothing_left and leave.everywhere
        causes = self._causes(inbox, told, asked, sight, believed, view, searched, front)
        offers = self._offers(state, causes, believed, None if ending == ROUND else ways, route, front, temperature, dt,
                              rng)
        decided = self._decision.run(state, steps, causes, offers, threshold, watch, leave.patience)
        self.count(**synapses.cost({"memory": fired, **chosen, **decided}, steps, wanted, avoided, self.spiking))
        action, why, means = decision.read(state)
        self._why(state, means, searched)
        looks_round = ending == ROUND or self._lidar.unproven
        outbox = {"control": self._control(state, told, action, means, believed, looks_round)}
        status, reason, note = self._status(inbox, state, sight, action, why, believed, told, ending, dt)
        if status is not None and (new_goal or remark or status + 1 + note != state["told"][0]):
            state["told"] = np.array([status + 1 + note], np.float32)
            reason = clip_utf8(remark or reason, 256)
            outbox["status"] = self.status(goal_id=told.number, state=status, text=told.text, reason=reason,
                                           cause=last_look.cause(state, status))
        if "target" in self.wanted:
            outbox["target"] = self._target(inbox, believed)
        if not self.wanted.isdisjoint(("memory", "objects_known")) and pose is not None:
            memory = self._remembered(state)
            if "memory" in self.wanted:
                outbox["memory"] = memory
            if "objects_known" in self.wanted and (odom := self._odometry.newest(inbox, 0.5)) is not None:
                outbox["objects_known"] = detections.told(self._detections, memory.objects, odom, pose_of(odom))
        if "belief" in self.wanted:
            outbox["belief"] = self._belief(state, believed, h, alpha, temperature, threshold, means)
        if "sheet" in self.wanted and pose is not None:
            outbox["sheet"] = self._sheet(state)
        if watch is not None and steps:
            outbox["spike_train"] = self._spikes(watch)
        return outbox, state

    def view(self, state):
        """``evidence`` of the memory, [classes, bins, rings], ``turned`` (rad) since it was shifted, ``commitment``."""
        return {"evidence": state["trace"].copy(), "turned": float(state["owed"][memory.TURN]),
                "commitment": state["commitment_s"].copy()}

    def _goal(self, state) -> Told:
        """The goal that the state holds, which is read anew only when it is another one."""
        arrays = state["goal"], state["text"]
        if self._known_goal is None or any(a is not b for a, b in zip(arrays, self._known_goal[0])):
            self._known_goal = arrays, Told.of(state)
        return self._known_goal[1]

    def _watch(self) -> Watch | None:
        """On the next population in turn while somebody listens to spikes; None while nobody does."""
        if "spike_train" not in self.wanted or not self.spiking:
            return None
        self._watched += 1
        return Watch(tuple(POPULATIONS)[self._watched % len(POPULATIONS)])

    # -- input -----------------------------------------------------------------------------------------------------

    def _hear(self, inbox, state) -> bool:
        """Takes in a new goal, which clears what was decided about the old one; says whether there was one."""
        language = inbox.get("language")
        if language is None or not inbox.new("language"):
            return False
        number = float(language.goal_id % 2 ** 24)  # what a float32 holds exactly
        if number == 0 or number == state["goal"][0]:
            return False
        Told.put(state, number, language)
        state.update({**decision.empty(), **last_look.empty(), **in_front.empty()})
        state["told"] = np.zeros(1, np.float32)
        return True

    @staticmethod
    def _remark(inbox, state) -> str:
        """Language's word on a sentence that was no order, which leaves the goal as it is; mostly empty."""
        language = inbox.get("language")
        new = language is not None and inbox.new("language")
        return language.reason if new and language.understood and language.goal_id % 2 ** 24 == state["goal"][0] else ""

    def _move(self, inbox, state):
        """Hands the way since the last step to the memory; newest pose (x, y, yaw) from the origin ``far``, or None."""
        told = self._odometry.pose(inbox, 0.5)
        if told is None:
            return None
        x, y, yaw, known = (float(v) for v in state["pose"])
        if not known:
            state["far"] = origin_of(told)
        pose = from_origin(told, state["far"])
        if known:
            dx, dy, turned = pose[0] - x, pose[1] - y, azimuth.wrap(pose[2] - yaw)
            if math.hypot(dx, dy) > JUMP[0] or abs(turned) > JUMP[1]:
                state.update(self._memory.rest())   # it was carried: nothing is where it was
                self._past.clear()
                state["far"] = origin_of(told)
                pose = from_origin(told, state["far"])
            elif dx or dy or turned:
                middle = yaw + turned / 2
                spikes, synops = self._memory.move(state, turned, dx * math.cos(middle) + dy * math.sin(middle))
                self.count(**({"spikes": spikes, "synops": synops} if self.spiking else {"multiplies": synops}))
        state["pose"] = np.array([*pose, 1], np.float32)
        self._past.put(messages.time_seconds(inbox.get("odom").header.stamp), pose)
        return pose

    def _look(self, inbox, state, pose, dt) -> eyes.Sight:
        """Takes new pictures into memory, each from where it was taken; what vision tells now."""
        sight = eyes.look(inbox, self._past, pose, self._lidar, self.parameters, self.trouble)
        if sight.blind.startswith(NOT_BELIEVED):    # the robot may be anywhere: as if it had been carried
            state.update(self._memory.rest())
            self._past.clear()
        if not sight.looks:
            return sight
        memory.about(state, Told.of(state).kinds[1])
        free = lidar.free(self._points(inbox), float(state["owed"][memory.TURN]))
        for frame, then in sight.looks:
            ahead, left, turned = past.since(then, pose)
            self._memory.see(state, self._usable(frame.objects, Told.of(state).kinds[1]), turned,
                             (float(frame.azimuth_min), float(frame.azimuth_max)), free, self.parameters.fade,
                             min(max(dt, 0.05), 0.2), self.parameters.integrate, (ahead, left))
        return sight

    @staticmethod
    def _usable(objects, shape) -> list[Any]:
        """Objects that are remembered: of taught things that which the goal names alone, and no other name for it."""
        seen = [d for d in objects if sound(d)]
        sought = [d for d in seen if is_taught(d.shape) and d.shape == shape]
        return sought + [d for d in seen if not is_taught(d.shape) and not any(
            abs(azimuth.wrap(d.bearing - one.bearing)) < min(max(SAME[0], one.width / 2), SAME[1]) for one in sought)]

    def _last_look(self, state, sight, nothing_left, dt):
        """Decides whether the search may end, and what is said of that."""
        if max(decision.mean(state, "tired"), decision.mean(state, "given_up")) > decision.SURE:
            return Leave(), ""      # it has
        searching = decision.mean(state, "search") > decision.SURE
        impatient = searching and decision.full(state, "patience")
        leave = last_look.look(state, [last_look.View.of(*look) for look in sight.looks],
                               nothing_left=searching and nothing_left, impatient=impatient, late=sight.late, dt=dt)
        return leave, "" if leave.patience or not impatient else LATE if sight.late else ROUND

    @staticmethod
    def _why(state, means, searched) -> None:
        """Remembers why it gives up, once it does."""
        if max(means["tired"], means["given_up"]) <= decision.SURE:
            last_look.remember_why(state, 0.0)
        else:
            everywhere = searched or decision.fired(state, "empty")
            last_look.remember_why(state, last_look.EVERYWHERE if everywhere else last_look.PATIENCE)

    def _points(self, inbox):
        """Returns :func:`.lidar.front` of the newest scan; None without one that can be believed."""
        seen = self._lidar.beams
        if inbox.get("scan", within=0.5) is None or seen is None or self._lidar.fault:
            return None
        if self._known_front[0] is not seen:
            self._known_front = (seen, lidar.front(seen, self.parameters))
        return self._known_front[1]

    def _maps(self, inbox):
        """Collects the maps of place, to look at and to follow, float32[BINS] each; None where it said nothing."""
        found = dict.fromkeys(MAPS)
        for entry in inbox.each("features", 1.0):
            message, source = entry.message, entry.message.source
            if source in found and found[source] is None:
                known = self._known_maps.get(source)
                if known is None or known[0] is not message:
                    known = self._known_maps[source] = (message, azimuth.sound_map(message.novelty))
                found[source] = known[1]
        return found.values()

    @staticmethod
    def _reason(inbox):
        language = inbox.get("language")
        return language.reason if language is not None else "the sentence was not understood"

    def _causes(self, inbox, told, asked, sight, believed, view, searched, front):
        """Computes the inputs of the populations of :mod:`.decision`."""
        motor = inbox.get("motor", within=0.3)
        arrived = motor is not None and motor.state == M_ARRIVED and motor.goal_id == told.number
        close = any(d < TOO_NEAR for _, d in believed.avoid)
        left, right, _ = self._unseen(view)
        if view is not None:
            worth = min((left + right) / self.parameters.turn_worth, 2.0)
            left, right = worth * (1.0 if left >= right else 0.6), worth * (0.6 if left >= right else 1.0)
        return {"goal": float(asked), "told_stop": float(told.number > 0 and told.verb == VERB_STOP),
                "unasked": float(told.number == 0), "blind": float(bool(sight.blind) and asked),
                "puzzled": float(told.number > 0 and not told.understood),
                "arrived": float(arrived and asked and math.isfinite(believed.bearing)),
                "sure": 1.0 if believed.share > 0.6 else 0.15, "near": float(front is not None and front[0] < NEAR),
                "approach": min(2.0 * believed.strength, 1.0), "avoid": float(close),
                "empty": float(searched), "patience": float(not sight.late),
                "turn_left": left, "turn_right": right}

    def _unseen(self, view) -> tuple[float, float, bool]:
        """Floor (bins of place/view) that turns to the left and to the right would show; whether there is any."""
        if view is None:        # place is missing: a turn on the spot shows what can be seen from here
            return 2.0, 0.0, True
        if self._known_view[0] is not view:
            behind = view * _ASIDE
            self._known_view = view, (
                float(behind[_LEFT].sum()), float(behind[~_LEFT].sum()), bool(view.sum() > 0.3))
        return self._known_view[1]

    def _offers(self, state, causes, believed, ways, route, front, temperature, dt, rng):
        """Headings by the action that would take them."""
        offers = {}
        if ways is not None:
            offers["search"] = heading.drawn(state, *ways, float(state["pose"][2]), temperature, dt, rng)
        if math.isfinite(believed.bearing):
            far = believed.distance > ROUTE_FROM and route is not None and route.any()
            offers["approach"] = route if far else azimuth.bump(believed.bearing)
        if causes["avoid"] or decision.mean(state, "avoid") > decision.SURE or (
                causes["near"] and decision.mean(state, "tired") > decision.SURE):
            near = min(believed.avoid, key=lambda place: place[1], default=None)
            if near is not None and near[1] < TOO_NEAR:
                offers["avoid"] = azimuth.bump(near[0] + math.pi)
            elif front is not None:
                offers["avoid"] = lidar.open_floor(front)
        return offers

    # -- output ----------------------------------------------------------------------------------------------------

    def _status(self, inbox, state, sight, action, why, believed, told, ending, dt):
        """State of the goal, reason, and a number less than 1 that tells reasons apart; None while nothing is decided.

        It has reached its target only when it has looked at what it stands in front of.
        """
        p = self.parameters
        status, reason = report(action, why, believed, told, sight.blind, self._reason(inbox),
                                last_look.in_words(state, p.search_time))
        if status == S_REACHED:
            status, reason = in_front.look(state, [look.frame for look in sight.looks], sight.newest, *told.kinds[:2],
                                           p.look, min(dt, 0.5))
            return status, reason, 0.5
        if ending and action == "search":
            return status, ending, 0.25 if ending == LATE else 0.5
        if status in (S_SEARCHING, S_APPROACHING) and self._lidar.hint:
            reason = f"{reason}; {self._lidar.hint}"
            return status, reason, kind_of(self._lidar.hint)
        return status, reason, kind_of(reason) if status == S_WAITING else 0.0

    def _control(self, state, told, action, means, believed, looks_round):
        mode, way, speed = MODES[action], math.nan, 0.0
        if mode in (SEARCH, APPROACH, AVOID):
            way = heading.read(state)
            speed = 1.0 if math.isfinite(way) else 0.0
        if looks_round and mode in (SEARCH, APPROACH):
            way, speed = LOOKING, 0.0
        elif mode == SEARCH:
            turn = means["turn_left"] - means["turn_right"]
            if abs(turn) > decision.SURE or not math.isfinite(way):
                way, speed = math.copysign(LOOKING, turn if turn else 1.0), 0.0
        angles = [bearing for bearing, _ in believed.avoid]
        away = [distance for _, distance in believed.avoid]
        control = self.control(
            goal_id=told.number, mode=mode, target_color=told.kinds[0], target_shape=told.kinds[1],
            confidence=believed.strength, bearing=believed.bearing, distance=believed.distance, heading=way,
            speed=speed, avoid_bearing=angles, avoid_distance=away,
            hazard=keep_away(angles, away, self.parameters.radius))
        control.header.frame_id = self.parameters.base_frame
        return control

    def _target(self, inbox, believed):
        """The target's place in odometry's frame, at the moment of the pose up to which it was carried; None: none."""
        odom = self._odometry.newest(inbox, 0.5)
        if odom is None or not math.isfinite(believed.bearing) or not math.isfinite(believed.distance):
            return None
        x, y, yaw = pose_of(odom)
        message = self.target()
        message.header.stamp, message.header.frame_id = odom.header.stamp, odom.header.frame_id
        angle, at, q = yaw + believed.bearing, message.pose.position, message.pose.orientation
        at.x, at.y = x + believed.distance * math.cos(angle), y + believed.distance * math.sin(angle)
        q.z, q.w = math.sin(angle / 2), math.cos(angle / 2)
        return message

    def _remembered(self, state):
        """All that is remembered, as if it were seen now."""
        trace = state["trace"]
        held = trace.sum(0)
        found = []
        turned, ahead = (float(x) for x in state["owed"])
        for column, row in polar.peaks(held, 0.3 * memory.UNIT, 32):
            at = trace[:, column, row]
            kind = int(np.argmax(at))
            bearing, distance = polar.carried(*polar.place(trace[kind], column, 1), turned, ahead)
            evidence = min(float(at.sum()) / memory.UNIT / self.parameters.evidence, 1.0)
            found.append((distance, bearing, kind, evidence * float(at[kind] / max(at.sum(), 1e-9))))
        message = self.memory(source=self.name, azimuth_min=-math.pi, azimuth_max=math.pi, objects=[
            messages.make("brain_interfaces/msg/DetectedObject", color=0 if kind == memory.TAUGHT else kind // 3 + 1,
                          shape=int(state["taught"][0]) if kind == memory.TAUGHT else kind % 3 + 1,
                          confidence=belief, bearing=bearing, distance=distance, width=math.nan)
            for distance, bearing, kind, belief in sorted(found)])
        message.header.frame_id = self.parameters.base_frame
        return message

    def _sheet(self, state):
        """The memory's evidence as an image: rows are distances, columns bearings, channels classes."""
        share = np.minimum(state["trace"] * (255.0 / memory.CAP), 255.0).astype(np.uint8)
        message = self.sheet(height=polar.RINGS, width=azimuth.BINS, encoding=f"8UC{memory.CLASSES}",
                             step=azimuth.BINS * memory.CLASSES,
                             data=np.ascontiguousarray(share.transpose(2, 1, 0)).reshape(-1))
        message.header.frame_id = self.parameters.base_frame
        return message

    def _spikes(self, watch):
        neurons, bins = watch.spikes()
        return self.spike_train(population=f"{self.name}/{watch.population}", size=POPULATIONS[watch.population].size,
                                bin_width=MICRO_STEP, total=len(bins), neuron=neurons[:spike_trains.MOST],
                                bin=bins[:spike_trains.MOST])

    def _belief(self, state, believed, h, alpha, temperature, threshold, means):
        message = self.belief(
            goal_id=int(state["goal"][0]), probability=choice.Choice.distribution(state), entropy=h, alpha=alpha,
            temperature=temperature, threshold=threshold, actions=[means[name] for name in decision.ACTIONS])
        message.header.frame_id = self.parameters.base_frame
        return message


def _installed() -> dict[str, Out]:
    port = detections.port()
    return {} if port is None else {"objects_known": port}
