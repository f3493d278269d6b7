# SPDX-License-Identifier: Apache-2.0
"""Certificates and keys for a brain: one authority, ECDSA P-256 keys, as SROS2 makes them."""
from __future__ import annotations

import base64
import hashlib
import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Iterable

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (Encoding, NoEncryption, PrivateFormat, PublicFormat,
                                                          load_pem_private_key)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LONGEST_NAME = 64                   # characters of a common name, by the standard
SLACK = timedelta(days=1)           # that a clock may be behind ours


class CertificateError(ValueError):
    """A certificate cannot be made or read; says which, and why."""


@dataclass(frozen=True)
class Pair:
    """A private key and its certificate, both PEM."""

    key: bytes
    certificate: bytes

    @property
    def parsed(self) -> x509.Certificate:
        """The certificate.

        Raises:
            CertificateError: it is none.
        """
        try:
            return x509.load_pem_x509_certificate(self.certificate)
        except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
            raise CertificateError(f"this is no certificate ({error})") from error

    @property
    def name(self) -> str:
        """Common name.

        Raises:
            CertificateError: it is no certificate, or has none.
        """
        try:
            return str(self.parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
        except (IndexError, ValueError) as error:
            raise CertificateError(f"this certificate has no common name ({error})") from error

    @property
    def ends(self) -> datetime:
        """End of its validity (UTC).

        Raises:
            CertificateError: it is no certificate, or ends on no day that there is.
        """
        parsed = self.parsed
        try:
            if hasattr(parsed, "not_valid_after_utc"):
                return parsed.not_valid_after_utc
            return parsed.not_valid_after.replace(tzinfo=timezone.utc)  # cryptography 41, which Ubuntu 24.04 has
        except ValueError as error:
            raise CertificateError(f"this certificate does not say when it ends ({error})") from error

    @property
    def begins(self) -> datetime:
        """Start of its validity (UTC).

        Raises:
            CertificateError: it is no certificate, or begins on no day that there is.
        """
        parsed = self.parsed
        try:
            if hasattr(parsed, "not_valid_before_utc"):
                return parsed.not_valid_before_utc
            return parsed.not_valid_before.replace(tzinfo=timezone.utc)     # cryptography 41
        except ValueError as error:
            raise CertificateError(f"this certificate does not say when it begins ({error})") from error

    def signed_by(self, authority: Pair) -> bool:
        """Checks whether ``authority`` has issued it."""
        try:
            self.parsed.verify_directly_issued_by(authority.parsed)
        except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
            return False
        return True

    def fits(self) -> bool:
        """Checks whether the certificate is for the key."""
        try:
            return load_pem_private_key(self.key, None).public_key() == self.parsed.public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm):
            return False

    def hosts(self) -> set[str]:
        """Names and addresses that a server with this certificate may have."""
        try:
            names = self.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
            return set()    # nobody can be a server with it
        return {str(name.value) for name in names}


def _subject(name: str) -> x509.Name:
    if len(name) > LONGEST_NAME:
        raise CertificateError(f"{name} has {len(name)} characters, and a certificate's name at most {LONGEST_NAME}; "
                               f"choose a shorter namespace")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float, at: float | None = None
             ) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc) if at is None else datetime.fromtimestamp(at, timezone.utc)
    # One that is to have ended already begins before that.
    return (x509.CertificateBuilder().subject_name(_subject(name)).issuer_name(issuer)
            .public_key(key).serial_number(x509.random_serial_number())
            .not_valid_before(now - SLACK + timedelta(days=min(days, 0)))
            .not_valid_after(now + timedelta(days=days)))


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def make_authority(name: str, days: float) -> Pair:
    """A certificate authority that signs others for ``days`` days."""
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(digital_signature=False, content_commitment=False, key_encipherment=False,
                          data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
                          encipher_only=False, decipher_only=False)
    certificate = (_builder(name, _subject(name), key.public_key(), days)
                   .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                   .add_extension(usage, critical=True)
                   .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                   .sign(key, hashes.SHA256()))
    return Pair(_pem(key), certificate.public_bytes(Encoding.PEM))


def make_pair(authority: Pair, name: str, days: float, hosts: Iterable[str] = (), *, signs: bool = False,
              at: float | None = None) -> Pair:
    """A key, and a certificate that ``authority`` signs.

    Args:
        name: common name.
        days: until it ends.
        hosts: names and addresses under which it may be a server; none: it may only be a client.
        signs: it may sign for others, as models: see :mod:`brain_security.signing`.
        at: when it is signed (s since the epoch); None: now.

    Raises:
        CertificateError: the authority's key does not read, or the name is too long.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    return Pair(_pem(key), _issue(authority, key.public_key(), name, days, list(hosts), at, signs))


def make_request(name: str) -> tuple[bytes, bytes]:
    """A new private key, and the request for a certificate for it (CSR), both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(_subject(name)).sign(key, hashes.SHA256())
    return _pem(key), request.public_bytes(Encoding.PEM)


def public_key_of(request: bytes) -> bytes:
    """The public key that a request (PEM) is for, as it is compared (DER).

    Raises:
        CertificateError: see :func:`sign_request`.
    """
    return _read_request(request).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def sign_request(authority: Pair, request: bytes, name: str, days: float, at: float | None = None) -> bytes:
    """A certificate (PEM) for the key of a request, under a name that the request has no say in.

    Args:
        request: PEM, from outside.
        at: when it is signed (s since the epoch); None: now.

    Raises:
        CertificateError: it is no request, its sender has not the private key, or the key is of another kind than
            ours; or the authority's does not read.
    """
    return _issue(authority, _read_request(request), name, days, [], at)


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of the public key in a certificate (PEM), in 43 characters that need no quoting anywhere.

    Raises:
        CertificateError: it is no certificate.
    """
    key = Pair(b"", certificate).parsed.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _read_request(request: bytes) -> ec.EllipticCurvePublicKey:
    try:
        found = x509.load_pem_x509_csr(request)
        valid, key = found.is_signature_valid, found.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise CertificateError(f"this is no request for a certificate ({str(error)[:80]})") from error
    if not valid or not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise CertificateError("a request for a certificate must be signed by its own key, an ECDSA key on P-256")
    return key


def _issue(authority: Pair, key: ec.EllipticCurvePublicKey, name: str, days: float, hosts: list[str],
           at: float | None = None, signs: bool = False) -> bytes:
    try:
        signer = load_pem_private_key(authority.key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"the authority's key does not read ({error})") from error
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise CertificateError("the authority's key does not read (it is of another kind than ours)")
    try:
        return _signed(authority.parsed, signer, key, name, days, hosts, at, signs)
    except CertificateError:
        raise
    except (ValueError, TypeError, OverflowError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"the authority's certificate does not read ({error})") from error


def _signed(issuer: x509.Certificate, signer: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePublicKey, name: str,
            days: float, hosts: list[str], at: float | None, signs: bool) -> bytes:
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.CODE_SIGNING] if signs else [])]
    builder = (_builder(name, issuer.subject, key, days, at)
               .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
               .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), critical=False))
    if hosts:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    certificate = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False).sign(signer, hashes.SHA256())
    return certificate.public_bytes(Encoding.PEM)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:  # not an address, so a name
        try:
            return x509.DNSName(host)
        except ValueError as error:
            raise CertificateError(f"{host!r} is no host name ({error})") from error
