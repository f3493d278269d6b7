# SPDX-License-Identifier: Apache-2.0
"""Reasons for a refused session. Zenoh only says that it cannot connect, so the link is tried by TLS alone."""
from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Iterable

from brain_wire.credentials import Credentials
from brain_wire.endpoints import address

if TYPE_CHECKING:
    import ssl  # and below where it is used: a region that is let in needs neither it nor tempfile

PATIENCE = 0.5      # s for each step of looking; a router on the same network answers within milliseconds
SECURED = "the router at {endpoint} belongs to a secured brain"


def why_not(endpoints: Iterable[str], credentials: Credentials | None) -> str | None:
    """Returns the reason for a refused session, with the remedy; None: nobody listens, or it cannot be said."""
    for endpoint in endpoints:
        protocol, host, port = address(endpoint)
        if not port or protocol not in ("tcp", "tls"):
            continue
        if protocol == "tcp":
            if _speaks_tls(host, port):
                return SECURED.format(endpoint=endpoint) + ", which is reached by TLS only; give --secure FOLDER (or " \
                       "BRAIN_SECURITY), the folder that `brain keys` made"
        elif credentials is None:
            if _speaks_tls(host, port):
                return f"the router at {endpoint} does not let this session in; give --secure FOLDER (or " \
                       "BRAIN_SECURITY)"
        else:
            refused = _refused(endpoint, host, port, credentials)
            if refused:
                return refused
    return None


def _speaks_tls(host: str, port: int) -> bool:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), PATIENCE) as plain, context.wrap_socket(plain):
            return True
    except OSError:  # nobody there, or something else than TLS
        return False


def _refused(endpoint: str, host: str, port: int, credentials: Credentials) -> str | None:
    import ssl

    who = f"{credentials.name} ({credentials.path})"
    try:
        context = _context(credentials.path)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return f"the certificates in {credentials.path} cannot be used: {error}; make them anew with `brain keys " \
               "FOLDER --renew`"
    try:
        with socket.create_connection((host, port), PATIENCE) as plain:
            try:
                link = context.wrap_socket(plain, server_hostname=host)
            except ssl.SSLCertVerificationError as error:
                return (f"the router at {endpoint} is not one that the credentials of {who} trust: "
                        f"{error.verify_message}. Take the folder that it runs with; if that does not name {host}, "
                        f"make its keys anew with `brain keys FOLDER --renew --host {host}`")
            except (ssl.SSLError, TimeoutError) as error:
                return (f"the router at {endpoint} does not speak TLS ({error}), so it is not secured; start it with "
                        f"`brain up --secure FOLDER`, or leave --secure and BRAIN_SECURITY away")
            with link:
                try:
                    link.recv(1)  # what the router thinks of our certificate comes after the handshake
                except TimeoutError:
                    return None
                except OSError as error:
                    return _alert(endpoint, who, error)
    except OSError:  # nobody listens
        return None
    return None


def _alert(endpoint: str, who: str, error: OSError) -> str:
    reason = (getattr(error, "reason", None) or str(error)).lower().replace("_", " ")
    if "expired" in reason:
        why = "the certificate has ended, or is not valid yet by the router's clock; renew it with `brain keys " \
              "FOLDER --renew`, or set the clock"
    elif "unknown ca" in reason or "decrypt" in reason:
        why = "the certificate is of another authority; take the folder that this router runs with"
    else:
        why = f"{reason}; make credentials with `brain keys FOLDER`"
    return f"the router at {endpoint} refuses {who}: {why}"


def _context(path: Path) -> ssl.SSLContext:
    """Makes the TLS context of the Zenoh settings in a file."""
    import base64
    import ssl
    import tempfile

    text = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("//"))
    tls = json.loads(text)["transport"]["link"]["tls"]
    pem = {k: base64.b64decode(tls[f"{k}_base64"]) for k in ("root_ca_certificate", "connect_certificate",
                                                             "connect_private_key")}
    context = ssl.create_default_context(cadata=pem["root_ca_certificate"].decode("ascii"))
    with tempfile.NamedTemporaryFile() as file:  # mode 0600; the library takes keys from files only
        file.write(pem["connect_certificate"] + pem["connect_private_key"])
        file.flush()
        context.load_cert_chain(file.name)
    return context
