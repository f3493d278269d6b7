# SPDX-License-Identifier: Apache-2.0
"""Regions that are trained: which weights and which device they take, and what a snapshot of others is worth."""
from pathlib import Path

import pytest
import torch

from brain_regions.language import Language
from brain_regions.motor import Motor
from brain_regions.vision import Vision, network
from brain_regions.vision.second import SecondVision
from brain_regions.weight_files import WeightsError
from brain_runtime import ParameterError
from brain_runtime.contract import snapshot

TRAINED = pytest.mark.parametrize("cls", [Vision, Language, Motor])


def configured(cls, **parameters):
    region = cls(cls.weights.default)
    region.configure(parameters)
    return region


@TRAINED
def test_a_shipped_set_is_named_or_pathed(cls):
    own = configured(cls).snapshot_metadata()
    assert configured(cls, weights=cls.weights.default).snapshot_metadata() == own
    assert configured(cls, weights=str(cls.weights.path())).snapshot_metadata() == own
    assert cls.weights.default in cls.weights.names() and cls.weights.path().is_file()


@TRAINED
def test_wrong_weights_are_refused_at_the_start_too(cls, tmp_path):
    with pytest.raises(ParameterError, match=f"there are no weights 'best'; there are {cls.weights.default}"):
        configured(cls, weights="best")
    with pytest.raises(WeightsError, match="missing"):
        configured(cls, weights=str(tmp_path / "none.safetensors"))
    with pytest.raises(WeightsError, match="fit"):      # of the same network without spikes
        configured(cls, weights=f"{cls.weights.default}_ann")


@TRAINED
def test_what_is_refused_while_it_runs_changes_nothing(cls, tmp_path):
    region = configured(cls)
    before, own = region.parameters, region.snapshot_metadata()
    for wrong in ("best", str(tmp_path / "none.safetensors"), f"{cls.weights.default}_ann"):
        with pytest.raises(ParameterError, match=f"{region.name} keeps the weights that it has: "):
            region.on_parameter("weights", wrong)
    assert region.parameters == before and region.snapshot_metadata() == own


