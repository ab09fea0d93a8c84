"""Settings of every server: TLS and metrics in RocketMQ's keys, and the limit of connections.

RocketMQ's source: remoting/netty/TlsSystemConfig.java, TlsHelper.java (extractTlsConfigFromFile), BrokerStartup.java.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec

from rocketflow.aio.server import MAX_CONNECTIONS
from rocketflow.aio.tls import Tls, TlsError, TlsFiles, client_context, self_signed_context, server_context
from rocketflow.errors import UsageError
from rocketflow.process.exposure import ALLOW_INSECURE, check_exposure
from rocketflow.process.nearest import did_you_mean
from rocketflow.process.properties import properties_text
from rocketflow_store.spi.settings import ENVIRONMENT_PREFIX, OWN_PREFIX, parse_properties, typed_value

TLS_FILE: Final = "tls.config.file"
ADMIN_KEYS: Final = f"{OWN_PREFIX}adminConfigKeys"
DEFAULT_TLS_FILE: Final = "/etc/rocketmq/tls.properties"
DISABLED: Final = "disabled"
PERMISSIVE: Final = "permissive"
ENFORCING: Final = "enforcing"

if TYPE_CHECKING:
    from rocketflow.access.plain_files import PlainFiles

_MODES: Final = (DISABLED, PERMISSIVE, ENFORCING)
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}
_NOT_IN_TLS_FILE: Final = ("tls.server.mode", "tls.enable", TLS_FILE)
_PROMETHEUS: Final = ("PROM", "2")
_NO_METRICS: Final = ("DISABLE", "0")
"""RocketMQ takes the name of an exporter or its number."""

_HIDDEN: Final = "******"
_SECRET: Final = ("keyPassword", "initAuthenticationUser", "innerClientAuthenticationCredentials")
"""Ends of the keys whose values are not shown."""


class ServerSettings(msgspec.Struct, kw_only=True):
    """The settings that NameServer and broker share; attributes are the keys in snake case."""

    LIVE_KEYS: ClassVar[frozenset[str]] = frozenset()
    """Numbers and booleans that the server reads at each use: the keys that `rocketflow.adminConfigKeys` may list."""
    FURTHER_KEYS: ClassVar[frozenset[str]] = frozenset()
    """Keys that the server's file may have beside its own."""

    tls_server_mode: str = msgspec.field(default=PERMISSIVE, name="tls.server.mode")
    tls_config_file: str = msgspec.field(default=DEFAULT_TLS_FILE, name=TLS_FILE)
    tls_test_mode_enable: bool = msgspec.field(default=False, name="tls.test.mode.enable")
    tls_server_need_client_auth: str = msgspec.field(default="none", name="tls.server.need.client.auth")
    tls_server_key_path: str = msgspec.field(default="", name="tls.server.keyPath")
    tls_server_key_password: str = msgspec.field(default="", name="tls.server.keyPassword")
    tls_server_cert_path: str = msgspec.field(default="", name="tls.server.certPath")
    tls_server_auth_client: bool = msgspec.field(default=True, name="tls.server.authClient")
    tls_server_trust_cert_path: str = msgspec.field(default="", name="tls.server.trustCertPath")
    tls_enable: bool | None = msgspec.field(default=None, name="tls.enable")
    tls_client_key_path: str = msgspec.field(default="", name="tls.client.keyPath")
    tls_client_key_password: str = msgspec.field(default="", name="tls.client.keyPassword")
    tls_client_cert_path: str = msgspec.field(default="", name="tls.client.certPath")
    tls_client_auth_server: bool = msgspec.field(default=True, name="tls.client.authServer")
    tls_client_trust_cert_path: str = msgspec.field(default="", name="tls.client.trustCertPath")
    metrics_exporter_type: str = msgspec.field(default="DISABLE", name="metricsExporterType")
    metrics_prom_exporter_host: str = msgspec.field(default="127.0.0.1", name="metricsPromExporterHost")
    metrics_prom_exporter_port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = msgspec.field(
        default=5557, name="metricsPromExporterPort"
    )
    max_connections: Annotated[int, msgspec.Meta(ge=1)] = msgspec.field(
        default=MAX_CONNECTIONS, name=f"{OWN_PREFIX}maxConnections"
    )
    allow_insecure: bool = msgspec.field(default=False, name=ALLOW_INSECURE)
    acl_enable: bool = msgspec.field(default=False, name="aclEnable")
    rocketmq_home: str = msgspec.field(default="", name="rocketmqHome")
    admin_config_keys: str = msgspec.field(default="", name=ADMIN_KEYS)

    def __post_init__(self) -> None:
        """Set what other values decide: TLS of calls to other servers, and the address of figures for RocketMQ's ""."""
        self.metrics_prom_exporter_host = self.metrics_prom_exporter_host or "127.0.0.1"
        if self.tls_enable is None:
            self.tls_enable = self.tls_server_mode == ENFORCING

    @property
    def is_protected(self) -> bool:
        """Return whether other hosts may reach the server: TLS or access control, or the network is trusted."""
        return self.allow_insecure or self.tls_server_mode == ENFORCING or self.controls_access

    @property
    def controls_access(self) -> bool:
        """Return whether requests need credentials."""
        return self.acl_enable

    @property
    def exports_metrics(self) -> bool:
        """Return whether health and figures are served over HTTP."""
        return self.metrics_exporter_type in _PROMETHEUS

    @property
    def admin_keys(self) -> frozenset[str]:
        """Return the keys that administrators may change over the network."""
        return frozenset(one.strip() for one in self.admin_config_keys.split(",") if one.strip())

    def value_of(self, key: str, text: str) -> Any:
        """Return the value of a key that has this text. Raises UsageError, and StoreError for RocketMQ's keys."""
        kinds = {field.encode_name: field.type for field in msgspec.structs.fields(self)}
        try:
            return msgspec.convert(typed_value(key, text), kinds[key], strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"{key}={text}: {error}") from None

    def take(self, values: Mapping[str, Any]) -> None:
        """Have other values by key from now on."""
        names = {field.encode_name: field.name for field in msgspec.structs.fields(self)}
        for key, value in values.items():
            setattr(self, names[key], value)

    def is_key(self, key: str) -> bool:
        """Return whether the server's file may have a key."""
        return key in self.FURTHER_KEYS or key in self.shown()

    def _check_admin_keys(self) -> None:
        for key in sorted(self.admin_keys - self.LIVE_KEYS):
            if not self.is_key(key):
                raise UsageError(f"{ADMIN_KEYS}: unknown key {key}: {did_you_mean(key, self.LIVE_KEYS)}")
            raise UsageError(
                f"{ADMIN_KEYS}: {key} is read at the start only; the keys that may be listed are "
                f"{', '.join(sorted(self.LIVE_KEYS))}"
            )

    def check(self) -> None:
        """Check what both servers have; blocks. Raises UsageError."""
        self._check_admin_keys()
        self.server_tls()
        self.plain_files()
        if self.metrics_exporter_type not in (*_PROMETHEUS, *_NO_METRICS):
            raise UsageError(
                f"metricsExporterType={self.metrics_exporter_type}: figures are exported to Prometheus only: set PROM "
                "or DISABLE"
            )
        host = self.metrics_prom_exporter_host
        check_exposure("metricsPromExporterHost", host, allowed=self.allow_insecure, by_tls=False)

    def server_tls(self) -> Tls | None:
        """Return the TLS of connections that clients open, None without any. Raises UsageError; blocks.

        Without a certificate `permissive`, the default, takes connections without TLS only.
        """
        if self.tls_server_mode not in _MODES:
            raise UsageError(f"tls.server.mode={self.tls_server_mode}: set one of {', '.join(_MODES)}")
        verify = _CLIENT_AUTH.get(self.tls_server_need_client_auth.lower())
        if verify is None:
            raise UsageError(
                f"tls.server.need.client.auth={self.tls_server_need_client_auth}: set one of {', '.join(_CLIENT_AUTH)}"
            )
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
        files = TlsFiles(
            "tls.client",
            self.tls_client_cert_path,
            self.tls_client_key_path,
            self.tls_client_key_password,
            self.tls_client_trust_cert_path,
        )
        verify = self.tls_client_auth_server and not self.tls_test_mode_enable
        return _built(lambda: Tls(lambda: client_context(files, verify=verify), files.paths))

    def plain_files(self) -> PlainFiles | None:
        """Return the accounts of `aclEnable=true`, None without it. Raises UsageError; blocks."""
        if not self.acl_enable:
            return None
        home = self.rocketmq_home or os.environ.get("ROCKETMQ_HOME", "")
        if not home:
            raise UsageError("aclEnable=true: set rocketmqHome to the directory that has conf/plain_acl.yml")
        from rocketflow.access.plain_files import PlainFiles

        return PlainFiles(Path(home) / "conf")

    def shown(self) -> dict[str, object]:
        """Return the values by key, passwords hidden."""
        fields = msgspec.structs.fields(self)
        values = {field.encode_name: getattr(self, field.name) for field in fields}
        return {key: _HIDDEN if value and key.endswith(_SECRET) else value for key, value in values.items()}

    def properties_text(self) -> str:
        """Return the settings as a properties file, passwords hidden."""
        return properties_text(self.shown())


