# SPDX-License-Identifier: Apache-2.0
"""What the regions of the shipped graph say about themselves: each string leads somewhere, and nothing is missing."""
import dataclasses

import pytest

from brain_eval import ablations
from brain_runtime.graph import graphs
from brain_runtime.contract.declared import NUMBER, DeclaredError, Network, Picture, Population, Weights, named
from brain_runtime.contract.region import Region
from brain_runtime.graph.resolve import resolve, resolve_region
from brain_tests.cases import of_all

REGIONS = {spec.name: spec.load() for spec in graphs.load("brain", "arena").regions}
TRAINED = [name for name, cls in REGIONS.items() if cls.task]
STRINGS = sorted({
    (name, what, text) for name, cls in REGIONS.items() for what, text in (
        *([("network", cls.network.definition)] if cls.network else []),
        *(("baseline", text) for text in cls.baselines.values()),
        *(("ablation", change) for change in cls.ablations.values() if isinstance(change, str)),
        *(("picture", picture.draw) for picture in cls.pictures), *([("task", cls.task)] if cls.task else []))})


def wire(cls):
    """Outputs that others need: topics and types, without what is made on demand or shows spikes."""
    return {(p.topic, p.type) for p in cls.outputs().values() if not p.on_demand and p.topic != "brain/spikes"}


@of_all(STRINGS)
def test_each_string_leads_somewhere(case):
    region, what, text = case
    found = named(text, f"region {region}")
    if what in ("baseline", "ablation"):
        assert issubclass(found, Region) and wire(found) == wire(REGIONS[region])
    else:
        assert callable(found)


def test_each_network_says_what_it_must():
    networks = {name: cls for name, cls in REGIONS.items() if cls.network is not None}
    assert {"vision", "language", "motor"} <= set(TRAINED) <= set(networks) and "pfc" in networks
    for name, cls in networks.items():
        assert cls.network.work and cls.baselines, name
        if cls.network.spiking:
            assert cls.circuit().populations and cls.ablations["silent"] == {"silent": True}, name
        names = [population.name for population in cls.populations]
        assert names and len(set(names)) == len(names)
    for name in TRAINED:
        cls = networks[name]
        assert cls.task and cls.weights.path().is_file()
        fields = {field.name: field for field in dataclasses.fields(cls.Parameters)}
        assert fields["weights"].metadata["live"] and fields["device"].default == cls.network.devices[0] == "cpu"
    assert not networks["pfc"].task and networks["pfc"].weights is None


def test_introspection_is_told_of_every_population_that_tells_its_spikes():
    told = resolve("brain", robot=None).region("introspection").parameters["populations"]
    assert told == [population.rate or f"{name}/{population.name}" for name, cls in REGIONS.items()
                    for population in cls.populations if population.told]
    assert {"edges", "pfc/memory", "motor/output"} <= set(told) and len(set(told)) == len(told)
    (alone,) = resolve_region("introspection").regions
    assert alone.parameters["populations"] == told


@pytest.mark.parametrize("name", [name for name, cls in REGIONS.items() if ablations.of_region(cls)])
def test_ablations_change_parameters_that_there_are(name):
    cls = REGIONS[name]
    known = {field.name for field in dataclasses.fields(cls.Parameters)}
    for change in cls.ablations.values():
        if not isinstance(change, str):
            assert set(change) <= known
            cls().configure({p: value for p, value in change.items() if value != NUMBER})
    for change in cls.baselines.values():
        assert not ablations.of_region(named(change, name)), "a baseline's own would never be asked for"


def test_spikes_that_are_told_are_of_populations_that_are_declared():
    from brain_eval.episodes import run_local
    from brain_sim.suite import episodes

    class Ear:
        def begin(self, host, episode):
            self.told = {}
            host.listen("brain/spikes", lambda m: self.told.__setitem__(m.population, m.size))

        def look(self, host, since):
            """Nothing."""

    ear, some = Ear(), next(e for e in episodes("val", 20) if e.kind == "nonsense")
    run_local(some, onlooker=ear, parameters={"vision": {"spikes": True}})
    sizes = {f"{name}/{p.name}": p.size for name, cls in REGIONS.items() for p in cls.populations if p.told}
    assert set(ear.told) == set(sizes) and ear.told == sizes


@pytest.mark.parametrize("text, why", [
    ("brain_regions.motor", "must read package.module:Name"), ("brain_regions.none:X", "no module brain_regions.none"),
    ("brain_regions.motor:Nobody", "brain_regions.motor has no Nobody")])
def test_a_string_that_leads_nowhere_names_who_says_so(text, why):
    with pytest.raises(DeclaredError, match=f"region me.*{why}"):
        named(text, "region me")


def test_a_package_that_is_not_installed_is_left_to_who_asks():
    with pytest.raises(ModuleNotFoundError) as missing:
        named("brain_none.deep.inside:X", "region me")
    assert missing.value.name == "brain_none"


def test_what_cannot_be_a_declaration_is_refused(tmp_path):
    with pytest.raises(DeclaredError, match="2 axes and 1 names"):
        Population("x", (2, 3), ("row",))
    weights = Weights(tmp_path, "own")
    (tmp_path / "other.safetensors").touch()
    assert weights.names() == ["other"] and weights.path() == tmp_path / "own.safetensors"
    assert weights.path("other") == tmp_path / "other.safetensors" and weights.path("./x").name == "x"
    with pytest.raises(DeclaredError, match="there are other"):
        weights.path("best")
    assert Network("a:b").devices == ("cpu",) and Picture("a:b").below == 0
    with pytest.raises(TypeError, match="no port can be named task"):
        type("Odd", (Region,), {"task": next(iter(REGIONS["motor"].inputs().values()))})


def test_an_ablation_that_takes_a_number_says_so_in_its_name():
    for wrong in ({"gain": {"gain": NUMBER}}, {"gain:FACTOR": {"gain": 1.0}}):
        with pytest.raises(TypeError, match="the ablation 'gain.*has one, and a name like 'gain:FACTOR'"):
            type("Wrong", (Region,), {"ablations": wrong})