def changed(cls, path, change, **metadata):
    """The shipped weights in another file, with other tensors, by name, or metadata."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(cls.weights.path(), framework="np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        about = {key: value for key, value in {**file.metadata(), **metadata}.items() if value is not None}
    found = {name: value for name, value in {**tensors, **change(tensors)}.items() if value is not None}
    save_file({name: torch.as_tensor(value) for name, value in found.items()}, path, about)    # numpy has not all kinds
    return path


@TRAINED
def test_a_file_that_holds_no_weights_of_this_network_is_refused_in_one_line_by_what_is_wrong(cls, tmp_path):
    import numpy as np

    path, region = tmp_path / "w.safetensors", configured(cls)
    first = sorted(name for name in changed_names(cls) if name != "probe")[0]

    def poisoned(tensors):
        value = tensors[first].copy()
        value.flat[-1] = np.nan
        return {first: value}

    def of(kind):
        return lambda t: {first: torch.ones(2).to(kind)}

    cases = {"numbers that are not finite": (poisoned, {}),
             "is BF16, but F16 or F32": (of(torch.bfloat16), {}), "is F8_E4M3, but": (of(torch.float8_e4m3fn), {}),
             "is F8_E5M2, but": (of(torch.float8_e5m2), {}),
             "is F64, but F16 or F32": (lambda t: {first: t[first].astype(np.float64)}, {}),
             "is I32": (lambda t: {first: t[first].astype(np.int32)}, {}),
             "does not fit the network": (lambda t: {first: None}, {}),
             "does not fit the network (": (lambda t: {first: np.ascontiguousarray(t[first][..., :-1])}, {}),
             "does not fit": (lambda t: {"probe": None}, {}),
             "does not say under held_out": (lambda t: {}, {"held_out": "[]"}),
             "does not say under training": (lambda t: {}, {"training": None})}
    wrong = {}
    for why, (change, metadata) in cases.items():
        changed(cls, path, change, **metadata)
        try:
            region.on_parameter("weights", str(path))
            told = "taken"
        except ParameterError as problem:
            told = str(problem)
        if why not in told or "\n" in told or not told.startswith(f"{region.name} keeps the weights that it has"):
            wrong[why] = told
    assert wrong == {}
    assert region.parameters.weights == ""


def changed_names(cls):
    from safetensors import safe_open

    with safe_open(cls.weights.path(), framework="np") as file:
        return list(file.keys())


@TRAINED
def test_a_snapshot_fits_only_the_weights_it_was_made_with(cls, tmp_path):
    from safetensors import safe_open
    from safetensors.numpy import save_file
    from safetensors.torch import save_file as save_torch

    shipped = cls.weights.path()
    with safe_open(shipped, framework="np") as file:    # the same weights in a file with other bytes
        metadata = {**file.metadata(), "note": "another file"}
        save_file({name: file.get_tensor(name) for name in file.keys()}, tmp_path / "same.safetensors", metadata)
    region = configured(cls)
    path = tmp_path / "state.safetensors"
    snapshot.write(path, region, region.initial_state())
    assert snapshot.read(path, region)
    for kind in (torch.bfloat16, torch.float8_e4m3fn):
        save_torch({"a": torch.ones(2).to(kind)}, tmp_path / "odd.safetensors")
        with pytest.raises(snapshot.SnapshotError, match="is (BF16|F8_E4M3), which numpy has not"):
            snapshot.read(tmp_path / "odd.safetensors", region)
    region.on_parameter("weights", str(tmp_path / "same.safetensors"))
    with pytest.raises(snapshot.SnapshotError, match="weights is"):
        snapshot.read(path, region)


@TRAINED
def test_a_device_that_is_not_there_is_refused(cls):
    torch = pytest.importorskip("torch")
    region = configured(cls)
    if "cuda" in cls.network.devices and torch.cuda.is_available():
        pytest.skip("there is such a device")
    for refused in (lambda: region.on_parameter("device", "cuda"), lambda: configured(cls, device="cuda")):
        with pytest.raises(ParameterError, match="set device to cpu"):
            refused()
    assert region.parameters.device == "cpu"


@pytest.mark.parametrize("cls", [Vision, SecondVision])
def test_vision_sees_the_same_on_a_gpu(cls):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    import numpy as np

    rng, here, there = np.random.default_rng(0), configured(cls), configured(cls, device="cuda")
    states = [region._looking.rest() for region in (here, there)]
    for _ in range(5):
        picture = rng.integers(0, 255, (network.HEIGHT, network.WIDTH, 3), dtype=np.uint8)
        looks = [region._looking.look(picture, state, 10) for region, state in zip((here, there), states)]
        states = [look.state for look in looks]
        assert abs(looks[0].spikes - looks[1].spikes) < 0.01 * looks[0].spikes
    assert np.abs(states[0]["u"] - states[1]["u"]).mean() < 0.05


def test_populations_are_those_of_the_networks():
    layers = {layer.name: size for layer, size in zip(network.LAYERS, network.sizes())}
    assert {p.name: p.shape for p in Vision.populations} == layers
    for cls in (Vision, Motor):
        circuit = {p.name: p.shape for p in cls.circuit().populations}
        assert all(circuit[p.name] == p.shape for p in cls.populations)
    parts = next(p for p in Motor.populations if p.name == "output").parts
    assert sorted(n for part in parts.values() for n in range(part.start, part.stop)) == list(range(104))


def test_no_torch_is_imported_to_read_what_regions_say():
    import subprocess
    import sys

    script = ("import sys\nfrom brain_regions.vision import Vision\nfrom brain_regions.language import Language\n"
              "from brain_regions.motor import Motor\nfrom brain_regions.pfc import PrefrontalCortex\n"
              "assert Vision.populations and Language.weights.path().is_file() and Motor.task\n"
              "print('torch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parent)
    assert done.stdout.strip() == "False"
