# SPDX-License-Identifier: Apache-2.0
"""Declarations of a region about itself, so that nobody else keeps a list of regions.

:class:`brain_runtime.contract.region.Region` has a class attribute for each: its network, where its weights are, its
populations, its baselines and ablations, its training task, its pictures. What lies in a package above the region's is
named as a string, ``package.module:Name``, and looked up by who uses it, with :func:`named`.
"""
from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

NUMBER = "NUMBER"
"""Stands in the parameters of an ablation for the number that is written behind its name: what a region ``ears``
declares as ``{"gain:FACTOR": {"gain": NUMBER}}`` is written ``ears=gain:0.5``."""
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


class DeclaredError(ValueError):
    """A region says something about itself that cannot be used; names it and the remedy."""


@dataclass(frozen=True)
class Network:
    """Network that a region computes with.

    Attributes:
        definition: ``package.module:Name`` of the class, or of the function for a wired one, that defines it.
        spiking: it is made of neurons that fire; then the region's class has ``circuit()``, which makes a
            ``brain_regions.circuits.Circuit`` of it for other simulators.
        work: calls of a configured region, as ``_looking.look``, that move its membranes and synapses on and count;
            the rest of a step is coding in and out.
        limit: what the median of a step may take on one core (ms).
        devices: where it can compute, the default first.
    """

    definition: str
    spiking: bool = True
    work: tuple[str, ...] = ()
    limit: float = 1.0
    devices: tuple[str, ...] = ("cpu",)


@dataclass(frozen=True)
class Split:
    """Spreading of a region's network over processes of one machine.

    Attributes:
        work: ``package.module:function`` that the other processes run, with their exchange (see
            :class:`brain_collectives.hosts.torch_exchange.Exchange`), until they are ended.
        most: processes over which it can be spread.
    """

    work: str
    most: int


@dataclass(frozen=True)
class Weights:
    """Folder with the weights of a region: weight files (``<set>.safetensors``) that come with its package.

    Attributes:
        folder: of the shipped sets.
        default: name of the set that is loaded where no other is asked for.
    """

    folder: Path
    default: str

    def names(self) -> list[str]:
        """Names of the shipped sets."""
        return sorted(path.stem for path in self.folder.glob("*.safetensors"))

    def path(self, wanted: str = "") -> Path:
        """File of a set.

        Args:
            wanted: name of a shipped set, or a path, which holds a ``/`` or ends in ``.safetensors``; empty: the
                default set.

        Raises:
            DeclaredError: there is no such set.
        """
        wanted = wanted or self.default
        if "/" in wanted or wanted.endswith(".safetensors"):
            return Path(wanted).expanduser()
        if wanted != self.default and wanted not in self.names():
            raise DeclaredError(f"there are no weights {wanted!r}; there are {', '.join(self.names())}, or give the "
                                f"path of a .safetensors file")
        return self.folder / f"{wanted}.safetensors"


@dataclass(frozen=True)
class Population:
    """Neurons of one kind.

    Attributes:
        name: unique in its region; on ``brain/spikes`` the population is called ``region/name``.
        shape: how many neurons along each axis; a neuron's number in a SpikeTrain counts the last axis fastest.
        axes: what each axis means, as ``("bearing", "distance")``.
        told: its spikes are published on ``brain/spikes``.
        parts: named ranges of neurons, by number, for populations of one axis.
        rate: topic of its rate below ``inside/rates``, which is also how the population is told from others: with a
            ``/`` by ``region/name``, else by the name alone, whatever the region is called; empty: the graph's
            ``region/name``.
    """

    name: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    told: bool = True
    parts: Mapping[str, slice] | None = None
    rate: str = ""

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.axes):
            raise DeclaredError(f"population {self.name} has {len(self.shape)} axes and {len(self.axes)} names of them")

    @property
    def size(self) -> int:
        """Number of its neurons."""
        size = 1
        for length in self.shape:
            size *= length
        return size


@dataclass(frozen=True)
class Picture:
    """Picture of a region that a film draws.

    Attributes:
        draw: ``package.module:function`` that draws it, of a panel and a moment.
        below: height of the strip that is added for it below the others (px); 0: it has a place of its own.
        of: what of the region's :meth:`~brain_runtime.contract.region.Region.view` it shows; where an episode has none
            of that, there is no strip.
    """

    draw: str
    below: int = 0
    of: str = ""


def is_name(text: str) -> bool:
    """Checks whether a text is written as ``package.module:Name``."""
    return _NAME.fullmatch(text) is not None


def named(text: str, by: str) -> Any:
    """Imports the object that a declared string names.

    Args:
        text: ``package.module:Name``.
        by: who says so, for messages.

    Raises:
        ModuleNotFoundError: the package is not installed here; ``name`` says which.
        DeclaredError: it is not written so, or the module has nothing of that name.
    """
    if not is_name(text):
        raise DeclaredError(f"{by} names {text!r}, which must read package.module:Name")
    module, _, name = text.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as missing:
        if missing.name == module and "." in module:
            importlib.import_module(module.partition(".")[0])   # raises where the package is not installed at all
            raise DeclaredError(f"{by} names {text}, but there is no module {module}; correct it") from None
        raise
    except AttributeError:
        raise DeclaredError(f"{by} names {text}, but {module} has no {name}; correct it") from None
