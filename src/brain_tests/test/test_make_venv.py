# SPDX-License-Identifier: Apache-2.0
"""The installer behind `make demo`: refuses CUDA, probes an index briefly, tells sizes, gives one-line remedies."""

from __future__ import annotations

import http.server
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "make_venv.py"
pytestmark = pytest.mark.slow     # environments are made, and what does not answer is waited for


@pytest.fixture
def installer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_venv", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def index() -> Iterator[str]:
    """The address of a small package index on this machine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<a href='torch-2.13.0.whl'>torch</a>"
            self.send_response(200 if self.path == "/cpu/torch/" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *arguments: object) -> None:
            """Keep the test's output clean."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def entry(name: str, url: str = "https://example.org/file.whl") -> dict:
    """An element of the report that pip writes about what it would install."""
    return {"metadata": {"name": name}, "download_info": {"url": url, "archive_info": {}}}


def test_cuda_build_is_refused_with_a_remedy(installer: ModuleType) -> None:
    with pytest.raises(installer.SetupError, match="only a CUDA build of torch.*Remedy") as caught:
        installer.refuse_cuda([entry("torch"), entry("numpy"), entry("nvidia_cublas"), entry("triton")])
    assert "nvidia-cublas" in str(caught.value) and "\n" not in str(caught.value)
    installer.refuse_cuda([entry("torch"), entry("numpy")])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every build of torch is a CPU build")
