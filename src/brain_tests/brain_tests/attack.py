# SPDX-License-Identifier: Apache-2.0
"""A hostile peer: what it declares, puts, asks and answers is broken, on every topic and service that a brain has.

What commands the robot when it is sound is sent broken alone: it shows that nonsense does no harm, not that whoever is
let in may not drive. By hand, beside a brain that runs::

    python -m brain_tests.attack --router tcp/localhost:7447 --domain 0 --seconds 60
"""
from __future__ import annotations

import argparse
import random
import threading
import time
from collections import Counter
from typing import Any, Callable

import zenoh

from brain_runtime import interfaces
from brain_tests import hostile
from brain_wire import messages
from brain_wire import Session, Watch, names, open_session
from brain_wire.attachment import pack
from brain_wire.messages import MessageError
from brain_wire.services import action_type, service_type

# Topics on which sound messages of an outside node, whatever they say, are no commands.
HARMLESS = ("brain/trace", "diagnostics", "parameter_events", "rosout", "brain/heartbeat")
# Services that change something: they are asked for nothing that can be read.
CHANGING = ("set_parameters", "set_parameters_atomically", "change_state", "send_goal", "cancel_goal")
KEPT = 150          # tokens and queryables at a time
HUGE = 20 * 2**20   # B; more than any subscription takes
TURN = 40           # things in a row, and then a pause
PAUSE = 0.02        # s; a flood that fills the wire is another matter


