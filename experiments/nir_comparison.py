# SPDX-License-Identifier: Apache-2.0
"""The network of vision, written as NIR, run by other libraries: how many spikes differ from ours, and the answer."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Iterator, NamedTuple

import numpy as np
import typer

from brain_eval.bench.experiment import Experiment
from brain_regions.vision import network, weights
from brain_sim.camera import RayCamera
from brain_sim.mjcf import room_xml
from brain_training.vision_data import usual
from brain_sim.room import generate_room
from brain_training import nir_files
from brain_wire.temporary_folder import TemporaryFolder
from experiments.other_libraries import LIBRARIES, NotThere, environment, known
from experiments.processes import NO_PATHS, finished

STEPS = 10              # micro-steps for each picture
TURN = 0.2              # rad between two pictures
PATIENCE = 300.0        # s for a library's run
WORKER = Path(__file__).with_name("nir_worker.py")


class Way(NamedTuple):
    """A way to read a file.

    Attributes:
        library: whose environment is taken.
        how: for a person.
        maker: of ``nir_worker``.
        reader: for whom the file is written.
        reset: what is done about the neurons' reset after reading.
    """

    library: str
    how: str
    maker: str
    reader: str
    reset: str = "subtract"


WAYS = (
    Way("norse", "nirtorch.nir_to_torch with norse's cells", "norse_cells", "nir"),
    Way("norse", "from_nir, then reset_subtract", "norse", "norse"),
    Way("norse", "from_nir as it is", "norse", "norse", "as imported"),
    Way("snntorch", "import_from_nir, then subtract a step later", "snntorch", "snntorch"),
    Way("snntorch", "import_from_nir as it is", "snntorch", "snntorch", "as imported"),
    Way("spikingjelly", "import_from_nir, then v_reset = None", "spikingjelly", "spikingjelly"),
    Way("spikingjelly", "import_from_nir as it is", "spikingjelly", "spikingjelly", "as imported"),
)


def _ours(seed: int, pictures: int) -> tuple[Any, dict[str, np.ndarray]]:
    """The circuit, and what our network makes of a turning robot's pictures: as ``nir_worker`` writes it, and ``x``."""
    room = generate_room("val", seed)
    camera, rng = RayCamera(room_xml(room)), np.random.default_rng(seed)
    x, y, yaw = room.start
    seen = np.stack([usual()[1](camera.render(x, y, yaw + TURN * k, rng)) for k in range(pictures)])
    tensors = weights.load().tensors
    looking, trains, answers = network.Looking(tensors), [], []
    state = looking.rest()
    for picture in seen:
        looked = looking.look(picture, state, STEPS)
        state = looked.state
        trains.append([train.transpose(0, 3, 1, 2) for train in looked.trains])
        answers.append(state["u"].T[:, None])
    found = {layer.name: np.concatenate([train[k] for train in trains]) for k, layer in enumerate(network.LAYERS)}
    images = np.concatenate([network.current(picture) for picture in seen]).transpose(0, 3, 1, 2)
    return network.circuit(tensors), {**found, "answer": np.stack(answers), "x": images}


class Nir(Experiment):
    """The network of vision, written as NIR, run by other libraries: spikes and answers beside ours.

    The libraries are installed the first time, each in an environment of its own; one that cannot be is named and left
    out.
    """

    quick = {"pictures": 1}

    def measure(self, pictures: Annotated[int, typer.Option(min=1, help="Pictures of a robot that turns, 10 "
                                                            "micro-steps each.")] = 20,
                seed: Annotated[int, typer.Option(min=0, help="Seed of the room.")] = 5,
                libraries: Annotated[str, typer.Option(help="Which to run it in, with commas between.")] =
                "norse,snntorch,spikingjelly",
                folder: Annotated[Path | None, typer.Option(help="Of their environments. Default: in ~/.cache/brain.")
                                  ] = None) -> dict[str, Any]:
        """Compares our spikes with those that each way of reading makes of the file.

        Returns:
            ``ways``: of each its fields and the ``version`` of its library, with ``spikes`` (ours), ``differ`` (places
            and times at which one of the two fires), ``rate`` (its spikes over ours) and ``answer`` (largest
            difference of the readout; its mean size is ``answer_size``); or ``left_out`` with the reason.
        """
        only = known(libraries)
        return {"ways": list(self._compare(seed, pictures, [way for way in WAYS if way.library in only], folder))}

    def _compare(self, seed: int, pictures: int, ways: list[Way], folder: Path | None) -> Iterator[dict[str, Any]]:
        circuit, ours = _ours(seed, pictures)
        missing: dict[str, NotThere] = {}
        with TemporaryFolder("bench") as name:
            inputs, outputs = Path(name) / "inputs.npz", Path(name) / "outputs.npz"
            np.savez(inputs, x=ours["x"], steps=STEPS, h=circuit.h)
            for way in ways:
                self.status(f"{way.library}: {way.how}")
                about = {**way._asdict(), "version": LIBRARIES[way.library].pins[0].replace("==", " ")}
                try:
                    if way.library in missing:
                        raise missing[way.library]
                    python = environment(way.library, folder)
                    file = Path(name) / f"{way.reader}.nir"
                    nir_files.write(file, circuit, way.reader)
                    done = finished(*map(str, (python, WORKER, way.maker, way.reset, file, inputs, outputs)),
                                    patience=PATIENCE, environment=NO_PATHS)
                    if done.returncode:
                        raise NotThere(f"{way.library} failed: {(done.stderr.strip() or '?').splitlines()[-1]}")
                except NotThere as error:
                    missing[way.library] = error
                    yield {**about, "left_out": str(error)}
                    continue
                theirs = np.load(outputs)
                names = [p.name for p in circuit.populations[:-1]]
                fired = sum(int(ours[n].sum()) for n in names)
                yield {**about, "spikes": fired, "differ": sum(int((theirs[n] != ours[n]).sum()) for n in names),
                       "rate": sum(int(theirs[n].sum()) for n in names) / fired,
                       "answer": float(np.abs(theirs["answer"] - ours["answer"]).max()),
                       "answer_size": float(np.abs(ours["answer"]).mean())}
