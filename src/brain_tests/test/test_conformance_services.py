# SPDX-License-Identifier: Apache-2.0
"""What the ros2 command line asks of a node, asked of every host; of LocalHost, what a node without a wire has.

The same questions, and answers that must be alike, since users cannot tell the hosts apart.
"""
import importlib.util

import pytest
import yaml

from brain_runtime import FEATURE, LATCHED
from brain_runtime.hosts import ros_args
from brain_runtime.run import keeper
from brain_runtime.contract.constants import heartbeat_state
from brain_runtime.hosts.edges import parse
from brain_runtime.interfaces import Heartbeat
from brain_tests.regions import FEATURES, Mirror
from brain_tests.stage_of import make_stage
from brain_wire import messages
from brain_wire.lifecycle import TRANSITIONS, State
from brain_wire.messages import make
from brain_wire.parameter_services import Kind, value_message, value_of
from brain_wire.parameters import check_parameters
from brain_wire.qos import STREAM, QoS
from brain_wire.services import service_type

ROS = [pytest.param("ros", marks=pytest.mark.colcon)] if importlib.util.find_spec("rclpy") else []
PROCESSES = ["zenoh", *ROS]
HOSTS = ["local", "torch", *PROCESSES]
MIRROR, MOVES, REFUSES, FRAGILE, CHATTER = (f"brain_tests.regions:{name}"
                                            for name in ("Mirror", "Moves", "Refuses", "Fragile", "Chatter"))
CONFIGURE, CLEANUP, ACTIVATE, DEACTIVATE = 1, 2, 3, 4


@pytest.fixture(params=HOSTS)
def stage(request, tmp_path):
    made = make_stage(request.param, tmp_path)
    yield made
    made.close()


on_a_wire = pytest.mark.parametrize("stage", PROCESSES, indirect=True)  # what has a clock, a log or others beside it


def rcl(stage, name, **fields):
    kind = f"rcl_interfaces/srv/{name.title().replace('_', '')}"
    return stage.call(f"mirror/{name}", kind, ask_for(kind, **fields))


def ask_for(kind, **fields):
    return make(service_type(kind).request, **fields)


def state(stage):
    return stage.call("mirror/get_state", "lifecycle_msgs/srv/GetState").current_state.label


def change(stage, number=0, label=""):
    request = ask_for("lifecycle_msgs/srv/ChangeState", transition=make("lifecycle_msgs/msg/Transition", id=number,
                                                                        label=label))
    return stage.call("mirror/change_state", "lifecycle_msgs/srv/ChangeState", request).success


def answers(stage, said):
    before = len(said)
    stage.say("heard", make(FEATURES, source="test"), FEATURE)
    stage.pause(0.1)
    return len(said) > before


def test_parameters_are_listed_described_and_read(stage):
    stage.start(MIRROR, gain=2.5)
    names = rcl(stage, "list_parameters").result.names
    assert {"gain", "names", "mode", "count", "use_sim_time", "energy_budget"} <= set(names)
    assert rcl(stage, "list_parameters", prefixes=["gain"]).result.names in (["gain"], [])  # rclpy lists what is below
    asked = ["gain", "names", "mode", "count", "use_sim_time"]
    gain, texts, mode, count, sim_time = rcl(stage, "get_parameters", names=asked).values
    assert (gain.double_value, texts.string_array_value, mode.string_value, count.integer_value,
            sim_time.bool_value) == \
        (2.5, ["a", "b"], "plain", 3, False)
    kinds = [Kind.DOUBLE, Kind.STRING_ARRAY, Kind.STRING, Kind.INTEGER, Kind.BOOL]
    assert list(rcl(stage, "get_parameter_types", names=asked).types) == kinds
    about = rcl(stage, "describe_parameters", names=asked).descriptors
    assert [d.name for d in about] == asked and [d.type for d in about] == kinds
    assert about[0].description == "Scales the hazards. (1)"
    assert [(r.from_value, r.to_value) for r in about[0].floating_point_range] == [(0.0, 10.0)]
    assert [(r.from_value, r.to_value) for r in about[3].integer_range] == [(0, 2**63 - 1)]
    assert "cannot be changed" in about[1].additional_constraints and "plain, fancy" in about[2].additional_constraints


