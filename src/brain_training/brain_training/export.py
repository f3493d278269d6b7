# SPDX-License-Identifier: Apache-2.0
"""``brain export``: a region's network as a file that other simulators and neuromorphic chips read."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from brain_runtime.command.options import Json, fail, tell, tell_json

# Kept here, since nir_files imports what is slow to import; a test holds them together.
FOR = ("nir", "norse", "snntorch", "spikingjelly")


def export(region: Annotated[str, typer.Argument(help="Region of the graph, as vision.")],
           nir: Annotated[Path, typer.Option("--nir", metavar="FILE", help="File to write (NIR, HDF5).")],
           reader: Annotated[str, typer.Option("--for", metavar="READER", help=f"Who will read it: {', '.join(FOR)}. "
                                               "nir: by the definitions of NIR; the others: so that the importer of "
                                               "that library, with its conventions, computes what we do.")] = "nir",
           graph: Annotated[str, typer.Option(help="Graph of the brain, a name or a file.")] = "brain",
           as_json: Json = False) -> None:
    """Writes the network of a region, with its shipped weights, in the Neuromorphic Intermediate Representation (NIR).

    The table tells what a micro-step costs: multiply-accumulates where a real-valued input is heard, accumulates (as
    many, if all neurons of the source fire) where spikes are.
    """
    if reader not in FOR:
        fail(f"there is no reader {reader!r}; there are {', '.join(FOR)}", 2)
    circuit = _circuit(region, graph)
    from brain_training.circuit_checks import CircuitError

    from brain_training import nir_files

    try:
        nir_files.write(nir, circuit, reader)
    except CircuitError as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot write {nir}: {error.strerror}; name another file")
    told = {"file": str(nir), "region": region, "for": reader, "then": nir_files.READERS[reader].what, "h": circuit.h,
            "projections": _costs(circuit)}
    if as_json:
        tell_json(told)
    else:
        _print(told)


def _circuit(region: str, graph: str) -> Any:
    from brain_training.circuit_checks import CircuitError
    from brain_regions.weight_files import WeightsError
    from brain_runtime.graph import GraphError
    from brain_runtime.graph.graphs import load

    try:
        specs = {spec.name: spec for spec in load(graph).regions}
        if region not in specs:
            fail(f"there is no region {region!r} in the graph {graph}; there are {', '.join(specs)}", 2)
        cls = specs[region].load()
        if cls.network is None or not cls.network.spiking:
            others = {name: spec.load().network for name, spec in specs.items()}
            networks = (name for name, network in others.items() if network is not None and network.spiking)
            fail(f"{region} ({specs[region].cls}) is no spiking network, so there is nothing to export; there are "
                 f"{', '.join(networks)}")
        if not hasattr(cls, "circuit"):
            fail(f"{region} ({specs[region].cls}) says that its network spikes, but has no `circuit()`, which makes "
                 f"neurons and weights of it for others; add one (docs/nir.md)")
        return cls.circuit()
    except (CircuitError, GraphError, WeightsError) as error:
        fail(str(error))


def _costs(circuit: Any) -> list[dict[str, Any]]:
    from brain_regions.circuits import INPUT, synapses

    return [{"source": p.source, "target": p.target, "weights": int(p.weight.size), "delay": p.delay,
             "multiply_accumulates" if p.source == INPUT else "most_accumulates": synapses(circuit, p)}
            for p in circuit.projections]


def _print(told: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from brain_runtime.command.terminal import Terminal
    from rich.table import Table

    table = Table(title=f"{told['region']}, a micro-step of {1e3 * told['h']:g} ms", box=SIMPLE_HEAD)
    for heading in ("from", "to", "weights", "multiply-accumulates", "accumulates, if all fire"):
        table.add_column(heading, justify="left" if heading in ("from", "to") else "right")
    for p in told["projections"]:
        table.add_row(p["source"], p["target"], f"{p['weights']:,}", f"{p.get('multiply_accumulates', 0):,}",
                      f"{p.get('most_accumulates', 0):,}")
    Terminal().print(table)
    tell(f"written to {told['file']}. {told['then']}")
