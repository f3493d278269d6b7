# SPDX-License-Identifier: Apache-2.0
# Made by `python -m brain_tests.stubs` from the definitions of brain_interfaces; a test compares.
# ruff: noqa: A002 (a field is called as it is)
from typing import ClassVar, Final, type_check_only

import numpy as np
from numpy.typing import NDArray

from brain_wire.messages import Message

class Choice(Message):
    __msgtype__: ClassVar[str]
    header: Header
    goal_id: int
    probability: NDArray[np.float32]
    entropy: float
    alpha: float
    temperature: float
    threshold: float
    actions: NDArray[np.float32]
    def __init__(self, header: Header = ..., goal_id: int = ...,
                 probability: NDArray[np.float32] = ..., entropy: float = ..., alpha: float = ...,
                 temperature: float = ..., threshold: float = ..., actions: NDArray[np.float32] = ...) -> None: ...

class Control(Message):
    __msgtype__: ClassVar[str]
    MODE_IDLE: Final = 0
    MODE_SEARCH: Final = 1
    MODE_APPROACH: Final = 2
    MODE_STOP: Final = 3
    MODE_AVOID: Final = 4
    header: Header
    origins: list[Origin]
    goal_id: int
    mode: int
    target_color: int
    target_shape: int
    confidence: float
    bearing: float
    distance: float
    heading: float
    speed: float
    hazard: NDArray[np.float32]
    avoid_bearing: NDArray[np.float32]
    avoid_distance: NDArray[np.float32]
    def __init__(self, header: Header = ..., origins: list[Origin] = ..., goal_id: int = ...,
                 mode: int = ..., target_color: int = ..., target_shape: int = ...,
                 confidence: float = ..., bearing: float = ..., distance: float = ...,
                 heading: float = ..., speed: float = ..., hazard: NDArray[np.float32] = ...,
                 avoid_bearing: NDArray[np.float32] = ..., avoid_distance: NDArray[np.float32] = ...) -> None: ...

class DetectedObject(Message):
    __msgtype__: ClassVar[str]
    COLOR_UNKNOWN: Final = 0
    COLOR_RED: Final = 1
    COLOR_GREEN: Final = 2
    COLOR_BLUE: Final = 3
    COLOR_YELLOW: Final = 4
    SHAPE_UNKNOWN: Final = 0
    SHAPE_BALL: Final = 1
    SHAPE_BOX: Final = 2
    SHAPE_CYLINDER: Final = 3
    color: int
    shape: int
    confidence: float
    bearing: float
    distance: float
    width: float
    def __init__(self, color: int = ..., shape: int = ..., confidence: float = ...,
                 bearing: float = ..., distance: float = ..., width: float = ...) -> None: ...

class DetectedObjects(Message):
    __msgtype__: ClassVar[str]
    header: Header
    origins: list[Origin]
    source: str
    azimuth_min: float
    azimuth_max: float
    objects: list[DetectedObject]
    def __init__(self, header: Header = ..., origins: list[Origin] = ..., source: str = ...,
                 azimuth_min: float = ..., azimuth_max: float = ...,
                 objects: list[DetectedObject] = ...) -> None: ...

class Encoded(Message):
    __msgtype__: ClassVar[str]
    header: Header
    origins: list[Origin]
    source: str
    codec: str
    data: NDArray[np.uint8]
    def __init__(self, header: Header = ..., origins: list[Origin] = ..., source: str = ...,
                 codec: str = ..., data: NDArray[np.uint8] = ...) -> None: ...

class GoalStatus(Message):
    __msgtype__: ClassVar[str]
    STATE_IDLE: Final = 0
    STATE_SEARCHING: Final = 1
    STATE_APPROACHING: Final = 2
    STATE_REACHED: Final = 3
    STATE_NOT_FOUND: Final = 4
    STATE_NOT_UNDERSTOOD: Final = 5
    STATE_STOPPED: Final = 6
    STATE_WAITING: Final = 7
    STATE_WRONG: Final = 8
    CAUSE_NONE: Final = 0
    CAUSE_COVERED: Final = 1
    CAUSE_PATIENCE: Final = 2
    header: Header
    goal_id: int
    text: str
    state: int
    cause: int
    reason: str
    def __init__(self, header: Header = ..., goal_id: int = ..., text: str = ..., state: int = ...,
                 cause: int = ..., reason: str = ...) -> None: ...

