"""Options for kafka-python's clients: `--kafka-option k=v`, `--kafka-config FILE`; secrets are never shown.

Names may be kafka-python's (`sasl_plain_password`) or Kafka's (`sasl.mechanism`); values are converted to the type of
the client's default. Options that exactly-once depends on are refused.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError
from rocketflow.kafka.errors import KafkaMissingError
from rocketflow.kafka.options.secrets import HIDDEN, SECRET_NAME, Secrets
from rocketflow.process.arguments import key_value
from rocketflow_store.spi.setting_rows import Kind, Setting, ValueNotAllowedError, nearest_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KAFKA_OPTIONS: Final = (
    Setting(
        "security_protocol",
        "How brokers are reached: with TLS, with a login.",
        "PLAINTEXT",
        Kind.CHOICE,
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    Setting(
        "sasl_mechanism",
        "The form of the login.",
        None,
        Kind.CHOICE,
        choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"),
    ),
    Setting(
        "ssl_cafile", "File of certificates (PEM) that sign those of brokers.", form="file", also=("ssl.ca.location",)
    ),
    Setting("ssl_certfile", "File of the client's certificate (PEM).", form="file", also=("ssl.certificate.location",)),
    Setting("ssl_keyfile", "File of the client's private key (PEM).", form="file", also=("ssl.key.location",)),
    Setting("ssl_crlfile", "File of revoked certificates (PEM).", form="file"),
    Setting("ssl_password", "Password of the private key.", secret=True, also=("ssl.key.password",)),
    Setting("sasl_plain_username", "Name of the login.", also=("sasl.username",)),
    Setting("sasl_plain_password", "Password of the login.", secret=True, also=("sasl.password",)),
)
"""The options of kafka-python that are looked at here; `also` are Kafka's names, if they differ by more than dots."""
_JAVA_NAMES: Final = {name.replace(".", "_"): one.key for one in KAFKA_OPTIONS for name in one.also}
_RESERVED: Final = frozenset(
    {
        "bootstrap_servers",
        "group_id",
        "enable_auto_commit",
        "isolation_level",
        "auto_offset_reset",
        "check_crcs",
        "transactional_id",
        "enable_idempotence",
        "acks",
        "key_deserializer",
        "value_deserializer",
        "key_serializer",
        "value_serializer",
    }
)
_NOT_TEXT: Final = frozenset({"ssl_context", "selector", "kafka_client", "sasl_oauth_token_provider", "partitioner"})
_NEAR: Final = 0.6
_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})


class ClientOptions:
    """The user's options, by kafka-python's names. Neither `str` nor `repr` shows a secret."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self.secrets = Secrets.of_options(values)

    def __repr__(self) -> str:
        return f"ClientOptions({json.dumps(self.shown())})"

    def shown(self) -> dict[str, str]:
        """Return all options, with secrets hidden."""
        return {name: HIDDEN if SECRET_NAME.search(name) else value for name, value in sorted(self._values.items())}

    @property
    def secured(self) -> bool:
        """True if the options require TLS or a login."""
        return self._values.get("security_protocol", "PLAINTEXT") != "PLAINTEXT"

    def hide(self, text: str) -> str:
        """Return `text` with all secrets hidden."""
        return self.secrets.hide(text)

    def for_client(self, *kinds: Mapping[str, Any]) -> dict[str, Any]:
        """Return keyword arguments for the client whose defaults are `kinds[0]`, converted to the defaults' types.

        Options that only the other `kinds` of clients know are skipped.
        """
        found: dict[str, Any] = {}
        for name, text in self._values.items():
            if name in kinds[0]:
                found[name] = _typed(name, text, kinds[0][name])
            elif not any(name in kind for kind in kinds[1:]):
                raise UsageError(f"kafka option {name}: kafka-python has no such option{_nearest(name, kinds)}")
        return found


def parse_options(pairs: Sequence[str], files: Iterable[str]) -> ClientOptions:
    """Parse `k=v` pairs and properties files; a pair overrides a file.

    Raises: UsageError for invalid options, without showing their values.
    """
    values: dict[str, str] = {}
    for file in files:
        try:
            lines = Path(file).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--kafka-config {file}: cannot be read ({error})") from error
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.lstrip().startswith(("#", "!")):
                values |= [_pair(line.strip(), f"--kafka-config {file} line {number}")]
    for pair in pairs:
        values |= [_pair(pair, "--kafka-option")]
    for one in KAFKA_OPTIONS:
        value = values.get(one.key)
        if one.form == "file":
            _check_file(one.key, value)
        elif one.choices and value is not None:  # kafka-python treats an unknown protocol as PLAINTEXT
            try:
                values[one.key] = one.typed(value.upper())
            except ValueNotAllowedError as error:
                raise UsageError(f"kafka option {one.key}={value.upper()}: {error}") from None
    return ClientOptions(values)


def _check_file(name: str, path: str | None) -> None:
    """Raise UsageError if a file cannot be read: kafka-python would only retry to connect."""
    try:
        if path is not None:
            with open(path, "rb"):
                pass
    except OSError as error:
        raise UsageError(f"kafka option {name}={path}: cannot be read ({error.strerror})") from error


def _pair(text: str, where: str) -> tuple[str, str]:
    name, value = key_value(where, text)
    name = name.strip().replace(".", "_")
    if not _NAME.fullmatch(name):  # the text may be a secret value
        raise UsageError(f"{where}: give it as key=value; a key has letters, digits, _ and .")
    name = _JAVA_NAMES.get(name, name)
    if name in _RESERVED:
        raise UsageError(f"{where}: {name} is set by the bridge and cannot be given")
    if name in _NOT_TEXT:
        raise UsageError(f"{where}: {name} cannot be given as text")
    return name, value.strip()


def _typed(name: str, text: str, default: Any) -> Any:
    try:
        if isinstance(default, bool):
            if text.lower() in _TRUE | _FALSE:
                return text.lower() in _TRUE
            raise ValueError("true or false")
        if isinstance(default, int):
            return int(text)
        if isinstance(default, float):
            return float(text) if text != "inf" else default
        if name == "api_version":
            return tuple(int(part) for part in text.split("."))
        if name.endswith(("_bytes", "_ms")):
            return int(text)
    except ValueError as error:
        shown = HIDDEN if SECRET_NAME.search(name) else text
        raise UsageError(f"kafka option {name}={shown}: must be of type {type(default).__name__}") from error
    return text


def _nearest(name: str, kinds: Sequence[Mapping[str, Any]]) -> str:
    near = nearest_name(name, {one for kind in kinds for one in kind}, _NEAR)
    return f"; did you mean {near}?" if near else ""


def require_kafka() -> None:
    """Raise KafkaMissingError if kafka-python is not installed."""
    try:
        import kafka  # noqa: F401
    except ImportError as error:
        raise KafkaMissingError("the bridge needs kafka-python: pip install 'rocketflow[kafka]'") from error
