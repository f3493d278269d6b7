# SPDX-License-Identifier: Apache-2.0
"""Training of language: it learns, the same from the same seed, and what runs live computes what was trained."""
from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from brain_regions.language import network as live
from brain_regions.language import sizes as z
from brain_regions.language import weights
from brain_regions.language.decode import decode, framed, spell
from brain_training.definitions.language import AnnReader, Answer, SpikingReader, of_weights
from brain_regions.weight_files import WeightsError
from brain_training import language_score as score
from brain_training.language import LISTS, LanguageTask, examination, hear
from brain_training.language_course import Course
from brain_training.language_data import MENTION, make, pack
from brain_training.language_loss import Recipe, by_word, hardness, loss
from brain_training.runs import Settings, train, train_networks
from brain_training.trainer import Trainer

PAIRS = [("spiking", SpikingReader, live.SpikingReader, weights.SHIPPED),
         ("ann", AnnReader, live.AnnReader, weights.ANN)]


def tensors(data, rows=None) -> tuple[torch.Tensor, ...]:
    """Text, lengths, verbs, kinds and marks of sentences."""
    task, rows = LanguageTask(), range(len(data.lengths)) if rows is None else rows
    task._made = 0, data
    return task.collate([task.sample(0, int(row)) for row in rows])


def read(network, text: str):
    return network.hear(framed(spell(text)))


def slots(text: str, heard) -> tuple[int, ...]:
    return decode(spell(text), heard)[0].slots


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cls", "reader", "path"), PAIRS)
def test_what_runs_live_computes_what_was_trained(name, cls, reader, path):
    tensors, _, _ = weights.load(path, reader)
    numpy_network, torch_network = reader(tensors), of_weights(cls, tensors)
    texts = [s.text for s in make(60, 77)]
    same = 0
    for text, heard in zip(texts, hear(torch_network, texts)):
        found = read(numpy_network, text)
        same += all(np.allclose(one, other, atol=2e-3) for one, other in zip(found[:2], heard[:2]))
        assert slots(text, found) == slots(text, heard) or np.abs(found.verb - heard.verb).max() < 1.0
    assert same >= 50    # a sum that is rounded otherwise fires a neuron sooner or later, now and then


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cls", "reader", "path"), PAIRS)
def test_the_shipped_weights_reach_their_figures_on_fresh_sentences(name, cls, reader, path):
    loaded, report, _ = weights.load(path, reader)
    network = reader(loaded)
    for language in ("en", "ja"):
        for kind, rows in score.trained(language, 60, 4242).items():
            right = np.mean([slots(row.text, read(network, row.text)) == row.slots for row in rows])
            claimed = report["held_out"][f"trained phrasings, {kind}, {language}"]["right"]
            # three standard deviations of a share of 60
            assert right >= claimed - 3 * np.sqrt(max(claimed * (1 - claimed), 0.01) / 60), (kind, language, right)


def ordered(data, recipe: Recipe, hard: np.ndarray) -> list[list[int]]:
    course, order = Course(data.lengths, recipe, 2), []
    for step in range(len(course)):
        rows = course.rows(step)
        course.note(rows, torch.from_numpy(hard[rows.numpy()]))
        order.append(rows.tolist())
    assert len(order) == len(course)
    return order


def test_the_hardest_sentences_come_again_in_the_next_chapter():
    # the few that are longer than all others would stand together whatever the order
    data = pack([s for s in make(1400, 6) if len(s.text.encode()) <= 100][:1200])
    hard = np.random.default_rng(0).random(1200).astype(np.float32)
    order = ordered(data, Recipe(sentences=1200, again=0.25, chapters=3, batch=10), hard)
    assert len(order) == 40 + 50 + 50     # a hundred of the hardest, in ten batches, after each of two chapters
    chapters = [order[:40], order[40:90], order[90:]]
    read: set[int] = set()
    for number, chapter in enumerate(chapters):
        rows = list(itertools.chain.from_iterable(chapter))
        before = list(itertools.chain.from_iterable(chapters[number - 1])) if number else []
        assert len(set(rows)) == len(rows) and set(rows) & read == set(sorted(before, key=lambda row: -hard[row])[:100])
        reviews = [place for place, some in enumerate(chapter) if some[0] in read]
        assert not number or np.ptp(reviews) > 20      # scattered among the fresh ones
        for place in reviews:
            assert set(chapter[place]) <= read and np.ptp(data.lengths[chapter[place]]) < np.ptp(data.lengths) / 2
        read |= set(rows)
    assert read == set(range(1200))


