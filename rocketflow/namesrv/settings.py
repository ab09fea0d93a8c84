"""namesrv.conf: RocketMQ's keys with RocketMQ's defaults.

RocketMQ's source: common/namesrv/NamesrvConfig.java, remoting/netty/NettyServerConfig.java.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final

import msgspec

from rocketflow.errors import UsageError
from rocketflow.process.exposure import check_exposure
from rocketflow.process.nearest import did_you_mean
from rocketflow.process.server_settings import ServerSettings, with_tls_file
from rocketflow_store.spi.settings import parse_properties

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


class NamesrvSettings(ServerSettings, kw_only=True, rename="camel"):
    """The settings of a NameServer; attributes are RocketMQ's keys in snake case."""

    LIVE_KEYS: ClassVar[frozenset[str]] = frozenset(
        """
        enableAllTopicList enableTopicList needWaitForService orderMessageEnable returnOrderTopicConfigToBroker
        scanNotActiveBrokerInterval waitSecondsForService
        """.split()  # noqa: SIM905
    )
    FURTHER_KEYS: ClassVar[frozenset[str]] = WITHOUT_EFFECT

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
    wanted = {key: value for key, value in with_tls_file(given).items() if key not in WITHOUT_EFFECT}
    try:
        settings = msgspec.convert(wanted, NamesrvSettings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file or '--set'}: {error}") from None
    check_exposure("bindAddress", settings.bind_address, allowed=settings.is_protected)
    settings.check()
    if not settings.kv_config_path:
        settings.kv_config_path = str(Path.home() / "namesrv" / "kvConfig.json")
    return settings


def _known(key: str, value: str, where: str) -> str:
    fields = {field.encode_name for field in msgspec.structs.fields(NamesrvSettings)}
    if key not in fields and key not in WITHOUT_EFFECT:
        raise UsageError(f"{where}: unknown key {key}: {did_you_mean(key, fields | WITHOUT_EFFECT)}")
    return os.path.expandvars(value.replace("${user.home}", str(Path.home())))
