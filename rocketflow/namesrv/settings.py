"""namesrv.conf: RocketMQ's keys with RocketMQ's defaults.

RocketMQ's source: common/namesrv/NamesrvConfig.java, remoting/netty/NettyServerConfig.java.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketflow.errors import UsageError
from rocketflow.process.exposure import check_exposure
from rocketflow.process.properties import properties_text
from rocketflow.process.server_settings import (
    INT_MAX,
    OFF,
    SERVER_ROWS,
    ServerSettings,
    broken_promise,
    check_promises,
    own_rows,
    server_setting,
)
from rocketflow.process.tls_settings import with_tls_file
from rocketflow_store import StoreError
from rocketflow_store.spi.setting_rows import LONG_MAX, Effect, Kind, Setting
from rocketflow_store.spi.settings import STORE_TABLE, SettingTable, read_properties

_WITHOUT_EFFECT: Final = """
    clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity configBlackList defaultThreadPoolNums
    defaultThreadPoolQueueCapacity enableShutdownGracefully notifyMinBrokerIdChanged
    productEnvName serverAsyncSemaphoreValue serverCallbackExecutorThreads serverNettyWorkerGroupEnable
    serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog
    serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads shutdownWaitTimeSeconds
    unRegisterBrokerQueueCapacity useEpollNativeSelector writeBufferHighWaterMark writeBufferLowWaterMark
    """.split()  # noqa: SIM905
"""RocketMQ's keys that are accepted and change nothing here: sizes of thread pools and buffers."""

_FURTHER: Final = (
    broken_promise(
        "enableControllerInNamesrv",
        "Whether the NameServer is a controller too.",
        OFF,
        "the controller is not supported",
        "5.1.4",
    ),
    broken_promise(
        "clusterTest",
        "Whether it looks up the routes that it does not know in another environment.",
        OFF,
        "routes of another environment are not looked up",
        "4.9.7",
    ),
    *(Setting(key, effect=Effect.NONE) for key in _WITHOUT_EFFECT),
)


@dataclass(kw_only=True, slots=True)
class NamesrvSettings(ServerSettings):
    """The settings of a NameServer; attributes are RocketMQ's keys in snake case."""

    bind_address: str = server_setting("Address to listen at.", "127.0.0.1", since="5.1.4", important=True)
    listen_port: int = server_setting(
        "Port to listen at; 0 is any free one.", 9876, "", (0, 65_535), important=True, shown_default="9876"
    )
    kv_config_path: str = server_setting(
        "File of the texts by namespace and key, such as ordered topics.",
        "",
        important=True,
        shown_default="namesrv/kvConfig.json in the home directory",
    )
    config_store_path: str = server_setting("RocketMQ's file for changed settings; those of the server's file are.", "")
    server_channel_max_idle_time_seconds: int = server_setting(
        "Time after which a silent connection is closed.", 120, "s", (1, INT_MAX)
    )
    order_message_enable: bool = server_setting("Whether routes name the queues of ordered topics.", False, live=True)
    return_order_topic_config_to_broker: bool = server_setting(
        "Whether brokers that register hear of them.", True, since="5.1.4", live=True
    )
    scan_not_active_broker_interval: int = server_setting(
        "Time between two searches for silent brokers.",
        5_000,
        "ms",
        (10, LONG_MAX),
        kind=Kind.LONG,
        since="5.1.4",
        live=True,
    )
    support_acting_master: bool = server_setting(
        "Whether routes name a slave in the place of a lost master.", False, since="5.1.4"
    )
    enable_all_topic_list: bool = server_setting("Whether clients may list all topics.", True, since="5.1.4", live=True)
    enable_topic_list: bool = server_setting(
        "Whether they may list those of a cluster.", True, since="5.1.4", live=True
    )
    need_wait_for_service: bool = server_setting(
        "Whether routes are refused for a while after the start.", False, since="5.1.4", live=True
    )
    wait_seconds_for_service: int = server_setting("That while.", 45, "s", since="5.1.4", live=True)
    delete_topic_with_broker_registration: bool = server_setting(
        "Whether a registration removes the topics that it does not list.", False, since="5.1.4"
    )

    def important_text(self) -> str:
        """Return the important settings as a properties file."""
        return properties_text({key: value for key, value in self.shown().items() if self.TABLE[key].important})


NAMESRV_ROWS: Final = (*own_rows(NamesrvSettings), *_FURTHER)
"""The settings of a NameServer that brokers do not share."""
NamesrvSettings.TABLE = SettingTable((*SERVER_ROWS, *NAMESRV_ROWS))


def load_namesrv_settings(
    file: Path | None, options: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> NamesrvSettings:
    """Return the settings of a file, changed by variables like ROCKETFLOW_listenPort and then by `options` (by key).

    Variables that set a broker's keys are not looked at: both servers may share an environment. Raises UsageError where
    the file cannot be read, a key is unknown or a value does not fit its key.
    """
    table = NamesrvSettings.TABLE
    variables = (one for one in table.of_environment(environ or {}) if one[0] in table or one[0] not in STORE_TABLE)
    try:
        entries = [] if file is None else list(read_properties(file))
        entries += [*variables, *((key, text, f"--set {key}") for key, text in options.items())]
        given = table.typed_values((key, _expanded(text), where) for key, text, where in entries)
    except StoreError as error:
        raise UsageError(str(error)) from None
    check_promises(given, table.values())
    settings = NamesrvSettings.of(with_tls_file(given))
    check_exposure("bindAddress", settings.bind_address, allowed=settings.is_protected)
    settings.check()
    if not settings.kv_config_path:
        settings.kv_config_path = str(Path.home() / "namesrv" / "kvConfig.json")
    return settings


def _expanded(text: str) -> str:
    return os.path.expandvars(text.replace("${user.home}", str(Path.home())))