class Attack:
    """Attacks one brain.

    Args:
        session: open; stays open.
        domain: of the brain.
        seed: of what is drawn.
    """

    def __init__(self, session: Session, domain: int, seed: int = 0) -> None:
        self._session, self._zenoh, self._domain = session, session.zenoh, domain
        self._draw = random.Random(seed)
        self._watch = Watch(session, domain)
        self._kept: list[Any] = []
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()      # by Zenoh itself, before they got anywhere
        self.answers: Counter[str] = Counter()

    def run(self, seconds: float, stop: threading.Event | None = None) -> Counter[str]:
        """Attacks for ``seconds``, or until ``stop`` is set; what was done, by kind."""
        until = time.monotonic() + seconds
        ways: list[Callable[[], None]] = [self._token] * 3 + [self._sample] * 12 + [self._query] * 6 + [
            self._answer, self._cache, self._history, self._delete]
        rounds = 0
        while time.monotonic() < until and not (stop is not None and stop.is_set()):
            self._watch.poll()
            if rounds % 100 == 50:
                self._do(self._huge)
            if rounds % 100 == 99:
                self._do(self._flood)
            for _ in range(TURN):
                self._do(self._draw.choice(ways))
            while len(self._kept) > KEPT:
                self._kept.pop(self._draw.randrange(len(self._kept))).undeclare()
            rounds += 1
            time.sleep(PAUSE)
        return self.done

    def close(self) -> None:
        """Takes everything back."""
        for part in self._kept:
            part.undeclare()
        self._watch.close()

    def _do(self, way: Callable[[], None]) -> None:
        name = way.__name__.strip("_")
        try:
            way()
            self.done[name] += 1
        except (zenoh.ZError, ValueError) as error:     # no key, say, that Zenoh takes
            self.refused[f"{name}: {type(error).__name__}"] += 1

    # -- what there is ---------------------------------------------------------------------------------------------

    def _endpoint(self, *kinds: str) -> names.Endpoint:
        found = [e for kind in kinds for e in self._watch.endpoints(kind=kind)
                 if not e.name.endswith("_test")]
        if not found:
            raise ValueError("there is nobody")
        return self._draw.choice(found)

    def _key(self, endpoint: names.Endpoint) -> str:
        return f"{self._domain}/{endpoint.topic.strip('/')}/{endpoint.dds_type}/{endpoint.type_hash}"

    def _attachment(self) -> bytes | None:
        sound = pack(self._draw.randrange(-5, 2**40), time.time_ns(), self._draw.randbytes(16))
        return self._draw.choice((None, b"", sound, sound, hostile.changed_bytes(self._draw, sound), bytes(10**5)))

    def _broken(self, name: str) -> bytes:
        """Bytes that are no message of a type, however near they come."""
        for _ in range(20):
            data = self._draw.randbytes(self._draw.randrange(300)) if self._draw.random() < 0.2 else \
                hostile.changed_bytes(self._draw, messages.encode(hostile.any_message(self._draw, name)))
            try:
                messages.decode(data, name)
            except MessageError:
                return data
        return b"\0\1\0"

    # -- what is done ----------------------------------------------------------------------------------------------

    def _token(self) -> None:
        known = self._watch.endpoints() or [names.Endpoint(self._domain, "ab", 0, 0, names.NODE, "/", "x")]
        token = hostile.changed_text(self._draw, self._draw.choice(known).token(), "///%,:")
        prefix = f"{names.TOKEN_SPACE}/{self._domain}/"
        token = token if token.startswith(prefix) else prefix + token
        self._kept.append(self._zenoh.liveliness().declare_token(token[:60000]))

    def _flood(self) -> None:
        """Many nodes that come and go."""
        tokens = [self._zenoh.liveliness().declare_token(
            names.Endpoint(self._domain, "abc", n, n, names.NODE, "/", f"flood_{n}").token()) for n in range(1000)]
        for token in tokens:
            token.undeclare()

    def _sample(self) -> None:
        endpoint = self._endpoint(names.PUBLISHER, names.SUBSCRIPTION)
        name = endpoint.type
        if endpoint.topic.strip("/").endswith(HARMLESS) and self._draw.random() < 0.5:
            message = hostile.any_message(self._draw, name)
            if hasattr(message, "name") and name.endswith("Heartbeat"):
                message.name = f"/outside_{self._draw.randrange(10**6)}"
            data = messages.encode(message)
        else:
            data = self._broken(name)
        self._zenoh.put(self._key(endpoint), data, attachment=self._attachment())

    def _huge(self) -> None:
        self._zenoh.put(self._key(self._endpoint(names.SUBSCRIPTION)), bytes(HUGE), attachment=self._attachment())

    def _delete(self) -> None:
        self._zenoh.delete(self._key(self._endpoint(names.PUBLISHER, names.SUBSCRIPTION)))

    def _query(self) -> None:
        endpoint = self._endpoint(names.SERVER)
        request = f"{endpoint.type}_Request"
        if endpoint.type.startswith(interfaces.PACKAGE):
            action_type(endpoint.type.rpartition("_")[0])
        else:
            service_type(endpoint.type)
        if endpoint.topic.endswith(CHANGING) or self._draw.random() < 0.5:
            data = self._broken(request)
        else:
            data = messages.encode(hostile.any_message(self._draw, request))
        self._zenoh.get(self._key(endpoint) + self._draw.choice(("", "", "?a=b;c", "?_max=-1")),
                        zenoh.handlers.Callback(self._heard, indirect=False), payload=data, timeout=2.0,
                        target=self._draw.choice((zenoh.QueryTarget.ALL_COMPLETE, zenoh.QueryTarget.ALL)),
                        attachment=self._attachment())

    def _heard(self, reply: zenoh.Reply) -> None:
        self.answers["answered" if reply.ok is not None else "refused"] += 1

    def _history(self) -> None:
        """Asks caches of latched topics for what they have, in odd words."""
        words = self._draw.choice(("_max=-1", "_max=99999999999999999999", "_sn=5..1", "_sn=x", "_time=[now(-9y)..]",
                                   "a"))
        self._zenoh.get(f"{self._key(self._endpoint(names.PUBLISHER))}/@adv/**?{words}",
                        zenoh.handlers.Callback(self._heard, indirect=False), timeout=2.0)

    def _answer(self) -> None:
        """Answers in a service's place."""
        endpoint = self._endpoint(names.SERVER)
        key, data, attachment = self._key(endpoint), self._draw.randbytes(40), self._attachment()

        self._kept.append(self._zenoh.declare_queryable(key, self._replying(key, data, attachment), complete=True))

    def _replying(self, key: str, data: bytes, attachment: bytes | None) -> Any:
        """Makes a handler that answers each query with the same."""
        def answer(query: zenoh.Query) -> None:
            try:
                with query:
                    query.reply(key, data, attachment=attachment)
            except zenoh.ZError:    # it was asked for something else
                self.refused["reply"] += 1

        return zenoh.handlers.Callback(answer, indirect=False)

    def _cache(self) -> None:
        """Pretends to be a publisher of a latched topic that has something to catch up on."""
        endpoint = self._endpoint(names.SUBSCRIPTION)
        key, name = self._key(endpoint), endpoint.type
        number = self._draw.choice((str(self._draw.randrange(99)), "uhlc", "9" * 400, "x"))
        place = f"{key}/@adv/pub/{self._zenoh.info.zid()}/{number}/_"
        self._kept.append(self._zenoh.declare_queryable(place, self._replying(key, self._broken(name),
                                                                              self._attachment())))
        self._kept.append(self._zenoh.liveliness().declare_token(place))
        # what tells how far it has come
        self._zenoh.put(place, self._draw.choice((b"", b"\xff\xff\xff\xff", b"x")))


def main() -> None:
    """Attacks a brain and says what was done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--router", default=None)
    parser.add_argument("--domain", type=int, default=names.domain_id())
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with open_session(given.router) as session:
        attack = Attack(session, given.domain, given.seed)
        time.sleep(1.0)     # for the tokens that there are
        try:
            attack.run(given.seconds)
        except KeyboardInterrupt:
            print("stopped")
        finally:
            attack.close()
        print("done:", dict(attack.done))
        print("answers:", dict(attack.answers))
        print("not taken by Zenoh:", dict(attack.refused))


if __name__ == "__main__":
    main()
