"""broker.conf: RocketMQ's keys with RocketMQ's defaults.

RocketMQ's source: common/BrokerConfig.java, remoting/netty/NettyServerConfig.java,
store/config/MessageStoreConfig.java.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import msgspec

from rocketflow.broker.user_settings import (
    UserSettings,
    check_user_keys,
    code_list,
    initial_user,
    inner_client,
)
from rocketflow.errors import UsageError
from rocketflow.process.exposure import check_exposure
from rocketflow.process.nearest import did_you_mean
from rocketflow.process.promises import OFF, UNSET, Kept, check_promises
from rocketflow.process.properties import properties_text
from rocketflow.process.server_settings import ServerSettings, is_own_key, own_variables, with_tls_file
from rocketflow.remoting.addresses import is_address
from rocketflow.remoting.signature import Credentials
from rocketflow_store import StoreConfig
from rocketflow_store.spi.settings import KNOWN_KEYS, SETTINGS, load_settings, typed_value

Port = Annotated[int, msgspec.Meta(ge=3, le=65_534)]
"""The port of a broker; RocketMQ also uses the one two below it, and names the one above it to slaves."""

Seconds = Annotated[int, msgspec.Meta(ge=1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=1)]

_NAMES: Final = "the broker would register nowhere: list the NameServers in namesrvAddr and set it to false"
_NO_REPLICATION: Final = "replication is not built yet"
_NO_CONTROLLER: Final = "the controller is not supported"
_NO_ROCKSDB: Final = "RocksDB is not supported"

_KEPT: Final = {
    "brokerRole": Kept(("async_master",), f"{_NO_REPLICATION}: set brokerRole=ASYNC_MASTER"),
    "brokerId": Kept(("0",), f"{_NO_REPLICATION}: set brokerId=0"),
    "enableSlaveActingMaster": Kept(OFF, f"{_NO_REPLICATION}: set enableSlaveActingMaster=false"),
    "duplicationEnable": Kept(OFF, f"{_NO_REPLICATION}: set duplicationEnable=false"),
    "enableControllerMode": Kept(OFF, f"{_NO_CONTROLLER}: set enableControllerMode=false"),
    "controllerAddr": Kept(UNSET, f"{_NO_CONTROLLER}: remove controllerAddr"),
    "fetchControllerAddrByDnsLookup": Kept(OFF, f"{_NO_CONTROLLER}: set fetchControllerAddrByDnsLookup=false"),
    "enableDLegerCommitLog": Kept(OFF, "DLedger is not supported: set enableDLegerCommitLog=false"),
    "fetchNamesrvAddrByAddressServer": Kept(OFF, _NAMES),
    "fetchNameSrvAddrByDnsLookup": Kept(OFF, _NAMES),
    "messageStorePlugIn": Kept(UNSET, "stores around the store (tiered storage) are not supported: remove it"),
    "storeType": Kept(("", "default"), f"{_NO_ROCKSDB}: set storeType=default"),
    "combineCQPreferCQType": Kept(("", "default"), f"{_NO_ROCKSDB}: set combineCQPreferCQType=default"),
    "combineCQUseRocksdbForLmq": Kept(OFF, f"{_NO_ROCKSDB}: set combineCQUseRocksdbForLmq=false"),
    "rocksdbCQDoubleWriteEnable": Kept(OFF, f"{_NO_ROCKSDB}: set rocksdbCQDoubleWriteEnable=false"),
    "rocksdbCQSelectiveDoubleWriteEnable": Kept(OFF, f"{_NO_ROCKSDB}: set rocksdbCQSelectiveDoubleWriteEnable=false"),
    "timerRocksDBEnable": Kept(OFF, f"{_NO_ROCKSDB}: set timerRocksDBEnable=false"),
    "transRocksDBEnable": Kept(OFF, f"{_NO_ROCKSDB}: set transRocksDBEnable=false"),
    "indexRocksDBEnable": Kept(OFF, f"{_NO_ROCKSDB}: set indexRocksDBEnable=false"),
    "useSingleRocksDBForAllConfigs": Kept(OFF, f"{_NO_ROCKSDB}: set useSingleRocksDBForAllConfigs=false"),
    "configManagerVersion": Kept(("", "v1"), f"{_NO_ROCKSDB}: set configManagerVersion=v1"),
}
"""Settings whose promise would not be kept with other values: RocketMQ's defaults are accepted."""