class HeadingValues(Message):
    __msgtype__: ClassVar[str]
    header: Header
    origins: list[Origin]
    source: str
    value: NDArray[np.float32]
    heading: NDArray[np.float32]
    def __init__(self, header: Header = ..., origins: list[Origin] = ..., source: str = ...,
                 value: NDArray[np.float32] = ..., heading: NDArray[np.float32] = ...) -> None: ...

class Heartbeat(Message):
    __msgtype__: ClassVar[str]
    STATE_UNCONFIGURED: Final = 0
    STATE_INACTIVE: Final = 1
    STATE_ACTIVE: Final = 2
    STATE_FINALIZED: Final = 3
    STATE_ERROR: Final = 4
    header: Header
    name: str
    hostname: str
    host: str
    pid: int
    epoch: int
    state: int
    critical: bool
    careful: bool
    restarts: int
    step: int
    step_age: float
    stepping: bool
    rate: float
    step_p50: float
    step_p99: float
    spikes_per_second: float
    synops_per_second: float
    weights: str
    inputs: list[str]
    input_ages: NDArray[np.float32]
    reason: str
    def __init__(self, header: Header = ..., name: str = ..., hostname: str = ..., host: str = ...,
                 pid: int = ..., epoch: int = ..., state: int = ..., critical: bool = ...,
                 careful: bool = ..., restarts: int = ..., step: int = ..., step_age: float = ...,
                 stepping: bool = ..., rate: float = ..., step_p50: float = ..., step_p99: float = ...,
                 spikes_per_second: float = ..., synops_per_second: float = ..., weights: str = ...,
                 inputs: list[str] = ..., input_ages: NDArray[np.float32] = ..., reason: str = ...) -> None: ...

class LanguageFeatures(Message):
    __msgtype__: ClassVar[str]
    VERB_NONE: Final = 0
    VERB_GO: Final = 1
    VERB_FIND: Final = 2
    VERB_STOP: Final = 3
    header: Header
    origins: list[Origin]
    goal_id: int
    text: str
    understood: bool
    verb: int
    target_color: int
    target_shape: int
    avoid_color: int
    avoid_shape: int
    confidence: float
    reason: str
    embedding: NDArray[np.float32]
    def __init__(self, header: Header = ..., origins: list[Origin] = ..., goal_id: int = ...,
                 text: str = ..., understood: bool = ..., verb: int = ..., target_color: int = ...,
                 target_shape: int = ..., avoid_color: int = ..., avoid_shape: int = ...,
                 confidence: float = ..., reason: str = ..., embedding: NDArray[np.float32] = ...) -> None: ...

class MotorCommand(Message):
    __msgtype__: ClassVar[str]
    header: Header
    origins: list[Origin]
    twist: Twist
    def __init__(self, header: Header = ..., origins: list[Origin] = ..., twist: Twist = ...) -> None: ...

class MotorStatus(Message):
    __msgtype__: ClassVar[str]
    STATE_STANDING: Final = 0
    STATE_MOVING: Final = 1
    STATE_ARRIVED: Final = 2
    STATE_BLOCKED: Final = 3
    header: Header
    origins: list[Origin]
    goal_id: int
    state: int
    linear: float
    angular: float
    clearance: float
    reason: str
    def __init__(self, header: Header = ..., origins: list[Origin] = ..., goal_id: int = ...,
                 state: int = ..., linear: float = ..., angular: float = ..., clearance: float = ...,
                 reason: str = ...) -> None: ...

class Origin(Message):
    __msgtype__: ClassVar[str]
    source: str
    stamp: Time
    def __init__(self, source: str = ..., stamp: Time = ...) -> None: ...

class SensorFeatures(Message):
    __msgtype__: ClassVar[str]
    header: Header
    origins: list[Origin]
    source: str
    modality: str
    confidence: float
    hazard: NDArray[np.float32]
    novelty: NDArray[np.float32]
    def __init__(self, header: Header = ..., origins: list[Origin] = ..., source: str = ...,
                 modality: str = ..., confidence: float = ..., hazard: NDArray[np.float32] = ...,
                 novelty: NDArray[np.float32] = ...) -> None: ...

