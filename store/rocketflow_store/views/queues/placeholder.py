"""The bytes that the unit of a lost message points at, so that every reader of the queue gets past it.

RocketFlow's readers recognise such a unit by its tags code. RocketMQ's brokers do not: they deliver the bytes that a
unit names, and choose among units by physical offset. The cases below follow from what they, and their clients, do with
these bytes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rocketflow_store.model.topic_names import is_send_refused

_A_RESPONSE_OF_ITS_OWN: Final = 1 << 19


class LogExtent(NamedTuple):
    """The CommitLog: physical offsets [`begin`, `end`), in files of `file_size` bytes."""

    begin: int
    end: int
    file_size: int


def placeholder(topic: str, before: tuple[int, int], log: LogExtent) -> tuple[int, int]:
    """Return (physical offset, size) for lost messages after the message at `before` in a queue of `topic`.

    The bytes never lie after the log, where the next record will be, and never before `before`: retention and searches
    by time require a queue's physical offsets to rise.

    * The queue's last message: a broker delivers it again in place of each lost one, which at-least-once delivery
      allows. For fewer bytes than a record's the broker would not respond at all, and consumers would wait.
    * Queues that a broker itself reads, to deliver due messages or to check transactions: the log's last byte, which
      it skips. A repeated message would be a second delivery, or a second commit.
    * No message remains before: bytes of the log at which no record begins, more than fit into a response with
      others. A client decodes no message from them, and continues.
    """
    phy_offset, size = before
    if is_send_refused(topic) or log.end - log.begin <= 1:
        return log.end - 1, 1
    if phy_offset >= log.begin and phy_offset + size <= log.end:
        return phy_offset, size
    start = log.begin + 1
    file_end = start - start % log.file_size + log.file_size
    return start, min(_A_RESPONSE_OF_ITS_OWN, log.end - start, file_end - start)