IMPORTANT: Final = frozenset(
    """
    accessMessageInMemoryMaxRatio aclEnable autoCreateSubscriptionGroup autoCreateTopicEnable brokerClusterName
    brokerId brokerIP1 brokerName brokerRole cleanFileForciblyEnable commitIntervalCommitLog deleteFileBatchMax
    deleteWhen fetchNamesrvAddrByAddressServer fetchNameSrvAddrByDnsLookup fileReservedTime flushCommitLogTimed
    flushDiskType flushIntervalCommitLog listenPort maxTransferBytesOnMessageInDisk maxTransferBytesOnMessageInMemory
    maxTransferCountOnMessageInDisk maxTransferCountOnMessageInMemory messageIndexEnable messageIndexSafe
    msgTraceTopicName namesrvAddr rejectTransactionMessage storePathCommitLog storePathRootDir storeType
    traceTopicEnable transactionCheckInterval transactionCheckMax transactionTimeOut transientStorePoolEnable
    """.split()  # noqa: SIM905
)
"""The keys that RocketMQ marks as important (ImportantField) and that a master without replicas has."""

_STORE_KEYS: Final = frozenset({*(one.key for one in SETTINGS), "brokerIP1", "listenPort", "storePathRootDir"})


class BrokerSettings(ServerSettings, kw_only=True, rename="camel"):
    """The settings of a broker beside those of its store; attributes are RocketMQ's keys in snake case."""

    LIVE_KEYS: ClassVar[frozenset[str]] = frozenset(
        """
        allowRecallWhenBrokerNotWriteable autoCreateSubscriptionGroup autoCreateTopicEnable brokerPermission
        enablePropertyFilter litePullMessageEnable longPollingEnable recallMessageEnable registerBrokerTimeoutMills
        registerNameServerPeriod rejectTransactionMessage shortPollingTimeMills startAcceptSendRequestTimeStamp
        storeReplyMessageEnable waitTimeMillsInSendQueue
        """.split()  # noqa: SIM905
    )
    FURTHER_KEYS: ClassVar[frozenset[str]] = frozenset({*KNOWN_KEYS, *(one.key for one in SETTINGS)})

    broker_cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: int = 0
    broker_ip1: str = msgspec.field(default="127.0.0.1", name="brokerIP1")
    bind_address: str = ""
    listen_port: Port = 10911
    ha_listen_port: int = 0
    namesrv_addr: str = ""
    broker_permission: Annotated[int, msgspec.Meta(ge=0, le=7)] = 6
    default_topic_queue_nums: int = 8
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    recall_message_enable: bool = False
    allow_recall_when_broker_not_writeable: bool = True
    store_reply_message_enable: bool = True
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1000
    lite_pull_message_enable: bool = True
    enable_property_filter: bool = False
    notify_consumer_ids_changed_enable: bool = True
    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000
    flush_consumer_offset_interval: int = 5_000
    broker_fast_failure_enable: bool = True
    wait_time_mills_in_send_queue: int = 200
    sync_flush_timeout: int = 5_000
    store_path_root_dir: str = ""
    start_accept_send_request_time_stamp: int = 0
    reject_transaction_message: bool = False
    transaction_time_out: Milliseconds = 6_000
    transaction_check_interval: Milliseconds = 30_000
    transaction_check_max: int = 15
    transaction_op_msg_max_size: Annotated[int, msgspec.Meta(ge=1)] = 4_096
    server_channel_max_idle_time_seconds: Seconds = 120
    authentication_enabled: bool = False
    authentication_whitelist: str = ""
    authorization_enabled: bool = False
    authorization_whitelist: str = ""
    init_authentication_user: str = ""
    inner_client_authentication_credentials: str = ""

    @property
    def controls_access(self) -> bool:
        """Return whether requests need credentials."""
        return self.acl_enable or self.authentication_enabled

    @property
    def credentials(self) -> Credentials | None:
        """Return the account with which the broker signs its own requests. Raises UsageError."""
        return inner_client(self.inner_client_authentication_credentials)

    @property
    def users(self) -> UserSettings | None:
        """Return the settings of users, None if the broker has none. Raises UsageError."""
        if self.authorization_enabled and not self.authentication_enabled:
            raise UsageError(
                "authorizationEnabled=true trusts names that were not checked: set authenticationEnabled=true too"
            )
        if not self.authentication_enabled:
            return None
        if self.acl_enable:
            raise UsageError("aclEnable=true and authenticationEnabled=true are two kinds of accounts: set one of them")
        first = (initial_user(self.init_authentication_user), self.credentials)
        return UserSettings(
            self.authorization_enabled,
            code_list("authenticationWhitelist", self.authentication_whitelist),
            code_list("authorizationWhitelist", self.authorization_whitelist),
            tuple(one for one in first if one is not None),
        )

    @property
    def listen_address(self) -> str:
        """Return the address to listen at: `bindAddress`, else `brokerIP1`."""
        return self.bind_address or self.broker_ip1

    @property
    def broker_address(self) -> str:
        """Return `host:port` at which clients reach the broker."""
        return f"{self.broker_ip1}:{self.listen_port}"

    @property
    def ha_address(self) -> str:
        """Return `host:port` at which slaves would reach the broker."""
        return f"{self.broker_ip1}:{self.ha_listen_port or self.listen_port + 1}"

    @property
    def send_wait_limit_s(self) -> float | None:
        """Return how long (s) a message may wait for the store, None for any time: brokerFastFailureEnable=false."""
        return self.wait_time_mills_in_send_queue / 1000 if self.broker_fast_failure_enable else None

    @property
    def name_servers(self) -> list[str]:
        """Return the addresses of the NameServers."""
        return [one.strip() for one in self.namesrv_addr.split(";") if one.strip()]


