# SPDX-License-Identifier: Apache-2.0
"""Access control of Zenoh's router: rights as rules about keys, by the common name of the certificate.

Everything is refused that no rule allows. A rule must *include* the key of a message, so that a put on ``**`` is
refused too. ``ingress`` is what comes from the node, ``egress`` what the router sends it. Types and hashes are left
open (``*``): a topic belongs to a node whatever it carries.
"""
from __future__ import annotations

from typing import Any, Iterable, Mapping

from brain_security import fleet_keys
from brain_security.rights import MAINTAINS, MEMBER, OPERATES, Rights
from brain_wire import names
from brain_wire.credentials import ANY

INGRESS, EGRESS = "ingress", "egress"
WITHIN = "$*"       # what stands for any text within a chunk of a key
# Keys of zenoh-ext beside a latched topic's own; @adv is not matched by * or **.
ADV_PUBLISHER, ADV_SUBSCRIBER, ADV_ALL = "@adv/pub/*/*/_", "@adv/sub/*/*/_", "@adv/**"

# Keys of the zenoh backend of torch.distributed, whose ranks have people's certificates.
COLLECTIVES = "brain_collectives/**"


def data_keys(domain: int, topics: Iterable[str]) -> list[str]:
    """Keys of topics or services with any type and hash."""
    return sorted(f"{domain}/{topic.strip('/')}/*/*" for topic in topics)


def token_keys(domain: int, rights: Rights) -> list[str]:
    """Tokens of a node, or of any, and of the publishers, subscriptions and services that it may have.

    They may be from any session and enclave, with any type and QoS.
    """
    node = "*/*/*" if rights.any_node else f"*/{names.mangle(rights.namespace)}/{rights.node}"
    session = f"{names.TOKEN_SPACE}/{domain}/*/*/*"
    parts = ((names.PUBLISHER, rights.topics_out()), (names.SUBSCRIPTION, rights.topics_in()),
             (names.SERVER, rights.services_served()), (names.CLIENT, rights.services_called()))
    return [f"{session}/{names.NODE}/{node}", *(f"{session}/{kind}/{node}/{names.mangle(name).replace(ANY, WITHIN)}/**"
                                                for kind, allowed in parts for name in sorted(allowed))]


