# SPDX-License-Identifier: Apache-2.0
"""The door: where robots ask for certificates, beside the router that lets nobody in who has none.

TLS on a port of its own, one question in a line of JSON and one answer, and then the link ends. A robot that enrols
shows a token, one that has a certificate shows that. Certificates that have ended count here, both ways: whether they
may still be renewed the authority says by the cloud's clock, so that a robot with a wrong clock is not locked out.
"""
from __future__ import annotations

import json
import logging
import os
import socket
import ssl
import threading
import time
from typing import Any, Callable

from brain_cloud.enrolment.authority import Authority, Refusal
from brain_edge.enrolment.names import FORMAT, GO, NO_CHECK_TIME, PATIENCE
from brain_edge.messages.rate_limit import Bucket
from brain_edge.schema import FormProblem, check, read_json
from brain_security.certificates import CertificateError, Pair
from brain_security.folder import FolderError
from brain_security.rights import AUTHORITY, ROUTER
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

LONGEST = 16 * 1024     # bytes of a question
MOST = 16               # who ask at the same time
TRIES, AGAIN = 10.0, 60.0   # wrong tokens from one address at once; and s in which as many more are allowed
SLOWEST = 20e3          # bytes a second with which a file comes at least
ADDRESSES = 10_000      # whose wrong tokens are counted

_PEM = {"type": "string", "maxLength": 4000}
_FORM: dict[str, Any] = {"type": "object", "required": ["format", "do"], "properties": {
    "format": {"type": "integer"}, "do": {"enum": ["authority", "enroll", "renew", "upload"]},
    "robot": {"type": "string", "maxLength": 40}, "secret": {"type": "string", "maxLength": 64}, "request": _PEM,
    "kind": {"type": "string", "pattern": "[a-z]+", "maxLength": 20},
    "name": {"type": "string", "pattern": "[A-Za-z0-9_][-A-Za-z0-9_.]*", "maxLength": 80},
    "bytes": {"type": "integer", "minimum": 0, "maximum": 10**13},
    "sha256": {"type": "string", "pattern": "[0-9a-f]{64}"}, "days": {"type": "number", "minimum": 0, "maximum": 3650}}}

log = logging.getLogger("brain.cloud")
limited_log = RateLimitedLog(log)

# What takes in a file: robot, question, where its bytes come from, what lets them come; returns the answer.
TakeIn = Callable[[str, dict[str, Any], Any, Callable[[], None]], dict[str, Any]]


class DoorProblem(RuntimeError):
    """Nobody can ask; names the address and the remedy."""


