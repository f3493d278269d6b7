# SPDX-License-Identifier: Apache-2.0
"""State of an aggregator on its disk: the weights so far with all that belongs to them, and the round that is open.

The weights, what the strategy keeps, the number of the round and what came before are one file, which is replaced
whole: a kill at any moment leaves the state before a round or the one after it. What robots have sent of the open round
is a file each; those of another round are of no use any more, and are removed.
"""
from __future__ import annotations

import json
import re
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from brain_cloud.federated.plan import Plan
from brain_cloud.federated.strategies import Update
from brain_edge.blobs.store import write_whole
from brain_cloud.federated.weights import Weights, WeightsProblem, about, digest, pack, unpack
from brain_edge.store import StoreProblem
from brain_wire import private

STATE, OPEN, UPDATES = "model.safetensors", "round.json", "updates"
FORMAT = 1
REMEMBERED = 1000       # rounds that are told of
HISTORY = 32 * 10**6    # bytes of what is told of them
_FILE = re.compile(r"(\d{1,12})-([a-z][a-z0-9_]{0,39})\.safetensors")


class RecordsProblem(StoreProblem):
    """Records on the disk that cannot be used, or written; names the file and the remedy."""


@dataclass
class State:
    """State of a training.

    Attributes:
        model: the weights.
        kept: what the strategy keeps.
        version: how many new weights were made.
        attempt: number of the round that is open; rounds that came to nothing have had one, too.
        run: names the training; drawn when it began.
        secret: from which it is drawn whom a round asks; no robot hears it.
        history: of rounds, the newest last.
        learning: the plan's, see :meth:`.plan.Plan.learning`.
        sum, summed: of the weights of the last rounds, float64, and of how many; see :meth:`average`.
    """

    model: Weights
    kept: Weights = field(default_factory=dict)
    version: int = 0
    attempt: int = 1
    run: str = field(default_factory=lambda: secrets.token_hex(8))
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    history: list[dict[str, Any]] = field(default_factory=list)
    learning: dict[str, Any] = field(default_factory=dict)
    sum: Weights = field(default_factory=dict)
    summed: int = 0

    def average(self, plan: Plan) -> None:
        """Adds new weights to the sum of the last rounds; with a training's last round the mean becomes the weights.

        From round to round weights go to and fro about where they are good, the more so where robots' worlds are not
        alike, and the last round may be at a bad place. The mean of some lies nearer (B. Polyak, A. Juditsky:
        Acceleration of Stochastic Approximation by Averaging, 1992; P. Izmailov and others: Averaging Weights Leads to
        Wider Optima and Better Generalization, 2018). Robots train on from the weights of each round until then. Where
        a plan is given more rounds afterwards, they go on from the mean, and it is taken anew over the last of those.

        Args:
            plan: that is followed, whose version was just made. Arrays are replaced, not written to.
        """
        if self.version <= plan.rounds - plan.average:
            self.sum, self.summed = {}, 0
            return
        self.sum = {name: self.sum.get(name, 0.0) + value.astype(np.float64) for name, value in self.model.items()}
        self.summed += 1
        if self.version >= plan.rounds:
            self.model = {name: (value / self.summed).astype(np.float32) for name, value in self.sum.items()}
            self.sum, self.summed = {}, 0


@dataclass
class Opened:
    """Start of the open round, by the machine's own count of seconds and nobody's calendar; and the robots at it."""

    attempt: int
    boot: str
    began: float
    handed: list[str] = field(default_factory=list)


