# SPDX-License-Identifier: Apache-2.0
"""Names on the wire as rmw_zenoh_cpp writes them: data keys, liveliness tokens, the QoS field, global ids.

A topic's samples travel on the *data key* ``<domain>/<name>/<dds type>/<type hash>``; another hash is another key, so
two versions of a message do not meet. A *liveliness token* announces a node or one of its publishers and
subscriptions, and disappears with the session that declared it: together the tokens are the ROS graph.
"""
from __future__ import annotations

import os
import re
from dataclasses import dataclass

from brain_wire import messages
from brain_wire.qos import QoS
from brain_wire.safe_text import quoted

TOKEN_SPACE = "@ros2_lv"

NODE = "NN"
PUBLISHER = "MP"
SUBSCRIPTION = "MS"
SERVER = "SS"
CLIENT = "SC"
_KINDS = (NODE, PUBLISHER, SUBSCRIPTION, SERVER, CLIENT)

# What an empty item of the QoS field stands for: rmw_zenoh's default profile.
DEFAULT_DEPTH = 42
_RELIABLE, _BEST_EFFORT, _BEST_AVAILABLE = "1", "2", "4"
_TRANSIENT_LOCAL, _VOLATILE = "1", "2"

# What tokens may hold. Anybody can declare one, so nothing of it is believed, nor kept, that is longer.
MAX_TOKEN = 4096        # characters; names in ROS 2 have at most 255, types and security enclaves less
MAX_DIGITS = 20         # of a number of 64 bits
MOST_DEPTH = 2**31 - 1  # messages; a greater depth of a QoS counts as this one

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"(?:/[A-Za-z_][A-Za-z0-9_]*)+")     # absolute, and not the root
_HEX = re.compile(r"[0-9a-f]{1,32}")
_NUMBER = re.compile(r"[0-9]{1,%d}" % MAX_DIGITS)


class NameProblem(ValueError):
    """A name that ROS 2 does not allow, or a token that is none; says which, and what is allowed."""


def domain_id() -> int:
    """``ROS_DOMAIN_ID`` of the environment, 0 where it is not set.

    Raises:
        NameProblem: it is not a whole number of at least 0.
    """
    text = os.environ.get("ROS_DOMAIN_ID", "").strip() or "0"
    if not _NUMBER.fullmatch(text):
        raise NameProblem(f"ROS_DOMAIN_ID is {quoted(text)}; it must be a whole number of at least 0")
    return int(text)


def check_name(name: str, what: str) -> str:
    """``name`` if it is one word as ROS 2 allows it.

    Raises:
        NameProblem: it is not.
    """
    if not _WORD.fullmatch(name):
        raise NameProblem(f"{what} {quoted(name)} must consist of letters, digits and _, and not begin with a digit")
    return name


def absolute(name: str) -> str:
    """An absolute name (``/r1``; ``/`` for the root) from a namespace written with or without slashes around it.

    Raises:
        NameProblem: a part of it is not a ROS 2 name.
    """
    parts = [part for part in name.strip("/").split("/") if name.strip("/")]
    for part in parts:
        check_name(part, f"part of the name {quoted(name)}:")
    return "/" + "/".join(parts)


def expand(name: str, namespace: str, node: str) -> str:
    """Fully qualified name of a topic: ``name`` as it is if absolute, else below ``namespace``; ``~`` is the node.

    Raises:
        NameProblem: it is not a ROS 2 name.
    """
    if not name or name.endswith("/") or "//" in name:
        raise NameProblem(f"topic {quoted(name)} must be a name such as vision/objects, without empty parts")
    if name == "~" or name.startswith("~/"):
        name = f"{namespace.rstrip('/')}/{node}{name[1:]}"
    elif not name.startswith("/"):
        name = f"{namespace.rstrip('/')}/{name}"
    return absolute(name)


def data_key(domain: int, topic: str, type_name: str) -> str:
    """Key expression of a topic's samples.

    Args:
        domain: ROS domain.
        topic: fully qualified name (``/r1/chatter``).
        type_name: ``package/msg/Type``.
    """
    return f"{domain}/{topic.strip('/')}/{messages.dds_type(type_name)}/{messages.type_hash(type_name)}"


def ros_type(dds_type: str) -> str:
    """``package/msg/Type`` of a type's name on the wire; other text is returned as it is."""
    package, _, rest = dds_type.partition("::")
    kind, _, leaf = rest.partition("::dds_::")
    return f"{package}/{kind}/{leaf[:-1]}" if leaf.endswith("_") and kind else dds_type


def encode_qos(qos: QoS) -> str:
    """QoS field of a token: items equal to rmw_zenoh's default (reliable, volatile, depth 42) are left empty."""
    reliability = "" if qos.reliable else _BEST_EFFORT
    durability = _TRANSIENT_LOCAL if qos.latched else ""
    depth = "" if qos.depth == DEFAULT_DEPTH else str(qos.depth)
    return f"{reliability}:{durability}:,{depth}:,:,:,,"


