# SPDX-License-Identifier: Apache-2.0
"""Renewal: one thread on the robot that asks the door for a later certificate, long before the one that it has ends.

Whether it is time the cloud says, by its own clock, which is also what judges the certificate: a robot whose clock is
off by a day asks as often, and gets the same. The next key is made on the robot, and what it had stays in use until
the cloud's router has let the new one in.
"""
from __future__ import annotations

import logging
import math
import random
import threading
import time
from pathlib import Path
from typing import Callable

from brain_edge.enrolment.client import EnrolmentClient, NoDoor, Refused
from brain_edge.enrolment.credentials import fitting, read_pair
from brain_edge.processes.alone import duration
from brain_security.certificates import CertificateError, make_request
from brain_security.folder import rewrite, robot_file
from brain_wire.rate_limited_log import RateLimitedLog

SOONEST, LATEST = 1.0, 3600.0   # s between two questions
HURRY = 5.0                     # s between two at least, where the link is refused
RETRY = 30.0                    # s after which a door that did not answer is asked again
ASTRAY = 3600.0                 # s by which clocks may differ without a word

log = logging.getLogger("brain.edge")
limited_log = RateLimitedLog(log, every=600.0)


class Renewal:
    """Keeps one robot's credentials fresh.

    Args:
        file: with its credentials; it is replaced, as a whole.
        robot: its name.
        where: the cloud's door.
        tell: writes down an event, for people.
        renewed: called once the file is another one.
        over: ends it.
    """

    def __init__(self, file: Path, robot: str, where: tuple[str, int], tell: Callable[[str], None],
                 renewed: Callable[[], None], over: threading.Event) -> None:
        self._file, self._robot, self._visit = file, robot, EnrolmentClient(where)
        self._tell, self._renewed, self._over = tell, renewed, over
        self._wake = threading.Event()
        self._told: set[str] = set()    # what was told, until it is not so any more

    def start(self) -> None:
        """Begins."""
        threading.Thread(target=self._run, name="renewal", daemon=True).start()

    def hurry(self) -> None:
        """Asks soon, since the link is refused or gone: the certificate may have ended by the cloud's clock."""
        self._wake.set()

    def _run(self) -> None:
        wait = 0.0
        while not self._over.is_set():
            if self._wake.wait(wait):
                self._wake.clear()
                if self._over.wait(min(wait, HURRY)):
                    return
            try:
                wait = self.ask()
            except NoDoor as problem:
                limited_log("door", f"the certificate is not looked after: {problem}")
                wait = RETRY
            except Refused as problem:
                self._once("refused", f"{self._robot} gets no certificate any more: {problem}")
                wait = RETRY
            except (OSError, CertificateError) as problem:
                self._once("broken", f"the certificate in {self._file} cannot be renewed: {problem}")
                wait = RETRY
            except Exception:   # the robot's side of the fleet goes on without
                limited_log("renewal", "the certificate could not be looked after", trace=True, level=logging.ERROR)
                wait = LATEST
            # Drawn, so that a fleet that was enrolled in an hour does not come in one.
            wait *= random.uniform(0.8, 1.0)

    def ask(self) -> float:
        """Asks once; in how many seconds to ask again.

        Raises:
            NoDoor, Refused, OSError, CertificateError: nothing has changed.
        """
        pair, authority = read_pair(self._file)
        key, request = make_request(self._robot)
        answer = self._visit.renew(pair, authority, request)
        self._compare_clocks(float(answer["now"]))
        if "certificate" in answer:
            fresh = fitting(key, str(answer["certificate"]).encode(), authority, self._robot)
            rewrite(self._file, robot_file(fresh, authority, self._robot))
            log.info("the certificate of %s is renewed, until %s", self._robot, fresh.ends.date())
            self._renewed()
        self._told -= {"refused", "broken"}
        again = float(answer.get("again", LATEST))
        return min(max(again, SOONEST), LATEST) if math.isfinite(again) else LATEST

    def _compare_clocks(self, cloud: float) -> None:
        off = time.time() - cloud
        if not math.isfinite(off) or abs(off) <= ASTRAY:
            self._told.discard("clock")
            return
        self._once("clock", f"the clock of {self._robot} is {duration(abs(off))} {'ahead of' if off > 0 else 'behind'} "
                            f"its cloud's: set the one that is wrong; links are refused where a certificate seems to "
                            f"have ended, or not to have begun")

    def _once(self, what: str, text: str) -> None:
        if what not in self._told:
            self._told.add(what)
            log.warning("%s", text)
            self._tell(text)
