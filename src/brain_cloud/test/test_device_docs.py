# SPDX-License-Identifier: Apache-2.0
"""What docs/fleet-devices.md shows runs as it stands: a driver of one's own, and a device on Modbus."""
from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from brain_wire.router import free_port

PAGE = Path(__file__).resolve().parents[3] / "docs" / "fleet-devices.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the package alone has no docs")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The page's files."""
    for name, text in re.findall(r"```(?:python|yaml)\n# (\w+\.\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("BRAIN_ROUTER", f"tcp/127.0.0.1:{free_port()}")      # nobody's: none is needed
    return tmp_path


def devices(folder, *words):
    return [sys.executable, "-m", "brain", "devices", *map(str, words)]


def run(folder, wanted, *words):
    """Runs devices until what they show of the first is as wanted; then they are ended as by Ctrl-C."""
    with subprocess.Popen(devices(folder, "run", *words, "--json"), cwd=folder, stdout=subprocess.PIPE, text=True
                          ) as process:
        ends = threading.Timer(60.0, process.kill)      # only ends a hang
        ends.start()
        for line in process.stdout:
            found = json.loads(line)["devices"][0]
            if wanted(found["properties"]):
                process.terminate()
                break
        ends.cancel()
        process.stdout.read()
        assert process.wait(120) == 0, found
    return found


def test_a_driver_of_ones_own_is_a_few_lines(folder):
    assert len((folder / "load.py").read_text().splitlines()) < 15
    checked = subprocess.run(devices(folder, "check", "load.yaml"), cwd=folder, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "own-computer: computer by load:Load (load)\n"), checked.stderr
    found = run(folder, lambda properties: properties.get("load", {}).get("fresh"), "load.yaml")
    assert found["state"] == "online" and 0.0 <= found["properties"]["load"]["value"] < 100_000
    (folder / "wrong.yaml").write_text((folder / "load.yaml").read_text().replace("file:", "flie:"))
    checked = subprocess.run(devices(folder, "check", "wrong.yaml"), cwd=folder, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (1, "brain: wrong.yaml, Device own-computer: spec.properties.load."
                                                       "visitor.file is missing\n")


def test_the_boiler_of_the_docs_is_set(folder, until):
    pytest.importorskip("pymodbus")
    port = free_port()
    for name in ("boiler.py", "boiler.yaml"):
        text = (folder / name).read_text()
        assert "5020" in text
        (folder / name).write_text(text.replace("5020", str(port)))

    def listens():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    server = subprocess.Popen([sys.executable, folder / "boiler.py"])
    try:
        until(listens)
        found = run(folder, lambda properties: {"value": 45.0, "desired": 45}.items() <= properties.get(
            "goal", {}).items() and properties["heat"].get("value") == 21.5, "boiler.yaml")
        assert found["properties"]["goal"]["state"] == "ok"
        refused = subprocess.run(devices(folder, "run", "boiler.yaml", "--set", "boiler.goal=99"), cwd=folder,
                                 capture_output=True, text=True)
        assert (refused.returncode, refused.stderr) == (
            1, "brain: --set 'boiler.goal=99': goal of boiler: 99 degC is more than the maximum 60 degC\n")
    finally:
        server.kill()
        server.wait()