def test_what_there_is_not_gets_an_empty_answer(stage):
    stage.start(MIRROR)
    for service, field in (("get_parameters", "values"), ("describe_parameters", "descriptors"),
                           ("get_parameter_types", "types")):
        assert len(getattr(rcl(stage, service, names=["gain", "gian"]), field)) == 0


def test_one_at_a_time_or_all_or_none(stage):
    stage.start(MIRROR)
    wanted = [make("rcl_interfaces/msg/Parameter", name=name, value=value_message(value))
              for name, value in (("gain", 4.0), ("count", -1), ("nothing", 1))]
    one, two, three = rcl(stage, "set_parameters", parameters=wanted).results
    assert one.successful and not one.reason and not two.successful and not three.successful
    assert "nothing" in three.reason or "undeclared" in three.reason
    assert rcl(stage, "get_parameters", names=["gain"]).values[0].double_value == 4.0
    assert stage.change(gain=5.0, count=-1) != ""
    assert rcl(stage, "get_parameters", names=["gain"]).values[0].double_value == 4.0
    assert stage.change(gain=5.0, count=7) == ""
    values = rcl(stage, "get_parameters", names=["gain", "count"]).values
    assert [v.double_value or v.integer_value for v in values] == [5, 7]


def test_changes_are_told(stage):
    told = stage.hear("/parameter_events", "rcl_interfaces/msg/ParameterEvent", QoS(True, False, 1000))
    stage.start(MIRROR)
    rcl(stage, "list_parameters")
    stage.until(lambda: stage.change(gain=3.0) == "" and any(
        p.name == "gain" and p.value.double_value == 3.0
        for e in told if e.node == "/mirror" for p in e.changed_parameters))


