# SPDX-License-Identifier: Apache-2.0
"""`brain film`: what is kept of an episode, what is drawn of it, and that looking changes nothing."""
import math

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from brain.cli import app
from brain_eval.ablations import declared
from brain_eval.episodes import run_local
from brain_eval.film import save
from brain_eval.frames import HIGH, WIDE, Film, gloss, swatches
from brain_eval.moments import Moment, Watcher, choosing
from brain_observe.introspection import ring
from brain_regions.language import Language
from brain_regions.language.region import Reading
from brain_regions.pfc import polar
from brain_regions.pfc.control import APPROACH, SEARCH
from brain_regions.pfc.memory import CAP
from brain_sim import suite

RED_BALL = 0
REGIONS = declared("brain")
SPOKEN = 112        # px that language adds to a frame
MEMORY = (330, 72, 272)     # px: left, top and side of the memory's panel


@pytest.fixture(scope="module")
def episode():
    return suite.episode("val", 15, 1)


def remembering(bearing, distance, t=1.0, **more):
    evidence = np.zeros((13, 36, 14), np.float32)
    evidence[RED_BALL] = CAP * polar.bump(bearing, distance)
    return Moment(t, evidence=evidence, **more)


def pixels(image):
    return np.asarray(image).astype(int)


def red(image, box):
    """Middle (px) of what is red within (left, top, width, height)."""
    left, top, width, height = box
    part = pixels(image)[top:top + height, left:left + width]
    rows, columns = np.nonzero((part[..., 0] > 150) & (part[..., 1:].max(-1) < 80))
    return (float(np.median(columns)), float(np.median(rows))) if len(rows) else None


@pytest.mark.parametrize("bearing, distance", [(0.0, 2.0), (1.2, 1.0), (-2.0, 4.0)])
def test_what_is_remembered_is_drawn_where_it_is(episode, bearing, distance):
    left, top, side = MEMORY
    moment = remembering(bearing, distance)
    found = red(Film(episode, None, [moment], REGIONS).frame(moment), (left, top, side, side))
    right, up = ring.spot(bearing, distance)
    middle = side / 2
    # the panel reaches a little beyond the rim
    assert found == pytest.approx((middle * (1 + right / 1.02), middle * (1 - up / 1.02)), abs=9)


def test_true_objects_are_drawn_where_the_robot_would_remember_them(episode):
    room = episode.room()
    ball = next(o for o in room.objects if o.kind == ("red", "ball"))
    x, y, yaw = room.start
    bearing, distance = math.atan2(ball.y - y, ball.x - x) - yaw, math.hypot(ball.x - x, ball.y - y)
    moment = Moment(0.0, pose=room.start)
    left, top, side = MEMORY
    image = pixels(Film(episode, room, [moment], REGIONS).frame(moment))
    bare = pixels(Film(episode, None, [moment], REGIONS).frame(moment))
    changed = np.argwhere(np.abs(image - bare).sum(-1)[top:top + side, left:left + side] > 60)
    right, up = ring.spot(bearing, distance)
    spot = np.array([side / 2 * (1 - up / 1.02), side / 2 * (1 + right / 1.02)])
    assert np.abs(changed - spot).max(1).min() < 8


def test_a_frame_grows_by_what_language_reads(episode):
    quiet = Moment(0.0)
    evidence = np.zeros((len(episode.sentence), 3), np.float32)
    evidence[18:24, 0] = 3.0
    reading = Reading(episode.sentence, evidence, 0.5)
    told = Moment(0.2, reading=reading, views={"language": {"reading": reading}})
    assert Film(episode, None, [quiet], REGIONS).frame(quiet).size == (WIDE, HIGH)
    film = Film(episode, None, [quiet, told], REGIONS)
    assert film.frame(told).size == film.frame(quiet).size == (WIDE, HIGH + SPOKEN)
    part = pixels(film.frame(told))[HIGH + 34:HIGH + 52, 70:WIDE - 16]
    gold = np.nonzero(((part[..., 0] > 200) & (part[..., 2] < 100)).any(0))[0] / part.shape[1] * len(episode.sentence)
    assert (gold.min(), gold.max()) == pytest.approx((18, 24), abs=0.3)


def test_choice_actions_and_spikes_show(episode):
    p = np.full(36, 1 / 36)
    sure = np.eye(36)[9]
    spikes = np.stack([np.linspace(-0.9, -0.1, 50), np.arange(50)], 1)
    moments = [Moment(0.0, p=p, entropy=math.log(36), alpha=0.0, actions=(0, 0, 0.7, 0, 0)),
               Moment(4.0, p=sure, entropy=0.3, alpha=0.9, actions=(0, 0, 0, 0.7, 0), mode=APPROACH,
                      heading=math.pi / 2, commitment=sure, velocity=(0.5, 1.0),
                      spikes={"motor/output": spikes})]
    film = Film(episode, None, moments, REGIONS)
    before, after = (pixels(film.frame(m)) for m in moments)
    for left, top, width, height in ((640, 72, 272, 272), (40, 400, 264, 108), (352, 400, 250, 108),
                                     (680, 400, 130, 108), (826, 400, 88, 108)):
        part = np.abs(after - before)[top:top + height, left:left + width].sum(-1)
        assert (part > 100).sum() > 40, (left, top)
    # certain of the left: all of the ring's bars but that one are gone
    violet = (np.abs(after - (0xc5, 0x8c, 0xff)).sum(-1) < 60)[72:344, 640:912]
    assert np.nonzero(violet)[1].max() < 136


