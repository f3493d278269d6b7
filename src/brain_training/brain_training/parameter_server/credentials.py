# SPDX-License-Identifier: Apache-2.0
"""TLS between workers and servers with the certificates of ``brain keys``: both sides show one."""
from __future__ import annotations

import base64
import json
import socket
import ssl
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from brain_security.certificates import CertificateError, Pair
from brain_wire.credentials import CredentialsProblem, credentials_file, place

SERVER = "parameters"       # `brain keys FOLDER --server parameters`
WORKER = "operator"
PATIENCE = 3.0      # s for looking why a link is refused


@dataclass(frozen=True)
class Keys:
    """A certificate, its key, and the authority that both sides trust.

    Attributes:
        path: of the file that they are from.
        pair: key and certificate, PEM.
        authority: certificate, PEM.
    """

    path: Path
    pair: Pair
    authority: bytes

    @property
    def namespace(self) -> str:
        """Of the brain: what stands before the last name."""
        return self.pair.name.rpartition("/")[0]


def read_keys(identity: str, where: Path | None = None, *, serves: bool = False) -> Keys | None:
    """Credentials of somebody; None where nothing is secured.

    Args:
        identity: whose file is taken of a folder.
        where: folder or file; None: what ``BRAIN_SECURITY`` names.
        serves: they are to be a server's.

    Raises:
        CredentialsProblem: there are none, they cannot be used, or have ended.
    """
    where = where or place()
    if where is None:
        return None
    folder = "FOLDER" if where.is_file() else where
    extra = f" --server {SERVER}" if serves else ""
    if serves and where.is_dir() and not (where / f"{identity}.json5").exists():
        raise CredentialsProblem(f"{where} has no credentials for a parameter server; make them with `brain keys "
                                 f"{where} --server {identity} --host NAME`, where NAME is this machine's")
    path = credentials_file(where, identity)
    try:
        text = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("//"))
        tls = json.loads(text)["transport"]["link"]["tls"]
        pem = [base64.b64decode(tls[f"{what}_base64"]) for what in (
            "connect_private_key", "connect_certificate", "root_ca_certificate")]
        found = Keys(path, Pair(pem[0], pem[1]), pem[2])
        name, begins, ends = found.pair.name, found.pair.parsed.not_valid_before_utc, found.pair.ends
        hosts = found.pair.hosts()
    except (OSError, ValueError, KeyError, TypeError, RecursionError, CertificateError) as error:
        raise CredentialsProblem(f"the certificates in {path} cannot be used: {error}; make them anew with `brain keys "
                                 f"{folder}{extra} --renew`") from error
    now = datetime.now(timezone.utc)
    if not begins <= now <= ends:
        raise CredentialsProblem(f"the certificate of {name} ({path}) {'ended' if now > ends else 'begins'} on "
                                 f"{ends if now > ends else begins:%Y-%m-%d}; renew it with `brain keys "
                                 f"{folder}{extra} --renew`, or set the clock")
    if serves and not hosts:
        raise CredentialsProblem(f"the certificate of {name} ({path}) names no host, so it cannot be a server's; make "
                                 f"one with `brain keys {folder} --server {identity} --host NAME`")
    return found


def why_not(address: str, keys: Keys | None) -> str | None:
    """Finds why a server does not let this worker in, with the remedy; None: nobody listens, or it cannot be said."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    if keys is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=keys.authority.decode("ascii"))
        with tempfile.NamedTemporaryFile() as file:     # mode 0600; the library takes keys from files only
            file.write(keys.pair.certificate + keys.pair.key)
            file.flush()
            context.load_cert_chain(file.name)
    try:
        with socket.create_connection((host, int(port)), PATIENCE) as plain:
            try:
                link = context.wrap_socket(plain, server_hostname=host)
            except ssl.SSLCertVerificationError as error:
                return (f"the parameter server at {address} is not one that {keys.path} trusts: "
                        f"{error.verify_message}. Take the folder that it runs with; if that does not name {host}, "
                        f"make its keys anew with `brain keys FOLDER --server {SERVER} --host {host} --renew`")
            except (ssl.SSLError, TimeoutError, ConnectionError) as error:
                if keys is None:
                    return None
                return (f"the parameter server at {address} does not speak TLS ({error}), so it is not secured; start "
                        f"it with --secure FOLDER, or leave --secure and BRAIN_SECURITY away")
            with link:
                if keys is None:
                    return (f"the parameter server at {address} is secured; give --secure FOLDER (or BRAIN_SECURITY), "
                            f"the folder that `brain keys` made")
                # What the server thinks of our certificate comes after the handshake: its first frame, or the end.
                try:
                    if link.recv(1):
                        return None
                except TimeoutError:
                    return None
                except OSError:
                    pass    # an end, too
                return (f"the parameter server at {address} refuses the certificate of {keys.pair.name} ({keys.path}): "
                        f"{_unfit(keys)}; take the folder that the server runs with, or renew its keys")
    except OSError:     # nobody listens
        return None
    return None


def _unfit(keys: Keys) -> str:
    """Guesses what a server finds wrong with a certificate: it closes the link, and says no more."""
    if keys.pair.ends < datetime.now(timezone.utc):
        return f"it has ended on {keys.pair.ends:%Y-%m-%d}"
    if not keys.pair.signed_by(Pair(b"", keys.authority)):
        return "it is of another authority"
    return "by the server's clock it has ended or is not valid yet, or it is of another authority"
