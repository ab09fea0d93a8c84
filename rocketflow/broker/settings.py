"""broker.conf: RocketMQ's keys with RocketMQ's defaults.

RocketMQ's source: common/BrokerConfig.java, remoting/netty/NettyServerConfig.java,
store/config/MessageStoreConfig.java.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocketflow.broker.user_settings import (
    UserSettings,
    check_user_keys,
    code_list,
    initial_user,
    inner_client,
)
from rocketflow.environment import NAMESRV_ADDR
from rocketflow.errors import UsageError
from rocketflow.process.exposure import check_exposure
from rocketflow.process.properties import properties_text
from rocketflow.process.server_settings import (
    INT_MAX,
    OFF,
    SERVER_ROWS,
    UNSET,
    ServerSettings,
    broken_promise,
    check_promises,
    own_rows,
    server_setting,
)
from rocketflow.process.tls_settings import with_tls_file
from rocketflow.remoting.addresses import is_address
from rocketflow.remoting.signature import Credentials
from rocketflow_store import StoreConfig
from rocketflow_store.spi.setting_rows import LONG_MAX, Effect, Kind, Setting, rows_of, same_setting
from rocketflow_store.spi.settings import BY_KEY, SETTINGS, STORE_TABLE, SettingTable, load_settings

_NAMES: Final = "the broker would register nowhere unless namesrvAddr lists the NameServers"
_NO_REPLICATION: Final = "replication is not built yet"
_NO_CONTROLLER: Final = "the controller is not supported"
_NO_ROCKSDB: Final = "RocksDB is not supported"
_NO_PLUG_INS: Final = "stores around the store (tiered storage) are not supported"
_DEFAULT: Final = ("", "default")
_IMPORTANT: Final = frozenset({"fetchNamesrvAddrByAddressServer", "fetchNameSrvAddrByDnsLookup", "storeType"})


def _promise(key: str, about: str, why: str, kept: tuple[str, ...] = OFF, since: str = "4.9.7") -> Setting:
    return broken_promise(key, about, kept, why, since=since)._replace(important=key in _IMPORTANT)


def _promised(key: str, *kept: str, why: str) -> Setting:
    return BY_KEY[key]._replace(kept=tuple(one.lower() for one in kept), remedy=why, effect=Effect.START)


_PROMISES: Final = (
    _promised("brokerRole", "ASYNC_MASTER", why=f"{_NO_REPLICATION}: set brokerRole=ASYNC_MASTER"),
    _promised("enableControllerMode", "false", why=f"{_NO_CONTROLLER}: set enableControllerMode=false"),
    _promise(
        "enableSlaveActingMaster",
        "Whether a slave serves reads in the place of a lost master.",
        _NO_REPLICATION,
        since="5.1.4",
    ),
    _promise("duplicationEnable", "Whether what a store receives from another is stored again.", _NO_REPLICATION),
    _promise("controllerAddr", "Addresses of the controllers.", _NO_CONTROLLER, UNSET, since="5.1.4"),
    _promise("fetchControllerAddrByDnsLookup", "Whether they are looked up in DNS.", _NO_CONTROLLER, since="5.1.4"),
    _promise("enableDLegerCommitLog", "Whether the CommitLog is replicated by DLedger.", "DLedger is not supported"),
    _promise("fetchNamesrvAddrByAddressServer", "Whether the NameServers come from an address server.", _NAMES),
    _promise("fetchNameSrvAddrByDnsLookup", "Whether the NameServers are looked up in DNS.", _NAMES, since="5.1.4"),
    _promise("messageStorePlugIn", "Class of a store around the store.", _NO_PLUG_INS, UNSET),
    _promise(
        "storeType", "Engine of the queues and of the files of topics and groups.", _NO_ROCKSDB, _DEFAULT, since="5.1.4"
    ),
    _promise(
        "combineCQPreferCQType",
        "Engine that queues are read from where several have them.",
        _NO_ROCKSDB,
        _DEFAULT,
        since="5.4.0",
    ),
    _promise("combineCQUseRocksdbForLmq", "Whether queues of LMQs are in RocksDB.", _NO_ROCKSDB, since="5.5.0"),
    _promise("rocksdbCQDoubleWriteEnable", "Whether queues are also written to RocksDB.", _NO_ROCKSDB, since="5.3.3"),
    _promise("rocksdbCQSelectiveDoubleWriteEnable", "Whether queues of some topics are.", _NO_ROCKSDB, since="5.5.1"),
    _promise("timerRocksDBEnable", "Whether timer messages wait in RocksDB.", _NO_ROCKSDB, since="5.4.0"),
    _promise("transRocksDBEnable", "Whether half messages wait in RocksDB.", _NO_ROCKSDB, since="5.4.0"),
    _promise("indexRocksDBEnable", "Whether the index is in RocksDB.", _NO_ROCKSDB, since="5.4.0"),
    _promise(
        "useSingleRocksDBForAllConfigs",
        "Whether topics, groups and offsets are in one RocksDB.",
        _NO_ROCKSDB,
        since="5.4.0",
    ),
    _promise(
        "configManagerVersion",
        "Form of the files of topics, groups and offsets.",
        _NO_ROCKSDB,
        ("", "v1"),
        since="5.3.3",
    ),
)
_FURTHER: Final = Setting(
    "messageIndexSafe",
    "RocketMQ's choice whether a recovery begins before the last sync of the index; accepted, without effect.",
    False,
    Kind.FLAG,
    since="4.9.7",
    effect=Effect.NONE,
    important=True,
)
_STORE_KEYS: Final = frozenset({*BY_KEY, "brokerIP1", "listenPort", "storePathRootDir"})


@dataclass(kw_only=True, slots=True)
class BrokerSettings(ServerSettings):
    """The settings of a broker beside those of its store; attributes are RocketMQ's keys in snake case."""

    broker_cluster_name: str = server_setting("Name of the cluster.", "DefaultCluster", important=True)
    broker_name: str = same_setting(BY_KEY["brokerName"], effect=Effect.START)
    broker_id: int = server_setting(
        "Number of the broker among those of its name; 0 is the master.",
        0,
        kind=Kind.LONG,
        important=True,
        kept=("0",),
        form="0",
        remedy=f"{_NO_REPLICATION}: set brokerId=0",
    )
    broker_ip1: str = server_setting(
        "Address that clients and NameServers get.", "127.0.0.1", key="brokerIP1", important=True
    )
    bind_address: str = server_setting("Address to listen at.", "", since="5.1.4", shown_default="brokerIP1")
    listen_port: int = server_setting(
        "Port to listen at. The one two below it serves all requests but pulls; slaves get the one above it.",
        10911,
        "",
        (3, 65_534),
        shown_default="10911",
        important=True,
    )
    ha_listen_port: int = server_setting(
        "Port that registrations name for replicas.", 0, shown_default="listenPort plus 1"
    )
    namesrv_addr: str = server_setting(
        "NameServers to register at, host:port, separated by semicolons.",
        "",
        important=True,
        shown_default=f"{NAMESRV_ADDR.key} of the environment",
    )
    broker_permission: int = server_setting(
        "What clients may do with the broker's topics: 4 reads them, 2 writes them, 6 both.", 6, "", (0, 7), live=True
    )
    default_topic_queue_nums: int = same_setting(BY_KEY["defaultTopicQueueNums"], effect=Effect.START)
    auto_create_topic_enable: bool = server_setting(
        "Whether the first message to a topic creates it.", True, live=True, important=True
    )
    auto_create_subscription_group: bool = server_setting(
        "Whether the first consumer of a group creates it.", True, live=True, important=True
    )
    cluster_topic_enable: bool = server_setting("Whether clients may use the topic named like the cluster.", True)
    broker_topic_enable: bool = server_setting("Whether they may use the topic named like the broker.", True)
    trace_topic_enable: bool = server_setting("Whether it has the topic of traces.", False, important=True)
    msg_trace_topic_name: str = server_setting("Name of the topic of traces.", "RMQ_SYS_TRACE_TOPIC", important=True)
    region_id: str = server_setting("Region that answers to sends name, for traces.", "DefaultRegion")
    trace_on: bool = server_setting("Whether answers to sends ask clients for traces.", True)
    recall_message_enable: bool = server_setting(
        "Whether producers may recall timer messages.", False, since="5.3.3", live=True
    )
    allow_recall_when_broker_not_writeable: bool = server_setting(
        "Whether they may do so while the broker takes no sends.", True, since="5.3.3", live=True
    )
    store_reply_message_enable: bool = server_setting("Whether replies to requests are stored too.", True, live=True)
    long_polling_enable: bool = server_setting(
        "Whether a pull without messages waits as long as its client asks for.", True, live=True
    )
    short_polling_time_mills: int = server_setting(
        "Time that it waits with longPollingEnable=false.", 1_000, "ms", kind=Kind.LONG, live=True
    )
    lite_pull_message_enable: bool = server_setting("Whether pull consumers may pull.", True, since="5.1.4", live=True)
    enable_property_filter: bool = server_setting("Whether consumers may select by SQL.", False, live=True)
    notify_consumer_ids_changed_enable: bool = server_setting(
        "Whether consumers hear at once that their group has other members.", True
    )
    register_name_server_period: int = server_setting(
        "Time between two registrations; RocketMQ keeps it between 10 s and 60 s.", 30_000, "ms", live=True
    )
    register_broker_timeout_mills: int = server_setting(
        "Time that a NameServer has to answer a registration.", 24_000, "ms", live=True
    )
    flush_consumer_offset_interval: int = server_setting("Time between two writes of groups' offsets.", 5_000, "ms")
    broker_fast_failure_enable: bool = server_setting(
        "Whether sends that wait too long for the store are refused.", True
    )
    wait_time_mills_in_send_queue: int = server_setting(
        "Time that a send may wait for the store then.", 200, "ms", kind=Kind.LONG, live=True
    )
    sync_flush_timeout: int = same_setting(BY_KEY["syncFlushTimeout"], effect=Effect.START)
    store_path_root_dir: str = server_setting(
        "Directory of the store.", "", important=True, shown_default="store in the home directory"
    )
    start_accept_send_request_time_stamp: int = server_setting(
        "Time from which sends are taken, since 1970.", 0, "ms", kind=Kind.LONG, live=True
    )
    reject_transaction_message: bool = server_setting(
        "Whether transactional messages are refused.", False, live=True, important=True
    )
    transaction_time_out: int = server_setting(
        "Age of a half message from which its producer is asked for the outcome.",
        6_000,
        "ms",
        (1, LONG_MAX),
        kind=Kind.LONG,
        important=True,
    )
    transaction_check_interval: int = server_setting(
        "Time between two rounds of such questions.", 30_000, "ms", (1, LONG_MAX), kind=Kind.LONG, important=True
    )
    transaction_check_max: int = server_setting(
        "Questions after which a half message is abandoned.", 15, important=True
    )
    transaction_op_msg_max_size: int = server_setting(
        "Largest body of a record of outcomes.", 4_096, "bytes", (1, INT_MAX), since="5.1.4"
    )
    server_channel_max_idle_time_seconds: int = server_setting(
        "Time after which a silent connection is closed.", 120, "s", (1, INT_MAX)
    )
    authentication_enabled: bool = server_setting(
        "Whether requests need an account of RocketMQ 5's users.", False, since="5.3.3"
    )
    authentication_whitelist: str = server_setting(
        "Request codes, separated by commas, that need none.", "", since="5.3.3"
    )
    authorization_enabled: bool = server_setting("Whether policies say what a user may do.", False, since="5.3.3")
    authorization_whitelist: str = server_setting(
        "Request codes, separated by commas, that every user may send.", "", since="5.3.3"
    )
    init_authentication_user: str = server_setting(
        'User that is made at the start if it does not exist: {"username":"...","password":"..."}.',
        "",
        since="5.3.3",
        secret=True,
    )
    inner_client_authentication_credentials: str = server_setting(
        'Account with which the broker signs its requests: {"accessKey":"...","secretKey":"..."}.',
        "",
        since="5.3.3",
        secret=True,
    )

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


