# SPDX-License-Identifier: Apache-2.0
"""``brain fleet models``, ``rollout`` and ``rollback``: what a person does with the models of a fleet."""
from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_cloud.processes.order_verbs import ordered
from brain_edge.processes.options import CloudAt, FleetSecure, Watch
from brain_edge.processes.with_cloud import REFRESH, look, with_cloud
from brain_runtime.command.options import Json, fail, tell, tell_json

Weights = Annotated[Path, typer.Argument(help="Weights, safetensors.", metavar="FILE")]
Region = Annotated[str | None, typer.Option(metavar="REGION", help="Whose weights they are. Default: what the file "
                                            "says.")]
Card = Annotated[Path | None, typer.Option(metavar="FILE", help="Model card, a text.")]
Evaluation = Annotated[Path | None, typer.Option(metavar="FILE", help="Evaluation, JSON. Default: what the file says "
                                                 "that it reached.")]
Model = Annotated[str, typer.Argument(help="The first digits of its digest.", metavar="MODEL")]
Canary = Annotated[int, typer.Option(min=0, metavar="N", help="Robots that get it first; 0: all at once.")]
On = Annotated[list[str] | None, typer.Option(metavar="ROBOT", help="Which get it first, by name.")]
Robots = Annotated[list[str] | None, typer.Option("--robot", metavar="ROBOT", help="Who is to have it. Default: all.")]
Goals = Annotated[int, typer.Option(min=0, metavar="N", help="Goals that each of the first is watched for.")]
Expect = Annotated[float | None, typer.Option(min=0.1, max=1.0, metavar="SHARE", help="Share of goals that are reached "
                                              "without it. Default: as measured.")]
ENDED = ("done", "rolled_back", "replaced")

models = typer.Typer(help="Show the models that the cloud has, and how they are rolled out; add or remove one.",
                     invoke_without_command=True)


@models.callback()
def show(context: typer.Context, watch: Watch = False, as_json: Json = False, cloud: CloudAt = None,
         secure: FleetSecure = None) -> None:
    """Shows the models that the cloud has, and how they are rolled out; or adds one."""
    from brain_cloud.processes.model_tables import models_table

    if context.invoked_subcommand is None:
        with_cloud(cloud, secure, lambda ask: look(lambda: ask("models"), models_table, watch, as_json))


