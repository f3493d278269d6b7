# SPDX-License-Identifier: Apache-2.0
"""Messages and their CDR bytes: every known type against rosbags' codec, in both byte orders; bytes that are broken."""
import functools
import random

import numpy as np
import pytest
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from brain_runtime import interfaces
from brain_wire import cdr, definitions, messages
from brain_wire.definitions import DefinitionError, Nodetype, parse
from brain_wire.messages import MessageError, make
from brain_wire.type_descriptions import description


def other_store():
    """Another library's types: the standard ones, and ours as it reads them."""
    store = get_typestore(Stores.ROS2_KILTED)
    for path in (interfaces.definitions() / "msg").glob("*.msg"):
        store.register(get_types_from_msg(path.read_text(encoding="utf-8"), f"brain_interfaces/msg/{path.stem}"))
    return store


STORE = other_store()
TYPES = sorted(STORE.fielddefs)
OBJECTS, OBJECT = "brain_interfaces/msg/DetectedObjects", "brain_interfaces/msg/DetectedObject"


def random_value(definition, draw):
    """A value of a field: any number, text of several scripts, sequences of 0 to 4 elements."""
    kind, detail = definition
    if kind == Nodetype.NAME:
        return random_message(detail, draw)
    if kind == Nodetype.BASE:
        base, bound = detail
        if base == "string":
            return "".join(draw.choice("aé日 z") for _ in range(draw.randrange(0, min(9, (bound or 99) // 3 + 1))))
        return random_array(base, 1, draw)[0].item()
    element, count = detail
    length = count if kind == Nodetype.ARRAY else draw.randrange(0, min(count or 4, 4) + 1)
    if element[0] == Nodetype.BASE and element[1][0] != "string":
        return random_array(element[1][0], length, draw)
    return [random_value(element, draw) for _ in range(length)]


def random_array(base, length, draw):
    dtype = np.dtype(cdr.FORMATS[base])
    if dtype.kind == "b":
        return np.array([draw.getrandbits(1) for _ in range(length)], dtype)
    if dtype.kind == "f":
        return np.array([draw.uniform(-1e3, 1e3) for _ in range(length)], dtype)
    return np.frombuffer(draw.randbytes(length * dtype.itemsize), dtype)


def random_message(name, draw):
    return messages.message_class(name)(*[random_value(d, draw) for _, d in STORE.fielddefs[name][1]])


def same(a, b):
    """Whether two values are equal in type and content."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "__msgtype__"):
        return type(a) is type(b) and all(same(getattr(a, f), getattr(b, f)) for f in a.__dataclass_fields__
                                          if f != "__msgtype__")
    return type(a) is type(b) and a == b


def of_all(names):
    """Makes one test of a check of one type: it checks every type of the list, and tells of each that is wrong."""
    def over(check):
        @functools.wraps(check)
        def test():
            wrong = {}
            for name in names:
                try:
                    check(name)
                except (Exception, pytest.fail.Exception) as error:     # whatever a check of one type meets
                    wrong[name] = f"{type(error).__name__}: {error}"
            assert names and not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())
        del test.__wrapped__    # pytest would ask for what the check takes
        return test
    return over


@of_all(TYPES)
def test_definitions_and_hashes_are_those_of_another_reader(name):
    constants, fields = STORE.fielddefs[name]
    assert messages.message_class(name).__msgtype__ == name
    assert all(getattr(messages.message_class(name), constant) == value for constant, _, value in constants)
    if name != "service_msgs/msg/ServiceEventInfo":     # whose char is uint8 to rosidl since Jazzy
        assert messages.fields_of(name) == fields
        assert messages.type_hash(name) == STORE.hash_rihs01(name)


def test_all_types_of_another_reader_are_known():
    assert set(TYPES) <= set(messages.type_names())


EVERY_KIND = """
# a comment, and an empty line

bool flag true
string<=8 short "not # a comment"   # but this is
string[<=3] names ["a", "b"]
string<=4[] bounded
Own[2] own          # of this package
std_msgs/Header header
geometry_msgs/msg/Point[<=7] points
float64[9] k
uint8[] data [1, 2]
int32 WIDE=-0x10
float32 HALF = 0.5  # m
string WORD='a # b'
string BARE=bare # not this
"""


def test_a_definition_is_read_as_another_reader_does():
    name = "somebodys_msgs/msg/Every"
    (constants, fields) = get_types_from_msg(EVERY_KIND.replace("-0x10", "-16"), name)[name]
    found = parse(EVERY_KIND, name)
    assert found.fields == fields
    assert [(c, kind) for c, kind, _ in found.constants] == [(c, kind) for c, kind, _ in constants]
    assert [value for _, _, value in found.constants] == [-16, 0.5, "a # b", "bare"]


WIDE = "wide_msgs/msg/WStrings"
WIDE_TEXT = """
wstring WORD = "a # b"
wstring text
wstring<=4 short
int64 between
wstring[] more
wstring<=3[2] two
"""


@pytest.fixture
def wide(tmp_path):
    """A type with texts of UTF-16, as a package of somebody's defines it."""
    (tmp_path / "msg").mkdir()
    (tmp_path / "msg" / "WStrings.msg").write_text(WIDE_TEXT)
    messages.register("wide_msgs", tmp_path)
    yield make(WIDE, text="r\u00f6t \u9752 \U0001f600", short="abc", between=7, more=["", "z"], two=["x", "yz"])
    del definitions._folders["wide_msgs"]


def test_texts_of_utf_16_are_sent_as_ros_does_each_unit_as_a_number_of_its_own(wide):
    data = messages.encode(wide)
    units = np.frombuffer(wide.text.encode("utf-16-le"), "<u2")
    assert len(units) == len(wide.text) + 1     # one letter is two of them
    assert data[4:].startswith(len(units).to_bytes(4, "little") + units.astype("<u4").tobytes())
    assert same(messages.decode(data, WIDE), wide) and messages.message_class(WIDE).WORD == "a # b"
    other = np.frombuffer(messages.encode(make(WIDE, text="ab", two=["", ""]))[4:16], "<u4")
    swapped = bytes(4) + other.astype(">u4").tobytes() + bytes(60)
    assert messages.decode(swapped, WIDE, trailing=100).text == "ab"


def test_a_text_of_utf_16_is_described_by_the_numbers_that_ros_gives_it(wide):
    kind = messages.message_class("type_description_interfaces/msg/FieldType")
    assert [(f.type.type_id, f.type.string_capacity) for f in description(WIDE).type_description.fields] == [
        (kind.FIELD_TYPE_WSTRING, 0), (kind.FIELD_TYPE_BOUNDED_WSTRING, 4), (kind.FIELD_TYPE_INT64, 0),
        (kind.FIELD_TYPE_WSTRING_UNBOUNDED_SEQUENCE, 0), (kind.FIELD_TYPE_BOUNDED_WSTRING_ARRAY, 3)]
    narrow = parse(WIDE_TEXT.replace("wstring", "string"), WIDE).fields
    assert messages.type_hash(WIDE) != definitions.type_hash(WIDE, lambda name: narrow)


def test_a_text_of_utf_16_that_is_too_long_or_none_is_refused(wide):
    with pytest.raises(MessageError, match="5 units of text, but at most 4 fit"):
        make(WIDE, short="abcde")
    wide.short = "abcde"
    with pytest.raises(MessageError, match="5 units of text, but at most 4 fit"):
        messages.encode(wide)
    whole = messages.encode(make(WIDE, text="ab", two=["", ""]))
    for broken, says in ((whole[:8] + b"\0\0\1\0" + whole[12:], "no unit of UTF-16"),
                         (whole[:4] + b"\xff\xff\xff\x0f" + whole[8:], "an array without an end"),
                         (whole[:8] + b"\0\xd8\0\0" + whole[12:], WIDE)):
        with pytest.raises(MessageError, match=says):
            messages.decode(broken, WIDE)


@pytest.mark.parametrize("line", ["float32", "float32[<=] x", "float32[2 x", "int8<=3 x", "uint8 A=many",
                                  "bool B=maybe", "float32 9x", "float32 x=", "a/b/c/d[-1] x"])
def test_a_definition_that_does_not_read_so_is_refused_by_line(line):
    with pytest.raises(DefinitionError, match=r"x_msgs/msg/X, line 2: "):
        parse(f"uint8 fine\n{line}", "x_msgs/msg/X")


@of_all(TYPES)
def test_bytes_are_those_of_another_codec(name):
    draw = random.Random(name)
    for _ in range(20):
        message = random_message(name, draw)
        data = messages.encode(message)
        assert data == bytes(STORE.serialize_cdr(message, name))
        assert same(messages.decode(data, name), message)
        assert same(messages.decode(memoryview(data), name), message)       # as of what is read where it lies
        assert messages.encoder(name)(message, b"".join, 1) == data         # in parts, as what is shared
        assert same(messages.decode(bytes(STORE.serialize_cdr(message, name, little_endian=False)), name), message)


@of_all(TYPES)
def test_broken_bytes_are_refused_or_read_and_nothing_else(name):
    draw = random.Random(name)
    for _ in range(20):
        data = messages.encode(random_message(name, draw))
        with pytest.raises(MessageError):
            messages.decode(data + bytes(messages.TRAILING), name)
        short = data[:draw.randrange(0, max(len(data) - 3, 1))]
        if len(data) > 8:
            with pytest.raises(MessageError, match=name):
                messages.decode(short, name)
        # as serialize_message() leaves
        assert same(messages.decode(data + b"\x07" * 7, name), messages.decode(data, name))
        broken = bytearray(data)
        for _ in range(3):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        for kind in (bytes, memoryview):
            try:
                messages.decode(kind(broken), name)
            except MessageError as error:
                assert name in str(error)


@pytest.mark.parametrize("order", ["little", "big"])
def test_a_text_ends_with_a_zero(order):
    def told(*parts):
        return messages.decode(bytes([0, order == "little", 0, 0]) + b"".join(parts), "std_msgs/msg/String").data

    length = functools.partial(int.to_bytes, length=4, byteorder=order)
    assert (told(length(4), b"abc\0"), told(length(1), b"\0")) == ("abc", "")
    for parts in ((length(3), b"abc"), (length(4), b"abcd"), (length(4), b"abc\7\0"), (length(1), b"\1"), (length(0),),
                  (length(0), b"\0"), (length(5), b"abc\0"), (length(4), b"abc")):
        with pytest.raises(MessageError, match="a text without an end"):
            told(*parts)


def test_a_length_that_lies_costs_neither_time_nor_memory():
    for name in (OBJECTS, "sensor_msgs/msg/Image", "std_msgs/msg/String", "diagnostic_msgs/msg/DiagnosticArray"):
        data = bytearray(messages.encode(make(name)))
        for place in range(4, len(data) - 3):
            lie = data.copy()
            lie[place:place + 4] = b"\xff\xff\xff\x7f"
            try:
                messages.decode(lie, name)
            except MessageError as error:
                assert name in str(error)


def test_bounds_hold_both_ways():
    many = [make(OBJECT)] * 33
    with pytest.raises(MessageError, match="at most 32"):
        make(OBJECTS, objects=many)
    message = make(OBJECTS)
    message.objects = many
    with pytest.raises(MessageError, match="33 elements, but at most 32 fit"):
        messages.encode(message)
    data = messages.encode(make(OBJECTS, objects=many[:32]))
    place = data.index((32).to_bytes(4, "little"), 20)
    with pytest.raises(MessageError, match="33 elements, but at most 32 are allowed"):
        messages.decode(data[:place] + (33).to_bytes(4, "little") + data[place + 4:] + bytes(100), OBJECTS)
    assert len(messages.decode(data, OBJECTS).objects) == 32
    with pytest.raises(MessageError, match="a sequence without an end"):
        messages.decode(messages.encode(make("diagnostic_msgs/msg/DiagnosticArray"))[:-4] + (1).to_bytes(4, "little"),
                        "diagnostic_msgs/msg/DiagnosticArray")
    for kind in ("UInt8", "Float32", "Float64"):
        name = f"std_msgs/msg/{kind}MultiArray"
        with pytest.raises(MessageError, match="an array without an end"):
            messages.decode(messages.encode(make(name, data=[1, 2]))[:-1], name)
    odometry = make("nav_msgs/msg/Odometry")
    odometry.pose.covariance = np.zeros(35)
    with pytest.raises(MessageError, match="35 elements, but there must be 36"):
        messages.encode(odometry)
    with pytest.raises(MessageError, match="bytes of text"):
        make("brain_interfaces/msg/Origin", source="x" * 65)
    origin = make("brain_interfaces/msg/Origin", source="x" * 64)
    data = messages.encode(origin)
    assert messages.decode(data, "brain_interfaces/msg/Origin") == origin
    place = data.index((65).to_bytes(4, "little"))
    longer = data[:place] + (66).to_bytes(4, "little") + b"x" + data[place + 4:]
    with pytest.raises(MessageError, match="65 bytes of text, but at most 64 are allowed"):
        messages.decode(longer + bytes(20), "brain_interfaces/msg/Origin")
    origin.source = "x" * 65
    with pytest.raises(MessageError, match="65 bytes of text, but at most 64 fit"):
        messages.encode(origin)


@pytest.mark.parametrize("value", [[1.5], [300], [-1], np.array([300, 1]), np.array([0.5]), [float("nan")], None, "12",
                                   3, [1j], ["1"]])
def test_numbers_that_would_change_are_refused(value):
    image = make("sensor_msgs/msg/Image")
    image.data = value
    with pytest.raises(MessageError, match="sensor_msgs/msg/Image"):
        messages.encode(image)
    with pytest.raises(MessageError, match="sensor_msgs/msg/Image.data"):
        make("sensor_msgs/msg/Image", data=value)


@pytest.mark.parametrize("value", [[1, 2], b"\1\2", bytearray(b"\1\2"), memoryview(b"\1\2"), np.array([[1], [2]]),
                                   (1, 2), np.array([1, 2], np.int64), [np.uint8(1), True + 1]])
def test_numbers_that_stay_the_same_are_taken(value):
    image = make("sensor_msgs/msg/Image")
    image.data = value
    assert messages.encode(image) == messages.encode(make("sensor_msgs/msg/Image", data=value))
    assert messages.decode(messages.encode(image), "sensor_msgs/msg/Image").data.tolist() == [1, 2]


def test_what_does_not_fit_is_named():
    message = make("sensor_msgs/msg/LaserScan")
    message.ranges = "far"
    with pytest.raises(MessageError, match="sensor_msgs/msg/LaserScan"):
        messages.encode(message)
    with pytest.raises(MessageError, match="has no field size; it has header, height"):
        make("sensor_msgs/msg/Image", size=3)
    with pytest.raises(MessageError, match="there must be 9"):
        make("sensor_msgs/msg/CameraInfo", k=[1.0, 2.0])
    with pytest.raises(MessageError, match="unknown message type"):
        make("sensor_msgs/msg/Picture")


@of_all(TYPES)
def test_a_message_of_zeros_can_be_sent(name):
    message = make(name)
    assert same(messages.decode(messages.encode(message), name), message)


def test_messages_share_nothing_that_can_change():
    one, other = make(OBJECTS), make(OBJECTS)
    one.objects.append(make(OBJECT))
    one.header.frame_id = "map"
    assert other.objects == [] and other.header.frame_id == ""
    a, b = make("nav_msgs/msg/Odometry"), make("nav_msgs/msg/Odometry")
    a.pose.covariance[0] = 1.0
    assert b.pose.covariance[0] == 0.0


def test_arrays_of_wide_numbers_are_aligned():
    point = make("trajectory_msgs/msg/JointTrajectoryPoint", positions=[1.0])
    for name, read, fields in (("nav_msgs/msg/Odometry", lambda m: m.pose.covariance, {}),
                               ("sensor_msgs/msg/CameraInfo", lambda m: m.k, {}),
                               ("trajectory_msgs/msg/JointTrajectory", lambda m: m.points[0].positions,
                                {"points": [point]}),
                               ("sensor_msgs/msg/LaserScan", lambda m: m.ranges, {})):
        array = read(messages.decode(messages.encode(make(name, **fields)), name))
        assert array.flags.aligned, name


OWN = {"Odd": "int32 a\nint8 b", "Wide": "float64 a", "Wider": "int8 a\nfloat64 b", "Short": "int16 a",
       "All": "own_msgs/Odd[] odd\nint16 after_odd\nown_msgs/Wide[] wide\nfloat64 after_wide\nown_msgs/Wider[3] wider\n"
              "string text\nown_msgs/Short[2] shorts\n"
              "uint8[] bytes\nint32 after_bytes\nfloat64[] floats\nstring[] texts\nint64 last"}


def test_sequences_are_aligned_whatever_their_elements_end_with_and_however_many_there_are():
    own = other_store()
    for name, text in OWN.items():
        own.register(get_types_from_msg(text, f"own_msgs/msg/{name}"))
    fields = {f"own_msgs/msg/{name}": own.fielddefs[f"own_msgs/msg/{name}"][1] for name in OWN}
    name = "own_msgs/msg/All"

    def value(definition, draw):
        kind, detail = definition
        if kind == Nodetype.NAME:
            return own.types[detail](*[value(d, draw) for _, d in fields[detail]])
        if kind in (Nodetype.ARRAY, Nodetype.SEQUENCE) and detail[0][0] == Nodetype.NAME:
            return [value(detail[0], draw) for _ in range(detail[1] or draw.randrange(4))]
        return random_value(definition, draw)

    encode = cdr.encoder(fields[name], fields.get)
    orders = {order: cdr.decoder(own.types[name], fields[name], lambda of: (own.types[of], fields[of]), order)
              for order in "<>"}
    draw = random.Random(1)
    for _ in range(200):
        message = value((Nodetype.NAME, name), draw)
        data = bytes(own.serialize_cdr(message, name))
        assert encode(message) == data
        for order, decode in orders.items():
            read, end = decode(bytes(own.serialize_cdr(message, name, little_endian=order == "<")))
            assert same(read, message) and end == len(data)
