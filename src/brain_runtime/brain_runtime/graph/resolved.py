# SPDX-License-Identifier: Apache-2.0
"""Resolved brain, as plain data: the answer of :func:`brain_runtime.graph.resolve.resolve`; it loads no class itself.

All that starts regions, gives them rights or tells of them only formats it. It crosses processes as JSON.
"""
from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Mapping

from brain_runtime.hosts.backends import DEFAULT, TIMEOUT
from brain_runtime.contract.copies import EVERY, Copies, copies_of
from brain_runtime.graph import NO_WORLD, GraphError, RegionSpec
from brain_runtime.contract.region import Region

TORCH = "torch"     # the host whose regions are ranks of one static group


@dataclass(frozen=True)
class ResolvedRegion:
    """One region as it will run.

    Attributes:
        name: of the node.
        cls: ``package.module:Class``, after ablations.
        namespace: of the node, absolute.
        critical: the robot must not move without it.
        restart: ``always`` or ``never``, after its process ended by itself.
        device: belongs to a world, not to the brain.
        external: others run it: it is waited for, but not started.
        remap: topics by other names: the graph's rules, led on by the robot's profile.
        parameters: all that it is given, by any layer; what is not among them has the class's default.
        differs: names of those whose value is not that default.
        beside: what the file beside the graph gives it.
        profile: what the robot's profile gives it; the user's files win over it.
        own: what wins over all files: the user's values, ablations, and what follows from graph and world.
        hears, publishes, actions: topics of its ports and names of its actions, remapped.
        triggers: of what it hears, what makes it step.
        rate: steps a second by itself (Hz), or None.
        moves: it commands actuators: it has something to bring to rest before it ends.
        shards, backend, shard_timeout: processes over which its network is spread, see
            :class:`brain_runtime.graph.RegionSpec`.
        copies, average_every: what it is a copy of, see there.
        asks: names of the actions of others that it uses, remapped.
    """

    name: str
    cls: str
    namespace: str = "/"
    critical: bool = False
    restart: str = "always"
    device: bool = False
    external: bool = False
    remap: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    beside: Mapping[str, Any] = field(default_factory=dict)
    profile: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    hears: tuple[str, ...] = ()
    publishes: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    rate: float | None = None
    moves: bool = False
    shards: int = 1
    backend: str = DEFAULT
    shard_timeout: float = TIMEOUT
    copies: str = ""
    average_every: float = EVERY
    asks: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        """Full name of the node."""
        return f"{self.namespace.rstrip('/')}/{self.name}"

    @property
    def changed(self) -> dict[str, Any]:
        """Parameters whose value is not the class's default."""
        return {name: self.parameters[name] for name in self.differs}

    @property
    def spare(self) -> bool:
        """True if a spare process is kept ready for it: a gap in what commands actuators matters."""
        return self.moves and self.restart == "always"

    @property
    def shares(self) -> bool:
        """True if it can share a process with others of its brain: it moves nothing, and a new start harms nobody."""
        return not (self.moves or self.device or self.external) and self.restart == "always" and self.shards == 1

    def load(self) -> type[Region]:
        """The class.

        Raises:
            GraphError: it cannot be imported or is no Region.
        """
        return self._spec().load()

    def make(self) -> Region:
        """A new region, for a host in this process. Raises GraphError."""
        return self._spec().make()

    def _spec(self) -> RegionSpec:
        return RegionSpec(self.name, self.cls, remap=self.remap, shards=self.shards, backend=self.backend,
                          shard_timeout=self.shard_timeout, copies=self.copies, average_every=self.average_every)


@dataclass(frozen=True)
class Resolved:
    """All that runs.

    Attributes:
        name: of the graph.
        path: of its file; None: there is none, for a region that joins by its class.
        world: its own name; ``none``: there is none.
        robot: name or path of the profile; None: no profile counts.
        host: ``zenoh``, ``ros``, ``local`` or ``torch``.
        namespace: of all nodes, absolute.
        beside: parameter file that belongs to the graph; the profile wins over it.
        files: the user's parameter files; later ones win.
        regions: in the graph's order, those of the world first.
        warnings: one line each.
    """

    name: str
    regions: tuple[ResolvedRegion, ...]
    path: Path | None = None
    world: str = NO_WORLD
    robot: str | None = None
    host: str = "zenoh"
    namespace: str = "/"
    beside: Path | None = None
    files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()

    def region(self, name: str) -> ResolvedRegion:
        """The region of that name.

        Raises:
            GraphError: there is none.
        """
        for region in self.regions:
            if region.name == name:
                return region
        raise GraphError(f"graph {self.name} has no region {name!r}; it has " + ", ".join(r.name for r in self.regions))

    @property
    def started(self) -> tuple[ResolvedRegion, ...]:
        """The regions but those that others run."""
        return tuple(region for region in self.regions if not region.external)

    @property
    def external(self) -> tuple[str, ...]:
        """Names of the regions that others run."""
        return tuple(region.name for region in self.regions if region.external)

    @property
    def grouped(self) -> tuple[str, ...]:
        """Names of the regions that are ranks of a static group, in the order of the ranks.

        With the host ``torch`` these are all but a world's devices and those that others run, with other hosts none.
        """
        return tuple(region.name for region in self.started if self.host == TORCH and not region.device)

    @property
    def critical(self) -> frozenset[str]:
        """Names of the regions without which the robot must not move."""
        return frozenset(region.name for region in self.regions if region.critical)

    @property
    def hears_sentences(self) -> bool:
        """True if a region hears what people say."""
        return any("goal/text" in region.hears for region in self.regions)

    @property
    def copies(self) -> tuple[Copies, ...]:
        """Groups of regions that are copies of each other, among those that are started."""
        return copies_of((region.name, region.copies, region.average_every) for region in self.started)

    def make(self) -> dict[str, Region]:
        """New regions by name, for a host in this process.

        Raises:
            GraphError: a class cannot be loaded.
        """
        return {region.name: region.make() for region in self.regions}

    def parameters(self) -> dict[str, dict[str, Any]]:
        """Returns the parameters that regions are given, by name."""
        return {region.name: dict(region.parameters) for region in self.regions}

    def to_json(self) -> str:
        """One JSON object, in one line; :meth:`from_json` reads it."""
        return json.dumps({**asdict(self), "regions": [
            {**asdict(region), "node": region.node} for region in self.regions]}, default=str)

    @classmethod
    def from_json(cls, text: str) -> Resolved:
        """Reads the text that :meth:`to_json` wrote.

        Raises:
            ValueError: it is something else.
        """
        try:
            content = json.loads(text)
            regions = tuple(_made(ResolvedRegion, region) for region in content["regions"])
            paths = {name: None if content[name] is None else Path(content[name]) for name in ("path", "beside")}
            return _made(cls, {**content, **paths, "files": map(Path, content["files"]), "regions": regions})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"this is no answer of resolve(): {error!r}") from error


def _made(cls: type, content: Mapping[str, Any]) -> Any:
    """An instance of a dataclass; fields that are tuples come from lists."""
    return cls(**{f.name: tuple(content[f.name]) if str(f.type).startswith("tuple") else content[f.name]
                  for f in fields(cls)})