@pytest.mark.parametrize(("again", "chapters", "batches"), [(0.0, 5, 7), (0.5, 1, 7), (1.0, 50, 13), (1.0, 2, 10)])
def test_a_course_is_as_long_as_it_says(again, chapters, batches):
    order = ordered(pack(make(64, 5)), Recipe(again=again, chapters=chapters, batch=10), np.ones(64, np.float32))
    assert len(order) == batches and set(itertools.chain.from_iterable(order)) == set(range(64))


def test_what_a_word_is_for_is_the_mean_over_its_bytes():
    sentences = [s for s in make(80, 3) if any(part.role for part in s.parts)][:12]
    text, lengths, _, marks = tensors(pack(sentences))
    answer = SpikingReader().eval()(text, lengths)
    said, meant, row = by_word(answer, marks)
    number = 0
    for which, sentence in enumerate(sentences):
        at = 1
        for part in sentence.parts:
            end = at + len(part.text.encode())
            if part.role:
                logits = answer.evidence[which, at:end, [z.TARGET, z.AVOID]].mean(0)
                assert torch.allclose(said[number], torch.cat([torch.zeros(1), logits]), atol=1e-5)
                assert meant[number] == {"T": 1, "A": 2}.get(part.role, 0) and row[number] == which
                number += 1
            at = end
    assert number == len(said) == len(meant) == len(row) > 20
    silence = by_word(answer, torch.zeros_like(marks))
    assert [len(part) for part in silence] == [0, 0, 0]
    assert (hardness(answer, torch.zeros(12, dtype=torch.int64), torch.zeros_like(marks)) > 0).all()


def test_hardness_is_that_of_the_verb_and_of_the_worst_word_of_a_thing():
    data = pack([s for s in make(120, 1) if s.target.color and 0 < s.meaning < z.REFUSED][:8])
    text, lengths, meaning, marks = tensors(data)
    answer = SpikingReader().eval()(text, lengths)
    evidence = torch.full_like(answer.evidence, -50.0)
    for output in (z.TARGET, z.AVOID):
        evidence[..., output] += 100.0 * ((marks >> output) & 1)
    perfect = answer._replace(verb=torch.nn.functional.one_hot(meaning, len(z.MEANINGS)) * 50.0,
                              evidence=evidence)
    assert hardness(perfect, meaning, marks).max() < 1e-6
    blamed = perfect._replace(verb=perfect.verb.roll(1, 1))
    assert torch.allclose(hardness(blamed, meaning, marks), torch.full((8,), 50.0), atol=1e-3)
    for mention in (True, False):
        spoiled = evidence.clone()
        for row in range(8):
            place = int(torch.nonzero((marks[row] & int(MENTION) != 0) == mention)[0])
            word = marks[row] == marks[row, place] if mention else [place]
            spoiled[row, word, z.TARGET:z.AVOID + 1] *= -1
        worst = hardness(perfect._replace(evidence=spoiled), meaning, marks)
        assert (worst > 49).all() if mention else (worst < 1e-3).all()


@pytest.mark.extended
@pytest.mark.parametrize("which", ["spiking", "ann"])
def test_more_is_learned_than_what_is_common(which):
    recipe, fresh = Recipe(sentences=3000), pack(make(128, 99))
    trainer = Trainer(LanguageTask(which, recipe=recipe), 1)
    network = trainer.run().eval()
    text, lengths, *right = tensors(fresh)
    with torch.no_grad():
        answer = network(text, lengths)
    lost = loss(answer, *right, lengths, recipe).item()
    # the best answer that is the same for every sentence
    common = [torch.zeros(logits.shape[-1], requires_grad=True) for logits in answer[:3]]
    optimizer = torch.optim.Adam(common, 0.1)
    for _ in range(150):
        same = [bias.expand_as(logits) for bias, logits in zip(common, answer[:3])]
        least = loss(Answer(*same, *answer[3:]), *right, lengths, recipe)
        optimizer.zero_grad()
        least.backward()
        optimizer.step()
    assert lost < 0.75 * least.item() and np.isfinite(trainer.losses).all()


