"""Access to brokers in options: the NameServers, credentials, TLS, and how long a query waits for a server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.environment import ACCESS_KEY, SECRET_KEY
from rocketflow.remoting.addresses import is_address
from rocketflow.spark.shared.option_table import option_row
from rocketflow.spark.shared.option_values import OptionError, OptionValues, bad_value_error
from rocketflow.spark.shared.tls_options import TLS_OPTIONS, ClientTls, parse_tls
from rocketflow_store.spi.setting_rows import Kind

if TYPE_CHECKING:
    from rocketflow.client.store_client import StoreClient

DEFAULT_TIMEOUT_MS: Final = 60_000

NETWORK_OPTIONS: Final = (
    option_row(
        "accessKey",
        f"Name of the account that signs requests; with `secretKey`. Without both, those of the environment "
        f"({ACCESS_KEY.key}, {SECRET_KEY.key}) or of `credentialsFile` are used.",
        form="text",
    ),
    option_row(
        "secretKey",
        "Secret of `accessKey`; a file or the environment keeps it out of scripts.",
        form="text",
        secret=True,
    ),
    option_row(
        "credentialsFile",
        "File with the lines `accessKey: NAME` and `secretKey: SECRET`, as RocketMQ's tools.yml, read by the driver.",
        form="file",
    ),
    *TLS_OPTIONS,
    option_row(
        "networkTimeout",
        "Longest wait for a broker that does not answer, neither its master nor a slave; the query fails then.",
        60_000,
        kind=Kind.DURATION,
        shown_default="60s",
    ),
)

_LINE: Final = re.compile(r"""\s*(accessKey|secretKey)\s*[:=]\s*["']?(.*?)["']?\s*""")


@dataclass(frozen=True, slots=True)
class Network:
    """The brokers that NameServers know, and account and TLS of requests; secrets are not part of its text."""

    name_servers: str
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    tls: ClientTls | None = None

    def client_options(self) -> dict[str, Any]:
        """Return what the options of every client have: addresses, account and TLS. Raises TlsError; blocks."""
        return {"name_servers": self.name_servers, **self._access()}

    def store_client(self, address: str) -> StoreClient:
        """Return a client of the broker at an address. Raises TlsError; blocks."""
        from rocketflow.client.store_client import StoreClient

        return StoreClient(address, **self._access())

    def _access(self) -> dict[str, Any]:
        from rocketflow.remoting.signature import Credentials

        return {
            "credentials": Credentials(self.access_key, self.secret_key) if self.access_key else None,
            "tls": None if self.tls is None else self.tls.build(),
        }


def parse_network(values: OptionValues) -> Network | None:
    """Return the network that `namesrvAddr` names, or None without it; raise OptionError for a wrong option."""
    text = values.text("namesrvAddr")
    if text is None:
        for one in NETWORK_OPTIONS:
            if one.key in values:
                raise OptionError(one.key, f"option {one.key} is for access by namesrvAddr, not by path")
        return None
    if "path" in values:
        raise OptionError("namesrvAddr", "options path and namesrvAddr exclude each other: give one of them")
    parts = [part.strip() for part in re.split("[;,]", text) if part.strip()]
    if not parts or not all(map(is_address, parts)):
        raise bad_value_error("namesrvAddr", text, "host:port, or several separated by ;")
    access, secret = _credentials(values)
    return Network(";".join(parts), values.value("networkTimeout"), access, secret, parse_tls(values))


def _credentials(values: OptionValues) -> tuple[str, str]:
    """Return access key and secret from the options, the file or the environment, "" for none."""
    access, secret, file = values.text("accessKey"), values.text("secretKey"), values.text("credentialsFile")
    if file is not None and (access is not None or secret is not None):
        raise OptionError("credentialsFile", "option credentialsFile excludes accessKey and secretKey")
    if (access is None) != (secret is None):
        missing = "secretKey" if secret is None else "accessKey"
        raise OptionError(missing, f"option {missing} is missing: accessKey and secretKey belong together")
    if access is not None and secret is not None:
        return access, secret
    if file is not None:
        return _credentials_of(file)
    return ACCESS_KEY.text(), SECRET_KEY.text()


def _credentials_of(file: str) -> tuple[str, str]:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError("credentialsFile", f"option credentialsFile={file!r} cannot be read: {error}") from None
    found = {match[1]: match[2] for match in map(_LINE.fullmatch, lines) if match is not None}
    if not found.get("accessKey") or not found.get("secretKey"):
        raise OptionError(
            "credentialsFile",
            f"option credentialsFile={file!r}: the file needs the lines accessKey: NAME and secretKey: SECRET",
        )
    return found["accessKey"], found["secretKey"]
