"""A task's rows sent to RocketMQ's brokers, at least once; rows that a replay finds stored are not sent again.

Rows are sent in waves: a wave begins after all rows of the one before are acknowledged. A task looks up some rows of
its first wave. If none is stored, it sends everything without further look-ups; else it repeats an earlier attempt, and
looks up every row until none of a wave is stored.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.errors import ClientError, NoRouteError
from rocketflow.client.options import ClientOptions
from rocketflow.client.produce.errors import BadMessageError, SendFailedError
from rocketflow.client.produce.options import ProducerOptions
from rocketflow.client.produce.producer import Producer
from rocketflow.client.produce.sender import RETRIED_CODES
from rocketflow.client.sync.bridge import LOOP
from rocketflow.spark.sink.row_messages import Group, RowKeys, RowMessage, groups, row_messages
from rocketflow_store import MessageRejectedError, StoreConfig, StoreError
from rocketflow_store.spi.records import BatchEncoder

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketflow.spark.sink.batch_identity import BatchIdentity
    from rocketflow.spark.sink.sink_options import SinkOptions
    from rocketflow_store.spi.messages import Message

GROUP: Final = "rocketflow-spark"
"""The producer group of sinks."""

WAVE_ROWS: Final = 1024
_SEND_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.2
_LAST_PAUSE_S: Final = 2.0
_INDEXED_S: Final = 1.0
"""How long a broker may take to index a message that it has stored."""


class SentRows:
    """Sends of one task; all methods run in one event loop."""

    def __init__(self, options: SinkOptions, first_turn: int) -> None:
        network = options.network
        assert network is not None
        access = network.client_options()
        self._producer = Producer(
            ProducerOptions(**access, group=GROUP, send_timeout_s=_SEND_S, queues_of_new_topics=options.queues)
        )
        self._admin = AdminClient(ClientOptions(**access))
        self._timeout_s = network.timeout_ms / 1000
        self._turn = first_turn
        self._repeats = True
        self.found = 0
        """Rows that were stored before."""

    async def start(self) -> None:
        """Open the clients."""
        await self._producer.start()
        await self._admin.__aenter__()

    async def close(self) -> None:
        """Close the clients."""
        await self._admin.__aexit__(None, None, None)
        await self._producer.close()

    async def send(self, rows: list[RowMessage]) -> None:
        """Send a wave, those rows of it that are not stored yet."""
        counts = {topic: len(await self._producer.queues(topic)) for topic in {one.message.topic for one in rows}}
        wave, self._turn = groups(rows, counts.__getitem__, self._turn)
        if self._repeats and await self._is_begun(wave):
            before = self.found
            wave = [one for one in await asyncio.gather(*map(self._unsent, wave)) if one is not None]
            self._repeats = self.found > before
        else:
            self._repeats = False
        by_queue: dict[tuple[str, int], list[Group]] = {}
        for group in wave:
            by_queue.setdefault((group.topic, group.queue), []).append(group)
        await asyncio.gather(*map(self._in_order, by_queue.values()))

    async def _is_begun(self, wave: list[Group]) -> bool:
        """Return True if an earlier attempt may have stored rows of a wave: later waves are asked for row by row."""
        if self.found:
            return True
        return any(await asyncio.gather(*(self._is_stored(one.messages[0]) for one in wave)))

    async def _in_order(self, queue: Iterable[Group]) -> None:
        for group in queue:
            await self._until_stored(group)

    async def _until_stored(self, group: Group) -> None:
        """Send a group until a broker acknowledges it; before each repetition look up what is stored of it."""
        deadline, pause = time.monotonic() + self._timeout_s, _FIRST_PAUSE_S
        while True:
            try:
                await self._once(group)
                return
            except BadMessageError as error:
                raise StoreError(f"{error}; the rows before it in the partition are sent") from None
            except SendFailedError as error:
                refused = error.code is not None and error.code not in RETRIED_CODES
                if refused or time.monotonic() >= deadline:
                    raise StoreError(f"{error} (option networkTimeout is the longest wait)") from None
                lost = error.may_be_stored
            await asyncio.sleep(max(pause, _INDEXED_S if lost else 0.0))
            pause = min(2 * pause, _LAST_PAUSE_S)
            rest = await self._unsent(group)
            if rest is None:
                return
            group = rest
            group.queue += 1 if group.is_free else 0

    async def _once(self, group: Group) -> None:
        queues = await self._producer.queues(group.topic)
        to = queues[group.queue % len(queues)]
        messages = group.messages
        if len(messages) == 1:
            await self._producer.send(messages[0], to=to)
        else:
            await self._producer.send_batch(messages, to=to)

    async def _unsent(self, group: Group) -> Group | None:
        """Return the messages of a group that are not stored, None if all are.

        Each is looked up: an earlier attempt may have divided the rows among other queues.
        """
        every = await asyncio.gather(*map(self._is_stored, group.messages))
        self.found += sum(every)
        rest = [message for message, there in zip(group.messages, every, strict=True) if not there]
        return Group(rest, group.queue, group.is_free) if rest else None

    async def _is_stored(self, message: Message) -> bool:
        """Look a message up by its key; a topic that does not exist has none. Raises StoreError for no answer."""
        deadline, pause = time.monotonic() + self._timeout_s, _FIRST_PAUSE_S
        while True:
            try:
                return bool(await self._admin.query_by_unique_key(message.topic, message.uniq_key))
            except NoRouteError:
                return False
            except ClientError as error:
                if time.monotonic() >= deadline:
                    raise StoreError(f"rows of an earlier attempt cannot be looked up: {error}") from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_S)


def send_rows(
    options: SinkOptions, batch: BatchIdentity, partition: int, rows: Iterator[pa.RecordBatch], first_turn: int
) -> tuple[int, int]:
    """Send a task's rows; return their number, and how many of them were stored before.

    Raises StoreError for a row that RocketMQ does not take, and if no broker acknowledges it within `networkTimeout`.
    """

    async def opened() -> SentRows:
        sends = SentRows(options, first_turn)
        await sends.start()
        return sends

    messages = _messages(options, rows, RowKeys(batch.sink_id, batch.batch_id, partition), partition)
    sends, count = LOOP.wait(opened()), 0
    try:
        while wave := list(itertools.islice(messages, WAVE_ROWS)):
            LOOP.wait(sends.send(wave))
            count += len(wave)
    finally:
        LOOP.wait(sends.close())
    return count, sends.found


def _messages(
    options: SinkOptions, rows: Iterator[pa.RecordBatch], keys: RowKeys, partition: int
) -> Iterator[RowMessage]:
    encoder = BatchEncoder(StoreConfig(), lambda _: 1, default_topic=options.topic, row_hashes=False)
    done = 0
    for batch in rows:
        if options.topic is not None and "topic" in batch.schema.names:  # the option wins, as by path
            batch = batch.drop_columns(["topic"])
        check_rows(encoder, batch, partition, done)
        yield from row_messages(batch, done, options.topic, keys)
        done += batch.num_rows


def check_rows(encoder: BatchEncoder, batch: pa.RecordBatch, partition: int, done: int) -> None:
    """Raise StoreError, which names the row, for a row that no store takes."""
    try:
        encoder.validate(batch)
    except MessageRejectedError as error:
        row = done + (error.row or 0)
        raise StoreError(f"partition {partition}, row {row}: {error.why}; the batch is not written") from error
