"""namesrv.conf: RocketMQ's keys with RocketMQ's defaults.

RocketMQ's source: common/namesrv/NamesrvConfig.java, remoting/netty/NettyServerConfig.java.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec

from rocketflow.aio.server import MAX_CONNECTIONS
from rocketflow.errors import UsageError
from rocketflow.process.exposure import ALLOW_INSECURE, check_exposure
from rocketflow.process.nearest import did_you_mean
from rocketflow.process.properties import properties_text
from rocketflow_store.spi.settings import OWN_PREFIX, parse_properties

WITHOUT_EFFECT: Final = frozenset(
    """
    clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity configBlackList defaultThreadPoolNums
    defaultThreadPoolQueueCapacity enableControllerInNamesrv enableShutdownGracefully notifyMinBrokerIdChanged
    productEnvName serverAsyncSemaphoreValue serverCallbackExecutorThreads serverNettyWorkerGroupEnable
    serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog
    serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads shutdownWaitTimeSeconds
    unRegisterBrokerQueueCapacity useEpollNativeSelector writeBufferHighWaterMark writeBufferLowWaterMark clusterTest
    """.split()  # noqa: SIM905
)
"""RocketMQ's keys that are accepted and change nothing here: sizes of thread pools and buffers."""


class NamesrvSettings(msgspec.Struct, kw_only=True, rename="camel"):
    """The settings of a NameServer; attributes are RocketMQ's keys in snake case."""

    rocketmq_home: str = ""
    bind_address: str = "127.0.0.1"
    listen_port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 9876
    kv_config_path: str = ""
    config_store_path: str = ""
    server_channel_max_idle_time_seconds: Annotated[int, msgspec.Meta(ge=1)] = 120
    order_message_enable: bool = False
    return_order_topic_config_to_broker: bool = True
    scan_not_active_broker_interval: Annotated[int, msgspec.Meta(ge=10)] = 5000
    support_acting_master: bool = False
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    need_wait_for_service: bool = False
    wait_seconds_for_service: int = 45
    delete_topic_with_broker_registration: bool = False
    max_connections: Annotated[int, msgspec.Meta(ge=1)] = msgspec.field(
        default=MAX_CONNECTIONS, name=f"{OWN_PREFIX}maxConnections"
    )
    allow_insecure: bool = msgspec.field(default=False, name=ALLOW_INSECURE)

    def properties_text(self) -> str:
        """Return the settings as a properties file."""
        fields = msgspec.structs.fields(NamesrvSettings)
        return properties_text({field.encode_name: getattr(self, field.name) for field in fields})


def load_namesrv_settings(file: Path | None, options: Mapping[str, str]) -> NamesrvSettings:
    """Return the settings of a file, changed by `options` (by key).

    Raises UsageError where the file cannot be read, a key is unknown or a value does not fit its key.
    """
    given: dict[str, str] = {}
    if file is not None:
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: cannot be read ({error}): give a namesrv.conf") from None
        for number, key, value in parse_properties(text):
            given[key] = _known(key, value, f"{file} line {number}")
    for key, value in options.items():
        given[key] = _known(key, value, f"--set {key}")
    wanted = {key: value for key, value in given.items() if key not in WITHOUT_EFFECT}
    try:
        settings = msgspec.convert(wanted, NamesrvSettings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file or '--set'}: {error}") from None
    check_exposure("bindAddress", settings.bind_address, allowed=settings.allow_insecure)
    if not settings.kv_config_path:
        settings.kv_config_path = str(Path.home() / "namesrv" / "kvConfig.json")
    return settings


def _known(key: str, value: str, where: str) -> str:
    fields = {field.encode_name for field in msgspec.structs.fields(NamesrvSettings)}
    if key not in fields and key not in WITHOUT_EFFECT:
        raise UsageError(f"{where}: unknown key {key}: {did_you_mean(key, fields | WITHOUT_EFFECT)}")
    return os.path.expandvars(value.replace("${user.home}", str(Path.home())))
