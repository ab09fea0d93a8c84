"""The usual sends of one read together: frames to records in the kernel, and one answer for all of them.

What the kernel does not take, and what it was not taught, goes through `Sends`, which is the definition. A queue is
taught once `Sends` has stored a message there, or one that waits for its time, and forgotten when the settings of its
topic change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rocketflow.access.addresses import host_of
from rocketflow.aio.server import RefusedError
from rocketflow.broker.topics import is_compacted
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.frame import MAX_FRAME_SIZE
from rocketflow.remoting.signature import ACCESS_KEY, SIGNATURE
from rocketflow_store import PutMessageStatus
from rocketflow_store.spi.broker import SentRun
from rocketflow_store.spi.ids import encode_host
from rocketflow_store.spi.names import RETRY_PREFIX, is_send_refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketflow.access.guard import Guard
    from rocketflow.aio.server import Arrived
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.puts.put_gatherer import PutGatherer
    from rocketflow.broker.puts.sends import Sends
    from rocketflow.broker.topics import Topics
    from rocketflow.broker.transactions import EndsTogether
    from rocketflow.remoting.frame import TakenFrames
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import SentRecords, WritingStore
    from rocketflow_store.spi.table_rows import TopicConfig


class SendsTogether:
    """Serves requests 10, 310, 320 and 37 that arrive together; see `ServesTogether`."""

    def __init__(
        self,
        store: WritingStore,
        topics: Topics,
        gatherer: PutGatherer,
        counts: MessageCounts,
        sends: Sends,
        ends: EndsTogether,
        guard: Guard,
    ) -> None:
        self._topics, self._gatherer, self._counts, self._sends, self._ends = topics, gatherer, counts, sends, ends
        self._guard = guard
        limits = (0, 0) if guard.has_rules else ends.limits
        self._frames = store.send_frames(sends.added, sends.answer_parts, MAX_FRAME_SIZE, limits)
        self._taught: dict[str, TopicConfig] = {}
        self._queues: set[tuple[str, int]] = set()
        if self._frames is not None:
            sends.notify_stored(self._stored_one)

    def taker(self, address: str) -> Callable[[bytes, int], SentRecords | None] | None:
        """Return what takes the usual sends of a client; None without the kernel."""
        try:
            return None if self._frames is None else self._frames.of(encode_host(address)).take
        except ValueError:
            return None

    def received(self, arrived: Arrived, taken: TakenFrames) -> bytes:
        """Store messages and answer, and end transactions; return the frames that are to be received one by one."""
        records = cast("SentRecords", taken)
        if records.count and not (self._may_be_stored(records) and self._are_allowed(arrived, records)):
            return records.frames()
        left_over = self._ends.received(arrived, records, self._is_as_taught) if records.ending_count else b""
        if records.count:
            self._store(arrived, records)
        return left_over

    def _may_be_stored(self, records: SentRecords) -> bool:
        """Return whether messages are stored, if the store does not refuse them."""
        if not self._gatherer.has_room or not self._is_as_taught(records.named_topics):
            return False
        try:
            self._sends.check_writable()
            if records.half_count:
                self._sends.check_halves()
        except RefusedError:
            return False
        return True

    def _are_allowed(self, arrived: Arrived, records: SentRecords) -> bool:
        """Return whether all clients have signed what they send, and may publish it."""
        if not self._guard.has_rules:
            return True
        host = host_of(arrived.channel.address)
        name = "topic" if records.code == RequestCode.SEND_MESSAGE else "b"
        for access_key, signature, topic, content in records.signed():
            fields = {name: topic, ACCESS_KEY: access_key, SIGNATURE: signature}
            given = {one: value for one, value in fields.items() if value is not None}
            if not self._guard.allows_signed(Command(records.code, given), content, host):
                return False
        return True

    def _store(self, arrived: Arrived, records: SentRecords) -> None:
        def stored(result: PutMessageResult) -> None:
            if result.stored:
                self._counts.sent_together(records)
                if records.half_count:
                    self._sends.note_halves(*records.halves())
            if result.status is PutMessageStatus.PUT_OK:
                unanswered = records.one_way_count
                if unanswered:
                    arrived.end_one_way(records.code, ResponseCode.SUCCESS, unanswered)
                if unanswered < records.request_count:
                    arrived.send_answers(records.code, records.answers(), records.request_count - unanswered)
                return
            for number, request in enumerate(arrived.requests(records.sends())):
                self._sends.answer_one(request, result, records.stored(number))

        def refuse(error: RefusedError) -> None:
            for request in arrived.requests(records.sends()):
                request.refuse(error)

        arrived.took(records.code, records.request_count)
        self._gatherer.add_run(SentRun(records), stored, refuse)

    def _is_as_taught(self, topics: Sequence[str]) -> bool:
        """Return whether topics have the settings that they had when they were taught; forget all if not."""
        if all(self._topics.get(topic) is self._taught[topic] for topic in topics):
            return True
        self._taught.clear()
        self._queues.clear()
        if self._frames is not None:
            self._frames.forget()
        return False

    def _stored_one(self, topic: str, queue_id: int) -> None:
        """Let the kernel take sends to the queue of a stored message, if all that its topic takes there is usual."""
        if (topic, queue_id) in self._queues or self._frames is None:
            return
        config = self._topics.get(topic)
        if config is None or config.is_batch_cq or is_compacted(config):
            return
        if topic.startswith(RETRY_PREFIX) or is_send_refused(topic):
            return
        if not 0 <= queue_id < max(config.write_queue_nums, config.read_queue_nums):
            return
        if self._taught.get(topic, config) is not config:
            self._is_as_taught([topic])
        if self._frames.teach(topic, queue_id):
            self._taught[topic] = config
            self._queues.add((topic, queue_id))