def with_tls_file(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by key, changed by those of the file `tls.config.file`, which win as in RocketMQ.

    Raises UsageError if the file has unknown keys, or if it is not the default one and cannot be read.
    """
    path = Path(str(given.get(TLS_FILE, DEFAULT_TLS_FILE)))
    if str(path) == DEFAULT_TLS_FILE and not path.is_file():
        return dict(given)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{TLS_FILE}={path} cannot be read ({error}): name a properties file") from None
    keys = {field.encode_name for field in msgspec.structs.fields(ServerSettings)}
    known = {one for one in keys if one.startswith("tls.")}.difference(_NOT_IN_TLS_FILE)
    found = {}
    for number, key, value in parse_properties(text):
        if key in _NOT_IN_TLS_FILE:
            raise UsageError(
                f"{path} line {number}: RocketMQ does not read {key} here: set it in the server's file or by --set"
            )
        if key not in known:
            raise UsageError(f"{path} line {number}: unknown key {key}: {did_you_mean(key, known)}")
        found[key] = value.strip()
    return {**given, **found}


def is_own_key(key: str) -> bool:
    """Return whether a key is RocketFlow's and not RocketMQ's."""
    return key.startswith(OWN_PREFIX)


def own_variables(environ: Mapping[str, str], keys: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split the environment: values of a server's own keys by key, and the other variables.

    Own keys are RocketFlow's, without their prefix (ROCKETFLOW_allowInsecure), and those of TLS with the dots as lines
    (ROCKETFLOW_tls_server_mode): variables of most shells have no dots.
    """
    names = {f"{ENVIRONMENT_PREFIX}{key.removeprefix(OWN_PREFIX).replace('.', '_')}": key for key in keys if "." in key}
    found = {names[name]: text for name, text in environ.items() if name in names}
    return found, {name: text for name, text in environ.items() if name not in names}


def _built(build: Callable[[], Tls]) -> Tls:
    try:
        return build()
    except TlsError as error:
        raise UsageError(str(error)) from None
