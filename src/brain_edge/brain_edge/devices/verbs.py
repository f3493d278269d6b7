# SPDX-License-Identifier: Apache-2.0
"""``brain devices``: devices of a file, without a cloud."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from brain_runtime.command.options import (Domain, Json, Namespace, Router, Secure, fail, tell, tell_json, use_domain,
                                           use_security)

REFRESH = 0.5       # s between two pictures
File = Annotated[Path, typer.Argument(help="DeviceModel, Device and DeviceSettings in YAML, with --- between them.",
                                      metavar="FILE")]

app = typer.Typer(help="Run the devices of a file beside a brain, without a cloud.", no_args_is_help=True)


@app.command()
def run(file: File,
        settings: Annotated[list[str] | None, typer.Option("--set", metavar="DEVICE.PROPERTY=VALUE",
                                                           help="Set a property; may be given again.")] = None,
        as_json: Json = False, router: Router = None, secure: Secure = None, domain: Domain = None,
        namespace: Namespace = "") -> None:
    """Runs the drivers of a file's devices until Ctrl-C, and shows what they read.

    Beside `brain up` or `ros2 launch`, what the file says is published on topics and on sensor/features. A protocol may
    be a class of your own here, as my_module:MyDriver.
    """
    import logging
    import sys

    from brain_edge.devices.device_manager import DeviceManager
    from brain_edge.devices.tables import devices_table
    from brain_runtime.command.terminal import Terminal
    from brain_runtime.run.ending import Ending
    from brain_wire import safe_text

    use_domain(domain)
    use_security(secure)
    told = _read(file, settings or [])
    ending = Ending()
    safe_text.log_to(sys.stderr, logging.WARNING, "%(levelname)s %(message)s")
    console = Terminal()
    manager = DeviceManager(router, namespace, files=None)
    manager.want(told.devices, told.desired)
    try:
        if as_json or not console.is_terminal:
            _lines(manager, ending, as_json, console)
            return
        from rich.live import Live

        with Live(devices_table(manager.look()), console=console, auto_refresh=False, screen=False) as live:
            while not ending.asked.is_set():
                live.update(devices_table(manager.look(REFRESH)), refresh=True)
    finally:
        manager.stop()


def _lines(manager: Any, ending: Any, as_json: bool, console: Any) -> None:
    """Whenever something has changed, at most twice a second."""
    from brain_edge.devices.tables import devices_table

    told = None
    while not ending.asked.is_set():
        found = manager.look(REFRESH)
        if found != told:
            told = found
            tell_json(found, None) if as_json else console.print(devices_table(found))


@app.command()
def check(file: File) -> None:
    """Says whether a file of devices can be meant so, without opening any."""
    from brain_edge.devices.protocols import OWN, checked
    from brain_edge.schema import FormProblem

    for name, one in _read(file, []).devices.items():
        try:
            driver = checked(one, named=False)
        except FormProblem as problem:
            fail(f"{file}, Device {name}: {problem}")
        tell(f"{name}: {one.model} by {one.protocol}" + ("" if one.protocol in OWN else f" ({driver.__module__})"))


@app.command()
def protocols(as_json: Json = False) -> None:
    """Lists the protocols that are installed here."""
    from brain_edge.devices.protocols import installed

    found = installed()
    if as_json:
        tell_json({"protocols": found})
        return
    for name, place in found.items():
        tell(f"{name}  {place}")


def _read(file: Path, settings: list[str]) -> Any:
    from brain_edge.devices.files import read_devices
    from brain_edge.state.manifests import ManifestProblem

    try:
        return read_devices(file, settings)
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror or error}")
    except ManifestProblem as problem:
        fail(str(problem))
