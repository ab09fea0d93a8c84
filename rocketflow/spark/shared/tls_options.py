"""TLS of connections to NameServers and brokers, in options, a file or the environment.

RocketMQ's source: remoting/netty/TlsSystemConfig.java, TlsHelper.java.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rocketflow.environment import TLS
from rocketflow.errors import UsageError
from rocketflow.process.tls_settings import TLS_FILE, tls_file_entries
from rocketflow.spark.shared.option_table import option_row
from rocketflow.spark.shared.option_values import OptionError, OptionValues
from rocketflow_store.spi.setting_rows import Kind

if TYPE_CHECKING:
    from rocketflow.aio.tls import Tls

TLS_OPTIONS: Final = (
    option_row(
        "tls.enable",
        "Whether NameServers and brokers are reached over TLS. Without any tls option the environment's variables are "
        "used: ROCKETFLOW_TLS_ENABLE, ROCKETFLOW_TLS_CLIENT_TRUST_CERT_PATH and so on.",
        kind=Kind.FLAG,
        shown_default="true with another tls option",
    ),
    option_row(
        "tls.client.trustCertPath",
        "Certificates (PEM) that sign those of the servers. Executors need all files of TLS under the same path.",
        form="file",
        shown_default="those that the system trusts",
    ),
    option_row(
        "tls.client.certPath", "The query's own certificate chain (PEM), for servers that demand one.", form="file"
    ),
    option_row("tls.client.keyPath", "Private key (PEM) of `tls.client.certPath`.", form="file"),
    option_row(
        "tls.client.keyPassword",
        "Password of the private key; a file keeps it out of scripts.",
        form="text",
        secret=True,
    ),
    option_row(
        "tls.client.authServer",
        "Whether certificates of servers are checked; the names in them are not compared, as in RocketMQ.",
        True,
    ),
    option_row(
        TLS_FILE,
        "RocketMQ's tls.properties, with the lines `tls.client.certPath=FILE` and so on, read by the driver; excludes "
        "options of `tls.client`.",
        form="file",
    ),
)


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The files of a query's connections, "" for none; the password is not part of its text."""

    cert_path: str = ""
    key_path: str = ""
    key_password: str = field(default="", repr=False)
    trust_cert_path: str = ""
    verify: bool = True

    def build(self) -> Tls:
        """Return the TLS of connections. Raises TlsError; blocks."""
        from rocketflow.aio.tls import Tls, TlsFiles, client_context

        files = TlsFiles("tls.client", self.cert_path, self.key_path, self.key_password, self.trust_cert_path)
        return Tls(lambda: client_context(files, verify=self.verify), files.paths)


def parse_tls(values: OptionValues) -> ClientTls | None:
    """Return the TLS of a query's connections, None without it; raise OptionError for what cannot be used.

    Options, of which there may be none, win over the environment as a whole.
    """
    names = [one.key for one in TLS_OPTIONS]
    given = {name: values[name] for name in names if name in values}
    if not given:
        given = {name: text for name, variable in TLS.items() if (text := variable.text())}
    found = OptionValues(_with_file(given), TLS_OPTIONS)
    enabled = found.value("tls.enable")
    if not (bool(given) if enabled is None else enabled):
        return None
    tls = ClientTls(
        cert_path=found.text("tls.client.certPath") or "",
        key_path=found.text("tls.client.keyPath") or "",
        key_password=found.get("tls.client.keyPassword", ""),
        trust_cert_path=found.text("tls.client.trustCertPath") or "",
        verify=found.value("tls.client.authServer"),
    )
    _check(tls)
    return tls


def _with_file(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values with those of the file, if one is named."""
    if TLS_FILE not in given:
        return given
    both = [name for name in given if name.startswith("tls.client.")]
    if both:
        raise OptionError(TLS_FILE, f"option {TLS_FILE} excludes {', '.join(both)}: write the lines into the file")
    try:
        lines = {key: text for key, text, _ in tls_file_entries(given)}
    except UsageError as error:
        raise OptionError(TLS_FILE, f"option {error}") from None
    return {key: value for key, value in {**given, **lines}.items() if value}


def _check(tls: ClientTls) -> None:
    """Raise OptionError if the files cannot be used."""
    from rocketflow.aio.tls import TlsError

    try:
        tls.build()
    except TlsError as error:
        key = re.split("[= ]", str(error), maxsplit=1)[0]
        raise OptionError(key, f"option {error}") from None