class Records:
    """A folder of one training.

    Args:
        folder: is made where it is missing.
        plan: that is followed.

    Raises:
        RecordsProblem: see there.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        try:
            private.folder(folder / UPDATES)
        except OSError as error:
            raise RecordsProblem(f"cannot use {folder}: {error.strerror or error}; name a folder that can be written"
                                 ) from None
        path = folder / STATE
        if not path.exists():
            self.state = State(first_weights(Path(plan.start)), learning=plan.learning())
            self.write_state()
            return
        self.state = _read_state(path)
        known, asked = self.state.learning, json.loads(json.dumps(plan.learning()))
        for key in {**asked, **known}:
            if known.get(key) != asked.get(key):
                raise RecordsProblem(f"{folder} has a training with {key}: {known.get(key)}, and the plan says "
                                     f"{asked.get(key)}; give the plan another name to begin anew")

    def write_state(self) -> None:
        """Writes where it stands. Raises RecordsProblem."""
        state = self.state
        state.history = state.history[-REMEMBERED:]
        while len(state.history) > 1 and len(json.dumps(state.history)) > HISTORY:
            state.history = state.history[len(state.history) // 2:]
        arrays = {f"model.{name}": value for name, value in state.model.items()}
        arrays |= {f"kept.{name}": value for name, value in state.kept.items()}
        arrays |= {f"sum.{name}": value for name, value in state.sum.items()}
        self._write(self.folder / STATE, pack(arrays, {"format": FORMAT, **_plain(state)}))

    def opened(self) -> Opened | None:
        """Reads when the open round began; None: nobody was handed it yet, or that was not written whole."""
        try:
            found = json.loads((self.folder / OPEN).read_text("utf-8"))
            opened = Opened(int(found["attempt"]), str(found["boot"]), float(found["began"]),
                            [str(robot) for robot in found.get("handed", ())])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            return None     # the round then has its whole time again
        return opened if opened.attempt == self.state.attempt else None

    def write_opened(self, opened: Opened) -> None:
        """Writes when the open round began. Raises RecordsProblem."""
        self._write(self.folder / OPEN, json.dumps(asdict(opened)).encode())

    def keep(self, update: Update, metrics: dict[str, float]) -> None:
        """Keeps what a robot has sent of the open round. Raises RecordsProblem."""
        path = self.folder / UPDATES / f"{self.state.attempt}-{update.robot}.safetensors"
        self._write(path, pack(update.weights, {"examples": update.examples, "metrics": metrics}))

    def updates(self) -> dict[str, tuple[Update, dict[str, float]]]:
        """Reads the updates of the open round that robots have sent, by robot; leaves out what cannot be read."""
        found = {}
        for path in sorted((self.folder / UPDATES).iterdir()):
            name = _FILE.fullmatch(path.name)
            if name is None or int(name[1]) != self.state.attempt:
                continue
            try:
                data = path.read_bytes()
                told = about(data)
                found[name[2]] = (Update(name[2], unpack(data), int(told["examples"])), dict(told["metrics"]))
            except (OSError, WeightsProblem, KeyError, TypeError, ValueError):
                continue
        return found

    def tidy(self) -> None:
        """Removes what belongs to rounds that are over."""
        for path in (self.folder / UPDATES).iterdir():
            name = _FILE.fullmatch(path.name)
            if name is None or int(name[1]) != self.state.attempt:
                path.unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes) -> None:
        try:
            write_whole(path, data)
        except OSError as error:
            raise RecordsProblem(f"{path} cannot be written ({error.strerror or error}): make room on that disk; what "
                                 f"was there before is safe") from None


def _plain(state: State) -> dict[str, Any]:
    """Returns the parts of a state that are no tensors."""
    return {"version": state.version, "attempt": state.attempt, "run": state.run, "secret": state.secret,
            "history": state.history, "learning": state.learning, "summed": state.summed}


def first_weights(path: Path) -> Weights:
    """The weights that a training begins with: float32 tensors of a file of safetensors.

    A weight file of a region also holds the answer to a probe, which is no weight.

    Raises:
        RecordsProblem: it cannot be read.
    """
    try:
        found = unpack(path.read_bytes())
    except OSError as error:
        raise RecordsProblem(f"cannot read the first weights {path}: {error.strerror or error}") from None
    except WeightsProblem as problem:
        raise RecordsProblem(f"the first weights {path} cannot be used: {problem}") from None
    found.pop("probe", None)
    odd = [name for name, value in found.items() if value.dtype != "float32"]
    if odd or not found:
        raise RecordsProblem(f"the first weights {path} cannot be used: " + (
            f"{odd[0]} is {found[odd[0]].dtype}, and only float32 can be averaged" if odd else "there are none"))
    return found


def _read_state(path: Path) -> State:
    try:
        data = path.read_bytes()
        told, arrays = about(data), unpack(data, own=True)
        if told["format"] != FORMAT:
            raise RecordsProblem(f"{path} is of format {told['format']}, and this software knows {FORMAT}; install "
                                 f"the version that wrote it")
        model, kept, total = ({name.removeprefix(part): value for name, value in arrays.items()
                               if name.startswith(part)} for part in ("model.", "kept.", "sum."))
        return State(model, kept, int(told["version"]), int(told["attempt"]), str(told["run"]), str(told["secret"]),
                     list(told["history"]), dict(told["learning"]), total, int(told.get("summed", 0)))
    except OSError as error:
        raise RecordsProblem(f"cannot read {path}: {error.strerror or error}") from None
    except (WeightsProblem, KeyError, TypeError, ValueError) as problem:
        raise RecordsProblem(f"{path} is damaged ({problem}); move its folder away to begin anew") from None


def model_bytes(state: State) -> tuple[bytes, str]:
    """The weights as robots are given them, and their digest."""
    data = pack(state.model)
    return data, digest(data)
