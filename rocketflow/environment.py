"""The variables of the environment that RocketFlow reads beside the keys of files (ROCKETFLOW_flushDiskType).

Each is a row; no other module reads `os.environ` for a setting.
"""

from __future__ import annotations

import os
from typing import Final

from rocketflow_store.spi.setting_rows import Setting


class Variable(Setting):
    """A variable of the environment."""

    __slots__ = ()

    def text(self) -> str:
        """Return its value, "" if it is not set."""
        return os.environ.get(self.key, "")


ROCKETMQ_HOME: Final = Variable(
    "ROCKETMQ_HOME", "Directory with conf/plain_acl.yml of servers whose file has no rocketmqHome."
)
NAMESRV_ADDR: Final = Variable("NAMESRV_ADDR", "NameServers, host:port;host:port, where nothing else names one.")
