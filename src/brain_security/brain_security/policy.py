# SPDX-License-Identifier: Apache-2.0
"""The SROS2 policy of a brain: the same rights as XML, in version 0.2.0 of sros2's schema.

Names are written in full, since zenoh_security_tools does not put a namespace in front of them, and nothing is denied
by name, since it takes a denied publication for an allowed one: what is not allowed is denied anyway.
"""
from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Iterable

from brain_security.rights import Rights

VERSION = "0.2.0"


def policy_xml(rights: Iterable[Rights], single_enclave: bool = False) -> str:
    """The policy.

    Args:
        rights: one profile for each.
        single_enclave: all profiles in the enclave ``/``, of which zenoh_security_tools reads the first alone; else an
            enclave for each node, named as the node, so that each gets a key of its own.
    """
    policy = ElementTree.Element("policy", version=VERSION)
    enclaves = ElementTree.SubElement(policy, "enclaves")
    profiles = None
    for one in rights:
        if profiles is None or not single_enclave:
            enclave = ElementTree.SubElement(enclaves, "enclave", path="/" if single_enclave else one.name)
            profiles = ElementTree.SubElement(enclave, "profiles")
        _profile(profiles, one)
    ElementTree.indent(policy)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(policy, encoding="unicode") + "\n"


def _profile(profiles: ElementTree.Element, rights: Rights) -> None:
    profile = ElementTree.SubElement(profiles, "profile", ns=rights.namespace, node=rights.node)
    # Actions stand twice: by name, for ros2 security, and as what they consist of, for zenoh_security_tools.
    for tag, qualifier, names in (
            ("topic", "publish", rights.topics_out()), ("topic", "subscribe", rights.topics_in()),
            ("service", "reply", rights.services_served()), ("service", "request", rights.services_called()),
            ("action", "execute", rights.executes), ("action", "call", rights.commands)):
        if names:
            group = ElementTree.SubElement(profile, f"{tag}s", {qualifier: "ALLOW"})
            for name in sorted(names):
                ElementTree.SubElement(group, tag).text = name
