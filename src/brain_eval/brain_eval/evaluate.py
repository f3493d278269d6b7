# SPDX-License-Identifier: Apache-2.0
"""``brain eval``: runs a suite and reports what was reached."""
from __future__ import annotations

import time
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from brain_eval import saved
from brain_runtime.command.options import Json, check_writable, fail, tell_json
from brain_runtime.graph.rooms import Split


class Policy(str, Enum):
    """Policy that drives."""

    brain = "brain"
    oracle = "oracle"
    scripted = "scripted"
    tour = "tour"
    blind = "blind"
    shuffled = "shuffled-words"


class Host(str, Enum):
    """Host of the regions."""

    local = "local"
    zenoh = "zenoh"
    ros = "ros"
    torch = "torch"


def evaluate(
        suite: Annotated[str, typer.Option(help="Name of the suite: language-v1; language-v1-hard has obstacles that "
                                           "move.")] = "language-v1",
        split: Annotated[Split, typer.Option(help="Rooms and sentences: train, val or test.")] = Split.val,
        episodes: Annotated[int, typer.Option(min=1, help="How many episodes.")] = 100,
        seed: Annotated[int, typer.Option(min=0, help="Seed of the suite.")] = 0,
        host: Annotated[Host, typer.Option(help="local: lockstep, as fast as it goes. zenoh: processes, in real time. "
                                           "ros: the same on rclpy. torch: lockstep, a static group of "
                                           "torch.distributed.")] = Host.local,
        realtime: Annotated[bool, typer.Option(
            "--realtime", help="With --host torch: not in lockstep, but at the pace of the slowest rank, with the "
                               "world outside. zenoh and ros always run in real time.")] = False,
        policy: Annotated[Policy, typer.Option(help="The brain, or a control on the same episodes.")] = Policy.brain,
        jobs: Annotated[int, typer.Option(min=1, help="Episodes at once (local only).")] = 1,
        low_obstacles: Annotated[int, typer.Option(
            min=0, max=4, help="Obstacles below the lidar's plane, in each room.")] = 0,
        time_limit: Annotated[float, typer.Option(
            metavar="SECONDS", help="When the referee ends an episode, 10 to 3600 s after the first word; with another "
                                    "than the suite's they are other episodes, which make no pairs.")] = 60.0,
        patience: Annotated[float | None, typer.Option(
            metavar="SECONDS", min=0.0, max=3600.0, help="How long the robot is told that a search may take; 0: until "
            "everything was looked at. By default 10 s less than the time limit, or a sixth where that is less (not on "
            "ros).")] = None,
        graph: Annotated[str, typer.Option(help="Graph: a name or a path.")] = "brain",
        join: Annotated[list[str] | None, typer.Option(metavar="MODULE:CLASS", help="A region that joins the brain, "
                        "such as brain_sim.plugin_sensors:Sonar.")] = None,
        ablate: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Take something away or replace "
                          "it, such as motor=silent, pfc=ann, qpfc=off; a wrong name lists them all.")] = None,
        energy: Annotated[float, typer.Option(
            metavar="BYTES", min=0.0, help="Energy budget of each of the brain's regions, bytes a second of what it "
                                           "publishes (local only); 0: none.")] = 0.0,
        against: Annotated[Path | None, typer.Option(
            metavar="FILE", help="Compare, pair by pair, with the --out file of another run.")] = None,
        out: Annotated[Path | None, typer.Option(
            metavar="FILE", help="Write everything to a file too, for `brain compare` and --against.")] = None,
        save: Annotated[str | None, typer.Option(
            metavar="NAME", help="Write the summary to results/NAME.json, for the tables of `brain docs`.")] = None,
        record: Annotated[Path | None, typer.Option(
            metavar="FOLDER", help="Record each episode into a bag in a folder, for `brain train --bags`: what is "
                                   "sensed and done, and what truly stands in the pictures (local only).")] = None,
        storage: Annotated[str, typer.Option(help="Of --record: mcap or sqlite3.")] = "mcap",
        failures: Annotated[bool, typer.Option("--failures", help="List the episodes that failed.")] = False,
        as_json: Json = False,
        file: Annotated[Path | None, typer.Argument(hidden=True, help="As --out; - is none.")] = None) -> None:
    """Runs a suite of episodes and reports success with 95 % intervals, by class.

    The same seed gives the same rooms and sentences to the brain and to every control:

    oracle knows the room, tour visits everything, blind sees nothing, shuffled-words hears another episode's words,
    scripted sees by color thresholds.
    """
    from brain_runtime.command.terminal import Terminal

    from brain_eval import ablations, policies, results
    from brain_runtime.command.lacking import EXPERIMENTS, PACKAGES, lacks
    from brain_runtime.supervision.supervised_brain import StartError
    from brain_sim.suite import TIME_LIMIT
    from brain_runtime.graph import GraphError
    from brain_runtime.hosts.backends import GroupError
    from brain_wire import safe_text
    from brain_wire import NoRouter

    if file is not None and not as_json:    # most likely a suite's name, and another one would be played for minutes
        fail(f"{ascii(str(file))}: no name stands alone here; a suite is --suite NAME, a file to write --out FILE", 2)
    if suite not in results.SUITES:
        fail(f"there is no suite {suite!r}; there are {', '.join(results.SUITES)}", 2)
    if file is not None:    # `--json FILE`, as it was written before --out
        as_json, out = str(file) == "-", out if str(file) == "-" else file
    check_writable(out)
    if save is not None:
        saved.check_folder()
    console = Terminal(stderr=True)
    try:
        chosen = results.SUITES[suite].episodes(split.value, episodes, seed, low_obstacles, time_limit)
        policies.told(policy.value, chosen, 0)
        if realtime and host is Host.local:
            raise ValueError("--realtime: on host local all regions run in lockstep; choose --host torch or zenoh")
        begin = time.time()
        earlier = None if against is None else results.read(against)["results"]
        if energy and (host is not Host.local or policy.value in policies.WITHOUT_BRAIN):
            raise ValueError("--energy counts what a brain publishes in lockstep; use --host local and a policy with a "
                             "brain. Over a wire, give regions the parameter energy_budget")
        ablation = ablations.parse(ablate or (), graph)
        if ablate and policy.value in policies.WITHOUT_BRAIN:
            raise ValueError(f"--ablate changes a brain, and {policy.value} has none")
        if policy.value in policies.WITH_BRAIN:
            policies.ablation_of(policy.value, ablation, graph)     # now, not when all has begun
        more: dict[str, Any] = {"energy": energy} if energy else {}
        if record is not None:
            more["record"] = _recording(record, storage, chosen, host, policy)
        if host is not Host.ros:
            more["patience"] = patience = policies.patience_of(time_limit, patience)
        elif patience is not None:
            raise ValueError("--patience is not told on ROS 2; leave it out, or choose another --host")
        found = _run(console, chosen, policy.value, host.value, realtime, jobs=jobs, graph=graph, join=join or (),
                     ablation=ablation, **more)
        difference = None if earlier is None else results.paired(found, earlier)
    except ModuleNotFoundError as missing:
        fail(lacks(missing.name) if missing.name in (*PACKAGES, EXPERIMENTS) else str(missing), 2)
    except (GraphError, ValueError, ImportError, OSError, KeyError) as error:
        fail(str(error), 2)
    except (StartError, NoRouter, GroupError) as error:
        fail(str(error))
    summary = results.summary(found)
    sent = results.traffic(found) if energy else {}
    report = {"policy": policy.value, "split": split.value, "seed": seed, "episodes": episodes, "host": host.value,
              "realtime": realtime or host in (Host.zenoh, Host.ros),
              "low_obstacles": low_obstacles, "time_limit": time_limit, "patience": patience, "graph": graph,
              "joined": join or [], "ablated": ablate or [],
              "energy": {"budget": energy, "traffic_per_second": sent,
                         "saved_share": results.saved_share(sent)} if energy else None,
              "took": round(time.time() - begin, 1),
              **results.environment(suite, graph), "summary": summary, "paired": difference, "results": found}
    if out is not None:
        try:
            out.write_text(safe_text.as_json(report, 1) + "\n", encoding="utf-8")
        except OSError as error:
            fail(f"cannot write {out}: {error.strerror}; the summary was {safe_text.as_json(summary)}")
    if save is not None:
        saved.write(save, {**{k: v for k, v in report.items() if k != "results"},
                           "episodes_kept": results.kept(found)}, {"seed": seed})
    if as_json:
        tell_json(report)
    else:
        title = f"{report['suite']}, {split.value}, {episodes} episodes, seed {seed}, {policy.value} on {host.value}"
        title += "".join(f", {a}" for a in ablate or ()) + (
            f", {time_limit:g} s" if time_limit != TIME_LIMIT else "")
        Terminal().print(results.table(summary, title))
        if summary["not_found"]:
            Terminal().print("not found: " + ", ".join(f"{n} {cause}" for cause, n in summary["not_found"].items()))
        if summary["times_real_time"]:
            Terminal().print(f"{summary['times_real_time']:.1f} times real time on each core; "
                             f"suite {report['suite_hash'][:12]}")
        if energy:
            Terminal().print(results.traffic_table(sent, energy))
        for outcome in ("success", "contact") if difference else ():
            low, high = difference[outcome]["interval95"]
            Terminal().print(f"{outcome}: {difference[outcome]['difference']:+.3f} against {against} "
                             f"({low:+.3f} to {high:+.3f}, {difference['n']} pairs)")
        for name, unit in (("time", " s"), ("spl", "")) if difference else ():
            if (d := difference[name])["difference"] is not None:
                told = "no interval" if d["interval95"] is None else "{:+.3f} to {:+.3f}".format(*d["interval95"])
                Terminal().print(f"{name}: {d['difference']:+.3f}{unit} against {against} ({told}, {d['n']} pairs)")
    if failures and not as_json:
        for r in found:
            if not r["success"]:
                console.tell(f"{r['id']} {r['kind']} {r['visibility']} {r['outcome']}: {r['sentence']!r} {r['reason']}")


