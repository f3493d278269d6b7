# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs share, and what they mean."""
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Callable, NoReturn, TypeVar

import typer

Verb = TypeVar("Verb", bound=Callable[..., Any])


def _check_namespace(value: str) -> str:
    if value.strip("/"):
        from brain_wire.names import NameProblem, absolute

        try:
            absolute(value)
        except NameProblem as problem:
            fail(f"--namespace: {problem}, as in --namespace /robot1", 2)
    return value


Router = Annotated[str | None, typer.Option(
    "--router", metavar="ENDPOINT", help="Zenoh router, as tcp/192.168.1.5:7447. Default: the one on this machine.")]
Domain = Annotated[int | None, typer.Option(
    "--domain", min=0, max=232, envvar="ROS_DOMAIN_ID", help="ROS domain. Brains in other domains are not heard.")]
Namespace = Annotated[str, typer.Option(
    "--namespace", metavar="NAME", callback=_check_namespace, help="Namespace of the brain's topics and nodes, as "
    "/robot1.")]
Secure = Annotated[Path | None, typer.Option(
    "--secure", metavar="FOLDER", envvar="BRAIN_SECURITY", help="Credentials that `brain keys` made: the folder, or "
    "one file of it. Default: nothing is secured.")]
Json = Annotated[bool, typer.Option(
    "--json", help="Print one JSON object instead of text; nothing where there is an error, which stands on standard "
    "error.")]


def takes_more(verb: Verb) -> Verb:
    """Marks a verb to which words may be given that are not options of its own."""
    vars(verb)["context_settings"] = {"allow_extra_args": True, "ignore_unknown_options": True}
    return verb


def use_domain(domain: int | None) -> int:
    """Makes a domain that of this process and of those that it starts."""
    if domain is not None:
        os.environ["ROS_DOMAIN_ID"] = str(domain)
    from brain_wire import domain_id

    return domain_id()


def use_security(secure: Path | None) -> None:
    """Makes credentials those of this process and of those that it starts."""
    if secure is not None:
        os.environ["BRAIN_SECURITY"] = str(secure.expanduser().absolute())


def check_writable(path: Path | None) -> None:
    """Ends the command, before long work begins, where its result could not be written; None and ``-`` are no files."""
    if path is None or str(path) == "-":
        return
    folder = path.absolute().parent
    if path.is_dir():
        fail(f"cannot write {path}: it is a folder; name a file in it", 2)
    if not folder.is_dir():
        fail(f"cannot write {path}: there is no folder {folder}; make it, or name another file", 2)
    if not os.access(path if path.exists() else folder, os.W_OK):
        fail(f"cannot write {path}: no permission; name another file", 2)


def check_folder(path: Path | None, option: str) -> None:
    """Ends the command, before anything starts, where files could not be made in a folder, or in the one that holds it.

    Args:
        path: None: none was named.
        option: that names it, for the message.
    """
    if path is None:
        return
    import tempfile

    there = next((folder for folder in (path, *path.absolute().parents) if os.path.lexists(folder)), path)
    try:
        with tempfile.TemporaryFile(dir=there):
            return
    except OSError as error:
        fail(f"cannot use {path} for {option}: {error.strerror or error}; name a folder that can be written", 2)


def tell(text: str, color: str | None = None, *, err: bool = False) -> None:
    """Says a line, or a few, on standard output; what is foreign in it stands escaped."""
    from brain_wire import safe_text

    typer.secho(safe_text.block(text), fg=color, err=err)


def tell_json(value: Any, indent: int | None = 1) -> None:
    """Prints the one JSON object that ``--json`` asks for."""
    from brain_wire import safe_text

    typer.echo(safe_text.as_json(value, indent))


def fail(message: str, status: int = 1) -> NoReturn:
    """Ends the command with a line on standard error, with ``--json`` too: then standard output stays empty."""
    from brain_wire import safe_text

    typer.secho(f"brain: {safe_text.line(' '.join(message.split()))}", fg="red", err=True)
    raise typer.Exit(status)


def become(module: str, **options: Any) -> NoReturn:
    """Makes this process that of a module: what runs for months need not hold what a command is read with.

    Args:
        module: run as by ``python -m``.
        options: of it, with _ for -. None, False and lists that are empty are left out, True is an option without a
            value, one of a list is given for each of its values, and a path is made absolute.
    """
    words = [sys.executable, "-m", module]
    for name, values in options.items():
        for one in values if isinstance(values, list) else [values]:
            if one is None or one is False:
                continue
            words.append(f"--{name.replace('_', '-')}")
            if one is not True:
                words.append(str(one.expanduser().absolute() if isinstance(one, Path) else one))
    os.execv(sys.executable, words)
