# SPDX-License-Identifier: Apache-2.0
"""Inputs of workers over HTTP: gone on from where a download was cut off, and never a mixture of two files."""
from __future__ import annotations

import base64
import hashlib
import http.server
import os
import re
import threading
from pathlib import Path
from typing import Any, Iterator

import pytest

from brain_cloud.blobs import inputs
from brain_cloud.blobs.inputs import InputProblem, fetch, load


class Shop:
    """A server of one file, which ends each answer after ``most`` bytes, and may not know ranges."""

    def __init__(self) -> None:
        self.data, self.most, self.ranges, self.asked = os.urandom(10_000), 4000, True, []
        shop = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked, first = self.headers.get("Range"), 0
                shop.asked.append((asked, self.headers.get("Authorization")))
                if asked and shop.ranges:
                    first = int(re.fullmatch(r"bytes=(\d+)-", asked)[1])
                    if first >= len(shop.data):
                        self.send_error(416)
                        return
                self.send_response(206 if first else 200)
                if first:
                    self.send_header("Content-Range", f"bytes {first}-{len(shop.data) - 1}/{len(shop.data)}")
                self.send_header("Content-Length", str(len(shop.data) - first))
                self.end_headers()
                self.wfile.write(shop.data[first:first + shop.most])

            def log_message(self, *_: Any) -> None:
                """The test reads answers."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.port = self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setattr(inputs, "WAITS", (0.0,) * 4)
    found = Shop()
    yield found
    found.close()


def test_a_download_goes_on_where_it_was_cut_off_where_its_digest_is_known(shop, tmp_path):
    url, path, sha256 = f"http://127.0.0.1:{shop.port}/a.bin", tmp_path / "new" / "a.bin", hashlib.sha256(
        shop.data).hexdigest()
    told: list[str] = []
    assert fetch(url, path, sha256, told=told.append).read_bytes() == shop.data
    assert [asked for asked, _ in shop.asked] == [None, "bytes=4000-", "bytes=8000-"]
    assert len(told) == 2 and "ended after 4000 of 10000 bytes; again in 0 s" in told[0]
    assert [one.name for one in path.parent.iterdir()] == ["a.bin"]
    assert fetch(url, path, sha256) == path and len(shop.asked) == 3        # it has it
    # A server that knows no ranges is heard from the first byte on; so is one of a file that nobody knows.
    shop.ranges, path = False, tmp_path / "b.bin"
    with pytest.raises(InputProblem, match="ended after 4000 of 10000 bytes"):
        fetch(url, path, sha256)
    assert not path.exists() and path.with_name("b.bin.part").stat().st_size == 4000
    shop.ranges = True
    shop.asked.clear()
    with pytest.raises(InputProblem, match="ended after 4000"):
        fetch(url, tmp_path / "any.bin")
    assert {asked for asked, _ in shop.asked} == {None}
    # What had come of another file is found by the digest, and let go of.
    path.with_name("b.bin.part").write_bytes(bytes(9000))
    with pytest.raises(InputProblem, match="it is other data"):
        fetch(url, path, sha256)
    assert not path.with_name("b.bin.part").exists()
    path.with_name("b.bin.part").write_bytes(bytes(20_000))     # more than there is
    assert fetch(url, path, sha256).read_bytes() == shop.data
    with pytest.raises(InputProblem, match="more than 100 bytes"):
        fetch(url, tmp_path / "large", sha256, most=100)


def test_a_loader_goes_on_too_and_tells_a_server_who_asks(shop, tmp_path):
    url, sha256 = f"http://me:a%20word@127.0.0.1:{shop.port}/a.bin?v=2", hashlib.sha256(shop.data).hexdigest()
    part = tmp_path / "data.part"
    part.mkdir()
    (part / "a.bin.part").write_bytes(shop.data[:6000])     # of one that was killed
    (part / "other").write_bytes(b"of another URI")
    assert load(url, sha256, tmp_path / "data") == (tmp_path / "data", sha256)
    assert [one.name for one in (tmp_path / "data").iterdir()] == ["a.bin"] and not part.exists()
    assert (tmp_path / "data" / "a.bin").read_bytes() == shop.data
    assert shop.asked == [("bytes=6000-", f"Basic {base64.b64encode(b'me:a word').decode()}")]
    assert load(url, sha256, tmp_path / "data")[1] == sha256 and len(shop.asked) == 1       # of a loader before
    with pytest.raises(InputProblem, match="it is other data"):
        load(Path(__file__).as_uri(), "0" * 64, None)
