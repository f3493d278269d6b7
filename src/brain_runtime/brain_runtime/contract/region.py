# SPDX-License-Identifier: Apache-2.0
"""Region: what a part of the brain computes. It knows its ports and nothing of hosts, wires or other regions."""
from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Mapping

import numpy as np

from brain_runtime.contract.declared import NUMBER, Network, Picture, Population, Split, Weights
from brain_runtime.contract.inbox import Inbox
from brain_runtime.contract.ports import In, Out
from brain_wire.goals import Act, Ask
from brain_wire.parameters import NoParameters, check_parameters

if TYPE_CHECKING:
    from brain_runtime.hosts.shards import Shards

State = dict[str, Any]
"""Flat dict of float32 arrays or tensors: all that a region remembers from step to step, and all of a snapshot."""

Outbox = Mapping[str, Any]
"""Port name to a message, or to a list of messages; ports that are left out publish nothing. Name of an action to what
is new of its goals, or, of one that others serve, to orders."""

_TAKEN = frozenset({"ablations", "adaptive", "average_every", "baselines", "careful", "copies", "multiplies", "name",
                    "network", "parameters", "pictures", "populations", "remap", "shards", "spikes", "split",
                    "storage", "synops", "task", "trouble", "updates", "wanted", "weights", "weights_hash"})