@pytest.mark.slow
def test_the_end_is_trained_on_statistics_that_stand_still():
    trainer = Trainer(LanguageTask(recipe=Recipe(sentences=96, settled=1.0)), 0)
    begun = trainer.network.words.detach().clone()
    network = trainer.run()
    assert not network.words_mean.any() and not torch.equal(network.words, begun)
    data = pack(make(320, 4))
    network.train()
    network(*tensors(data, range(32))[:2])
    first = network.words_mean.clone()
    assert first.any()          # the first batch counts whole, not as one of many
    network(*tensors(data, range(32, 64))[:2])
    second, alone = network.words_mean, SpikingReader()
    kept = {name: value for name, value in network.state_dict().items() if name != "kind"}
    alone.load_state_dict({**kept, "batches": torch.zeros(())})
    alone.train()(*tensors(data, range(32, 64))[:2])
    assert torch.allclose(second, (first + alone.words_mean) / 2, atol=1e-5)


def test_a_course_goes_on_where_it_stood_and_not_back():
    data, hard = pack(make(600, 5)), torch.from_numpy(np.random.default_rng(0).random(600).astype(np.float32))
    recipe = Recipe(again=0.4, chapters=4, batch=10)
    whole, stopped = Course(data.lengths, recipe, 2), Course(data.lengths, recipe, 2)
    order = []
    for step in range(len(whole)):
        order.append(whole.rows(step))
        whole.note(order[-1], hard[order[-1]])
    for at in (0, 7, 15, 40, len(whole)):
        stopped = Course(data.lengths, recipe, 2)
        for step in range(at):
            stopped.note(stopped.rows(step), hard[order[step]])
        rest = Course(data.lengths, recipe, 2)
        rest.restore(*stopped.state())
        for step in range(at, len(whole)):
            rows = rest.rows(step)
            assert torch.equal(rows, order[step])
            rest.note(rows, hard[rows])
    with pytest.raises(ValueError, match="step 0 is of a chapter that is over"):
        rest.rows(0)


@pytest.mark.extended
@pytest.mark.slow
def test_a_quick_run_writes_files_that_load_and_the_same_seed_gives_the_same_weights(tmp_path):
    told, settings = set(), Settings(seed=3, quick=True)
    found = train("language", tmp_path / "a.safetensors", settings, lambda what, *_: told.add(what))
    before = torch.get_num_threads()
    train_networks("language", ("spiking",), tmp_path / "b.safetensors", settings, lambda *news: None)
    assert torch.get_num_threads() == before    # left as they were
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    tensors, report, _ = weights.load(tmp_path / "a.safetensors", live.SpikingReader)
    assert report["held_out"] == found["spiking"]["held_out"] and told >= {"spiking", "ann"}
    ann, _, _ = weights.load(tmp_path / "a_ann.safetensors", live.AnnReader)
    assert not np.array_equal(ann["words"], tensors["words"])
    with pytest.raises(WeightsError, match="region is"):
        weights.load(tmp_path / "a_ann.safetensors", live.SpikingReader)


def test_lists_by_hand_are_scored_where_there_are_some(tmp_path):
    for name in LISTS.values():
        (tmp_path / f"{name}_english.txt").write_text("stop : stop\n- : hello there\n")
        (tmp_path / f"{name}_japanese.txt").write_text("stop : 止まれ\n")
    task = LanguageTask(quick=True)
    task.lists = tmp_path
    network = of_weights(SpikingReader, weights.load(weights.SHIPPED, live.SpikingReader)[0])
    found = task.score(network, lambda *news: None)["held_out"]
    assert found["list by hand, understood, en"] == {"right": 1.0, "of": 1}
    for whose in LISTS:
        assert found[f"list by {whose}, understood, ja"] == {"right": 1.0, "of": 1}
    assert not any(key.startswith("list") for key in examination(2, 1, tmp_path / "nowhere"))


def test_a_wrong_list_is_told_before_anything_is_trained(tmp_path, monkeypatch):
    for name in LISTS.values():
        for language in ("english", "japanese"):
            (tmp_path / f"{name}_{language}.txt").write_text("stop : stop\n")
    (tmp_path / "blind_japanese.txt").write_text("walk : 歩いて\n")
    told = []
    monkeypatch.setattr(LanguageTask, "lists", tmp_path)
    with pytest.raises(ValueError, match="blind_japanese.txt: not a sentence with its slots: walk"):
        train("language", tmp_path / "a.safetensors", Settings(quick=True), lambda *news: told.append(news))
    assert not told and not (tmp_path / "a.safetensors").exists()
