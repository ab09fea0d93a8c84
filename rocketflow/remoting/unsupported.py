"""Requests of RocketMQ that no server of RocketFlow processes, and why; the answer is code 3 with this reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketflow.remoting.codes import RequestCode

_CODE: Final = RequestCode
_NEITHER: Final = "RocketMQ's servers do not process it either"
_ACCOUNTS: Final = "plain_acl.yml is changed by an editor, and read again when it changes"
_REPLICAS: Final = "the broker has no replicas"
_ROCKSDB: Final = "the store has no RocksDB"
_POP: Final = "consumers of this broker pull"
_CONTAINER: Final = "a process has one broker: start another one with rocketflow broker"
_CONTROLLER: Final = "there is no controller: a broker is a master"
_COLD: Final = "cold pulls are limited by their number"

UNSUPPORTED: Final[Mapping[int, str]] = {
    _CODE.QUERY_BROKER_OFFSET: _NEITHER,
    _CODE.GET_TOPIC_CONFIG_LIST: _NEITHER,
    _CODE.GET_TOPIC_NAME_LIST: _NEITHER,
    _CODE.TRIGGER_DELETE_FILES: "use 329 (mqadmin deleteExpiredCommitLog)",
    _CODE.GET_CLIENT_CONFIG: _NEITHER,
    **dict.fromkeys(range(50, 55), _ACCOUNTS),
    **dict.fromkeys((_CODE.GET_ALL_DELAY_OFFSET, _CODE.GET_TIMER_CHECK_POINT), _REPLICAS),
    _CODE.GET_TIMER_METRICS: "the metrics of timers are those of /metrics",
    **dict.fromkeys(range(_CODE.SUSPEND_CONSUMER, _CODE.WHO_CONSUME_THE_MESSAGE + 1), _NEITHER),
    _CODE.REGISTER_FILTER_SERVER: "filter servers ended with RocketMQ 4.3: use SQL92 (enablePropertyFilter)",
    _CODE.REGISTER_MESSAGE_FILTER_CLASS: "filter servers ended with RocketMQ 4.3: use SQL92 (enablePropertyFilter)",
    _CODE.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _ROCKSDB,
    _CODE.EXPORT_ROCKSDB_CONFIG_TO_JSON: _ROCKSDB,
    _CODE.QUERY_ASSIGNMENT: "clients assign queues by themselves (clientRebalance=true)",
    _CODE.GET_ALL_MESSAGE_REQUEST_MODE: _POP,
    _CODE.UPDATE_AND_CREATE_STATIC_TOPIC: "there are no static topics",
    _CODE.ADD_BROKER: _CONTAINER,
    _CODE.REMOVE_BROKER: _CONTAINER,
    **dict.fromkeys(
        (_CODE.NOTIFY_MIN_BROKER_ID_CHANGE, _CODE.EXCHANGE_BROKER_HA_INFO, _CODE.RESET_MASTER_FLUSH_OFFSET), _REPLICAS
    ),
    **dict.fromkeys(range(1001, 1019), _CONTROLLER),
    **dict.fromkeys(range(2001, 2005), _COLD),
    **dict.fromkeys(range(_CODE.POP_MESSAGE, _CODE.POP_ROLLBACK + 1), _POP),
    _CODE.BATCH_ACK_MESSAGE: _POP,
}
"""The reason of each code; 45 and 60 are those that replicas ask with."""
