"""Settings of TLS in RocketMQ's keys, of connections that a server takes and of those that it opens.

RocketMQ's source: remoting/netty/TlsSystemConfig.java, TlsHelper.java (extractTlsConfigFromFile).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError
from rocketflow.process.nearest import did_you_mean
from rocketflow_store import StoreConfigError
from rocketflow_store.spi.setting_rows import Effect, Kind, Setting, rocketmq_setting, rows_of
from rocketflow_store.spi.settings import SettingTable, parse_properties

if TYPE_CHECKING:
    from rocketflow.aio.tls import Tls

TLS_FILE: Final = "tls.config.file"
DISABLED: Final = "disabled"
PERMISSIVE: Final = "permissive"
ENFORCING: Final = "enforcing"
_DEFAULT_FILE: Final = "/etc/rocketmq/tls.properties"
_NOT_IN_FILE: Final = ("tls.server.mode", "tls.enable", TLS_FILE)


def _tls(key: str, about: str, default: Any = "", **more: Any) -> Any:
    return rocketmq_setting(about, default, key=f"tls.{key}", effect=Effect.START, **more)


@dataclass(kw_only=True, slots=True)
class TlsSettings:
    """The settings of TLS; attributes are the keys in snake case."""

    tls_server_mode: str = _tls(
        "server.mode",
        "Connections that a server takes: without TLS (disabled), with and without it (permissive; without a "
        "certificate only those without), with TLS only (enforcing).",
        PERMISSIVE,
        kind=Kind.TEXT,
        choices=(DISABLED, PERMISSIVE, ENFORCING),
        important=True,
    )
    tls_config_file: str = _tls(
        "config.file", "File of TLS settings, whose values win; the default one need not exist.", _DEFAULT_FILE
    )
    tls_test_mode_enable: bool = _tls(
        "test.mode.enable", "Whether a server makes itself a certificate that no one signed, for tests.", False
    )
    tls_server_need_client_auth: str = _tls(
        "server.need.client.auth",
        "Whether clients need a certificate.",
        "none",
        kind=Kind.TEXT,
        choices=("none", "optional", "require"),
    )
    tls_server_key_path: str = _tls("server.keyPath", "The server's private key (PEM).")
    tls_server_key_password: str = _tls("server.keyPassword", "Password of the server's private key.", secret=True)
    tls_server_cert_path: str = _tls("server.certPath", "The server's certificate chain (PEM).")
    tls_server_auth_client: bool = _tls("server.authClient", "Whether certificates of clients are checked.", True)
    tls_server_trust_cert_path: str = _tls("server.trustCertPath", "Certificates (PEM) that sign those of clients.")
    tls_enable: bool | None = _tls(
        "enable",
        "Whether the server reaches other servers over TLS.",
        None,
        kind=Kind.FLAG,
        shown_default="true with tls.server.mode=enforcing, else false",
    )
    tls_client_key_path: str = _tls("client.keyPath", "Private key (PEM) for connections to other servers.")
    tls_client_key_password: str = _tls("client.keyPassword", "Password of that private key.", secret=True)
    tls_client_cert_path: str = _tls("client.certPath", "Certificate chain (PEM) for connections to other servers.")
    tls_client_auth_server: bool = _tls("client.authServer", "Whether certificates of other servers are checked.", True)
    tls_client_trust_cert_path: str = _tls(
        "client.trustCertPath",
        "Certificates (PEM) that sign those of other servers.",
        shown_default="those that the system trusts",
    )

    def server_tls(self) -> Tls | None:
        """Return the TLS of connections that clients open, None without any. Raises UsageError; blocks.

        Without a certificate `permissive`, the default, takes connections without TLS only.
        """
        import ssl

        from rocketflow.aio.tls import Tls, TlsFiles, self_signed_context, server_context

        self.tls_server_need_client_auth = self.tls_server_need_client_auth.lower()
        for key in ("tls.server.mode", "tls.server.need.client.auth"):
            row = TLS[key]
            if (value := getattr(self, row.field)) not in row.choices:
                raise UsageError(f"{key}={value}: set one of {', '.join(row.choices)}")
        verify = ssl.VerifyMode(TLS["tls.server.need.client.auth"].choices.index(self.tls_server_need_client_auth))
        if verify is not ssl.CERT_NONE and not self.tls_server_auth_client:
            raise UsageError(
                f"tls.server.need.client.auth={self.tls_server_need_client_auth} asks for certificates that "
                "tls.server.authClient=false leaves unchecked: set tls.server.authClient=true"
            )
        optional = self.tls_server_mode == PERMISSIVE
        files = TlsFiles(
            "tls.server",
            self.tls_server_cert_path,
            self.tls_server_key_path,
            self.tls_server_key_password,
            self.tls_server_trust_cert_path if verify is not ssl.CERT_NONE else "",
        )
        if self.tls_server_mode == DISABLED or (optional and not files.paths and not self.tls_test_mode_enable):
            return None
        if self.tls_test_mode_enable:
            return _built(lambda: Tls(self_signed_context, optional=optional))
        return _built(lambda: Tls(lambda: server_context(files, verify), files.paths, optional=optional))

    def client_tls(self) -> Tls | None:
        """Return the TLS of connections to other servers, None without it. Raises UsageError; blocks."""
        if not self.tls_enable:
            return None
        from rocketflow.aio.tls import Tls, TlsFiles, client_context

        files = TlsFiles(
            "tls.client",
            self.tls_client_cert_path,
            self.tls_client_key_path,
            self.tls_client_key_password,
            self.tls_client_trust_cert_path,
        )
        verify = self.tls_client_auth_server and not self.tls_test_mode_enable
        return _built(lambda: Tls(lambda: client_context(files, verify=verify), files.paths))


TLS: Final[Mapping[str, Setting]] = {one.key: one for one in rows_of(TlsSettings)}
_OF_FILE: Final = SettingTable(one for one in TLS.values() if one.key not in _NOT_IN_FILE)


def tls_file_entries(given: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (key, text, where) of the file that `tls.config.file` of values by key names.

    Raises UsageError if the file has unknown keys, or if it is not the default one and cannot be read.
    """
    path = Path(str(given.get(TLS_FILE, _DEFAULT_FILE)))
    if str(path) == _DEFAULT_FILE and not path.is_file():
        return
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{TLS_FILE}={path} cannot be read ({error}): name a properties file") from None
    for number, key, value in parse_properties(text):
        where = f"{path} line {number}"
        if key in _NOT_IN_FILE:
            raise UsageError(f"{where}: RocketMQ does not read {key} here: set it in the server's file or by --set")
        if key not in _OF_FILE:
            raise UsageError(f"{where}: unknown key {key}: {did_you_mean(key, _OF_FILE)}")
        yield key, value.strip(), where


def with_tls_file(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by key, changed by those of the file `tls.config.file`, which win as in RocketMQ.

    Raises UsageError as `tls_file_entries`, and for a value that does not fit its key.
    """
    try:
        return {**given, **_OF_FILE.typed_values(tls_file_entries(given))}
    except StoreConfigError as error:
        raise UsageError(str(error)) from None


def _built(build: Callable[[], Tls]) -> Tls:
    from rocketflow.aio.tls import TlsError

    try:
        return build()
    except TlsError as error:
        raise UsageError(str(error)) from None
