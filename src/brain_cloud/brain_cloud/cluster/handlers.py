# SPDX-License-Identifier: Apache-2.0
"""Handlers that kopf calls for each kind. They only say that something may have changed; the reconciler looks itself.

kopf watches, keeps the finalizer, tries again, and calls every handler anew when the operator has started again.
"""
from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Mapping, cast

import kopf

from brain_cloud.cluster.api import Api, ApiProblem
from brain_cloud.cluster.kinds import (
    BY_KIND, CLUSTER_RUNTIME, DATASET, DEPLOYMENT, FINALIZER, FLEET, FLEET_ORDER, JOB, MANAGER, MODEL, OWNER,
    OWNER_KIND, RUNTIME, SEDNA_JOBS, TRAIN_JOB, Kind)
from brain_cloud.cluster.mirror import Mirror
from brain_cloud.cluster.others import Others
from brain_cloud.cluster.reconcile import Reconciler, Told, ours, references
from brain_edge.processes.asking import NoCloud
from brain_wire.rate_limited_log import RateLimitedLog

RESYNC = 15.0       # s after which each resource is looked at again, whatever was missed
AGAIN = 5.0         # s after which something is tried again
REFERRED = {RUNTIME: (TRAIN_JOB,), CLUSTER_RUNTIME: (TRAIN_JOB,), DATASET: SEDNA_JOBS, MODEL: SEDNA_JOBS}

log = logging.getLogger("brain.operator")
limited_log = RateLimitedLog(log)


