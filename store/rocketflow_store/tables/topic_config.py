"""The settings of a topic. RocketMQ's source: common/TopicConfig.java."""

from __future__ import annotations

from typing import Final

from rocketflow_store.model.errors import MessageRejectedError
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.topic_names import PERM_READ, PERM_READ_WRITE, PERM_WRITE
from rocketflow_store.tables.table_row import ConfigRow, Int32

QUEUE_TYPE_ATTRIBUTE: Final = "queue.type"
SIMPLE_CQ: Final = "SimpleCQ"
BATCH_CQ: Final = "BatchCQ"


class TopicConfig(ConfigRow, frozen=True):
    """RocketMQ's TopicConfig."""

    topic_name: str = ""
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = PERM_READ_WRITE
    order: bool = False
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0

    def queues_to_write(self) -> int:
        """Return the number of queues to spread messages over; raise MessageRejectedError if there is none."""
        if self.write_queue_nums < 1:
            why = f"topic {self.topic_name} has no queue to write to: give it some (writeQueueNums)"
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, why)
        return self.write_queue_nums

    @property
    def is_batch_cq(self) -> bool:
        """True if the attribute `queue.type` is BatchCQ: the queues have one unit per batch."""
        return self.attributes.get(QUEUE_TYPE_ATTRIBUTE) == BATCH_CQ

    @property
    def readable(self) -> bool:
        return bool(self.perm & PERM_READ)

    @property
    def writable(self) -> bool:
        return bool(self.perm & PERM_WRITE)
