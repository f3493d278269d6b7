# SPDX-License-Identifier: Apache-2.0
"""``brain operator``: runs the operator of a fleet."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from brain_edge.processes.options import CloudAt, FleetSecure
from brain_runtime.command.options import become

Namespaces = Annotated[list[str] | None, typer.Option(
    "--namespace", metavar="NAME", help="Watch this namespace only; may be given again. Default: all.")]
FleetNamespace = Annotated[str | None, typer.Option(
    "--fleet-namespace", metavar="NAME", help="Where robots are shown and orders are taken from. Default: the "
    "operator's own.")]
Kubeconfig = Annotated[Path | None, typer.Option(
    "--kubeconfig", metavar="FILE", help="How the cluster is reached. Default: KUBECONFIG, or in a pod its service "
    "account.")]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Of the kubeconfig.")]
Image = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="In which workers' data gates run.")]
IgnoreOther = Annotated[list[str] | None, typer.Option(
    "--ignore-other", metavar="GROUP", help="Do trainer.kubeflow.org, or sedna.io, although another controller is "
    "installed, which does not run.")]
NoFleet = Annotated[bool, typer.Option("--no-fleet", help="Do jobs only, and show no robots.")]


def operator(namespace: Namespaces = None, fleet_namespace: FleetNamespace = None, kubeconfig: Kubeconfig = None,
             context: Context = None, image: Image = None, ignore_other: IgnoreOther = None, no_fleet: NoFleet = False,
             cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Runs the operator of a fleet in a Kubernetes cluster until Ctrl-C: jobs, robots and orders as its resources.

    Install it there with `kubectl apply -k deploy/operator`.
    """
    become("brain_cloud.cluster.run_operator", namespace=namespace, ignore_other=ignore_other,
           fleet_namespace=fleet_namespace, kubeconfig=kubeconfig, context=context, image=image, cloud=cloud,
           secure=secure, no_fleet=no_fleet)