def test_index_is_used_only_if_it_answers(installer: ModuleType, index: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(installer, "CPU_INDEX", f"{index}/cpu")
    assert installer.cpu_index_answers()
    monkeypatch.setattr(installer, "CPU_INDEX", f"{index}/gone")
    assert not installer.cpu_index_answers()
    assert "does not answer" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every build of torch is a CPU build")
def test_index_that_hangs_is_given_up(installer: ModuleType, monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
        monkeypatch.setattr(installer, "CPU_INDEX", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(installer, "PROBE_SECONDS", 0.2)
        assert not installer.cpu_index_answers()


def test_sizes_are_measured_where_they_can_be(installer: ModuleType, index: str, tmp_path: Path) -> None:
    wheel = tmp_path / "a wheel.whl"
    wheel.write_bytes(b"x" * 3_000_000)
    ours = {"metadata": {"name": "brain"}, "download_info": {"url": "file:///src/brain", "dir_info": {}}}
    text = installer.describe([entry("large", wheel.as_uri()), entry("small", f"{index}/cpu/torch/"), ours])
    assert text == "downloading 2 packages, 3 MB: large 3 MB, small 0 MB, ..."
    text = installer.describe([entry("large", wheel.as_uri()), entry("unknown", (tmp_path / "gone").as_uri())])
    assert "at least (the size of 1 is not known)" in text
    assert installer.describe([ours]) == "nothing to download"


def test_stamp_follows_the_pins_and_the_setup_files(installer: ModuleType, monkeypatch, tmp_path: Path) -> None:
    first = installer.stamp_of(tests=False)
    assert first == installer.stamp_of(tests=False)
    assert first != installer.stamp_of(tests=True)
    other = tmp_path / "constraints.txt"
    other.write_text(installer.CONSTRAINTS.read_text(encoding="utf-8") + "# new\n", encoding="utf-8")
    monkeypatch.setattr(installer, "CONSTRAINTS", other)
    assert first != installer.stamp_of(tests=False)


@pytest.mark.extended
def test_environment_that_was_moved_is_not_adopted(installer: ModuleType, tmp_path: Path) -> None:
    here = tmp_path / "here"
    installer.make_venv(here)
    before = (here / "pyvenv.cfg").stat().st_mtime_ns
    installer.make_venv(here)
    assert (here / "pyvenv.cfg").stat().st_mtime_ns == before, "a good environment was made again"

    there = here.rename(tmp_path / "there")
    installer.make_venv(there)
    assert str(there) in (there / "bin" / "pip").read_text(encoding="utf-8")


def run_with(preamble: str) -> subprocess.CompletedProcess:
    """Run the installer in a Python that was changed by `preamble`, as a user who may install nothing."""
    script = f"import os, runpy, sys\nos.geteuid = lambda: 1000\n{preamble}\nsys.argv = ['make_venv.py', '--dry-run']\n"
    script += f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    environment = {"PATH": os.environ["PATH"]}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)


def test_old_python_gives_one_line_with_the_remedy() -> None:
    result = run_with("sys.version_info = (3, 10, 12, 'final', 0)")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "Python 3.10 is too old" in result.stderr and "PYTHON=python3.11" in result.stderr


def test_python_without_venv_gives_one_line_with_the_remedy() -> None:
    result = run_with("sys.modules['ensurepip'] = None")
    assert result.returncode == 1
    version = "%d.%d" % sys.version_info[:2]
    assert result.stderr == f"brain: this Python has no venv module: apt install python{version}-venv\n"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree's installer, with an environment of its own."""
    root = tmp_path_factory.mktemp("tree")
    (root / "scripts").mkdir()
    shutil.copy(SCRIPT, root / "scripts")
    (root / "constraints.txt").write_text("pip==0.0.1\n")    # there is none such: an index has to be asked
    subprocess.run([sys.executable, "-m", "venv", str(root / ".venv")], check=True)
    return root


def test_packages_of_earlier_versions_are_uninstalled(installer: ModuleType, bare: Path, capfd) -> None:
    (site,) = (bare / ".venv" / "lib").glob("python*/site-packages")
    for name in ("brain_baselines", "brain_mine"):      # as pip leaves what is installed
        (site / name).mkdir()
        (site / name / "__init__.py").touch()
        info = site / f"{name}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 0.1.0\n")
        (info / "INSTALLER").write_text("pip\n")
        (info / "RECORD").write_text("".join(f"{file.relative_to(site)},,\n" for file in (
            site / name / "__init__.py", info / "METADATA", info / "INSTALLER", info / "RECORD")))
    for _ in range(2):
        installer.remove_old(bare / ".venv")
        assert sorted(path.name for path in site.glob("brain*")) == ["brain_mine", "brain_mine-0.1.0.dist-info"]
    assert capfd.readouterr() == ("", "")


def reach(bare: Path, **settings: str) -> str:
    """What the installer says that cannot reach an index, in one line."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(bare), "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0",
                   **settings}
    done = subprocess.run([sys.executable, str(bare / "scripts" / "make_venv.py"), "--dry-run"], capture_output=True,
                          text=True, env=environment, check=False)
    assert done.returncode == 1 and done.stderr.startswith("brain: ") and done.stderr.count("\n") == 1, done.stderr
    assert "conflict" not in done.stderr and "secret" not in done.stderr
    return done.stderr


def closed() -> int:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.parametrize("variable", ["https_proxy", "HTTPS_PROXY", "all_proxy", "PIP_PROXY"])
def test_a_proxy_that_is_not_there_is_named_without_its_password(bare: Path, variable: str) -> None:
    port = closed()
    said = reach(bare, **{variable: f"http://me:secret@127.0.0.1:{port}"}, PIP_INDEX_URL="https://index.invalid/simple")
    assert f"http://***@127.0.0.1:{port}, which {variable} names, cannot be reached" in said
    assert f"correct {variable}, or unset it" in said


def test_a_proxy_that_is_no_url_is_named(bare: Path) -> None:
    said = reach(bare, https_proxy="http://127.0.0.1:port", PIP_INDEX_URL="https://index.invalid/simple")
    assert "which https_proxy names, is no URL of a proxy" in said


@pytest.mark.parametrize(("status", "says"), [(407, "asks for a name and a password (407); give them in http_proxy"),
                                              (403, "answers 403 Forbidden through the proxy http://127.0.0.1:")])
def test_a_proxy_that_refuses_is_named(bare: Path, status: int, says: str) -> None:
    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Keep the test's output clean."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        said = reach(bare, http_proxy=f"http://127.0.0.1:{server.server_port}", PIP_TRUSTED_HOST="index.invalid",
                     PIP_INDEX_URL="http://index.invalid/simple")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert says in said


def test_an_index_that_cannot_be_reached_is_named(bare: Path, index: str) -> None:
    port = closed()
    said = reach(bare, PIP_INDEX_URL=f"http://me:secret@127.0.0.1:{port}/simple")
    assert f"the package index http://***@127.0.0.1:{port}/simple (PIP_INDEX_URL) cannot be reached" in said
    said = reach(bare, PIP_INDEX_URL=f"{index}/wrong")
    assert f"the package index {index}/wrong (PIP_INDEX_URL) answers 404" in said
    said = reach(bare, PIP_EXTRA_INDEX_URL=f"http://127.0.0.1:{port}", PIP_INDEX_URL=f"http://127.0.0.1:{closed()}")
    assert "PIP_INDEX_URL" in said


def test_what_no_network_explains_is_shown_as_pip_says_it(bare: Path, index: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(bare), "PIP_CONFIG_FILE": os.devnull,
                   "PIP_INDEX_URL": f"{index}/cpu", "PIP_NO_INDEX": "1"}
    done = subprocess.run([sys.executable, str(bare / "scripts" / "make_venv.py"), "--dry-run"], capture_output=True,
                          text=True, env=environment, check=False)
    assert done.returncode == 1 and "conflicting dependencies" in done.stderr and "are above" in done.stderr
