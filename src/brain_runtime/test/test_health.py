# SPDX-License-Identifier: Apache-2.0
"""When a process counts as hung or stuck, on counted time: no clock takes part."""
from brain_runtime.run.health import Health, Limits
from brain_runtime.contract.heartbeat import ACTIVE, ERROR, FINALIZED, INACTIVE, TYPE, UNCONFIGURED
from brain_wire import messages

LIMITS = Limits(start=30.0, silence=1.5, silence_without_token=0.7, step=3.0, first_step=20.0, error=3.0)


def beat(step=1, *, state=ACTIVE, stepping=False, ages=None, reason=""):
    ages = ages or {}
    return messages.make(TYPE, name="/a", step=step, state=state, stepping=stepping, reason=reason,
                         inputs=list(ages), input_ages=list(ages.values()))


def after(health, seconds, beats=None, period=0.1):
    """First complaint within ``seconds``, with the time (s) at which it came, or (None, seconds)."""
    for n in range(round(seconds / period)):
        if beats is not None:
            health.beat(beats(n))
        wrong = health.elapse(period)
        if wrong:
            return wrong, (n + 1) * period
    return None, seconds


def test_beating_with_progress_is_well():
    health = Health(LIMITS, rate=10.0)
    assert after(health, 60.0, lambda n: beat(n)) == (None, 60.0)


def test_no_first_heartbeat():
    wrong, when = after(Health(LIMITS), 40.0)
    assert "no heartbeat within 30 s" in wrong and 30.0 <= when < 30.3


def test_silence_is_a_hang_and_comes_sooner_without_a_token():
    health = Health(LIMITS)
    health.beat(beat())
    wrong, when = after(health, 5.0)
    assert "hung" in wrong and 1.5 <= when < 1.8
    health = Health(LIMITS)
    health.beat(beat())
    health.token = False
    wrong, when = after(health, 5.0)
    assert "token" in wrong and 0.7 <= when < 1.0


def test_what_is_being_configured_may_take_as_long_as_a_start():
    for state in (UNCONFIGURED, FINALIZED):     # one that was ended by order is begun again as another node
        health = Health(LIMITS)
        health.beat(beat(state=state))
        health.token = False
        wrong, when = after(health, 40.0)
        assert "no heartbeat for 30 s" in wrong and 30.0 <= when < 30.3


def test_silence_is_forgiven_while_nobody_can_be_heard():
    health = Health(LIMITS)
    health.beat(beat())
    for _ in range(100):
        health.forgive()
        assert health.elapse(0.1) is None


def test_one_long_step_is_stuck_but_many_short_ones_are_not():
    health = Health(LIMITS)
    wrong, when = after(health, 10.0, lambda n: beat(7, stepping=True))
    assert "stuck: step 8" in wrong and 3.0 <= when < 3.3
    assert after(Health(LIMITS), 10.0, lambda n: beat(n, stepping=True))[0] is None


def test_the_first_step_may_take_longer():
    wrong, when = after(Health(LIMITS), 30.0, lambda n: beat(0, stepping=True))
    assert "stuck: step 1" in wrong and 20.0 <= when < 20.3


def test_no_steps_is_stuck_only_where_there_is_something_to_do():
    idle = Health(LIMITS, triggers=("camera/image_raw",))
    assert after(idle, 30.0, lambda n: beat(5, ages={"camera/image_raw": float(n)}))[0] is None
    fed = Health(LIMITS, triggers=("camera/image_raw",))
    wrong, _ = after(fed, 30.0, lambda n: beat(5, ages={"camera/image_raw": 0.05}))
    assert "stuck: no step" in wrong
    ticking = Health(LIMITS, rate=0.5)
    wrong, when = after(ticking, 30.0, lambda n: beat(5))
    assert "stuck: no step" in wrong and when >= 5.0
    assert after(Health(LIMITS, rate=50.0), 30.0, lambda n: beat(5, state=INACTIVE))[0] is None


def test_error_state_that_stays():
    wrong, when = after(Health(LIMITS), 30.0, lambda n: beat(5, state=ERROR, reason="no weights"))
    assert "no weights" in wrong and 3.0 <= when < 3.3