class EnrolmentServer:
    """Answers until it is closed.

    Args:
        authority: that decides.
        addresses: hosts and ports; port 0: any that is free.
        upload: takes in what robots send of pictures; None: nothing.

    Attributes:
        ports: at which it listens.

    Raises:
        DoorProblem: an address cannot be listened on, or the keys do not read.
    """

    def __init__(self, authority: Authority, addresses: list[tuple[str, int]], upload: TakeIn | None = None) -> None:
        self._authority, self._upload = authority, upload
        self._tls: tuple[object, ssl.SSLContext] | None = None
        self._context()
        self._sockets: list[socket.socket] = []
        self._busy = threading.Semaphore(MOST)
        self._tries: dict[str, Bucket] = {}
        self._lock = threading.Lock()
        self._over = False
        try:
            for host, port in addresses:
                # as the router does it: :: is for both, where 0.0.0.0 is not named too
                both = host == "::" and socket.has_dualstack_ipv6() and all(":" in one for one, _ in addresses)
                self._sockets.append(socket.create_server(
                    (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=MOST,
                    dualstack_ipv6=both))
        except (OSError, OverflowError) as error:
            self.close()
            raise DoorProblem(f"cannot listen at {host}, port {port}, where robots ask for certificates: "
                              f"{getattr(error, 'strerror', None) or error}; name another port with --door") from error
        self.ports = [one.getsockname()[1] for one in self._sockets]
        for one in self._sockets:
            threading.Thread(target=self._accept, args=(one,), name="door", daemon=True).start()

    def _context(self) -> ssl.SSLContext:
        """With the keys that are in the folder now, which `brain keys --renew` makes anew while this runs.

        Raises:
            DoorProblem: see there.
        """
        folder = self._authority.folder
        files = [folder / name for name in (f"{ROUTER}.crt", f"{ROUTER}.key", f"{AUTHORITY}.crt")]
        try:
            mark = [(found.st_mtime_ns, found.st_ino) for found in map(os.stat, files)]
            if self._tls is None or self._tls[0] != mark:
                tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                tls.minimum_version = ssl.TLSVersion.TLSv1_3
                tls.load_cert_chain(files[0], files[1])
                tls.load_verify_locations(files[2])
                tls.verify_mode = ssl.CERT_OPTIONAL
                tls.verify_flags |= NO_CHECK_TIME
                self._tls = mark, tls
            return self._tls[1]
        except (OSError, ssl.SSLError) as error:
            raise DoorProblem(f"the keys in {folder} cannot be used ({error}); see `brain keys`") from error

    def close(self) -> None:
        """Answers nobody any more."""
        self._over = True
        for one in self._sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)      # wakes who waits for it
            except OSError:
                pass    # not on every system, and then close does it
            one.close()

    def _accept(self, listening: socket.socket) -> None:
        while not self._over:
            try:
                link, address = listening.accept()
            except OSError as error:
                if self._over:
                    return
                limited_log("accept", f"nobody could be let in at the door: {error}")
                time.sleep(0.1)     # no file is left for it, perhaps
                continue
            if not self._busy.acquire(blocking=False):
                link.close()
                limited_log("busy", f"more than {MOST} ask at the door; {address[0]} is sent away")
                continue
            threading.Thread(target=self._serve, args=(link, str(address[0])), name="door", daemon=True).start()

    def _serve(self, link: socket.socket, address: str) -> None:
        try:
            with link:
                link.settimeout(PATIENCE)
                # Who sends a byte now and then would have its place for ever.
                ending = threading.Timer(PATIENCE, _end, (link,))
                ending.daemon = True
                ending.start()
                try:
                    with self._context().wrap_socket(link, server_side=True) as secured, \
                            secured.makefile("rb") as lines:
                        answer = self._answer(secured, lines, address, ending)
                        secured.sendall(json.dumps({"format": FORMAT, "now": self._authority.clock(), **answer}
                                                   ).encode() + b"\n")
                finally:
                    ending.cancel()
        except (OSError, ValueError, DoorProblem) as error:
            limited_log(f"link {address}", f"{address} asked at the door, and the link ended: {quoted(str(error))}")
        except Exception:   # whatever one asks, the next is served
            limited_log("door", f"a question of {address} failed", trace=True, level=logging.ERROR)
        finally:
            self._busy.release()

    def _answer(self, link: ssl.SSLSocket, lines: Any, address: str, ending: threading.Timer) -> dict[str, Any]:
        try:
            question = read_json(lines.readline(LONGEST + 1), LONGEST)
            if isinstance(question, dict) and question.get("format") != FORMAT:
                raise Refusal(f"this cloud reads questions of format {FORMAT}, and this one is of format "
                              f"{quoted(str(question.get('format')))}: bring the software to the same version")
            check(question, _FORM)
            if question["do"] == "authority":
                return {"authority": self._authority.certificate().decode()}
            if question["do"] == "enroll":
                return self._enroll(question, address)
            found = link.getpeercert(binary_form=True)
            if found is None:
                raise Refusal("who asks this shows a certificate of this fleet")
            certificate = Pair(b"", ssl.DER_cert_to_PEM_cert(found).encode())
            if question["do"] == "upload":
                robot = self._authority.belongs(certificate)
                if self._upload is None:
                    raise Refusal("this cloud takes no pictures in; start it with --pictures")
                ending.cancel()
                later = threading.Timer(PATIENCE + question.get("bytes", 0) / SLOWEST, _end, (link,))
                later.daemon = True
                later.start()
                try:
                    return self._upload(robot, question, lines, lambda: link.sendall(GO))
                finally:
                    later.cancel()
            signed, again = self._authority.renew(certificate, question.get("request", "").encode())
            return {"again": again, **({} if signed is None else {"certificate": signed.decode()})}
        except (FormProblem, Refusal, CertificateError) as problem:
            limited_log(f"refuse {address}", f"{address} asked at the door, and is refused: {problem}")
            return {"problem": str(problem)[:500]}
        except (FolderError, FileNotFoundError, PermissionError) as problem:
            limited_log("folder", str(problem))
            return {"problem": "the cloud cannot read or write its keys just now; its log says more", "passing": True}

    def _enroll(self, question: dict[str, Any], address: str) -> dict[str, Any]:
        with self._lock:
            if address not in self._tries and len(self._tries) >= ADDRESSES:
                self._tries.clear()
            tries = self._tries.setdefault(address, Bucket(TRIES / AGAIN, TRIES))
            if tries.wait() > 0.0:
                return {"problem": f"too many wrong tokens came from {address}; try again in a minute",
                        "passing": True}
        try:
            certificate = self._authority.enroll(question.get("robot", ""), question.get("secret", ""),
                                                 question.get("request", "").encode())
        except Refusal:
            with self._lock:
                tries.take(1.0)
            raise
        return {"certificate": certificate.decode()}


def _end(link: socket.socket) -> None:
    try:
        link.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass    # it has ended by itself