def test_by_hand_through_its_life(stage):
    said = stage.hear("said", FEATURES, FEATURE)
    events = stage.hear("mirror/transition_event", "lifecycle_msgs/msg/TransitionEvent", QoS(True, False, 10))
    beats = stage.hear("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
    stage.start(MIRROR, manual=True)
    assert state(stage) == "unconfigured" and not change(stage, ACTIVATE) and not change(stage, label="nonsense")
    stage.pause(0.3)
    assert change(stage, CONFIGURE) and state(stage) == "inactive" and not answers(stage, said)
    assert change(stage, label="activate") and state(stage) == "active"
    stage.until(lambda: answers(stage, said))
    assert stage.change(gain=2.0) == ""
    assert change(stage, DEACTIVATE) and state(stage) == "inactive"
    stage.pause(0.2)
    assert not answers(stage, said)
    assert change(stage, CLEANUP) and state(stage) == "unconfigured"
    assert change(stage, CONFIGURE) and change(stage, ACTIVATE)
    stage.until(lambda: answers(stage, said))
    assert rcl(stage, "get_parameters", names=["gain"]).values[0].double_value == 2.0
    stage.until(lambda: {"unconfigured", "configuring", "inactive", "activating", "active", "deactivating"}
                <= {e.goal_state.label for e in events} | {e.start_state.label for e in events})
    assert {0, 1, 2} <= {b.state for b in beats}
    assert change(stage, label="shutdown")
    stage.until(lambda: stage.ended() == 0)


def test_what_cannot_be_configured_says_why_and_can_be_tried_again(stage):
    beats = stage.hear("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
    stage.start(REFUSES, manual=True)
    assert not change(stage, CONFIGURE) and state(stage) == "unconfigured"
    stage.until(lambda: any("no weights here" in b.reason for b in beats))
    assert "error processing" in stage.log() and "OSError: no weights here" in stage.log()
    assert stage.change(gain=9.0) == ""
    assert change(stage, CONFIGURE) and state(stage) == "inactive"


@pytest.mark.parametrize("stage", ["local", "torch"], indirect=True)
def test_in_lockstep_what_cannot_be_configured_does_not_start(stage):
    stage.start(REFUSES)
    assert "no weights here" in stage.failed()


@on_a_wire
def test_what_cannot_be_configured_stays_so_says_why_and_begins_once_it_is_corrected(stage):
    beats = stage.hear("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)

    def is_now(name, *reasons):
        beats.clear()
        stage.until(lambda: beats and heartbeat_state(beats[-1].state) == name
                    and all(reason in beats[-1].reason for reason in reasons))
        assert stage.ended() is None

    stage.start(MIRROR, gain="much", count=-1)
    is_now("unconfigured", "gain of mirror must be of type float", "count of mirror is -1, but must be at least 0")
    assert stage.log().count("stays unconfigured") == 1 and "Traceback" not in stage.log()
    assert not change(stage, CONFIGURE) and stage.change(gain="more") != ""
    assert stage.change(count=5) == "" and not change(stage, CONFIGURE)
    assert stage.change(gain=3) == ""       # a whole number where a float is wanted is one, on every host
    is_now("unconfigured", "mirror can be configured now: `brain start mirror`")
    assert change(stage, CONFIGURE) and change(stage, ACTIVATE)
    assert [v.double_value or v.integer_value for v in rcl(stage, "get_parameters", names=["gain", "count"]).values
            ] == [3.0, 5]
    is_now("active")
    stage.end()
    stage.start(REFUSES)
    is_now("unconfigured", "OSError: no weights here")
    assert "Traceback" not in stage.log()
    stage.end()
    stage.start(REFUSES, gain=9)
    is_now("active")


def test_a_parameter_that_makes_the_region_fail_is_refused_and_costs_nothing(stage):
    said = stage.hear("said", FEATURES, FEATURE)
    stage.start(FRAGILE)
    stage.until(lambda: answers(stage, said))
    assert "ZeroDivisionError" in stage.change(count=5, gain=0.0)
    values = rcl(stage, "get_parameters", names=["gain", "count"]).values
    assert [v.double_value or v.integer_value for v in values] == [1, 3]
    assert answers(stage, said) or stage.until(lambda: answers(stage, said))


@on_a_wire
def test_diagnostics_and_log_are_told(stage):
    told = stage.hear("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", QoS(True, False, 10))
    logged = stage.hear("/rosout", "rcl_interfaces/msg/Log", QoS(True, True, 1000))
    stage.start(MIRROR)
    stage.until(lambda: any(s.name == "brain: /mirror" and s.message == "active" and s.level == 0
                            for m in told for s in m.status))
    stage.until(lambda: any(m.name == "mirror" and "runs as /mirror" in m.msg for m in logged))


@on_a_wire
def test_diagnostics_tell_how_messages_come(stage):
    told = stage.hear("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", QoS(True, False, 10))
    said = stage.hear("said", FEATURES, FEATURE)
    stage.start(MIRROR)
    stage.until(lambda: answers(stage, said))

    def edges():
        found = [parse(v.key, v.value) for v in told[-1].status[0].values] if told else []
        return {edge.topic: edge for edge in found if edge is not None}
    stage.until(lambda: "/heard" in edges())
    before = edges()["/heard"].messages
    for _ in range(5):
        stage.say("heard", make(FEATURES, source="test"), FEATURE)
        stage.pause(0.1)
    stage.until(lambda: edges()["/heard"].messages >= before + 5 - edges()["/heard"].lost)
    edge = edges()["/heard"]
    assert edge.source == "/stage" and 0 < edge.p50 <= edge.p99 and not edge.clocks_differ
    assert edge.lost is not None and edge.restarts == 0


@on_a_wire
def test_an_energy_budget_is_set_and_lifted_while_it_runs_and_diagnostics_tell_what_it_saved(stage):
    told = stage.hear("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", QoS(True, False, 10))
    numbers = stage.hear("number", FEATURES, FEATURE)
    figures = lambda: {v.key: v.value for v in told[-1].status[0].values}  # noqa: E731
    stage.start(CHATTER)
    stage.until(lambda: told and len(numbers) > 20)
    assert "bytes saved" not in figures()
    assert "energy_budget" in stage.change(energy_budget=-1.0) and stage.change(energy_budget=1.0) == ""
    stage.until(lambda: float(figures().get("bytes saved", 0)) > 10_000)
    assert int(figures()["messages gated"]) > 20 and figures()["energy budget (B/s)"] == "1"
    about = rcl(stage, "describe_parameters", names=["energy_budget"]).descriptors[0]
    assert about.type == Kind.DOUBLE and "(B/s)" in about.description
    assert stage.change(energy_budget=0.0) == ""
    stage.pause(0.2)

    def whole():
        numbers.clear()
        stage.pause(0.5)
        heard = [round(float(m.confidence)) for m in numbers]
        return len(heard) > 20 and heard == list(range(heard[0], heard[0] + len(heard)))
    stage.until(whole)


@on_a_wire
def test_simulated_time_is_followed_when_it_is_asked_for(stage):
    beats = stage.hear("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
    stage.start(MIRROR)
    stage.until(lambda: beats and beats[-1].header.stamp.sec > 10**9)
    assert stage.change(use_sim_time=True) == ""

    def simulated():
        stage.say("/clock", make("rosgraph_msgs/msg/Clock", clock=messages.time_message(4321.5)), QoS(False, False, 1))
        stage.pause(0.1)
        return beats[-1].header.stamp.sec == 4321
    stage.until(simulated)
    assert stage.change(use_sim_time=False) == ""
    stage.until(lambda: beats[-1].header.stamp.sec > 10**9)


def test_the_states_and_transitions_are_those_of_ros(stage):
    stage.start(MIRROR)
    states = stage.call("mirror/get_available_states", "lifecycle_msgs/srv/GetAvailableStates").available_states
    assert [(s.id, s.label) for s in states] == [(int(s), s.name.lower()) for s in State]
    kind = "lifecycle_msgs/srv/GetAvailableTransitions"
    graph = stage.call("mirror/get_transition_graph", kind).available_transitions
    assert [(t.transition.id, t.transition.label, t.start_state.id, t.goal_state.id) for t in graph] == \
        [(t.id, t.label, t.start, t.goal) for t in TRANSITIONS]
    stage.until(lambda: state(stage) == "active")
    now = stage.call("mirror/get_available_transitions", kind).available_transitions
    assert [(t.transition.label, t.start_state.label, t.goal_state.label) for t in now] == \
        [("deactivate", "active", "deactivating"), ("shutdown", "active", "shuttingdown")]


@on_a_wire
def test_what_ros2_param_dump_writes_loads_unchanged(stage, tmp_path):
    """``ros2 param dump`` lists, reads and writes them below the node's full name."""
    stage.start(MIRROR, gain=2.5, mode="fancy", names="[p, q]")
    names = list(rcl(stage, "list_parameters").result.names)
    values = {name: value_of(value) for name, value in zip(names, rcl(stage, "get_parameters", names=names).values)}
    dumped = {"/mirror": {"ros__parameters": {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}}}
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.dump(dumped, default_flow_style=False))
    stage.end()
    stage.start(MIRROR, params_file=file)
    assert {n: value_of(v) for n, v in zip(names, rcl(stage, "get_parameters", names=names).values)} == values
    told = {name: value for name, value in values.items() if name != "start_type_description_service"}
    assert told == {"use_sim_time": False, "energy_budget": 0.0, "gain": 2.5, "names": ("p", "q"), "mode": "fancy",
                    "count": 3, "bare": False}
    # and what one host wrote the other reads
    known, _ = ros_args.parse(["--ros-args", "--params-file", str(file)])
    given = known.parameters("mirror", "/")
    assert given.pop("use_sim_time") is False and given.pop("energy_budget") == 0.0
    assert given.pop("start_type_description_service", True)
    assert check_parameters("mirror", Mirror.Parameters, given).names == ("p", "q")


@on_a_wire
def test_a_plain_name_and_an_empty_list_are_taken_in_a_namespace_too(stage, tmp_path):
    """rcl takes a plain name for one of the root namespace, and an empty list for nothing said."""
    file = tmp_path / "plain.yaml"
    file.write_text("mirror: {ros__parameters: {gain: 2.5}}\n/**/mirror: {ros__parameters: {names: []}}\n")
    stage.start(MIRROR, params_file=file, remap=["__ns:=/r1"])
    kind = "rcl_interfaces/srv/GetParameters"
    found = stage.call("r1/mirror/get_parameters", kind, ask_for(kind, names=["gain", "names"])).values
    assert (found[0].double_value, tuple(found[1].string_array_value)) == (2.5, ())
    assert Mirror.Parameters().names and Mirror.Parameters().gain != 2.5


@pytest.mark.parametrize("way", [(DEACTIVATE,), (DEACTIVATE, CLEANUP), (7,)], ids=["deactivate", "cleanup", "shutdown"])
def test_every_transition_leaves_what_it_moves_at_rest(stage, way):
    wheel = stage.hear("wheel", FEATURES, FEATURE)
    stage.start(MOVES)
    stage.until(lambda: len(wheel) > 3)
    assert all(change(stage, number) for number in way)
    stage.pause(0.3)
    assert wheel[-1].confidence == 0.0


@on_a_wire
def test_what_was_ordered_outlives_a_crash_where_somebody_starts_it_again(stage, tmp_path, monkeypatch):
    """As under launch and `brain up`, which this test plays: it is killed, and started with the same command line."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv(keeper.VARIABLE, keeper.mark())
    beats = stage.hear("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
    wheel = stage.hear("wheel", FEATURES, FEATURE)

    def is_now(name, reason=""):
        beats.clear()
        stage.until(lambda: beats and heartbeat_state(beats[-1].state) == name)
        assert reason in beats[-1].reason and bool(reason) == bool(beats[-1].reason)

    def crash():
        stage.kill()
        wheel.clear()
        stage.start(MOVES)

    stage.start(MOVES)
    is_now("active")
    assert change(stage, label="deactivate")
    crash()
    is_now("inactive", "made inactive by order; `brain start mirror` begins it")
    assert change(stage, label="cleanup")
    crash()
    is_now("unconfigured", "made unconfigured by order")
    assert change(stage, label="configure") and change(stage, label="activate")
    stage.until(lambda: wheel)
    crash()
    is_now("active")
    assert change(stage, label="shutdown")
    stage.pause(0.5)
    assert wheel[-1].confidence == 0.0 and stage.ended() is None and state(stage) == "finalized"
    crash()
    is_now("finalized", "ended by order; `brain start mirror` begins it")
    assert not change(stage, label="activate")
    # No step, that is. By DDS the last word of a process before may come seconds after it was said: it meets readers
    # that do not know its writer yet, and is sent again with the writer's next heartbeat.
    assert not any(one.confidence for one in wheel)
    assert change(stage, label="configure")     # it begins in the same process, and activates itself
    is_now("active")
    stage.until(lambda: wheel and wheel[-1].confidence == 1.0)
    crash()
    is_now("active")
    stage.end()


@on_a_wire
def test_an_emergency_stop_outlives_a_crash_without_a_folder_of_snapshots(stage, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv(keeper.VARIABLE, keeper.mark())
    told = stage.hear("estop/status", "std_msgs/msg/Bool", LATCHED)
    stage.start("brain_regions.brainstem:Brainstem")
    stage.until(lambda: told and not told[-1].data)
    stage.say("estop", make("std_msgs/msg/Bool", data=True), FEATURE)   # nothing latched that would press it again
    stage.until(lambda: told[-1].data)
    stage.kill()
    told.clear()
    stage.start("brain_regions.brainstem:Brainstem")
    stage.until(lambda: told)
    assert all(one.data for one in told)


@on_a_wire
def test_another_publisher_of_what_it_alone_may_publish_is_told_of(stage):
    beats = stage.hear("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
    stage.start(MOVES)
    stage.until(lambda: beats and beats[-1].state == Heartbeat.STATE_ACTIVE)
    stage.pause(1.2)
    assert not beats[-1].reason
    stage.say("wheel", make(FEATURES), FEATURE)
    stage.until(lambda: "/stage also publishes /wheel" in beats[-1].reason)
    assert "also publishes /wheel" in stage.log()
