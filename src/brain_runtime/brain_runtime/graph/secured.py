# SPDX-License-Identifier: Apache-2.0
"""Before a secured brain is started: whether its credentials fit what is to be started, said before anything runs."""
from __future__ import annotations

import time

from brain_runtime.graph.resolved import Resolved
from brain_wire import names
from brain_wire.credentials import (OPERATOR, CredentialsProblem, credentials_file, place, read_credentials)
from brain_wire.connect_errors import why_not

ROUTER = "router"


def check(resolved: Resolved, domain: int) -> None:
    """Checks the credentials of all that ``brain up`` starts; does nothing where nothing is secured.

    Raises:
        CredentialsProblem: they are for something else, some are missing, or have ended.
    """
    folder = place()
    if folder is None:
        return
    again = f"run `brain keys {folder}` with the same graph, --robot, --world, --domain and --namespace"
    if not folder.is_dir():
        raise CredentialsProblem(f"{folder} is no folder that `brain keys` made; {again}")
    namespace, regions = resolved.namespace, {region.name: region for region in resolved.started}
    for name in (ROUTER, OPERATOR, *regions):
        found = read_credentials(credentials_file(folder, name))
        if found is None:
            raise CredentialsProblem(f"{folder / name}.json5 was not written by `brain keys`; {again}")
        if (found.domain, found.namespace) != (domain, namespace):
            raise CredentialsProblem(f"{folder} is for domain {found.domain} and namespace {found.namespace}, not for "
                                     f"domain {domain} and namespace {namespace}; {again}")
        if found.valid_until < time.time():
            raise CredentialsProblem(found.warning())
        if name in regions:
            wanted = [(regions[name].publishes, found.publishes), (regions[name].hears, found.hears)]
            missing = {names.expand(t, namespace, name) for topics, had in wanted for t in topics
                       if names.expand(t, namespace, name) not in had}
            if missing:
                raise CredentialsProblem(f"{folder} was made when {name} had no right to {', '.join(sorted(missing))}; "
                                         f"{again}")


def refusal(endpoint: str) -> str | None:
    """Returns the reason why the router at ``endpoint`` refuses the operator's tools.

    None: nobody is there, or it cannot be said.

    Raises:
        CredentialsProblem: there are no credentials where there should be.
    """
    folder = place()
    return why_not([endpoint], None if folder is None else read_credentials(credentials_file(folder, OPERATOR)))