def _recording(folder: Path, storage: str, chosen: list, host: Host, policy: Policy) -> Any:
    """Prepares the recording of episodes; raises ValueError or OSError where they cannot be, before any has run."""
    from brain_eval import policies
    from brain_eval.episodes import Record
    from brain_observe.bags import STORAGES
    from brain_runtime.command.lacking import lacks

    if find_spec("rosbags") is None:
        raise ValueError(lacks("rosbags"))
    if host is not Host.local or policy.value in policies.WITHOUT_BRAIN:
        raise ValueError("--record writes what a brain in lockstep senses; use --host local and a policy with a brain, "
                         "or record a live one with `ros2 bag record`")
    if storage not in STORAGES:
        raise ValueError(f"--storage {storage}: there are {' and '.join(STORAGES)}")
    found = Record(folder, storage)
    folder.mkdir(parents=True, exist_ok=True)
    there = [found.bag(episode) for episode in chosen if found.bag(episode).exists()]
    if there:
        raise FileExistsError(f"{there[0]} is there already; name another folder for --record")
    return found


def _run(console, chosen: list, policy: str, host: str, realtime: bool, **how) -> list[dict]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    if host == "zenoh" or host == "torch" and realtime:
        from brain_eval.realtime import run_many
        how["host"] = host
    elif host == "torch":
        from brain_eval.group import run_many
    elif host == "ros":
        try:
            from brain_eval.ros_realtime import run_many
        except ModuleNotFoundError as error:
            raise ValueError(f"--host ros needs ROS 2 ({error}): source its setup.bash and that of the workspace"
                             ) from None
    else:
        from brain_eval.episodes import run_many
    found: dict[int, dict] = {}
    described = TextColumn("{task.description}", markup=False)
    with Progress(described, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task(f"{policy} on {host}", total=len(chosen))
        for index, result in run_many(chosen, policy, **how):
            found[index] = result
            reached = sum(r["success"] for r in found.values())
            progress.update(task, advance=1, description=f"{policy} on {host}: {reached} of {len(found)}")
    return [found[i] for i in range(len(chosen))]
