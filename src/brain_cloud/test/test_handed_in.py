# SPDX-License-Identifier: Apache-2.0
"""Hard clips leave a robot once and by consent only, and are a list for trainings where they arrive."""
from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from brain.cli import app

from clips_stage import clips_cloud


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["fleet", *map(str, words)], env={"BRAIN_CLOUD": "", "COLUMNS": "300"})
    return done.exit_code, done.output


def clip(folder: Path, number: int, robot: str = "robot1", drive: str = "d") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"hard-{robot}-{drive}-{number:06d}-unsure-50.mcap"
    path.write_bytes(f"clip {robot} {drive} {number}".encode())
    return path


def test_clips_leave_once_and_are_listed(tmp_path: Path) -> None:
    cloud, clips, edge = tmp_path / "cloud", tmp_path / "clips", tmp_path / "edge"
    with clips_cloud(cloud / "pictures", edge) as there:
        words = ("upload", clips, "--folder", edge, "--cloud", there.cloud)
        for number, drive in ((0, "b"), (1, "a"), (2, "b")):
            clip(clips, number, drive=drive)
        (clips / ".lock").touch()
        (clips / "notes.txt").touch()
        status, said = run(*words)
        assert status == 1 and "the owner of this robot has not consented" in said
        assert not (cloud / "pictures" / "robot1").exists()
        assert run("consent", "--recordings", "--folder", edge)[0] == 0
        assert run(*words) == (0, "3 clips are with the cloud\n") and run(*words) == (0, "0 clips are with the cloud\n")
        clip(clips, 3, robot="robot2")      # who lies about whose it is
        clip(clips, 0, drive="b").unlink()
        assert run(*words) == (0, "1 clips are with the cloud\n")
        assert len((clips / ".sent").read_text().splitlines()) == 3       # what is gone is forgotten
        into = tmp_path / "listed"
        status, said = run("clips", "--folder", cloud, "--into", into)
        assert status == 0 and said.endswith(f"3 new clips in {into / 'clips.txt'}\n")
        assert "says that it is robot2's, and is left out: a robot speaks for itself only" in said
        lines = (into / "clips.txt").read_text().splitlines()
        assert [line.split("-")[2:4] for line in lines] == [["a", "000001"], ["b", "000000"], ["b", "000002"]]
        assert (into / lines[0]).read_bytes() == b"clip robot1 a 1"
        clip(clips, 4, drive="a")
        assert run(*words)[0] == 0
        status, said = run("clips", "--folder", cloud, "--into", into, "--json")
        assert status == 0 and len(json.loads(said[said.index("{"):])["new"]) == 1
        assert (into / "clips.txt").read_text().splitlines()[:3] == lines   # it only grows
        next((cloud / "pictures" / "robot1").glob("*.json")).write_text("[" * 5000)
        status, said = run("clips", "--folder", cloud, "--into", into)
        assert status == 0 and "does not tell what was handed in" in said and "0 new clips" in said
        status, said = run("clips", "--folder", tmp_path / "clouds", "--into", tmp_path / "new")
        assert status == 1 and said.startswith("brain: there is no folder") and not (tmp_path / "new").exists()
        (tmp_path / "file").touch()
        status, said = run("clips", "--folder", cloud, "--into", tmp_path / "file")
        assert status == 1 and said.count("\n") == 1
