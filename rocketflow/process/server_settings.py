"""Settings of every server beside TLS: metrics in RocketMQ's keys, accounts, and the limit of connections.

RocketMQ's source: common/BrokerConfig.java, BrokerStartup.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from rocketflow.aio.server import MAX_CONNECTIONS
from rocketflow.environment import ROCKETMQ_HOME
from rocketflow.errors import UsageError
from rocketflow.process.exposure import ALLOW_INSECURE, check_exposure
from rocketflow.process.nearest import did_you_mean
from rocketflow.process.properties import properties_text, property_text
from rocketflow.process.tls_settings import ENFORCING, TlsSettings
from rocketflow_store.spi.setting_rows import (
    OWN_PREFIX,
    Effect,
    Setting,
    ValueNotAllowedError,
    rocketmq_setting,
    rows_of,
    setting,
)
from rocketflow_store.spi.settings import SettingTable

if TYPE_CHECKING:
    from rocketflow.access.plain_files import PlainFiles

ADMIN_KEYS: Final = f"{OWN_PREFIX}adminConfigKeys"
OFF: Final = ("false",)
UNSET: Final = ("",)
INT_MAX: Final = (1 << 31) - 1

_PROMETHEUS: Final = ("PROM", "2")
_NO_METRICS: Final = ("DISABLE", "0")
"""RocketMQ takes the name of an exporter or its number."""
_LOOPBACK: Final = "127.0.0.1"
_HIDDEN: Final = "******"


def server_setting(about: str, default: Any, *values: Any, live: bool = False, **more: Any) -> Any:
    """Return the declaration of a setting of RocketMQ's servers; a `live` one is read at each use."""
    return rocketmq_setting(about, default, *values, effect=Effect.LIVE if live else Effect.START, **more)


def broken_promise(key: str, about: str, kept: tuple[str, ...], why: str, since: str) -> Setting:
    """Return the row of a setting with the values whose promise is kept, RocketMQ's defaults, and why others are not.

    The last of the values is the one to set; "" is a key to remove.
    """
    remedy = f"{why}: set {key}={kept[-1]}" if kept[-1] else f"{why}: remove {key}"
    return Setting(
        key,
        about,
        default=kept[-1],
        form=" or ".join(one or "empty" for one in kept),
        since=since,
        effect=Effect.START,
        kept=kept,
        remedy=remedy,
    )


@dataclass(kw_only=True, slots=True)
class ServerSettings(TlsSettings):
    """The settings that NameServer and broker share; attributes are the keys in snake case."""

    TABLE: ClassVar[SettingTable]
    """All keys that the server's file may have."""

    metrics_exporter_type: str = server_setting(
        "Whether health and figures are served over HTTP, for Prometheus.",
        "DISABLE",
        since="5.1.4",
        form="PROM or DISABLE, or RocketMQ's numbers 2 and 0",
    )
    metrics_prom_exporter_host: str = server_setting(
        "Address at which they are served; it has no TLS and no accounts.", _LOOPBACK, since="5.1.4"
    )
    metrics_prom_exporter_port: int = server_setting(
        "Port at which they are served.", 5557, "", (1, 65_535), since="5.1.4", shown_default="5557"
    )
    max_connections: int = setting(
        "Connections that may be open; further ones are closed.",
        MAX_CONNECTIONS,
        bounds=(1, INT_MAX),
        key=f"{OWN_PREFIX}maxConnections",
        effect=Effect.START,
    )
    allow_insecure: bool = setting(
        "Whether other hosts may reach a server that neither TLS nor accounts protect: the network is trusted.",
        False,
        key=ALLOW_INSECURE,
        effect=Effect.START,
    )
    acl_enable: bool = server_setting(
        "Whether requests need an account of rocketmqHome/conf/plain_acl.yml.", False, important=True
    )
    rocketmq_home: str = server_setting(
        "Directory that has conf/plain_acl.yml.", "", shown_default=f"{ROCKETMQ_HOME.key} of the environment"
    )
    admin_config_keys: str = setting(
        "Keys, separated by commas, that administrators may change over the network.",
        "",
        key=ADMIN_KEYS,
        effect=Effect.START,
    )

    def __post_init__(self) -> None:
        """Set what other values decide: TLS of calls to other servers, and the address of figures for RocketMQ's ""."""
        self.metrics_prom_exporter_host = self.metrics_prom_exporter_host or _LOOPBACK
        if self.tls_enable is None:
            self.tls_enable = self.tls_server_mode == ENFORCING

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the settings with these values by key; other servers' keys are skipped. Raises UsageError."""
        rows = [one for one in rows_of(cls) if one.key in given]
        return cls(**{one.field: _checked(one, given[one.key]) for one in rows})

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
    def live_keys(self) -> frozenset[str]:
        """Return the keys that the server reads at each use: those that `rocketflow.adminConfigKeys` may list."""
        return frozenset(one.key for one in rows_of(type(self)) if one.is_live)

    @property
    def admin_keys(self) -> frozenset[str]:
        """Return the keys that administrators may change over the network."""
        return frozenset(one.strip() for one in self.admin_config_keys.split(",") if one.strip())

    def value_of(self, key: str, text: str) -> Any:
        """Return the value of a key that has this text. Raises UsageError and StoreConfigError."""
        return _checked(self.TABLE[key], self.TABLE.typed(key, text, ""))

    def take(self, values: Mapping[str, Any]) -> None:
        """Have other values by key from now on."""
        for key, value in values.items():
            setattr(self, self.TABLE[key].field, value)

    def _check_admin_keys(self) -> None:
        for key in sorted(self.admin_keys - self.live_keys):
            if key not in self.TABLE:
                raise UsageError(f"{ADMIN_KEYS}: unknown key {key}: {did_you_mean(key, self.live_keys)}")
            raise UsageError(
                f"{ADMIN_KEYS}: {key} is read at the start only; the keys that may be listed are "
                f"{', '.join(sorted(self.live_keys))}"
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

    def plain_files(self) -> PlainFiles | None:
        """Return the accounts of `aclEnable=true`, None without it. Raises UsageError; blocks."""
        if not self.acl_enable:
            return None
        home = self.rocketmq_home or ROCKETMQ_HOME.text()
        if not home:
            raise UsageError("aclEnable=true: set rocketmqHome to the directory that has conf/plain_acl.yml")
        from rocketflow.access.plain_files import PlainFiles

        return PlainFiles(Path(home) / "conf")

    def shown(self) -> dict[str, object]:
        """Return the values by key, passwords hidden."""
        values = [(one, getattr(self, one.field)) for one in rows_of(type(self))]
        return {one.key: _HIDDEN if value and one.secret else value for one, value in values}

    def properties_text(self) -> str:
        """Return the settings as a properties file, passwords hidden."""
        return properties_text(self.shown())


SERVER_ROWS: Final = rows_of(ServerSettings)


def own_rows(kind: type[ServerSettings]) -> tuple[Setting, ...]:
    """Return the rows of a server that not every server has."""
    return tuple(one for one in rows_of(kind) if one not in SERVER_ROWS)


def _checked(row: Setting, value: Any) -> Any:
    try:
        row.check(value)
    except ValueNotAllowedError as error:
        raise UsageError(f"{row.key}={value}: {error}") from None
    return value


def check_promises(given: Mapping[str, object], rows: Iterable[Setting]) -> None:
    """Refuse values that promise what the server does not do. Raises UsageError, which names key and remedy."""
    for one in rows:
        if one.kept and one.key in given and property_text(given[one.key]).strip().lower() not in one.kept:
            raise UsageError(f"{one.key}={property_text(given[one.key])}: {one.remedy}")