class SpikeTrain(Message):
    __msgtype__: ClassVar[str]
    header: Header
    population: str
    size: int
    bin_width: float
    total: int
    neuron: NDArray[np.uint32]
    bin: NDArray[np.uint16]
    def __init__(self, header: Header = ..., population: str = ..., size: int = ...,
                 bin_width: float = ..., total: int = ..., neuron: NDArray[np.uint32] = ...,
                 bin: NDArray[np.uint16] = ...) -> None: ...

class Tensor(Message):
    __msgtype__: ClassVar[str]
    DTYPE_BOOL: Final = 0
    DTYPE_UINT8: Final = 1
    DTYPE_INT8: Final = 2
    DTYPE_UINT16: Final = 3
    DTYPE_INT16: Final = 4
    DTYPE_UINT32: Final = 5
    DTYPE_INT32: Final = 6
    DTYPE_UINT64: Final = 7
    DTYPE_INT64: Final = 8
    DTYPE_FLOAT16: Final = 9
    DTYPE_FLOAT32: Final = 10
    DTYPE_FLOAT64: Final = 11
    DTYPE_BFLOAT16: Final = 12
    DTYPE_COMPLEX64: Final = 13
    DTYPE_COMPLEX128: Final = 14
    FORM_DENSE: Final = 0
    FORM_BITS: Final = 1
    FORM_SPARSE: Final = 2
    header: Header
    origins: list[Origin]
    source: str
    dtype: int
    form: int
    shape: NDArray[np.uint32]
    index: NDArray[np.uint32]
    data: NDArray[np.uint8]
    def __init__(self, header: Header = ..., origins: list[Origin] = ..., source: str = ...,
                 dtype: int = ..., form: int = ..., shape: NDArray[np.uint32] = ...,
                 index: NDArray[np.uint32] = ..., data: NDArray[np.uint8] = ...) -> None: ...

class Trace(Message):
    __msgtype__: ClassVar[str]
    ACTION_PASSED: Final = 0
    ACTION_LIMITED: Final = 1
    ACTION_REFLEX: Final = 2
    ACTION_STALE: Final = 3
    ACTION_ESTOP: Final = 4
    ACTION_REFUSED: Final = 5
    header: Header
    origins: list[Origin]
    latency: float
    action: int
    wanted_linear: float
    wanted_angular: float
    linear: float
    angular: float
    reason: str
    def __init__(self, header: Header = ..., origins: list[Origin] = ..., latency: float = ...,
                 action: int = ..., wanted_linear: float = ..., wanted_angular: float = ...,
                 linear: float = ..., angular: float = ..., reason: str = ...) -> None: ...

class Seek:
    class Goal(Message):
        __msgtype__: ClassVar[str]
        text: str
        def __init__(self, text: str = ...) -> None: ...

    class Result(Message):
        __msgtype__: ClassVar[str]
        OUTCOME_REACHED: Final = 3
        OUTCOME_NOT_FOUND: Final = 4
        OUTCOME_NOT_UNDERSTOOD: Final = 5
        OUTCOME_STOPPED: Final = 6
        OUTCOME_WRONG: Final = 8
        OUTCOME_REPLACED: Final = 9
        OUTCOME_UNANSWERED: Final = 10
        outcome: int
        cause: int
        reason: str
        duration: float
        def __init__(self, outcome: int = ..., cause: int = ..., reason: str = ..., duration: float = ...) -> None: ...

    class Feedback(Message):
        __msgtype__: ClassVar[str]
        state: int
        reason: str
        seen: str
        distance: float
        bearing: float
        def __init__(self, state: int = ..., reason: str = ..., seen: str = ..., distance: float = ...,
                     bearing: float = ...) -> None: ...

@type_check_only
class Time(Message):
    __msgtype__: ClassVar[str]
    sec: int
    nanosec: int
    def __init__(self, sec: int = ..., nanosec: int = ...) -> None: ...

@type_check_only
class Twist(Message):
    __msgtype__: ClassVar[str]
    linear: Vector3
    angular: Vector3
    def __init__(self, linear: Vector3 = ..., angular: Vector3 = ...) -> None: ...

@type_check_only
class Vector3(Message):
    __msgtype__: ClassVar[str]
    x: float
    y: float
    z: float
    def __init__(self, x: float = ..., y: float = ..., z: float = ...) -> None: ...

@type_check_only
class Header(Message):
    __msgtype__: ClassVar[str]
    stamp: Time
    frame_id: str
    def __init__(self, stamp: Time = ..., frame_id: str = ...) -> None: ...