BROKER_ROWS: Final = (*own_rows(BrokerSettings), *_PROMISES, _FURTHER)
"""The settings of a broker that NameServers do not have."""
BrokerSettings.TABLE = SettingTable((*STORE_TABLE.values(), *SERVER_ROWS, *BROKER_ROWS))


def load_broker_settings(
    file: Path | None, options: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[BrokerSettings, StoreConfig, dict[str, Any]]:
    """Return a broker's settings, its store's, and all values by key.

    `options` are those of `--set`, by key. They win over variables of `environ` like ROCKETFLOW_listenPort, which win
    over the file; NAMESRV_ADDR is used where nothing else names a NameServer.

    Raises UsageError, and StoreError where the file cannot be read or a key or value of RocketMQ's is wrong.
    """
    table = BrokerSettings.TABLE
    texts = {key: table.typed(key, text, "--set") for key, text in options.items()}
    given = load_settings(file, environ, texts, table)
    check_promises(given, table.values())
    given = with_tls_file(given)
    settings = BrokerSettings.of(given)
    settings.namesrv_addr = settings.namesrv_addr or environ.get(NAMESRV_ADDR.key, "")
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
    own = {one.key for one in rows_of(BrokerSettings)} - _STORE_KEYS
    of_store = {key: value for key, value in given.items() if key not in own}
    return settings, StoreConfig.from_mapping(of_store), given


def settings_text(
    settings: BrokerSettings, store: StoreConfig, given: Mapping[str, Any], *, only_important: bool = False
) -> str:
    """Return the settings in effect as a properties file: the broker's, its store's, and what else was given."""
    of_store = {one.key: getattr(store, one.field) for one in SETTINGS if one.key in STORE_TABLE}
    values = {**of_store, **given, **settings.shown()}
    chosen = {key for key, row in settings.TABLE.items() if row.important or not only_important}
    return properties_text({key: value for key, value in values.items() if value is not None and key in chosen})


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
