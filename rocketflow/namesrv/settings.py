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
from rocketflow.process.promises import OFF, Kept, check_promises
from rocketflow.process.properties import properties_text
from rocketflow.process.server_settings import ServerSettings, own_variables, with_tls_file
from rocketflow_store.spi.settings import ENVIRONMENT_PREFIX, KNOWN_KEYS, parse_properties

WITHOUT_EFFECT: Final = frozenset(
    """
    clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity configBlackList defaultThreadPoolNums
    defaultThreadPoolQueueCapacity enableShutdownGracefully notifyMinBrokerIdChanged
    productEnvName serverAsyncSemaphoreValue serverCallbackExecutorThreads serverNettyWorkerGroupEnable
    serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog
    serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads shutdownWaitTimeSeconds
    unRegisterBrokerQueueCapacity useEpollNativeSelector writeBufferHighWaterMark writeBufferLowWaterMark
    """.split()  # noqa: SIM905
)
"""RocketMQ's keys that are accepted and change nothing here: sizes of thread pools and buffers."""


_KEPT: Final = {
    "enableControllerInNamesrv": Kept(OFF, "the controller is not supported: set enableControllerInNamesrv=false"),
    "clusterTest": Kept(OFF, "routes of another environment are not looked up: set clusterTest=false"),
}
"""Settings whose promise would not be kept with other values: RocketMQ's defaults are accepted."""

IMPORTANT: Final = frozenset({"aclEnable", "bindAddress", "kvConfigPath", "listenPort", "tls.server.mode"})
"""RocketMQ marks no key of its NameServer as important (ImportantField): these say who reaches it and what it keeps."""


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

    def important_text(self) -> str:
        """Return the important settings as a properties file."""
        return properties_text({key: value for key, value in self.shown().items() if key in IMPORTANT})


def load_namesrv_settings(
    file: Path | None, options: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> NamesrvSettings:
    """Return the settings of a file, changed by variables like ROCKETFLOW_listenPort and then by `options` (by key).

    Variables that set a broker's keys are not looked at: both servers may share an environment. Raises UsageError where
    the file cannot be read, a key is unknown or a value does not fit its key.
    """
    given: dict[str, str] = {}
    if file is not None:
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: cannot be read ({error}): give a namesrv.conf") from None
        for number, key, value in parse_properties(text):
            given[key] = _known(key, value, f"{file} line {number}")
    own, others = own_variables(environ or {}, _KEYS)
    for name, value in others.items():
        key = name.removeprefix(ENVIRONMENT_PREFIX)
        if key != name and key[:1].islower() and (key in _ALL_KEYS or key not in KNOWN_KEYS):
            own[key] = _known(key, value, f"environment variable {name}")
    given |= own
    for key, value in options.items():
        given[key] = _known(key, value, f"--set {key}")
    check_promises(given, _KEPT)
    wanted = {key: value for key, value in with_tls_file(given).items() if key in _KEYS}
    try:
        settings = msgspec.convert(wanted, NamesrvSettings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file or '--set'}: {error}") from None
    check_exposure("bindAddress", settings.bind_address, allowed=settings.is_protected)
    settings.check()
    if not settings.kv_config_path:
        settings.kv_config_path = str(Path.home() / "namesrv" / "kvConfig.json")
    return settings


_KEYS: Final = frozenset(field.encode_name for field in msgspec.structs.fields(NamesrvSettings))
_ALL_KEYS: Final = _KEYS | WITHOUT_EFFECT | _KEPT.keys()


def _known(key: str, value: str, where: str) -> str:
    if key not in _ALL_KEYS:
        raise UsageError(f"{where}: unknown key {key}: {did_you_mean(key, _ALL_KEYS)}")
    return os.path.expandvars(value.replace("${user.home}", str(Path.home())))