@models.command()
def add(file: Weights, region: Region = None, card: Card = None, evaluation: Evaluation = None,
        as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Adds a model: its file, its card and its evaluation, signed with the key of --secure.

    What had come before the link was cut need not be sent again.
    """
    from brain_cloud.models.signing import state
    from brain_edge.models.model_file import ModelProblem

    try:
        model = _read(file)
        whose = region or model.metadata.get("region")
        if whose is None:
            fail(f"{file} does not say whose weights they are; name the region with --region", 2)
        texts = _text(card, "") or model.metadata.get("card", ""), _evaluation(evaluation, model.metadata)
    except ModelProblem as problem:
        fail(str(problem))
    except OSError as error:
        fail(f"cannot read {error.filename}: {error.strerror or error}")

    def work(ask: Any) -> None:
        try:
            record = state(model.digest, whose, model.size, *texts, ask.credentials)
        except ModelProblem as problem:
            fail(str(problem))
        began = _send(ask, file, model.digest, model.size, as_json)
        stated = ask("model_add", record=record)
        if as_json:
            tell_json({**stated, "sent": model.size - began, "signed": bool(record["signature"])}, None)
            return
        tell(f"model {model.digest} for {whose}: {model.size} bytes"
             + (f", of which {began} were there" if began else "")
             + ("" if record["signature"] else "; not signed, since this fleet has no keys"))

    with_cloud(cloud, secure, work)


@models.command()
def remove(model: Model, as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Removes a model from the cloud, one that no order wants and no roll-back would go back to.

    Robots that have it let go of it when they need the room.
    """
    ordered(cloud, secure, as_json, lambda ask: ask("model_remove", model=model), lambda found: tell(
        f"removed model {found['digest']} for {found['region']}"))


@models.command(name="show")
def show_one(model: Model, as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Shows a model's card and its evaluation, and who has signed them."""

    def say(found: dict[str, Any]) -> None:
        tell(f"{found['digest']} for {found['region']}, {found['size']} bytes, added {found['added']} by "
             f"{found['person']}, " + (f"signed by {found['signer']}" if found["signer"] else "not signed"))
        for part in ("card", "evaluation"):
            tell(f"\n{part}:\n{found[part]}" if found[part] else f"\n{part}: none")

    ordered(cloud, secure, as_json, lambda ask: ask("model", model=model), say)


def rollout(model: Model, canary: Canary = 1, on: On = None, robots: Robots = None, goals: Goals = 10,
            expect: Expect = None,
            now: Annotated[bool, typer.Option("--now", help="Also while a goal is being pursued.")] = False,
            watch: Annotated[bool, typer.Option("--watch", help="Go on until it has ended; status 1 where it was "
                                                "taken back.")] = False,
            as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Rolls a model out: to a few robots, and to the others once these have reached their goals with it.

    It is taken back by itself where they do worse than before, or a region fails with it.
    """
    more = {"robots": robots} if robots else {}

    def work(ask: Any) -> None:
        found = ask("rollout", model=model, canary=canary, on=on or [], goals=goals, expect=expect,
                    when="now" if now else "idle", **more)
        _follow(ask, found, watch, as_json)

    with_cloud(cloud, secure, work)


def rollback(region: Annotated[str | None, typer.Argument(help="Whose model. Default: what was rolled out last.")
                               ] = None,
             watch: Annotated[bool, typer.Option("--watch", help="Go on until all robots have said that it is.")
                              ] = False,
             as_json: Json = False, cloud: CloudAt = None, secure: FleetSecure = None) -> None:
    """Takes a roll-out back, also one that is done: its robots get at once what they had before."""
    which = {} if region is None else {"region": region}
    with_cloud(cloud, secure, lambda ask: _follow(ask, ask("rollback", **which), watch, as_json, back=True))


def _follow(ask: Any, found: dict[str, Any], watch: bool, as_json: bool, back: bool = False) -> None:
    """Tells how a roll-out is, once or until it has ended."""
    from brain_cloud.processes.model_tables import rollout_line

    said = ""
    while True:
        line = rollout_line(found)
        if line != said:
            tell_json(found, None) if as_json else tell(line)
            said = line
        if not watch or found["state"] in ENDED:
            break
        time.sleep(REFRESH)
        found = next(one for one in ask("models")["rollouts"] if one["number"] == found["number"])
    if found["state"] == "rolled_back" and not back:
        raise typer.Exit(1)


def _read(file: Path) -> Any:
    from brain_edge.models.model_file import read_model

    return read_model(file)


def _text(path: Path | None, default: str) -> str:
    from brain_edge.models.model_file import ModelProblem
    from brain_edge.models.model_signature import EVALUATION

    if path is None:
        return default
    with path.open("rb") as file:
        data = file.read(4 * EVALUATION + 1)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelProblem(f"{path} is not text in UTF-8 ({error.reason} at byte {error.start})") from None


def _evaluation(path: Path | None, metadata: dict[str, str]) -> str:
    from brain_edge.models.model_file import ModelProblem
    from brain_edge.models.model_signature import EVALUATION
    from brain_edge.schema import FormProblem, read_json

    text = _text(path, metadata.get("held_out", ""))
    try:
        if text:
            read_json(text, 4 * EVALUATION)
    except FormProblem as problem:
        raise ModelProblem(f"the evaluation in {path or 'the file'}: {problem}") from None
    return text


def _send(ask: Any, file: Path, digest: str, size: int, quiet: bool) -> int:
    """Sends what the cloud has not got yet; returns how many bytes it had."""
    from brain_edge.blobs.carry import push
    from brain_edge.messages.question import NotGiven

    haves: list[int] = []
    told = time.monotonic()

    def put(have: int, piece: bytes) -> dict[str, Any]:
        nonlocal told
        found: dict[str, Any] = ask("model_put", digest=digest, offset=have, data=piece or None)
        haves.append(found["have"])
        if not quiet and time.monotonic() - told > 5.0:
            tell(f"{haves[-1]} of {size} bytes", err=True)
            told = time.monotonic()
        return found

    with file.open("rb") as data:
        try:
            push(put, data, size)
        except NotGiven as problem:
            fail(f"{file}: {problem}; send it again")
    return haves[0]
