"""The variables of the environment that users set beside the keys of files (ROCKETFLOW_flushDiskType).

Each is a row; `text` reads it. No other module reads `os.environ` for a setting (tests/project/test_environment.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rocketflow_store.spi.setting_rows import Setting


class Variable(Setting):
    """A variable of the environment; an empty one counts as not set."""

    __slots__ = ()

    def text(self) -> str:
        """Return its value, "" if it is not set."""
        return os.environ.get(self.key, "")

    def put(self, text: str) -> None:
        """Set it for this process and those that it starts; an empty text removes it."""
        if text:
            os.environ[self.key] = text
        else:
            os.environ.pop(self.key, None)

    def directory(self) -> Path:
        """Return the directory that it names, or else the default one in the home directory."""
        return Path(self.text() or Path.home() / self.default)


def tls_variable(key: str) -> str:
    """Return the variable of a key of TLS: ROCKETFLOW_TLS_CLIENT_CERT_PATH for tls.client.certPath."""
    return "ROCKETFLOW_TLS_" + re.sub("([A-Z])", r"_\1", key.removeprefix("tls.")).replace(".", "_").upper()


DEBUG: Final = Variable("ROCKETFLOW_DEBUG", "Whether tracebacks and the log lines of Spark and Kafka are shown: 1.")
LOGGING: Final = Variable("ROCKETFLOW_LOGGING", "JSON file with targets of log lines, such as conf/logging.json.")
PROFILE: Final = Variable("ROCKETFLOW_PROFILE", "Profile whose address, account and TLS commands and jobs use.")
NAMESRV_ADDR: Final = Variable("NAMESRV_ADDR", "NameServers, host:port;host:port, where nothing else names one.")
ACCESS_KEY: Final = Variable("ROCKETFLOW_ACCESS_KEY", "Name of the account that signs requests.")
SECRET_KEY: Final = Variable("ROCKETFLOW_SECRET_KEY", "Secret of that account.", secret=True)
TLS: Final[Mapping[str, Variable]] = {
    key: Variable(tls_variable(key), f"Key {key} of Spark's source and sink, where no option sets one of TLS.")
    for key in (
        *("tls.enable", "tls.client.trustCertPath", "tls.client.certPath", "tls.client.keyPath"),
        *("tls.client.keyPassword", "tls.client.authServer", "tls.config.file"),
    )
}
"""The variables of TLS by its keys."""
ROCKETMQ_HOME: Final = Variable(
    "ROCKETMQ_HOME", "Directory with conf/plain_acl.yml of servers whose file has no rocketmqHome."
)
KAFKA_RECORDS: Final = Variable(
    "ROCKETFLOW_KAFKA_RECORDS", "Whether the bridge takes messages one by one from kafka-python, not in batches: 1."
)
NO_KERNEL: Final = Variable(
    "ROCKETFLOW_NO_KERNEL", "Whether the store's Python code does the work of the compiled kernel: 1."
)
REQUIRE_KERNEL: Final = Variable(
    "ROCKETFLOW_REQUIRE_KERNEL",
    "Whether a missing compiled kernel is an error when RocketFlow is installed or starts: 1.",
)
COMMAND: Final = Variable("ROCKETFLOW_COMMAND", "The command `rocketflow` of Airflow's connections that name none.")
STORE_CONN_ID: Final = Variable(
    "ROCKETFLOW_STORE_CONN_ID", "Airflow's connection that the DAGs use.", "rocketflow_default"
)
JAVA_HOME: Final = Variable("JAVA_HOME", "Java of Spark, before the one on PATH.")
CONFIG_HOME: Final = Variable("XDG_CONFIG_HOME", "Directory of rocketflow/profiles.json.", ".config")
CACHE_HOME: Final = Variable("XDG_CACHE_HOME", "Directory of rocketflow's files that can be rebuilt.", ".cache")
STATE_HOME: Final = Variable("XDG_STATE_HOME", "Directory of the logs of servers started with --wait.", ".local/state")
NOTIFY_SOCKET: Final = Variable("NOTIFY_SOCKET", "Socket of systemd that a server reports to once it serves.")

VARIABLES: Final = (
    *(DEBUG, LOGGING, PROFILE, NAMESRV_ADDR, ACCESS_KEY, SECRET_KEY, *TLS.values(), ROCKETMQ_HOME, KAFKA_RECORDS),
    *(NO_KERNEL, REQUIRE_KERNEL),
    *(COMMAND, STORE_CONN_ID, JAVA_HOME, CONFIG_HOME, CACHE_HOME, STATE_HOME, NOTIFY_SOCKET),
)
