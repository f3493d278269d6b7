# SPDX-License-Identifier: Apache-2.0
"""No picture that is scored, no source of one and no part of one is trained on: hashes are compared."""
from __future__ import annotations

import ast
import hashlib
from pathlib import Path

import numpy as np
import pytest

from brain_eval.score.held_out import Trained, conflicts, known, marks
from brain_eval.score.labels import FOLDER, Camera, Picture, read
from brain_runtime.contract.pictures import PictureError, unpacked
from brain_training import sources

SRC = Path(__file__).resolve().parents[2]
LEARNING = ("brain_training", "brain_sim", "brain_regions")     # what a training is made of
HEADS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*", b"\x93NUMPY", b"PK\x03\x04",
         b"\x1f\x8b", b"\x89HDF", b"qoif")       # of pictures, and of what may hold them

pytestmark = pytest.mark.skipif(not (SRC / "brain" / "setup.cfg").is_file(), reason="the sources are not here")


def scored():
    return [picture for file in sorted(FOLDER.glob("*.yaml")) for picture in read(file)]


def trained():
    """All that training lists, with the pictures where they lie here."""
    found = []
    for one in sources.PICTURES:
        file = SRC / one.path
        picture = unpacked(file.read_bytes()) if file.is_file() else None
        found.append(Trained(one.source, one.path, one.sha256, picture))
    return found


def shipped():
    """Files of the packages that a training is made of, which are or may hold pictures."""
    for package in LEARNING:
        for file in (SRC / package / package).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts and file.read_bytes()[:8].startswith(HEADS):
                yield file


def words_of(file):
    """Names that are imported by a module, and all texts in it that could name a package or a file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.name for alias in node.names)
            yield getattr(node, "module", None) or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_what_is_trained_on_is_not_scored():
    assert len(scored()) > 40
    assert conflicts(trained(), scored()) == []


def test_every_picture_that_a_training_could_show_is_listed_by_its_hash():
    listed = {one.sha256 for one in sources.PICTURES}
    assert [str(file) for file in shipped() if hashlib.sha256(file.read_bytes()).hexdigest() not in listed] == []


def test_what_is_listed_has_those_bytes_and_a_licence():
    for one in sources.PICTURES:
        assert one.licence and one.source
        if (SRC / one.path).is_file():
            assert hashlib.sha256((SRC / one.path).read_bytes()).hexdigest() == one.sha256, one.path


def test_no_module_that_a_training_is_made_of_names_a_source_that_is_scored():
    """By package and by its module: scikit-image is imported as skimage."""
    names = {picture.source.split()[0] for picture in scored()}
    # a repository is named owner/name, and no part of it is imported
    names |= {picture.path.partition("/")[0] for picture in scored() if "/" not in picture.source}
    assert {"scikit-image", "skimage", "sklearn", "ultralytics"} <= names
    named = {f"{file.relative_to(SRC)}: {name}" for package in LEARNING
             for file in (SRC / package / package).rglob("*.py") for word in words_of(file) for name in names
             if name in word.lower()}
    assert named == set()


# -- that it would be found ------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def photograph():
    rng = np.random.default_rng(5)
    coarse = np.kron(rng.integers(0, 256, (30, 40, 3)), np.ones((12, 12, 1)))
    return np.clip(coarse + rng.normal(0, 12, coarse.shape), 0, 255).astype(np.uint8)


def label_of(picture, source="some-pictures 1.0", digest="a" * 64):
    return Picture(source, "second", "data/a.png", digest, "CC0-1.0", Camera(), (), marks(picture))


@pytest.mark.parametrize("part", [
    lambda p: p, lambda p: p[:, ::-1], lambda p: p[:241, :321], lambda p: p[-241:, -321:], lambda p: p[100:300, 90:330],
    lambda p: p[-241:, :321][:, ::-1]])
def test_a_part_of_a_scored_picture_is_found_mirrored_too(photograph, part):
    (found,) = conflicts([Trained("others 2.0", "b.png", "b" * 64, part(photograph))], [label_of(photograph)])
    assert found == "b.png of others 2.0 has a part of data/a.png of some-pictures 1.0, which is scored"


def test_the_same_bytes_and_the_same_source_are_found_without_the_picture(photograph):
    one = label_of(photograph)
    assert "is data/a.png of some-pictures 1.0" in conflicts([Trained("x", "c.png", "a" * 64)], [one])[0]
    assert "is of the source of" in conflicts([Trained("Some-Pictures 3.1", "c.png", "c" * 64)], [one])[0]
    assert conflicts([Trained("others 2.0", "c.png", "c" * 64)], [one]) == []


def test_another_picture_has_no_part_of_it(photograph):
    other = np.random.default_rng(6).integers(0, 256, photograph.shape).astype(np.uint8)
    flat = np.full_like(photograph, 90)
    assert conflicts([Trained("others 2.0", "d.png", "d" * 64, other), Trained("others 2.0", "e.png", "e" * 64, flat)],
                     [label_of(photograph)]) == []
    assert marks(flat) == () and known(flat[:5, :5]) == set() and conflicts(
        [Trained("others 2.0", "e.png", "e" * 64, flat)], [label_of(flat)]) == []


def test_a_picture_that_is_added_without_being_listed_is_found(tmp_path, monkeypatch, photograph):
    from PIL import Image

    folder = tmp_path / "brain_sim" / "brain_sim" / "textures"
    folder.mkdir(parents=True)
    Image.fromarray(photograph).save(folder / "floor.png")
    (folder / "names.txt").write_text("floor")
    (folder / "floor.py").write_text("from skimage import data\nFILE = 'sklearn/datasets'\n")
    monkeypatch.setitem(globals(), "SRC", tmp_path)
    assert [file.name for file in shipped()] == ["floor.png"]
    assert {"skimage", "data", "sklearn/datasets"} <= set(words_of(folder / "floor.py"))
    with pytest.raises(PictureError):
        unpacked((folder / "names.txt").read_bytes())
