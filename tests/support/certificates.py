"""Certificates for tests of TLS: an authority, and certificates for 127.0.0.1 that it signs."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class Authority:
    """An authority; `path` is its certificate in PEM."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        builder = _builder(self._name, self._name, self._key.public_key())
        certificate = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, *, password: str = "") -> tuple[Path, Path]:
        """Return the files of a new certificate and its key, which replace earlier ones of the name."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name), self._name, key.public_key())
        host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        signed = builder.add_extension(host, critical=False).sign(self._key, hashes.SHA256())
        hidden: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            hidden = serialization.BestAvailableEncryption(password.encode())
        cert_path, key_path = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        key_path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden))
        cert_path.write_bytes(_pem(signed))
        return cert_path, key_path


def serial_of(der: bytes) -> int:
    """Return the serial number of a certificate in DER."""
    return x509.load_der_x509_certificate(der).serial_number


def serial_in(path: Path) -> int:
    """Return the serial number of the certificate of a file in PEM."""
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number(), now - _DAY, now + _DAY, [])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