def load_broker_settings(
    file: Path | None, options: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[BrokerSettings, StoreConfig, dict[str, Any]]:
    """Return a broker's settings, its store's, and all values by key.

    `options` are those of `--set`, by key. They win over variables of `environ` like ROCKETFLOW_listenPort, which win
    over the file; NAMESRV_ADDR is used where nothing else names a NameServer.

    Raises UsageError, and StoreError where the file cannot be read or a key or value of RocketMQ's is wrong.
    """
    own = {field.encode_name for field in msgspec.structs.fields(BrokerSettings)}
    variables, others = own_variables(environ, own)
    texts = {**variables, **options}
    given = load_settings(file, others, {key: typed_value(key, text, "--set: ") for key, text in texts.items()})
    _check_keys(given)
    check_promises(given, _KEPT)
    given = with_tls_file(given)
    try:
        settings = msgspec.convert(
            {key: value for key, value in given.items() if key in own}, BrokerSettings, strict=False
        )
    except msgspec.ValidationError as error:
        raise UsageError(f"{file or '--set'}: {error}") from None
    settings.namesrv_addr = settings.namesrv_addr or environ.get("NAMESRV_ADDR", "")
    if not settings.store_path_root_dir:
        settings.store_path_root_dir = str(Path.home() / "store")
    for key, address in (("bindAddress", settings.listen_address), ("brokerIP1", settings.broker_ip1)):
        check_exposure(key, address, allowed=settings.is_protected)
    for one in settings.name_servers:
        if not is_address(one):
            raise UsageError(f"namesrvAddr: {one!r} is no address of a NameServer: host:port is expected")
    check_user_keys(given)
    settings.check()
    settings.client_tls()
    _ = settings.users, settings.credentials  # raise UsageError
    of_store = {key: value for key, value in given.items() if key not in own or key in _STORE_KEYS}
    return settings, StoreConfig.from_mapping(of_store), given


def _check_keys(given: Mapping[str, Any]) -> None:
    """Refuse keys that neither RocketMQ nor RocketFlow has. Raises UsageError."""
    own = {field.encode_name for field in msgspec.structs.fields(BrokerSettings)}
    known = BrokerSettings.FURTHER_KEYS | own
    for key in given:
        if key not in known:
            raise UsageError(f"unknown key {key}: {did_you_mean(key, known)}")


def settings_text(
    settings: BrokerSettings, store: StoreConfig, given: Mapping[str, Any], *, only_important: bool = False
) -> str:
    """Return the settings in effect as a properties file: the broker's, its store's, and what else was given."""
    of_store = {one.key: getattr(store, one.field) for one in SETTINGS if one.key in KNOWN_KEYS or is_own_key(one.key)}
    values = {**of_store, **given, **settings.shown()}
    return properties_text(
        {key: value for key, value in values.items() if value is not None and (key in IMPORTANT or not only_important)}
    )


def answered_settings_text(settings: BrokerSettings, store: StoreConfig, given: Mapping[str, Any]) -> str:
    """Return the settings in effect as request 26 answers them.

    mqadmin's `exportConfigs` and `exportMetrics` read keys that are the store's, or that no setting here has: these are
    always there. The number of threads is what they take as that of processors.
    """
    read_by_mqadmin = {
        "clientCallbackExecutorThreads": os.cpu_count(),
        "brokerRole": "ASYNC_MASTER",
        "fileReservedTime": store.file_reserved_time,
        "filterServerNums": 0,
        "flushDiskType": store.flush_disk_type,
        "maxMessageSize": store.max_message_size,
        "messageDelayLevel": store.message_delay_level,
        "slaveReadEnable": False,
        "useTLS": settings.tls_enable,
    }
    return properties_text({**read_by_mqadmin, **given, **settings.shown()})
