"""The usual sends of one read together: frames to records in the kernel, and one answer for all of them.

What the kernel does not take, and what it was not taught, goes through `Sends`, which is the definition. A queue is
taught once `Sends` has stored a message there, and forgotten when the settings of its topic change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow.aio.server import Arrived, RefusedError
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.frame import MAX_FRAME_SIZE
from rocketflow_store import PutMessageStatus
from rocketflow_store.spi.broker import SentRun
from rocketflow_store.spi.ids import encode_host
from rocketflow_store.spi.names import RETRY_PREFIX, is_send_refused

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.aio.slow_requests import SlowRequests
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.puts.put_gatherer import PutGatherer
    from rocketflow.broker.puts.sends import Sends
    from rocketflow.broker.topics import Topics
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import WritingStore
    from rocketflow_store.spi.table_rows import TopicConfig


class SendsTogether:
    """Takes frames of request 310 from the bytes that arrive."""

    def __init__(
        self, store: WritingStore, topics: Topics, gatherer: PutGatherer, counts: MessageCounts, sends: Sends
    ) -> None:
        self._topics, self._gatherer, self._counts, self._sends = topics, gatherer, counts, sends
        self._frames = store.send_frames(sends.added, sends.answer_parts, MAX_FRAME_SIZE)
        self._taught: dict[str, TopicConfig] = {}
        self._queues: set[tuple[str, int]] = set()
        if self._frames is not None:
            sends.on_stored = self._stored_one

    @property
    def is_used(self) -> bool:
        """Return whether there is a kernel, and no message has to be looked at."""
        return self._frames is not None and not self._counts.counts_each

    def take(self, channel: Channel, data: bytes, position: int, slow: SlowRequests) -> int:
        """Put the usual sends from a position of received bytes on; return where the first other frame begins."""
        if not self._taught or self._frames is None:
            return position
        most, most_bytes = self._gatherer.room
        if not most:
            return position
        try:
            self._sends.check_writable()
            born_host = encode_host(channel.address)
        except (RefusedError, ValueError):
            return position
        records = self._frames.take(data, position, most, most_bytes, born_host)
        if records is None:
            return position
        if not self._is_as_taught({topic for topic, _, _, _ in records.queues}):
            return position
        arrived = Arrived(channel, channel.last_heard, slow, RequestCode.SEND_MESSAGE_V2)

        def stored(result: PutMessageResult) -> None:
            if result.stored:
                self._counts.sent_together(records.queues)
            if result.status is PutMessageStatus.PUT_OK:
                arrived.send_answers(records.answers(), records.count)
                return
            for number, request in enumerate(arrived.requests(records.frames())):
                self._sends.answer_one(request, result, records.stored(number))

        def refuse(error: RefusedError) -> None:
            for request in arrived.requests(records.frames()):
                request.refuse(error)

        self._gatherer.add_run(SentRun(records), stored, refuse)
        return records.end

    def _is_as_taught(self, topics: set[str]) -> bool:
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
        if config is None or config.attributes or topic.startswith(RETRY_PREFIX) or is_send_refused(topic):
            return
        if not 0 <= queue_id < max(config.write_queue_nums, config.read_queue_nums):
            return
        if self._taught.get(topic, config) is not config:
            self._is_as_taught({topic})
        if self._frames.teach(topic, queue_id):
            self._taught[topic] = config
            self._queues.add((topic, queue_id))