def access_control(rights: Iterable[Rights], domain: int, routers: Iterable[str],
                   common_names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Zenoh's ``access_control``.

    Args:
        rights: of all who may connect.
        domain: ROS domain in which they have them.
        routers: common names of routers, which trust each other: each watches over its own clients.
        common_names: of certificates, by node, where they are not the names of the nodes.
    """
    others = common_names or {}
    rights = list(rights)
    regions = [r.name for r in rights if not r.any_node and r.role != MEMBER]
    rules: list[dict[str, Any]] = []
    subjects = [{"id": "routers", "cert_common_names": sorted(routers)}]
    policies = [{"rules": ["routers"], "subjects": ["routers"]}]
    rules.append({"id": "routers", "permission": "allow", "flows": [INGRESS, EGRESS], "key_exprs": ["**", "@ros2_lv/**",
                  f"{domain}/**/@adv/**"], "messages": [
                      "put", "delete", "declare_subscriber", "query", "reply", "declare_queryable", "liveliness_token",
                      "liveliness_query", "declare_liveliness_subscriber"]})
    for one in rights:
        own = _member_rules(one) if one.role == MEMBER else _rules(one, domain, regions)
        rules += own
        subjects.append({"id": one.name, "cert_common_names": [others.get(one.node, one.name)]})
        policies.append({"rules": [rule["id"] for rule in own], "subjects": [one.name]})
    return {"enabled": True, "default_permission": "deny", "rules": rules, "subjects": subjects, "policies": policies}


def _rules(rights: Rights, domain: int, regions: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def rule(what: str, flow: str, messages: list[str], keys: list[str], permission: str = "allow") -> None:
        if keys:
            found.append({"id": f"{rights.name} {what}", "permission": permission, "flows": [flow],
                          "messages": messages, "key_exprs": keys})

    def beside(keys: list[str], suffix: str) -> list[str]:
        return [f"{key}/{suffix}" for key in keys]

    said, heard = data_keys(domain, rights.topics_out()), data_keys(domain, rights.topics_in())
    # Publishing; a reply is what a latched topic's cache answers.
    rule("publishes", INGRESS, ["put", "reply"], said)
    rule("announces its caches", INGRESS, ["put", "declare_queryable", "liveliness_token"], beside(said, ADV_PUBLISHER))
    rule("is told of subscribers", EGRESS, ["declare_subscriber"], [*said, *beside(said, ADV_ALL)])
    rule("is asked for what is latched", EGRESS, ["query"], beside(said, ADV_ALL))
    # Hearing.
    rule("subscribes", INGRESS, ["declare_subscriber"], [*heard, *beside(heard, ADV_ALL)])
    rule("asks for what is latched", INGRESS, ["query", "liveliness_query", "declare_liveliness_subscriber"],
         beside(heard, ADV_ALL))
    rule("announces its latched subscriptions", INGRESS, ["liveliness_token"], beside(heard, ADV_SUBSCRIBER))
    rule("hears", EGRESS, ["put", "reply"], heard)
    rule("is told of caches", EGRESS, ["put", "declare_queryable", "liveliness_token"], beside(heard, ADV_PUBLISHER))
    # Services.
    served, called = data_keys(domain, rights.services_served()), data_keys(domain, rights.services_called())
    rule("serves", INGRESS, ["declare_queryable", "reply"], served)
    rule("is called", EGRESS, ["query"], served)
    rule("calls", INGRESS, ["query"], called)
    rule("is told of services", EGRESS, ["declare_queryable", "reply"], called)
    # The graph: anybody may see it, but not in another's name.
    tokens = f"{names.TOKEN_SPACE}/{domain}/**"
    rule("sees the graph", INGRESS, ["liveliness_query", "declare_liveliness_subscriber"], [tokens])
    rule("is shown the graph", EGRESS, ["liveliness_token"], [tokens])
    rule("is in the graph", INGRESS, ["liveliness_token"], token_keys(domain, rights))
    if rights.any_node:
        # In every namespace, and not with a % in the node's name either: %vision in the namespace / reads as /vision.
        forged = [f"{names.TOKEN_SPACE}/{domain}/*/*/*/*/*/*/{region.rpartition('/')[2]}/**" for region in regions]
        rule("is no region", INGRESS, ["liveliness_token"],
             [*sorted(forged), f"{names.TOKEN_SPACE}/{domain}/*/*/*/*/*/*/$*%$*/**"], "deny")
    if rights.role in (OPERATES, MAINTAINS):
        rule("is a rank", INGRESS, ["put", "declare_subscriber", "liveliness_token", "liveliness_query",
                                    "declare_liveliness_subscriber"], [COLLECTIVES])
        asks = [fleet_keys.orders(rights.node)]
        rule("asks the cloud", INGRESS, ["query"], asks)
        rule("is answered by the cloud", EGRESS, ["reply"], asks)
        rule("hears other ranks", EGRESS, ["put", "declare_subscriber", "liveliness_token"], [COLLECTIVES])
    return found


def _member_rules(rights: Rights) -> list[dict[str, Any]]:
    """A robot of a fleet speaks on the keys with its own name, and hears the cloud: see brain_security.fleet_keys."""
    name = rights.node
    up = [key(name) for key in (fleet_keys.up, fleet_keys.blobs, fleet_keys.learn, fleet_keys.models,
                                fleet_keys.second)]
    down = [fleet_keys.down(name)]
    cloud = [fleet_keys.alive(fleet_keys.CLOUD)]
    return [{"id": f"{rights.name} {what}", "permission": "allow", "flows": [flow], "messages": messages,
             "key_exprs": keys} for what, flow, messages, keys in (
        ("delivers", INGRESS, ["query"], up),
        ("is answered", EGRESS, ["reply"], up),
        ("takes deliveries", INGRESS, ["declare_queryable", "reply"], down),
        ("is handed deliveries", EGRESS, ["query"], down),
        ("is there", INGRESS, ["liveliness_token"], [fleet_keys.alive(name)]),
        ("looks for the cloud", INGRESS, ["liveliness_query", "declare_liveliness_subscriber"], cloud),
        ("is shown the cloud", EGRESS, ["liveliness_token"], cloud))]
