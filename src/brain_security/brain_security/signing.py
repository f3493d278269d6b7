# SPDX-License-Identifier: Apache-2.0
"""Signatures: what a person of a brain or a fleet vouches for, checked against the authority that all of it trusts.

A signature comes with the signer's certificate, so that who checks it needs the authority's only. Certificates of
robots and regions are from the same authority; they cannot vouch for anything, since theirs do not say *code signing*.
"""
from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from brain_security.certificates import CertificateError, Pair
from brain_security.folder import NOTE

LONGEST = 64 * 1024     # characters of a certificate, and bytes of a credentials file


class SigningProblem(ValueError):
    """Nothing can be signed, or a signature does not hold; says why, and the remedy."""


@dataclass(frozen=True)
class Signature:
    """A signature, as text.

    Attributes:
        value: of the signature, base64.
        certificate: of who signed, PEM.
    """

    value: str
    certificate: str


def _part(path: Path, name: str) -> bytes:
    """PEM of a part of a credentials file."""
    try:
        text = path.read_text(encoding="utf-8")[:LONGEST].removeprefix(NOTE)
        found = json.loads(text)["transport"]["link"]["tls"][name]
        return base64.b64decode(found, validate=True)
    except OSError as error:
        raise SigningProblem(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SigningProblem(f"{path} was not written by `brain keys`; it holds no {name.removesuffix('_base64')}"
                             ) from None


def authority_of(path: Path) -> bytes:
    """The authority's certificate in a credentials file, PEM.

    Raises:
        SigningProblem: it holds none.
    """
    return _part(path, "root_ca_certificate_base64")


def sign(path: Path, data: bytes) -> Signature:
    """Signs with the key of a credentials file.

    Raises:
        SigningProblem: the file cannot be read, or its certificate may not sign.
    """
    pair = Pair(_part(path, "connect_private_key_base64"), _part(path, "connect_certificate_base64"))
    try:
        if not _may_sign(pair.parsed):
            raise SigningProblem(f"the certificate of {pair.name} in {path} may not sign: only operators and "
                                 f"maintainers may, whose keys are as new as signing is; `brain keys FOLDER --renew` "
                                 f"makes new ones")
        key = load_pem_private_key(pair.key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if isinstance(error, SigningProblem):
            raise
        raise SigningProblem(f"the key in {path} does not read ({error})") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SigningProblem(f"the key in {path} is of another kind than ours; `brain keys FOLDER --renew`")
    value = key.sign(data, ec.ECDSA(hashes.SHA256()))
    return Signature(base64.b64encode(value).decode("ascii"), pair.certificate.decode("ascii"))


def signer(data: bytes, signature: Signature, authority: bytes) -> str:
    """Verifies a signature and returns the signer's name, without namespace.

    No date is compared: what was signed while a certificate lasted stays signed, and a robot's clock may be off.

    Args:
        authority: its certificate, PEM.

    Raises:
        SigningProblem: it does not hold, or comes from somebody whom this authority does not let sign.
    """
    if len(signature.certificate) > LONGEST or len(signature.value) > LONGEST:
        raise SigningProblem("the signature is longer than any is")
    pair = Pair(b"", signature.certificate.encode("utf-8", "replace"))
    try:
        value = base64.b64decode(signature.value, validate=True)
    except ValueError as error:
        raise SigningProblem(f"the signature does not read ({error})") from error
    try:
        parsed, name = pair.parsed, pair.name
        if not pair.signed_by(Pair(b"", authority)):
            raise SigningProblem(f"the certificate of {ascii(name[:80])} is from another authority than this one's: it "
                                 f"was signed in another fleet, or before `brain keys --new-authority`")
        if not _may_sign(parsed):
            raise SigningProblem(f"the certificate of {ascii(name[:80])} may not sign: only an operator's may")
        key = parsed.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise SigningProblem(f"the key of {ascii(name[:80])} is of another kind than ours")
        key.verify(value, data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise SigningProblem("the signature does not hold: what was signed is something else") from None
    except (CertificateError, UnsupportedAlgorithm) as error:
        raise SigningProblem(f"the signature does not read ({error})") from error
    return name.rpartition("/")[2]


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return False
    return ExtendedKeyUsageOID.CODE_SIGNING in usage
