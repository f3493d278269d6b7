# SPDX-License-Identifier: Apache-2.0
"""A trained region added as the docs say: a folder, a task module, an entry in the graph; and everybody knows of it."""
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from brain_eval import reference
from brain_eval import ablations
from brain_runtime.graph import graphs
from brain_runtime.contract.declared import named
from brain_runtime.graph import check_graph
from brain_runtime.hosts.local import LocalHost
from brain_runtime.contract.region import Region
from brain_runtime.graph.resolve import resolve
from brain_wire import messages

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "region-reference.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.slow       # it is trained


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    """Folder with the files of the docs, a graph ``mine.graph.yaml`` and trained weights."""
    folder = tmp_path_factory.mktemp("added")
    for name, code in re.findall(r"```python\n# (hearing[\w/]*\.py)\n(.*?)```", PAGE, re.S):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code, encoding="utf-8")
    entry = next(found for found in map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", PAGE, re.S))
                 if "hearing" in found["regions"])
    brain = yaml.safe_load((ROOT / "config" / "brain.graph.yaml").read_text(encoding="utf-8"))
    brain["regions"] |= entry["regions"]
    (folder / "mine.graph.yaml").write_text(yaml.safe_dump(brain, sort_keys=False), encoding="utf-8")
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(folder))
    done = command(folder, "train", "hearing", "--graph", "mine.graph.yaml", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["spiking"]["right"] > 0.95
    assert told["files"] == [str(folder / "hearing" / "weights" / "hearing.safetensors")]
    yield folder
    patch.undo()
    for name in [name for name in sys.modules if name.partition(".")[0].startswith("hearing")]:
        del sys.modules[name]


def command(folder, *arguments):
    """What a ``brain`` command says that finds the added files."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run([sys.executable, "-m", "brain", *arguments], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": path}, timeout=110)


@pytest.fixture
def graph(added):
    return str(added / "mine.graph.yaml")


def heard(graph, *options, seconds=0.6, listen=()):
    """Novelty that hearing tells of a sound from the left, and what else is heard, under ablations."""
    resolved = resolve(graph, robot=None, ablation=ablations.parse(options, graph), edges=False)
    regions = {name: region for name, region in resolved.make().items() if name in ("hearing", "introspection")}
    host = LocalHost(regions, parameters=resolved.parameters())
    told = {topic: [] for topic in listen}
    for topic, found in told.items():
        host.listen(topic, found.append)
    loud = np.full(36, 0.1, np.float32)
    loud[9] = 1.2
    for _ in range(round(seconds / 0.05)):
        host.publish("ears/loudness", messages.make("sensor_msgs/msg/LaserScan", ranges=loud))
        host.advance(0.05)
    return host, host.latest("sensor/features").novelty, told


def test_it_fits_into_the_graph_and_says_what_it_must(graph):
    loaded = graphs.load(graph, "arena")
    assert check_graph(loaded) == []
    cls = loaded.spec("hearing").load()
    assert issubclass(named(cls.baselines["conventional"], "hearing"), Region)
    assert callable(named(cls.network.definition, "hearing")) and callable(named(cls.pictures[0].draw, "hearing"))


def test_its_task_is_one_and_makes_the_same_weights_again(graph, tmp_path):
    from brain_training import tasks
    from brain_training.task import Task
    from brain_training.trainer import Trainer

    cls = graphs.load(graph).spec("hearing").load()
    task = tasks.load("hearing", graph)(quick=True)
    assert isinstance(task, Task) and task.files()["spiking"] == cls.weights.path()
    one, two = (Trainer(task, 3).run().state_dict() for _ in range(2))
    assert all(bool((one[name] == two[name]).all()) for name in one)


def test_it_hears_with_its_weights_and_not_without_spikes(graph):
    _, novelty, _ = heard(graph)
    assert np.flatnonzero(novelty) == [9] and novelty[9] > 0.3
    assert not heard(graph, "hearing=silent")[1].any()
    host, novelty, _ = heard(graph, "hearing=conventional")
    assert np.flatnonzero(novelty) == [9] and host.regions["hearing"].spikes == 0


def test_its_ablations_are_known_and_named(graph):
    assert "hearing=silent|gain:FACTOR|conventional" in ablations.names(graph)
    assert not any(name.startswith("hearing") for name in ablations.names())
    assert "hearing" in ablations.parse(["all=conventional"], graph).classes
    assert ablations.parse(["hearing=gain:0.5"], graph).parameters == {"hearing": {"gain": 0.5}}
    for wrong in ("gain:11", "gain:"):
        with pytest.raises(ValueError, match="factor is a number from 0 to 10, as in hearing=gain:5"):
            ablations.parse([f"hearing={wrong}"], graph)
    with pytest.raises(ValueError, match=r"hearing=silent\|gain:FACTOR\|conventional"):
        ablations.parse(["hearing=gone"], graph)


def test_its_spikes_are_shown_by_the_introspection_region(graph):
    mine, shipped = (resolve(name, robot=None).region("introspection").own["populations"] for name in (graph, "brain"))
    assert sorted(mine) == sorted([*shipped, "hearing/hair"])
    _, _, told = heard(graph, listen=["inside/rates/hearing/hair"])
    assert max(m.data for m in told["inside/rates/hearing/hair"]) > 0


def test_its_rate_is_a_topic_that_who_gives_rights_knows(graph):
    topic = "inside/rates/hearing/hair"
    assert topic in resolve(graph, robot=None).region("introspection").publishes
    assert topic not in resolve("brain", robot=None).region("introspection").publishes


def test_its_network_is_measured_and_its_weights_are_told_with_results(graph):
    from brain_eval.bench import steps
    from brain_eval import results

    assert set(steps.networks(graph)) - set(steps.networks()) == {"hearing"}
    assert set(results.weights_hashes(graph)) - set(results.weights_hashes()) == {"hearing/hearing.safetensors"}


def test_its_network_is_exported(graph, added, tmp_path):
    def export(region):
        return command(added, "export", region, "--graph", graph, "--nir", str(tmp_path / f"{region}.nir"))

    done = export("hearing")
    assert done.returncode == 0 and "hair" in done.stdout, done.stderr
    assert (tmp_path / "hearing.nir").stat().st_size > 1000
    assert "motor, hearing" in export("place").stderr


def test_the_reference_tells_of_it(graph):
    page = reference.regions_page(graph)
    own = page[page.index("## hearing"):]
    for line in ("| network | `hearing.network:Net`, on cpu; a step within 1 ms |", "| training task | `hearing_task",
                 "| population `hair` | 48 (neuron) |", "| baseline `conventional` | `hearing.loudest:Loudest` |"):
        assert line in own


def test_a_film_draws_its_picture(graph):
    from brain_eval.frames import HIGH, Film
    from brain_eval.moments import Watcher
    from brain_sim import suite

    host, _, _ = heard(graph)
    watcher = Watcher()
    watcher.begin(host, None)
    watcher.look(host, 0.0)
    film = Film(suite.episode("val", 15, 1), None, watcher.moments, watcher.regions)
    image = np.asarray(film.frame(watcher.moments[0])).astype(int)
    assert image.shape[0] == HIGH + 60
    assert (np.abs(image[HIGH:] - (0x5a, 0xd1, 0xe6)).sum(-1) < 40).sum() > 20


def test_other_weights_are_taken_while_it_runs(graph, added, tmp_path):
    weights = importlib.import_module("hearing.weights")
    net, _ = weights.load(weights.SHIPPED)
    net.out.weight.zero_()
    weights.save(tmp_path / "deaf.safetensors", net, {}, {})
    host, novelty, _ = heard(graph)
    assert novelty.any()
    host.regions["hearing"].on_parameter("weights", str(tmp_path / "deaf.safetensors"))
    host.advance(1.0)
    assert not (host.latest("sensor/features").novelty > 0.01).any()