class Ever:
    """Seconds between tries, without an end."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((1.0, 1.0, 2.0, 3.0, 5.0, 8.0), itertools.repeat(15.0))


EVER = Ever()


@dataclass
class Parts:
    """Of an operator.

    Attributes:
        api, reconciler, others: see there.
        mirror: of the fleet; None: none is shown.
        namespaces: that it watches; empty: all.
    """

    api: Api
    reconciler: Reconciler
    others: Others
    mirror: Mirror | None
    namespaces: tuple[str, ...] = ()


def registry_of(parts: Parts, served: Iterable[Kind]) -> kopf.OperatorRegistry:
    """The handlers of the kinds that the cluster serves."""
    registry, served = kopf.OperatorRegistry(), list(served)
    _life(registry, parts)
    for kind in served:
        if kind in BY_KIND.values():
            _of_job(registry, parts, kind)
        elif kind in REFERRED:
            _of_reference(registry, parts, kind, [one for one in REFERRED[kind] if one in served])
        elif kind == FLEET_ORDER and parts.mirror is not None:
            _of_order(registry, parts, parts.mirror)
    for below in (JOB, *((DEPLOYMENT,) if any(one in served for one in SEDNA_JOBS) else ())):
        _of_below(registry, parts, below)
    return registry


def _where(kind: Kind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.plural


def _life(registry: kopf.OperatorRegistry, parts: Parts) -> None:
    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return connection(parts.api)

    @kopf.on.startup(registry=registry)
    def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)
        if parts.mirror is not None:
            parts.mirror.start()

    @kopf.on.cleanup(registry=registry)
    def cleanup(**_: Any) -> None:
        if parts.mirror is not None:
            parts.mirror.stop()


def configure(settings: kopf.OperatorSettings) -> None:
    """Sets kopf up: names of ours in what it writes, and watches that see their own end."""
    settings.persistence.finalizer = FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=FLEET)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=FLEET)
    settings.posting.reporting_component = MANAGER
    settings.posting.event_name_prefix = f"{MANAGER}-"
    settings.posting.loggers = False        # only what is told here
    settings.networking.error_backoffs = EVER    # else a watch fails when the API is away for a minute
    settings.scanning.disabled = True       # needs rights to all definitions, and all namespaces
    settings.watching.server_timeout = 300
    settings.watching.label_selectors[JOB.group, JOB.plural] = OWNER_KIND
    settings.watching.label_selectors[DEPLOYMENT.group, DEPLOYMENT.plural] = OWNER_KIND
    settings.execution.max_workers = 8
    settings.process.ultimate_exiting_timeout = None


def connection(api: Api) -> kopf.ConnectionInfo:
    """Returns the settings by which kopf reaches the API: those of the client."""
    found = api.configuration
    header = found.get_api_key_with_prefix("BearerToken") or ""
    scheme, _, token = header.rpartition(" ")
    return kopf.ConnectionInfo(
        server=found.host, ca_path=found.ssl_ca_cert, insecure=not found.verify_ssl, username=found.username or None,
        password=found.password or None, scheme=scheme or None, token=token or None, certificate_path=found.cert_file,
        private_key_path=found.key_file)


def _tell(body: Mapping[str, Any] | None, told: Iterable[Told]) -> None:
    for one in told:
        if body is not None:
            about = body["metadata"]
            log.log(logging.WARNING if one.warning else logging.INFO, "%s %s/%s: %s", body["kind"], about["namespace"],
                    about["name"], one.message)
            kopf.event(kopf.Body(cast(Any, body)), type="Warning" if one.warning else "Normal", reason=one.reason[:120],
                       message=one.message)


def _bring(parts: Parts, kind: Kind, namespace: str, name: str) -> None:
    """Brings a resource about.

    Raises:
        kopf.TemporaryError: it is to be tried again.
    """
    try:
        if parts.others.has(kind) is not None:
            return
        _tell(*parts.reconciler(kind, namespace, name))
    except ApiProblem as problem:
        raise kopf.TemporaryError(f"{kind.kind} {namespace}/{name}: {problem}", delay=AGAIN) from None


def _bring_soon(parts: Parts, kind: Kind, namespace: str, name: str) -> None:
    """The same where something else has changed; what fails here, the next look does."""
    try:
        _bring(parts, kind, namespace, name)
    except kopf.TemporaryError as error:
        limited_log(f"{kind.kind} {namespace}/{name}", str(error))


def _of_job(registry: kopf.OperatorRegistry, parts: Parts, kind: Kind) -> None:
    def done_here(body: Mapping[str, Any], **_: Any) -> bool:
        return ours(kind, body)

    @kopf.on.resume(*_where(kind), registry=registry, id="changed", when=done_here)
    @kopf.on.create(*_where(kind), registry=registry, id="changed", when=done_here)
    @kopf.on.update(*_where(kind), registry=registry, id="changed", when=done_here)
    def changed(namespace: Any, name: Any, **_: Any) -> None:
        _bring(parts, kind, namespace, name)

    @kopf.on.timer(*_where(kind), registry=registry, id="again", when=done_here, interval=RESYNC, initial_delay=RESYNC)
    def again(namespace: Any, name: Any, **_: Any) -> None:
        _bring(parts, kind, namespace, name)

    @kopf.on.delete(*_where(kind), registry=registry, id="deleted", when=done_here)
    def deleted(namespace: Any, name: Any, **_: Any) -> None:
        try:
            if parts.others.has(kind) is None and not parts.reconciler.ended(kind, namespace, name):
                raise kopf.TemporaryError("its workers are still there", delay=1.0)
        except ApiProblem as problem:
            raise kopf.TemporaryError(str(problem), delay=AGAIN) from None


def _of_below(registry: kopf.OperatorRegistry, parts: Parts, below: Kind) -> None:
    @kopf.on.event(*_where(below), registry=registry, labels={OWNER_KIND: kopf.PRESENT, OWNER: kopf.PRESENT})
    def changed(namespace: Any, labels: Mapping[str, str], **_: Any) -> None:
        kind = BY_KIND.get(labels[OWNER_KIND])
        if kind is not None:
            _bring_soon(parts, kind, namespace, labels[OWNER])


def _of_reference(registry: kopf.OperatorRegistry, parts: Parts, kind: Kind, kinds: list[Kind]) -> None:
    """A runtime, data set or model: those that refer to it may be able to run now, or have to run otherwise."""
    @kopf.on.event(*_where(kind), registry=registry)
    def changed(namespace: Any, name: Any, **_: Any) -> None:
        places: list[str | None] = [namespace] if namespace is not None else list(parts.namespaces) or [None]
        for place in places:
            for one in kinds:
                try:
                    found = parts.api.listed(one, place)
                except ApiProblem as problem:
                    limited_log(f"list {one.kind}", str(problem))
                    continue
                for job in found:
                    if (kind, name) in references(job):
                        _bring_soon(parts, one, job["metadata"]["namespace"], job["metadata"]["name"])


def _of_order(registry: kopf.OperatorRegistry, parts: Parts, mirror: Mirror) -> None:
    def order(namespace: str, name: str) -> None:
        try:
            found = parts.api.get(FLEET_ORDER, namespace, name)
            if found is None or found["metadata"].get("deletionTimestamp"):
                return
            taken, why = mirror.order(found)
        except ApiProblem as problem:
            raise kopf.TemporaryError(str(problem), delay=AGAIN) from None
        if not taken:
            raise kopf.TemporaryError(why, delay=AGAIN)

    @kopf.on.resume(*_where(FLEET_ORDER), registry=registry, id="changed")
    @kopf.on.create(*_where(FLEET_ORDER), registry=registry, id="changed")
    @kopf.on.update(*_where(FLEET_ORDER), registry=registry, id="changed")
    def changed(namespace: Any, name: Any, **_: Any) -> None:
        order(namespace, name)

    # A cloud that was restored may not know it; and one that knows it takes it without a word.
    @kopf.on.timer(*_where(FLEET_ORDER), registry=registry, id="again", interval=4 * RESYNC, initial_delay=4 * RESYNC)
    def again(namespace: Any, name: Any, **_: Any) -> None:
        order(namespace, name)

    @kopf.on.delete(*_where(FLEET_ORDER), registry=registry, id="deleted")
    def deleted(body: kopf.Body, **_: Any) -> None:
        try:
            mirror.take_back(body)
        except NoCloud as problem:
            raise kopf.TemporaryError(str(problem), delay=AGAIN) from None
