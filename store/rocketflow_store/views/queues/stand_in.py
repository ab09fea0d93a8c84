"""What the unit of a lost message points at, so that every reader of the queue gets past it.

Our readers go by the unit's tags code. RocketMQ's brokers know nothing of it, hand out whatever bytes a unit names, and
choose among them by place: the cases below are what they, and the clients behind them, make of it.
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


def stand_in(topic: str, before: tuple[int, int], log: LogExtent) -> tuple[int, int]:
    """(physical offset, size) for the lost messages behind the one at `before` (the same) in a queue of `topic`.

    Never behind the log, where the next record will be, and never in front of `before`: retention and look-ups by time
    take a queue's places to rise.

    * The queue's last message: a broker delivers it once more in place of each lost one. At least once is what its
      consumers are promised; of fewer bytes than a record's it would make no answer at all, and they would wait.
    * Queues that a broker itself reads, to deliver what is due or to ask about transactions: the log's last byte, which
      it passes over. A message once more would be a second delivery, or a second commit.
    * No message is left in front: bytes of the log with which no record begins, more than go into an answer beside
      others. A client makes no message of them, and goes on.
    """
    phy_offset, size = before
    if is_send_refused(topic) or log.end - log.begin <= 1:
        return log.end - 1, 1
    if phy_offset >= log.begin and phy_offset + size <= log.end:
        return phy_offset, size
    start = log.begin + 1
    file_end = start - start % log.file_size + log.file_size
    return start, min(_A_RESPONSE_OF_ITS_OWN, log.end - start, file_end - start)
