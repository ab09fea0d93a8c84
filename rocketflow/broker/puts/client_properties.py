"""Properties that are the broker's or the store's, and what becomes of them when a client sends them.

| fate | meaning |
|---|---|
| kept | stored as sent; it acts on the sender's own message, or on messages of the topic that it sends to |
| set | the broker's or the store's value is stored |
| dropped | not stored |
| refused | the message is answered with 13 |

RocketMQ's source: broker/processor/SendMessageProcessor.java (clearReservedProperties, sendMessage),
AbstractSendMessageProcessor.java (buildMsgContext), broker/util/HookUtils.java,
broker/transaction/queue/TransactionalMessageBridge.java (parseHalfMessageInner), store/CommitLog.java.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Fate(Enum):
    """The outcome for a property."""

    KEPT = "kept"
    SET = "set"
    DROPPED = "dropped"
    REFUSED = "refused"


class Fates(NamedTuple):
    """Fates of a property by the kind of message: as usual, delayed to a time (`timed`), half of a transaction.

    `in_rocketmq` are those of RocketMQ 5.3, if they differ; `why` says what the property does.
    """

    usual: Fate
    timed: Fate
    half: Fate
    why: str
    in_rocketmq: tuple[Fate, Fate, Fate] | None = None


_KEPT, _SET, _DROPPED, _REFUSED = Fate.KEPT, Fate.SET, Fate.DROPPED, Fate.REFUSED
_ALL_KEPT: Final = _KEPT, _KEPT, _KEPT

PROPERTIES: Final[dict[str, Fates]] = {
    # -- set by the broker for each message
    "CLUSTER": Fates(_SET, _SET, _SET, "the broker's cluster"),
    "MSG_REGION": Fates(_SET, _SET, _SET, "the broker's region"),
    "TRACE_ON": Fates(_SET, _SET, _SET, "whether clients trace"),
    "POP_CK": Fates(_DROPPED, _DROPPED, _DROPPED, "the check point of a pop"),
    # -- set by the store
    "__CRC32#": Fates(_SET, _SET, _SET, "the record's CRC", _ALL_KEPT),
    "INNER_NUM": Fates(_REFUSED, _REFUSED, _REFUSED, "the messages of an inner batch"),
    "INNER_BASE": Fates(_DROPPED, _DROPPED, _DROPPED, "the base offset of an inner batch", _ALL_KEPT),
    "INNER_MULTI_DISPATCH": Fates(*_ALL_KEPT, "the LMQs that get the message, with enableLmq"),
    "INNER_MULTI_QUEUE_OFFSET": Fates(_DROPPED, _DROPPED, _DROPPED, "its offsets in LMQs", _ALL_KEPT),
    "__RMQ.TRANSIENT.any": Fates(_DROPPED, _DROPPED, _DROPPED, "a name that is never stored", _ALL_KEPT),
    # -- messages that wait
    "REAL_TOPIC": Fates(_KEPT, _SET, _SET, "the topic of a message that waits elsewhere"),
    "REAL_QID": Fates(_KEPT, _SET, _SET, "its queue"),
    "DELAY": Fates(_KEPT, _KEPT, _REFUSED, "asks for a delay level", _ALL_KEPT),
    "TIMER_DELAY_SEC": Fates(_KEPT, _KEPT, _REFUSED, "asks for a delay", _ALL_KEPT),
    "TIMER_DELAY_MS": Fates(_KEPT, _KEPT, _REFUSED, "asks for a delay", _ALL_KEPT),
    "TIMER_DELIVER_MS": Fates(_KEPT, _KEPT, _REFUSED, "asks for a time", _ALL_KEPT),
    "TIMER_OUT_MS": Fates(*_ALL_KEPT, "a message that has it was timed before: it does not wait"),
    "TIMER_ENQUEUE_MS": Fates(*_ALL_KEPT, "when a timer message was taken in"),
    "TIMER_DEQUEUE_MS": Fates(*_ALL_KEPT, "when a timer message was delivered"),
    "TIMER_ROLL_TIMES": Fates(*_ALL_KEPT, "how often a timer message was rolled"),
    "TIMER_DEL_UNIQKEY": Fates(*_ALL_KEPT, "recalls a timer message of the topic that it is sent to, of no other"),
    # -- transactions
    "TRAN_MSG": Fates(*_ALL_KEPT, "true makes the message half of a transaction"),
    "PGROUP": Fates(*_ALL_KEPT, "the group of producers that is asked, and that ends it"),
    "CHECK_IMMUNITY_TIME_IN_SECONDS": Fates(*_ALL_KEPT, "when its producer is asked first"),
    "__transactionId__": Fates(_KEPT, _KEPT, _SET, "its UNIQ_KEY"),
    "TRANSACTION_CHECK_TIMES": Fates(_KEPT, _KEPT, _DROPPED, "how often its producer was asked", _ALL_KEPT),
    "TRAN_PREPARED_QUEUE_OFFSET": Fates(_KEPT, _KEPT, _DROPPED, "the half offset before a copy", _ALL_KEPT),
    "TRAN_FIRST_QUEUE_OFFSET": Fates(_KEPT, _KEPT, _DROPPED, "the half offset before all copies", _ALL_KEPT),
    # -- retries and dead letters: consumers read them, a requeue by an operator takes its target from them
    "RETRY_TOPIC": Fates(*_ALL_KEPT, "the topic before the first retry"),
    "ORIGIN_MESSAGE_ID": Fates(*_ALL_KEPT, "the id before the first retry"),
    "DLQ_ORIGIN_TOPIC": Fates(*_ALL_KEPT, "the topic of a dead letter"),
    "DLQ_ORIGIN_MESSAGE_ID": Fates(*_ALL_KEPT, "the id of a dead letter"),
    "ORIGIN_TOPIC": Fates(*_ALL_KEPT, "the topic of a quarantined message"),
    "RECONSUME_TIME": Fates(*_ALL_KEPT, "a client's count of attempts"),
    "MAX_RECONSUME_TIMES": Fates(*_ALL_KEPT, "a client's limit of attempts"),
    # -- set by a pull or pop in the client's copy
    "MIN_OFFSET": Fates(*_ALL_KEPT, "the queue's first offset: a client sets its own"),
    "MAX_OFFSET": Fates(*_ALL_KEPT, "the queue's end offset: a client sets its own"),
    "1ST_POP_TIME": Fates(*_ALL_KEPT, "when it was popped first"),
    # -- clients
    "UNIQ_KEY": Fates(*_ALL_KEPT, "the client's id of the message; one without it gets one"),
    "__SHARDINGKEY": Fates(*_ALL_KEPT, "orders messages"),
    "WAIT": Fates(*_ALL_KEPT, "whether the sender waits for a flush"),
    "CORRELATION_ID": Fates(*_ALL_KEPT, "names a request and its reply"),
    "REPLY_TO_CLIENT": Fates(*_ALL_KEPT, "the client that waits for a reply"),
}
"""By name."""

BY_BROKER: Final = ("POP_CK", "MSG_REGION", "TRACE_ON", "CLUSTER")
"""Properties that a send replaces or drops; of the others the store takes care."""
