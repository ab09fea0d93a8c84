"""Transactions: messages that consumers see once their producer has committed them.

| module | content |
|---|---|
| `messages` | the messages of a transaction: half, committed, copied, expired, op marks |
| `marked_puts` | messages and the op mark that depends on them, as one run |
| `recent_halves` | half messages that were stored last |
| `end` | the end of a transaction (request 37) |
| `ends_together` | the usual ends of one read, through the kernel |
| `end_puts` | decided ends, put together with their op marks |
| `decisions` | one decision about a half message and its copies |
| `op_marks` | half messages that op marks name |
| `walk` | decisions about half messages, and the progress through their queue |
| `half_queue` | reads of the half queue and of the op queue |
| `transactions` | these parts together |
| `check` | the service that asks producers about undecided half messages (request 39) |
| `resume` | abandoned half messages, checked again (request 323) |

A half message lies in RMQ_SYS_TRANS_HALF_TOPIC, where no consumer looks. Its end is a mark in
RMQ_SYS_TRANS_OP_HALF_TOPIC; a commit also stores the message in its real topic, in the same write. The formats are
RocketMQ's: a store moves either way with undecided messages.

A half message is decided once, whichever of its copies a producer names. Copies have the property
TRAN_FIRST_QUEUE_OFFSET, the half offset of the first; marks of ends have TRAN_COMMITS, how many of their first offsets
were committed. From both a restart learns which copy is the newest, and how the last half messages ended. Limits: the
newest copies of 500,000 undecided messages are known, of others an end must name it; 100,000 ends are remembered (after
a restart those of the last 5,000 op marks, and since the first undecided message), the same end again of another one is
refused.

RocketMQ's source: broker/transaction/queue/.
"""

from __future__ import annotations

from rocketflow.broker.transactions.ends_together import EndsTogether
from rocketflow.broker.transactions.messages import half_message, is_delayed, is_half, real_topic, whole_message
from rocketflow.broker.transactions.recent_halves import RecentHalves
from rocketflow.broker.transactions.transactions import Transactions

__all__ = [
    "EndsTogether",
    "RecentHalves",
    "Transactions",
    "half_message",
    "is_delayed",
    "is_half",
    "real_topic",
    "whole_message",
]