def decode_qos(field: str) -> QoS:
    """QoS of a token's field. Deadline, lifespan and liveliness are read over; "best available" counts as reliable.

    Raises:
        NameProblem: it is no QoS field.
    """
    items = field.split(":")
    if len(items) < 6:
        raise NameProblem(f"QoS {quoted(field)} of a liveliness token must have six items")
    reliability, durability = items[0] or _RELIABLE, items[1] or _VOLATILE
    depth = items[2].partition(",")[2] or str(DEFAULT_DEPTH)
    if reliability not in (_RELIABLE, _BEST_EFFORT, _BEST_AVAILABLE) \
            or durability not in (_TRANSIENT_LOCAL, _VOLATILE, _BEST_AVAILABLE) or not _NUMBER.fullmatch(depth):
        raise NameProblem(f"QoS {quoted(field)} of a liveliness token holds an unknown value")
    return QoS(reliable=reliability != _BEST_EFFORT, latched=durability == _TRANSIENT_LOCAL,
               depth=min(max(1, int(depth)), MOST_DEPTH))


def mangle(name: str) -> str:
    """A name as one chunk of a token: every ``/`` becomes ``%``."""
    return name.replace("/", "%")


def demangle(chunk: str) -> str:
    """The name that :func:`mangle` was given."""
    return chunk.replace("%", "/")


@dataclass(frozen=True)
class Endpoint:
    """A node, or a publisher or subscription (or service) of one, as its liveliness token tells it.

    Attributes:
        domain: ROS domain.
        zid: id of the Zenoh session, lower-case hex.
        nid: number of the node within its session.
        id: number of this within its session; equals ``nid`` for a node.
        kind: NODE, PUBLISHER, SUBSCRIPTION, SERVER or CLIENT.
        namespace: absolute namespace of the node.
        node: its name.
        topic: fully qualified topic or service; empty for a node.
        dds_type: type as on the wire; empty for a node.
        type_hash: RIHS01 hash; empty for a node.
        qos: None for a node.
        enclave: security enclave.
    """

    domain: int
    zid: str
    nid: int
    id: int
    kind: str
    namespace: str
    node: str
    topic: str = ""
    dds_type: str = ""
    type_hash: str = ""
    qos: QoS | None = None
    enclave: str = "/"

    @property
    def name(self) -> str:
        """Fully qualified name of the node."""
        return f"{self.namespace.rstrip('/')}/{self.node}"

    @property
    def type(self) -> str:
        """``package/msg/Type``; empty for a node."""
        return ros_type(self.dds_type)

    @property
    def owner(self) -> tuple[str, int]:
        """Identity of the node among all: session and number."""
        return self.zid, self.nid

    def token(self) -> str:
        """Key expression of the liveliness token."""
        chunks = [TOKEN_SPACE, str(self.domain), self.zid, str(self.nid), str(self.id), self.kind,
                  mangle(self.enclave), mangle(self.namespace), self.node]
        if self.kind != NODE:
            assert self.qos is not None, f"{self.kind} {self.topic} needs a QoS"
            chunks += [mangle(self.topic), mangle(self.dds_type), mangle(self.type_hash), encode_qos(self.qos)]
        return "/".join(chunks)


def parse_token(token: str) -> Endpoint:
    """Parses a liveliness token. Chunks beyond the known ones are read over: newer versions append some.

    Raises:
        NameProblem: it is no such token.
    """
    if len(token) > MAX_TOKEN or not (token.isascii() and token.isprintable()):
        raise NameProblem(f"{quoted(token)} is not a liveliness token: it must be plain text of at most {MAX_TOKEN} "
                          f"characters")
    chunks = token.split("/")
    kind = chunks[5] if len(chunks) > 5 else ""
    needed = 9 if kind == NODE else 13
    if chunks[0] != TOKEN_SPACE or kind not in _KINDS or len(chunks) < needed or not all(chunks[:needed]):
        raise NameProblem(f"{quoted(token)} is not a liveliness token of a ROS 2 node, publisher or subscription")
    domain, zid, nid, number = chunks[1:5]
    if not (all(map(_NUMBER.fullmatch, (domain, nid, number))) and _HEX.fullmatch(zid)):
        raise NameProblem(f"{quoted(token)} must hold a domain, a session id and two numbers")
    enclave, namespace, node = demangle(chunks[6]), demangle(chunks[7]), demangle(chunks[8])
    if not _WORD.fullmatch(node) or not (namespace == "/" or _NAME.fullmatch(namespace)):
        raise NameProblem(f"{quoted(token)} must name a node as ROS 2 allows it")
    if kind == NODE:
        return Endpoint(int(domain), zid, int(nid), int(number), kind, namespace, node, enclave=enclave)
    topic = demangle(chunks[9])
    if not _NAME.fullmatch(topic):
        raise NameProblem(f"{quoted(token)} must name a topic as ROS 2 allows it")
    return Endpoint(int(domain), zid, int(nid), int(number), kind, namespace, node, topic,
                    demangle(chunks[10]), demangle(chunks[11]), decode_qos(chunks[12]), enclave)


def gid(token: str) -> bytes:
    """Global id (16 bytes) of a publisher or subscription: XXH3-128 of its token, low half first, little endian."""
    import xxhash  # who only checks names needs none

    digest = xxhash.xxh3_128_intdigest(token.encode("utf-8", "surrogatepass"))
    return (digest & (2**64 - 1)).to_bytes(8, "little") + (digest >> 64).to_bytes(8, "little")
