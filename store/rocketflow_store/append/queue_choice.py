"""Choice of the queue of a topic that a message goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.model.errors import MessageRejectedError
from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.model.message import Message, MessageBatch
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.topic_names import MAX_QUEUE_NUMS
from rocketflow_store.records.arrow.queue_turns import QueueTurns

if TYPE_CHECKING:
    from rocketflow_store.metadata.config_files.topic_table import TopicTable
    from rocketflow_store.views.queues.queue_offsets import QueueOffsets


class QueueChoice:
    """Chooses by the message's queue id, else by its sharding key, else round-robin."""

    def __init__(self, topics: TopicTable, offsets: QueueOffsets) -> None:
        self._topics, self._offsets = topics, offsets
        self.turns = QueueTurns(self._messages_of)
        """Next queue of each topic, round-robin."""

    def choose(self, message: Message | MessageBatch) -> int:
        """Return the queue id; raise MessageRejectedError if the message names one that no topic can have."""
        queue_id = message.queue_id
        if queue_id is not None:
            if queue_id >= 0:
                self.check(message.topic, queue_id)
            return queue_id
        queues = self._topics.queue_count(message.topic)
        if isinstance(message, Message) and message.sharding_key:
            return abs(string_hash(message.sharding_key)) % queues
        chosen = self.turns[message.topic] % queues
        self.turns[message.topic] = chosen + 1
        return chosen

    def check(self, topic: str, queue_id: int) -> None:
        """Create the topic, or raise its number of queues, if it has no queue `queue_id` (>= 0) yet.

        MessageRejectedError if no topic can have that queue.
        """
        if queue_id >= MAX_QUEUE_NUMS:
            why = f"queue id {queue_id} is out of range: a topic has at most {MAX_QUEUE_NUMS} queues"
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, why)
        self._topics.have_queue(topic, queue_id)

    def _messages_of(self, topic: str) -> int:
        """Return the number of messages that the topic had at the open, where its round-robin starts."""
        return self._offsets.messages_before(topic, self._topics.queue_count(topic))
