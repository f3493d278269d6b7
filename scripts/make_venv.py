# SPDX-License-Identifier: Apache-2.0
"""Make .venv and install the brain into it, from exact versions and never with a CUDA build of torch.

Needs nothing but the standard library. A stamp in .venv tells that the environment is as the sources ask, so that
a second call costs a tenth of a second. An environment that is there already, of a right Python, is adopted.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import fcntl
import hashlib
import http.client
import json
import os
import platform
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "constraints.txt"
STAMP = VENV / "brain-installed"
OLDEST_PYTHON = (3, 11)

# In the order of their imports; pip gets them all at once, so their requirements of one another are met here.
PACKAGES = ("brain_interfaces", "brain_wire", "brain_runtime", "brain_security", "brain_regions", "brain",
            "brain_sim", "brain_observe", "brain_collectives", "brain_eval", "brain_training",
            "brain_edge", "brain_cloud")
# Of packages that have parts which not every user needs: `brain fleet plan` asks a solver.
EXTRAS = {"brain_cloud": "highspy"}
TEST_PACKAGES = ("brain_tests",)
# Of earlier versions, by their names for pip: what an old environment still has of them would hide what is new.
GONE = ("brain-baselines", "brain-bench", "brain-fleet")
# What `make check` runs beside the tests; no package of ours imports them.
TEST_TOOLS = ("mypy", "pytest-xdist", "ruff", "types-PyYAML")

# What nearly every process of a brain, a training or a test imports of others' packages.
SHARED = ("matplotlib.figure", "mujoco", "torch", "torch.distributed.tensor", "zenoh")

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PROBE_SECONDS = 4.0
CUDA_PREFIXES = ("nvidia-", "cuda-", "pytorch-triton", "triton")


class SetupError(RuntimeError):
    """Something stands in the way; the message is one line with the remedy."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", action="store_true", help="also install what the tests need")
    parser.add_argument("--dry-run", action="store_true", help="say what would be downloaded, install nothing")
    arguments = parser.parse_args()
    try:
        check_python()
        if not arguments.dry_run and stamp_of(arguments.tests) in read_stamps():
            return 0
        make_venv()
        install(arguments.tests, arguments.dry_run)
    except SetupError as error:
        print(f"brain: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        command = " ".join(map(str, error.cmd[:6]))
        print(f"brain: '{command} ...' failed with status {error.returncode}; its messages are above", file=sys.stderr)
        return 1
    return 0


def check_python() -> None:
    """Raise SetupError if this Python is too old or cannot make environments; install what is missing if root."""
    version = "%d.%d" % sys.version_info[:2]
    if sys.version_info < OLDEST_PYTHON:
        raise SetupError(
            f"Python {version} is too old, 3.11 or newer is needed: install one (e.g. apt install python3.11 "
            "python3.11-venv) and say 'make demo PYTHON=python3.11'"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        package = f"python{version}-venv"
        if not apt_install(package):
            raise SetupError(f"this Python has no venv module: apt install {package}") from None


def apt_install(*packages: str) -> bool:
    """Install Debian packages if this user may; return whether they are installed."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    quiet = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False}
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    with open(__file__, "rb") as turn:      # `make test` makes two environments at a time, and apt-get waits for nobody
        fcntl.flock(turn, fcntl.LOCK_EX)
        print(f"brain: installing {' '.join(packages)} with apt-get", flush=True)
        if subprocess.run(command, **quiet).returncode == 0:
            return True
        subprocess.run(["apt-get", "update"], **quiet)  # a fresh machine has no package lists yet
        return subprocess.run(command, **quiet).returncode == 0


def stamp_of(tests: bool) -> str:
    """Return a line that changes whenever the installation has to be done again."""
    digest = hashlib.sha256()
    names = [*PACKAGES, *TEST_PACKAGES]
    files = [CONSTRAINTS, Path(__file__)]
    files += [ROOT / "src" / name / file for name in names for file in ("setup.cfg", "setup.py", "pyproject.toml")]
    files += sorted((ROOT / "src").glob("*/*/*.c"))
    for file in files:
        digest.update(file.read_bytes())
    # Scripts and editable installs hold absolute paths, and a linked interpreter may be upgraded in place.
    digest.update(os.fsencode(ROOT))
    digest.update(sys.version.encode())
    return f"{'tests' if tests else 'brain'} {digest.hexdigest()}"


def read_stamps(stamp: Path = STAMP) -> set[str]:
    """Return the stamps of what is installed; none if the environment's Python is gone."""
    if not (stamp.is_file() and os.access(stamp.parent / "bin" / "python", os.X_OK)):
        return set()
    return set(stamp.read_text(encoding="utf-8").splitlines())


def write_stamps(stamp: Path, *lines: str) -> None:
    """Record what is installed, all at once."""
    new = stamp.with_suffix(".new")
    new.write_text("\n".join(lines) + "\n", encoding="utf-8")
    new.replace(stamp)


def make_venv(folder: Path = VENV) -> None:
    """Create the environment unless there is one whose Python runs from this very folder and is new enough."""
    if _runs_here(folder):
        return
    print(f"brain: making {folder}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)


def _runs_here(folder: Path) -> bool:
    script = "import sys; print(*sys.version_info[:2]); print(sys.prefix)"
    try:
        answer = subprocess.run([folder / "bin" / "python", "-c", script], capture_output=True, text=True, check=False)
        starter = (folder / "bin" / "pip").read_text("utf-8")
    except OSError:
        return False
    if answer.returncode != 0:
        return False
    version, prefix = answer.stdout.splitlines()
    # A folder that was moved still runs, but its scripts and editable installs point to where it was.
    return tuple(map(int, version.split())) >= OLDEST_PYTHON and Path(prefix) == folder and str(folder) in starter


def pip(*arguments: str, folder: Path = VENV) -> None:
    """Run the pip of the environment in `folder`, with the index settings of this machine; shows only errors."""
    command = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", *arguments, "-qq"]
    done = subprocess.run(command, check=False, cwd=ROOT, env=_clean_environment(), text=True, stderr=subprocess.PIPE)
    if done.returncode != 0:
        give_up(command, done.returncode, done.stderr, folder)
    sys.stderr.write(done.stderr)


def remove_old(folder: Path = VENV) -> None:
    """Uninstall the packages of earlier versions; pip says nothing of those that are not there."""
    pip("uninstall", "--yes", *GONE, folder=folder)


def pip_with_progress(*arguments: str, folder: Path = VENV) -> None:
    """Run pip and say which file it is fetching; its whole output is shown only if it fails."""
    command = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", *arguments, "--progress-bar=off"]
    terminal = sys.stdout.isatty()
    said: list[str] = []
    with subprocess.Popen(command, cwd=ROOT, env=_clean_environment(), text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            said.append(line)
            words = line.split()
            if words[:1] == ["Downloading"] and (terminal or "MB)" in line):
                text = f"  {words[1].split('-')[0]} {' '.join(words[2:4])}"
                print(f"\r\x1b[K{text}" if terminal else text, end="" if terminal else "\n", flush=True)
            elif words[:2] == ["Installing", "collected"]:
                print("\r\x1b[K" * terminal + "  unpacking", end="" if terminal else "\n", flush=True)
    if terminal:
        print("\r\x1b[K", end="")
    if process.returncode != 0:
        give_up(command, process.returncode, "".join(said), folder)


def give_up(command: list, status: int, said: str, folder: Path) -> NoReturn:
    """Raise SetupError with the cause if the package index cannot be reached, else show what pip said and raise.

    Without an index pip finds no version of anything, and calls that conflicting dependencies.
    """
    cause = why_unreachable(folder)
    if cause:
        raise SetupError(cause)
    sys.stderr.write(said)
    raise subprocess.CalledProcessError(status, command)


def why_unreachable(folder: Path = VENV) -> str | None:
    """Return in one line why a package index or its proxy cannot be reached, with the remedy; None if they can."""
    settings = _pip_settings(folder)
    for url, source in settings["indexes"]:
        problem = _probe(url, source, settings["proxy"])
        if problem:
            return problem
    return None


def _pip_settings(folder: Path) -> dict:
    """Return what the environment's pip goes by: (URL, who says so) of its indexes, and the same of its proxy."""
    script = ("from pip._internal.configuration import Configuration; from pip._internal.models.index import PyPI\n"
              "import json; c = Configuration(isolated=False); c.load()\n"
              "print(json.dumps([dict(c.items()), PyPI.simple_url]))")
    answer = subprocess.run([folder / "bin" / "python", "-c", script], capture_output=True, text=True, check=False,
                            cwd=ROOT, env=_clean_environment())
    try:
        found, usual = json.loads(answer.stdout)
    except ValueError:  # another pip, with other insides
        return {"indexes": [], "proxy": None}
    # pip tells global.x and install.x; the environment's, :env:.x, wins.
    given = {name: (value, f"PIP_{name.upper().replace('-', '_')}" if where == ":env:" else f"pip's {where}.{name}")
             for where in ("global", "install", ":env:")
             for name, value in ((key.partition(f"{where}.")[2], value) for key, value in _flat(found).items()
                                 if key.startswith(f"{where}."))}
    if given.get("no-index", ("",))[0].lower() not in ("", "0", "false", "no", "off"):
        return {"indexes": [], "proxy": None}
    urls, source = given.get("index-url", (usual, "pip's default"))
    more, also = given.get("extra-index-url", ("", ""))
    return {"indexes": [*((url, source) for url in urls.split()), *((url, also) for url in more.split())],
            "proxy": given.get("proxy")}


def _flat(found: dict) -> dict[str, str]:
    """Return pip's settings by name; since pip 25 they are told by file first."""
    flat: dict[str, str] = {}
    for key, value in found.items():
        flat.update(value if isinstance(value, dict) else {key: value})
    return flat


def _probe(url: str, source: str, pips_proxy: tuple[str, str] | None) -> str | None:
    """Return why nothing comes from an index, or None."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return None     # pip says itself what is wrong with a folder
    proxy, variable = pips_proxy or _proxy_of(parts)
    if proxy:
        named = f"the proxy {_without_password(proxy)}, which {variable} names,"
        remedy = f"correct {variable}, or unset it if there is no proxy"
        try:
            there = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            address = there.hostname, there.port or {"https": 443}.get(there.scheme, 80)
            if not there.hostname:
                raise ValueError("it names no host")
        except ValueError as error:
            return f"{named} is no URL of a proxy ({error}); {remedy}"
        try:
            socket.create_connection(address, timeout=PROBE_SECONDS).close()
        except OSError as error:
            return f"{named} cannot be reached ({_reason(error)}); {remedy}"
    through = f" through {named.rstrip(',')}" if proxy else ""
    remedy = (f"correct {variable} or the proxy" if proxy else
              f"correct it, or let this machine reach {parts.hostname}")
    shown = f"the package index {_without_password(url)} ({source})"
    handler = urllib.request.ProxyHandler({parts.scheme: proxy} if proxy else {})
    opener = urllib.request.build_opener(handler, urllib.request.HTTPSHandler(context=_tls()))
    try:
        for page in ("pip/", ""):   # an index of few packages has no pip, one of many no list of them all
            try:
                with opener.open(f"{url.rstrip('/')}/{page}", timeout=PROBE_SECONDS):
                    return None
            except urllib.error.HTTPError as error:
                if error.code != 404 or not page:
                    raise
    except urllib.error.HTTPError as error:
        if error.code == 407:
            return f"{named} asks for a name and a password (407); give them in {variable}"
        return f"{shown} answers {error.code} {error.reason}{through}; {remedy}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"{shown} cannot be reached{through} ({_reason(error)}); {remedy}"


def _proxy_of(parts: urllib.parse.SplitResult) -> tuple[str, str]:
    """Return the proxy that pip takes for a URL and the variable that names it, empty if there is none."""
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return "", ""
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if os.environ.get(variable):
                return os.environ[variable], variable
    return "", ""


def _without_password(url: str) -> str:
    """Return a URL as it may be shown: a name and password stay out of logs."""
    return re.sub(r"(^|//)[^/]*@", r"\1***@", url)


def _reason(error: Exception) -> str:
    """Return an error in few words."""
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or inner or type(error).__name__)


def _clean_environment() -> dict[str, str]:
    """Return the environment without what a sourced ROS puts into every Python, and what keeps it from compiling."""
    unwanted = "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE"
    return {key: value for key, value in os.environ.items() if key not in unwanted}


def install(tests: bool, dry_run: bool) -> None:
    """Resolve, refuse CUDA, say what will be downloaded, install, and write the stamp."""
    STAMP.unlink(missing_ok=True)
    print("brain: looking up what has to be downloaded", flush=True)
    pip("install", "--constraint", str(CONSTRAINTS), "pip", "setuptools")
    index = ["--extra-index-url", CPU_INDEX] if cpu_index_answers() else []
    wanted = [*index, "--constraint", str(CONSTRAINTS), "--no-build-isolation"]
    for name in [*PACKAGES, *(TEST_PACKAGES if tests else ())]:
        extras = ",".join(filter(None, [EXTRAS.get(name), "test" if tests else None]))
        wanted += ["--editable", f"src/{name}[{extras}]" if extras else f"src/{name}"]

    wanted += TEST_TOOLS if tests else ()

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip("install", "--dry-run", "--report", str(report), *wanted)
        chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
    refuse_cuda(chosen)
    print(f"brain: {describe(chosen)}", flush=True)
    if dry_run:
        return
    remove_old()
    found = [f"{item['metadata']['name']}=={item['metadata']['version']}" for item in chosen
             if "dir_info" not in item["download_info"]]
    pip_with_progress("install", "--no-deps", "--no-compile", *wanted, *found)
    pip("check")
    compile_what_is_used()
    stamps = [stamp_of(False)] + ([stamp_of(True)] if tests else [])
    write_stamps(STAMP, *stamps)
    print("brain: installed in .venv", flush=True)


def compile_what_is_used() -> None:
    """Import once what many processes import at a time, so that it is compiled once: a fifth of what pip would compile.

    What else is imported is compiled then, as Python does it.
    """
    subprocess.run([VENV / "bin" / "python", "-c", f"import {', '.join(SHARED)}"], check=True, cwd=ROOT,
                   env=_clean_environment() | {"OMP_NUM_THREADS": "1"})


def cpu_index_answers() -> bool:
    """Return whether PyTorch's own index of CPU builds can be reached; elsewhere than on Linux none is needed."""
    if platform.system() != "Linux":
        return False
    try:
        with urllib.request.urlopen(f"{CPU_INDEX}/torch/", timeout=PROBE_SECONDS, context=_tls()) as answer:
            return answer.status == 200
    except (OSError, ValueError, http.client.HTTPException):    # the last two: a proxy that is no URL
        print("brain: PyTorch's CPU index does not answer; trying the configured one", flush=True)
        return False


def _tls() -> ssl.SSLContext:
    """Return a context that trusts what pip trusts on this machine."""
    context = ssl.create_default_context()
    bundle = os.environ.get("PIP_CERT")
    if bundle and os.path.isfile(bundle):
        context.load_verify_locations(bundle)
    return context


def refuse_cuda(chosen: list[dict]) -> None:
    """Raise SetupError if pip's report holds a package that only a CUDA build of torch needs."""
    names = [item["metadata"]["name"].lower().replace("_", "-") for item in chosen]
    found = sorted(name for name in names if name.startswith(CUDA_PREFIXES))
    if found:
        raise SetupError(
            f"the configured package index offers only a CUDA build of torch ({len(found)} packages of several GB: "
            f"{', '.join(found[:3])}, ...). Nothing was installed. Remedy: let this machine reach {CPU_INDEX}, or "
            f"install the CPU build yourself (.venv/bin/pip install torch-2.13.0+cpu-....whl) and call again"
        )


def describe(chosen: list[dict]) -> str:
    """Return how many packages pip will fetch and how large they are, as far as their servers tell."""
    files = [item for item in chosen if "dir_info" not in item["download_info"]]
    if not files:
        return "nothing to download"
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        sizes = list(pool.map(lambda item: file_size(item["download_info"]["url"]), files))
    known = [(size, item["metadata"]["name"]) for size, item in zip(sizes, files) if size is not None]
    total = sum(size for size, _ in known)
    largest = ", ".join(f"{name} {size / 1e6:.0f} MB" for size, name in sorted(known, reverse=True)[:3])
    at_least = "" if len(known) == len(files) else f" at least (the size of {len(files) - len(known)} is not known)"
    return f"downloading {len(files)} packages, {total / 1e6:.0f} MB{at_least}: {largest}, ..."


def file_size(url: str) -> int | None:
    """Return the size in bytes of the file at `url` (https or file), or None if its server does not tell."""
    parts = urllib.parse.urlsplit(url)
    try:
        if parts.scheme == "file":
            return os.stat(urllib.request.url2pathname(parts.path)).st_size
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=PROBE_SECONDS, context=_tls()) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError, http.client.HTTPException):
        return None


if __name__ == "__main__":
    sys.exit(main())
