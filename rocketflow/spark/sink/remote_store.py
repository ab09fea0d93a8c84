"""The store of a RocketFlow broker that a sink reaches over the network alone: parts are sent, then committed.

Every request is repeated until `networkTimeout` ends: the bytes of a part may come again, and the last envelope in the
log says whether a commit was done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.store_client import (
    AnswerLostError,
    NoBrokerError,
    NotAllowedError,
    NotRocketFlowError,
)
from rocketflow.remoting.bodies import decode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.admin import GetTopicConfigRequestHeader
from rocketflow.remoting.headers.rocketflow import StagePartRequestHeader
from rocketflow.store_writes import AnswerLostError as WriteLostError
from rocketflow.store_writes import BrokerError, BrokerWrites
from rocketflow_store import StoreLockedError
from rocketflow_store.spi.table_rows import TopicConfig

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rocketflow.remoting.store_bodies import StoreInfoBody
    from rocketflow.spark.shared.network_options import Network
    from rocketflow_store.spi.commits import CommitEnvelope, CommitResult, SinkBatch

T = TypeVar("T")
_FIRST_PAUSE_S: Final = 0.05
_LAST_PAUSE_S: Final = 1.0
_BUSY: Final = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY)


class RemoteStore:
    """The store of the broker at an address; each process that uses it has an object of its own.

    Raises BrokerError, and what the store raises for a commit.
    """

    def __init__(self, network: Network, address: str) -> None:
        self._client = network.store_client(address)
        self._timeout_s = network.timeout_ms / 1000

    def info(self) -> StoreInfoBody:
        """Return the store's settings that a task needs to encode rows."""
        return self._patiently(self._client.info)

    def queues_to_write(self, topic: str) -> int | None:
        """Return the number of queues of a topic that rows go to, None if it does not exist."""
        header = GetTopicConfigRequestHeader(topic=topic)
        found = self._patiently(lambda: self._client.send(RequestCode.GET_TOPIC_CONFIG, header))
        if found.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if found.code != ResponseCode.SUCCESS:
            raise BrokerError(f"{self._client.address}: topic {topic}: {found.remark}")
        return decode_body(found.body, TopicConfig).write_queue_nums

    def stage(self, header: StagePartRequestHeader, piece: bytes = b"") -> int:
        """Send the run of a query, or a piece of a part; return the sequence number of the run."""
        return self._patiently(lambda: self._client.stage(header, piece))

    def connected(self) -> AbstractContextManager[None]:
        """Return a block whose requests use one connection, in one thread."""
        return self._client.connected()

    def commit(self, batch: SinkBatch, *, queues: int, replay_mismatch: str, sync: bool) -> CommitResult:
        """Commit a batch whose parts were sent; it is in the log once, also if an answer is lost."""
        writes = self._writes(sync=sync)
        return self._patiently(lambda: writes.commit_batch(batch, queues=queues, replay_mismatch=replay_mismatch))

    def last_commit(self, sink_id: str) -> CommitEnvelope | None:
        """Return the newest envelope of a sink."""
        writes = self._writes(sync=False)
        return self._patiently(lambda: writes.last_commit(sink_id))

    def _writes(self, *, sync: bool) -> BrokerWrites:
        return BrokerWrites(f"broker {self._client.address}", self._client, sync=sync, uploaded=True)

    def _patiently(self, call: Callable[[], T]) -> T:
        """Return the result of a call, which is repeated while the broker is away or busy."""
        deadline, pause = time.monotonic() + self._timeout_s, _FIRST_PAUSE_S
        while True:
            try:
                return call()
            except (NotRocketFlowError, NotAllowedError) as error:
                raise BrokerError(str(error)) from None
            except (NoBrokerError, AnswerLostError, WriteLostError, StoreLockedError) as error:
                if time.monotonic() >= deadline:
                    raise BrokerError(f"{error} (option networkTimeout is the longest wait)") from None
            except RequestRefusedError as error:
                if error.code not in _BUSY or time.monotonic() >= deadline:
                    raise BrokerError(str(error)) from None
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_S)