class Region:
    """A part of the brain. Subclass it, declare ports as class attributes, write :meth:`step`.

    A region steps when a port with ``trigger=True`` gets a message, and ``rate`` times a second where a rate is set.
    It takes time only from its host (``dt`` and the inbox's ages) and randomness only from ``rng``.

    Class attributes:
        rate: steps per second, or None to be triggered only (Hz).
        Parameters: frozen dataclass of :func:`brain_wire.parameters.parameter` fields.
        network: what it computes with, if it has a network.
        weights: where the weights of its network are, if they are trained. Such a region has the parameters
            ``weights`` and ``device``.
        split: how its network is spread over several processes, if it can be.
        adaptive: entries of its state that are averaged over its copies, see :mod:`brain_runtime.contract.copies`.
        populations: its neurons, by population, with their geometry.
        baselines: classes, as ``package.module:Class``, that stand behind the same ports and are no spiking network,
            by name: ``ann``, ``conventional``.
        ablations: what is taken away or replaced to see what it is worth, by name: such a class, or the parameters that
            change. A name is written ``REGION=name``; one with a ``=`` in it, as ``integration=off``, as it is.
        task: ``package.module:Class`` of its training.
        pictures: what a film draws of it.
    """

    rate: ClassVar[float | None] = None
    Parameters: ClassVar[type] = NoParameters
    network: ClassVar[Network | None] = None
    weights: ClassVar[Weights | None] = None
    split: ClassVar[Split | None] = None
    adaptive: ClassVar[tuple[str, ...]] = ()
    populations: ClassVar[tuple[Population, ...]] = ()
    baselines: ClassVar[Mapping[str, str]] = {}
    ablations: ClassVar[Mapping[str, str | Mapping[str, Any]]] = {}
    task: ClassVar[str] = ""
    pictures: ClassVar[tuple[Picture, ...]] = ()

    def __init__(self, name: str | None = None) -> None:
        self.name = name or type(self).__name__.lower()
        self.parameters: Any = self.Parameters()
        self.storage: Path | None = None  # set by the host before configure(); for what must survive a restart
        self.shards: Shards | None = None  # set by who makes it, before configure(): processes it is spread over
        self.copies, self.average_every = "", 0.0  # set by who makes it: what it is a copy of, s between two means
        self.remap: Mapping[str, str] = {}  # set by who makes it: topics by other names, for hosts in lockstep
        self.wanted: frozenset[str] = frozenset()  # set by the host: outputs on demand to which somebody listens now
        self.trouble = ""  # what is wrong with what it hears or does, for people: in its heartbeat while it is active
        self.careful = False  # the robot must move slowly while it is active: what it tells rests on a guess
        self.weights_hash = ""  # of the weight file that the network computes with (hex), for who wants to know
        self.spikes = self.synops = self.multiplies = self.updates = 0  # so far, see count()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        outputs = cls.outputs()
        hidden = sorted(_TAKEN & cls.ports().keys())
        if hidden:
            raise TypeError(f"{cls.__name__}: no port can be named {', '.join(hidden)}: every region has that already")
        for name, change in cls.ablations.items():
            numbers = 0 if isinstance(change, str) else list(change.values()).count(NUMBER)
            if numbers != (":" in name):
                raise TypeError(f"{cls.__name__}: the ablation {name!r} has {numbers} parameters that take a number; "
                                f"one that takes a number has one, and a name like 'gain:FACTOR'")
        for name, port in cls.inputs().items():
            for fed in port.feeds:
                if fed not in outputs or not outputs[fed].on_demand:
                    raise TypeError(f"{cls.__name__}: port {name} feeds {fed!r}, which is none of its outputs on "
                                    f"demand")

    @classmethod
    @functools.cache
    def ports(cls) -> dict[str, In | Out]:
        """All ports by attribute name."""
        found: dict[str, In | Out] = {}
        for base in reversed(cls.__mro__):
            for name, value in vars(base).items():
                if isinstance(value, (In, Out)):
                    found[name] = value
        return found

    @classmethod
    @functools.cache
    def inputs(cls) -> dict[str, In]:
        """Ports that are heard, by attribute name."""
        return {n: p for n, p in cls.ports().items() if isinstance(p, In)}

    @classmethod
    @functools.cache
    def outputs(cls) -> dict[str, Out]:
        """Ports that are published, by attribute name."""
        return {n: p for n, p in cls.ports().items() if isinstance(p, Out)}

    @classmethod
    @functools.cache
    def actions(cls) -> dict[str, Act]:
        """Actions that are served, by attribute name."""
        return {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()
                if isinstance(value, Act)}

    @classmethod
    @functools.cache
    def asks(cls) -> dict[str, Ask]:
        """Actions of others that are used, by attribute name."""
        return {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()
                if isinstance(value, Ask)}

    @classmethod
    def idle(cls) -> str:
        """Returns the fault of a region that has something to say, and nothing that makes it step; else empty."""
        if cls.rate is not None or not cls.outputs() or cls.actions() or any(p.trigger for p in cls.inputs().values()):
            return ""
        return (f"{cls.__name__} never steps, so nothing comes on "
                f"{', '.join(port.topic for port in cls.outputs().values())}: give it a `rate`, or one of its inputs "
                f"`trigger=True`")

    # The ports that a configured region really has. To differ from its class, configure() sets an attribute of the same
    # name: self.cmd_vel = replace(type(self).cmd_vel, type="geometry_msgs/msg/Twist").

    def hears(self) -> dict[str, In]:
        """Ports that this region hears once it is configured, by attribute name; its class's where it says no other."""
        return {name: getattr(self, name) for name in self.inputs()}

    def publishes(self) -> dict[str, Out]:
        """Ports that this region publishes once it is configured, by attribute name; see :meth:`hears`."""
        return {name: getattr(self, name) for name in self.outputs()}

    @classmethod
    def would_publish(cls, parameters: Mapping[str, Any]) -> dict[str, Out]:
        """Returns what :meth:`publishes` will say with some parameters (those that are not given have their defaults).

        It loads nothing: what runs is told by it before it runs, as to who gives rights. Extend it where parameters
        make ports.
        """
        return cls.outputs()

    # The small life that every host drives.

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Takes parameters (missing ones keep their default) and loads what is needed. Extend it to load weights.

        Raises:
            ParameterError: an unknown name, a wrong type or a value out of range.
        """
        self.parameters = check_parameters(self.name, self.Parameters, parameters)

    def initial_state(self) -> State:
        """State before the first step; called after :meth:`configure`."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> State:
        """State from a snapshot's float32 arrays, whose names and shapes equal :meth:`initial_state`'s.

        Extend it where the step wants something else than numpy arrays.
        """
        return dict(state)

    def activate(self) -> None:
        """Before the first step."""

    def step(self, inbox: Inbox, state: State, dt: float, rng: np.random.Generator) -> tuple[Outbox, State]:
        """One step.

        Args:
            inbox: newest messages and their ages.
            state: what the last step returned.
            dt: s of the host's clock since the last step (0 at the first).
            rng: the only source of randomness.

        Returns:
            What to publish, and the new state.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step()")

    def come_to_rest(self, inbox: Inbox, state: State, since: float) -> tuple[Outbox, bool]:
        """Brings to rest what this region moves. For regions that command actuators; others leave it as it is.

        The host calls it after the last step, again and again, before anything of the region ends, and however it
        ends: asked to, deactivated, or after a step that raised. It must not rely on that step.

        Args:
            inbox: newest messages and their ages; those that go on coming too.
            state: what the last step returned.
            since: s since the first of these calls, 0 at that.

        Returns:
            What to publish, and whether everything is at rest.
        """
        return {}, True

    def deactivate(self) -> None:
        """After the last step; :meth:`activate` may follow."""

    def cleanup(self) -> None:
        """Lets go of what :meth:`configure` took."""

    def on_parameter(self, name: str, value: Any) -> None:
        """Changes one parameter between steps.

        Raises:
            ParameterError: it cannot be changed while running, is unknown, or the value does not fit.
        """
        self.parameters = check_parameters(self.name, self.Parameters, {name: value}, current=self.parameters)

    def snapshot_metadata(self) -> dict[str, str]:
        """Returns the metadata that must be equal for a snapshot of the state to be restored.

        It is beside the region's name and state shapes: micro-step, input scaling, hash of the weights, ...
        """
        return {}

    def view(self, state: State) -> dict[str, Any]:
        """Returns values of a state that pictures show beside the messages, by name; see :attr:`pictures`."""
        return {}

    def count(self, *, spikes: float = 0, synops: float = 0, multiplies: float = 0, updates: float = 0) -> None:
        """Adds to the region's counts.

        Args:
            spikes: that neurons handed on.
            synops: synaptic operations: a weight added because a neuron fired, for each of its synapses.
            multiplies: multiply-accumulates: a weight times a number that is no spike.
            updates: of membranes, one for each neuron and micro-step.
        """
        self.spikes += int(spikes)
        self.synops += int(synops)
        self.multiplies += int(multiplies)
        self.updates += int(updates)


def moves(cls: type[Region]) -> bool:
    """Tells whether regions of a class command actuators."""
    return cls.come_to_rest is not Region.come_to_rest