def test_the_moment_of_choice_is_the_first_sure_approach_with_something_in_view():
    moments = [Moment(0.0, entropy=3.6, alpha=0.0, mode=SEARCH), Moment(1.0, entropy=2.0, alpha=0.4, mode=APPROACH),
               Moment(2.0, entropy=1.0, alpha=0.8, mode=APPROACH), Moment(2.4, alpha=0.8, mode=APPROACH, detected=2),
               Moment(9.0, entropy=0.1, alpha=1.0, mode=APPROACH, detected=5)]
    assert choosing(moments) is moments[3]
    assert choosing(moments[:2]) is moments[1] and choosing([Moment(0.0)]).t == 0.0
    without = [Moment(0.0, mode=SEARCH), Moment(1.0, mode=APPROACH)]      # a cortex that tells of no doubt
    assert choosing(without) is without[1]
    with pytest.raises(ValueError, match="nothing was seen"):
        choosing([])
    with pytest.raises(ValueError, match="nothing was seen"):
        Film(None, None, [], REGIONS)


def test_frames_are_left_out_until_a_film_is_small_enough(tmp_path):
    rng = np.random.default_rng(0)
    frames = [Image.fromarray(rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)) for _ in range(64)]
    path = tmp_path / "noise.gif"
    assert save(path, frames, 0.1, 1e9) == 64
    whole = path.stat().st_size
    assert save(path, frames, 0.1, 0.6 * whole) == 33
    assert path.stat().st_size < 0.6 * whole
    film = Image.open(path)
    assert film.n_frames == 33 and film.info["duration"] == 200
    with pytest.raises(ValueError, match="allow more --megabytes"):
        save(path, frames, 0.1, 10)
    with pytest.raises(ValueError, match="nothing to film"):
        save(path, [], 0.1, 1e6)


def test_rare_colors_are_kept(tmp_path):
    gray = np.random.default_rng(0).integers(0, 255, (200, 300, 1), dtype=np.uint8).repeat(3, 2)
    gray[50, 50:60] = (255, 80, 80)
    save(tmp_path / "one.gif", [Image.fromarray(gray)] * 3, 0.1, 1e9, swatches())
    kept = np.asarray(Image.open(tmp_path / "one.gif").convert("RGB"))[50, 55]
    assert tuple(kept) == (255, 80, 80)


def test_before_the_first_sentence_there_is_no_reading():
    region = Language("language")
    region.configure({})
    assert region.view(region.initial_state()) == {}


def test_an_episode_in_english():
    assert gloss(suite.episode("val", 15, 1)) == "to the yellow ball, not near the red ball"
    assert gloss(suite.episode("val", 14, 1)) == "is no task for the robot"
    assert gloss(suite.episode("val", 3, 1)).endswith("(there is none)")


@pytest.mark.parametrize("arguments, told", [(("--out", "film.mp4"), "a film is a .gif"),
                                             (("--ablate", "pfc=wise"), "there is no ablation 'pfc=wise'"),
                                             (("--graph", "none-such"), "there is no graph")])
def test_what_cannot_be_filmed_is_said(tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["film", *arguments])
    assert result.exit_code != 0 and told in result.output and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_looking_changes_nothing_and_sees_all(tmp_path):
    short = suite.episode("val", 16, 1)
    watcher = Watcher()
    seen, alone = run_local(short, onlooker=watcher), run_local(short)
    assert {k: v for k, v in seen.items() if k != "wall"} == {k: v for k, v in alone.items() if k != "wall"}
    moments = watcher.moments
    assert watcher.room is not None and len(moments) > 10
    assert [b.t - a.t for a, b in zip(moments, moments[1:])] == pytest.approx([0.2] * (len(moments) - 1), abs=0.11)
    last = moments[-1]
    assert last.wants == "yellow ball" and last.evidence is not None and last.p.sum() == pytest.approx(1.0, abs=1e-4)
    (spikes,) = last.spikes.values()
    assert len(spikes) and spikes[:, 0].min() > -1 and spikes[:, 0].max() <= 0
    assert spikes[:, 1].max() < 104 and last.picture.ndim == 3
    choice = choosing(moments)
    assert choice.mode == APPROACH and choice.alpha > 0.5
    Film(short, watcher.room, moments, watcher.regions).frame(choice).save(tmp_path / "choice.png")
    assert (tmp_path / "choice.png").stat().st_size > 10_000
