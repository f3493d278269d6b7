# SPDX-License-Identifier: Apache-2.0
"""The stage that deploys: new weights go into the fleet's registry, and to its robots by a roll-out with a canary.

It calls the verbs that a person calls. What was ordered is not remembered here: the cloud knows which models it has and
how each roll-out stands, so that whoever is killed goes on rightly. What robots have taken back is taken back here
too, and the next training goes on from what they have.
"""
from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, NamedTuple

from brain_regions.weight_files import WeightsError
from brain_runtime.run.ending import Ending
from brain_training.incremental.sedna_worker import WorkerProblem
from brain_training.incremental.stages import BY, training_of

EVERY = 10.0        # s between two looks
PATIENCE = 600.0    # s that a verb gets
REGION = "vision"


class Deploying(NamedTuple):
    """Rolls out what is at ``model``: to ``canary`` robots first, which are watched for ``goals`` goals."""

    model: Path
    canary: int
    goals: int
    cloud: str | None
    secure: Path | None
    tell: Callable[[str], None]

    @property
    def now(self) -> Path:
        """Beside the model: what was rolled out last, or what the job began with."""
        return self.model.with_name(f"{self.model.name}.now")

    @property
    def before(self) -> Path:
        """Beside the model: what the robots had before that."""
        return self.model.with_name(f"{self.model.name}.before")

    def run(self) -> str:
        """Looks again and again, until SIGINT or SIGTERM; returns the last state."""
        ending, said, state = Ending(), "", ""
        while True:
            try:
                state = self.look()
                problem = ""
            except (WorkerProblem, OSError) as error:
                problem = str(error)
            if problem and problem != said:
                self.tell(problem)
            said = problem
            if ending.asked.wait(EVERY):
                return state

    def look(self) -> str:
        """Does what is next; returns how the model stands: ``as it was``, or the state of its roll-out.

        Raises:
            WorkerProblem: there is no model, or the cloud cannot be asked, or refuses.
        """
        try:
            made = training_of(self.model)
        except WeightsError as problem:
            raise WorkerProblem(str(problem)) from problem
        if made.get("by") != BY:
            self._copy(self.model, self.now)
            return "as it was"
        digest = f"sha256:{hashlib.sha256(self.model.read_bytes()).hexdigest()}"
        known = [one for one in self._ask("models")["rollouts"] if one.get("digest") == digest]
        if not known:
            if self.now.exists() and self.now.read_bytes() != self.model.read_bytes():
                self._copy(self.now, self.before)
            self._copy(self.model, self.now)    # from here on a kill changes neither
            self._ask("models", "add", str(self.model), "--region", REGION)
            found = self._ask("rollout", digest.removeprefix("sha256:"), "--canary", str(self.canary), "--goals",
                              str(self.goals))
            self.tell(f"model {digest[7:19]} is rolled out, to {self.canary or 'all'} robots first")
            return str(found["state"])
        newest = max(known, key=lambda one: one["number"])
        if newest["state"] == "rolled_back" and self.before.exists():
            self._copy(self.before, self.now)
            self._copy(self.before, self.model)
            self.tell(f"model {digest[7:19]} was taken back ({newest.get('why', '')}): the next training goes on from "
                      f"what the robots have")
        return str(newest["state"])

    def _copy(self, source: Path, target: Path) -> None:
        """Puts a copy in place, whole or not at all."""
        try:
            if target.exists() and target.read_bytes() == source.read_bytes():
                return
            part = target.with_name(f".{target.name}.part")
            shutil.copy(source, part)
            os.replace(part, target)
        except OSError as error:
            raise WorkerProblem(f"cannot write {target}: {error.strerror or error}") from error

    def _ask(self, *words: str) -> Any:
        """Runs a verb of ``brain fleet`` and returns its JSON. Raises WorkerProblem."""
        where = [*(("--cloud", self.cloud) if self.cloud else ()),
                 *(("--secure", str(self.secure)) if self.secure else ())]
        try:
            done = subprocess.run([sys.executable, "-m", "brain", "fleet", *words, "--json", *where],
                                  capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise WorkerProblem(f"brain fleet {words[0]} did not end within {PATIENCE:.0f} s") from None
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise WorkerProblem(said[-1].removeprefix("brain: ") if said else f"brain fleet {words[0]} failed")
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise WorkerProblem(f"brain fleet {words[0]} did not answer as it does ({error})") from error
