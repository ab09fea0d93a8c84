"""TLS of connections: contexts from RocketMQ's files, rebuilt when the files change.

RocketMQ's source: remoting/netty/TlsSystemConfig.java, TlsHelper.java, srvutil/FileWatchService.java.
"""

from __future__ import annotations

import logging
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from rocketflow.aio.watched_files import WatchedFiles, call_often
from rocketflow.errors import RocketFlowError

LOG: Final = logging.getLogger("rocketflow.aio")

HANDSHAKE_RECORD: Final = b"\x16"
"""The first byte of every TLS connection, and of no frame below 16 MiB."""

_KEY_SECONDS: Final = 30.0


class TlsError(RocketFlowError):
    """The files of a side cannot be used; the text names the key and the file."""


class TlsFiles(NamedTuple):
    """The files of one side in PEM, "" for none; `side` is the prefix of RocketMQ's keys, `tls.server` say."""

    side: str
    cert_path: str = ""
    key_path: str = ""
    key_password: str = ""
    trust_cert_path: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that are named."""
        return tuple(one for one in (self.cert_path, self.key_path, self.trust_cert_path) if one)


class Tls:
    """A context that is rebuilt when one of its files has changed; only the first build raises TlsError.

    While new files cannot be used (a certificate whose key has not been replaced yet), connections get the context
    built before.
    """

    def __init__(
        self, build: Callable[[], ssl.SSLContext], paths: Iterable[str] = (), *, optional: bool = False
    ) -> None:
        self._build = build
        self._paths = [Path(one) for one in paths]
        self._files = WatchedFiles(lambda: self._paths)
        self.context = build()
        self.optional = optional
        """Whether a server also takes connections without TLS."""

    async def watch(self) -> None:
        """Look at the files until cancelled."""
        if self._paths:
            await call_often(self.reload)

    def reload(self) -> None:
        """Rebuild the context if a file has changed. Blocks."""
        if not self._files.changed():
            return
        try:
            self.context = self._build()
        except TlsError as error:
            LOG.warning("new connections use the certificate that was loaded before: %s", error)
        else:
            LOG.warning("the TLS files have changed: new connections use them (%s)", ", ".join(map(str, self._paths)))


def server_context(files: TlsFiles, client_auth: ssl.VerifyMode) -> ssl.SSLContext:
    """Return a server's context; certificates of clients are checked against `trust_cert_path`. Raises TlsError."""
    if not files.cert_path or not files.key_path:
        missing = "keyPath" if files.cert_path else "certPath"
        raise TlsError(f"{files.side}.{missing} is missing: name the server's private key and certificate chain (PEM)")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_pair(context, files)
    if client_auth is not ssl.CERT_NONE:
        if not files.trust_cert_path:
            raise TlsError(
                f"{files.side}.trustCertPath is missing: name the certificates (PEM) that sign those of clients"
            )
        _load_trusted(context, files)
        context.verify_mode = client_auth
    return context


def client_context(files: TlsFiles, *, verify: bool) -> ssl.SSLContext:
    """Return a client's context. Raises TlsError.

    With `verify` the server's certificate has to be signed by `trust_cert_path`, or by one that the system trusts if
    there is none. The name in it is not compared, as in RocketMQ: servers are named by their addresses.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if not verify:
        context.verify_mode = ssl.CERT_NONE
    elif files.trust_cert_path:
        _load_trusted(context, files)
    else:
        context.load_default_certs()
    if files.cert_path or files.key_path:
        if not files.cert_path or not files.key_path:
            missing = "keyPath" if files.cert_path else "certPath"
            raise TlsError(
                f"{files.side}.{missing} is missing: a client's certificate and its private key belong together"
            )
        _load_pair(context, files)
    return context


def self_signed_context() -> ssl.SSLContext:
    """Return the context of RocketMQ's test mode: a certificate that no one signed, made now. Raises TlsError."""
    with tempfile.TemporaryDirectory(prefix="rocketflow-tls-") as folder:
        cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-subj", "/CN=rocketflow-test", "-days", "365", "-keyout", key, "-out", cert]
        try:
            subprocess.run(
                command, check=True, capture_output=True, timeout=_KEY_SECONDS, stdin=subprocess.DEVNULL, text=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise TlsError(
                f"tls.test.mode.enable=true needs the command openssl, which failed ({error}): install it, or name "
                "tls.server.certPath and tls.server.keyPath"
            ) from None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
    return context


def _load_pair(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Load certificate chain and key; a key without its password is refused instead of asked for at the terminal."""
    _check_readable(f"{files.side}.certPath", files.cert_path)
    _check_readable(f"{files.side}.keyPath", files.key_path)
    try:
        context.load_cert_chain(files.cert_path, files.key_path, password=lambda: files.key_password)
    except (OSError, ValueError) as error:
        raise TlsError(
            f"{files.side}.certPath={files.cert_path} and {files.side}.keyPath={files.key_path} are no certificate "
            f"chain and its private key in PEM ({error}): replace the files, or set {files.side}.keyPassword if the "
            "key is encrypted"
        ) from None


def _load_trusted(context: ssl.SSLContext, files: TlsFiles) -> None:
    _check_readable(f"{files.side}.trustCertPath", files.trust_cert_path)
    try:
        context.load_verify_locations(files.trust_cert_path)
    except OSError as error:
        raise TlsError(
            f"{files.side}.trustCertPath={files.trust_cert_path} has no certificates in PEM ({error}): replace the file"
        ) from None


def _check_readable(key: str, path: str) -> None:
    try:
        Path(path).read_bytes()
    except OSError as error:
        raise TlsError(f"{key}={path} cannot be read ({error.strerror}): name a file in PEM that exists") from None
