"""Differences between what Apache's broker and RocketFlow's say to the same client, each with its reason.

A key is a pattern (`*` for any text) of facts as `tests.apache.recorder.facts_of` writes them.
"""

from __future__ import annotations

from typing import Final

_RACE: Final = "Depends on which of two requests of the client comes first."
_EMPTY: Final = (
    "Apache's broker makes the files of a queue when it is first read, RocketFlow's when it is first written."
)
_END: Final = "Depends on what is still asked or answered when the program ends, which waits for nothing."
_OFFSET: Final = (
    "RocketFlow refuses a negative offset of a group; Apache's broker stores it, and clients read it as none."
)
_REMARK: Final = (
    "Apache's broker leaves its initial remark in the answer to a rollback, which Go's client does not read, and to a "
    "recall. Clients read the remark of a failure alone."
)
_ORIGIN: Final = (
    "RocketFlow's dead letters also have the properties for their origin that RocketMQ 5 defines and does not write."
)
_COPY: Final = (
    "Apache's broker sets WAIT=false in its copies of half messages. Java's producer sets WAIT, Go's does not."
)

OF_APACHE: Final = {
    "34 -> 0 field IS_SU*": "Heartbeats without subscriptions are not offered: clients send them with every heartbeat.",
    "11 -> 19 remark NO_MESSAGE_IN_QUEUE": _EMPTY,
    "11 -> 2[457]*": _RACE,
    "38 -> 1*": _RACE,
    "37 -> 0 remark not set any response code": _REMARK,
    "370 -> 0 remark not set any response code": _REMARK,
    "broker 39 record of a topic has WAIT": _COPY,
}
"""What Apache's broker or NameServer alone says."""

OF_ROCKETFLOW: Final = {
    "* record of * has __CRC32#": "A record has a CRC; with Apache's broker only if appendPropCRC is set.",
    "11 -> 19 remark NO_MATCHED_LOGIC_QUEUE": _EMPTY,
    "11 -> 2[457]*": _RACE,
    "38 -> 1*": _RACE,
    "11 record of a retry topic has DLQ_ORIGIN_*": _ORIGIN,
    "15 -> 29*": _OFFSET,
    "* record of * has TRAN_FIRST_QUEUE_OFFSET": "Copies of half messages name the first: all are decided together.",
    "370 -> 0 remark none": _REMARK,
}
"""What RocketFlow's broker or NameServer alone says."""

_ADDED: Final = "RocketMQ 5 added it."
_EMPTY_QUEUE: Final = (
    "For a group without an offset, 4.9 begins a queue that has no messages at 0; RocketMQ 5 says that there is none."
)
_WAIT: Final = "4.9 removes WAIT=true from a message that it stores; RocketMQ 5 keeps it."

SINCE_5: Final = {
    "105 -> 0 body .brokerDatas[[][]].enableActingMaster bool": _ADDED,
    "11 -> * *SysFlag*": _ADDED,
    "* record of * has MSG_REGION": _ADDED,
    "* record of * has TRACE_ON": _ADDED,
    "* record of * has __transactionId__": _ADDED,
    "12 record of a topic has WAIT": _WAIT,
    "14 -> 22*": _EMPTY_QUEUE,
    "3[12][05] -> 0 field transactionId": _ADDED,
    "broker 39 asks with *": _ADDED,
}
"""What RocketFlow's broker or NameServer says as RocketMQ 5 does, and RocketMQ 4 does not."""

BY_CHANCE: Final = {
    "11 -> 19": "Depends on whether a pull waits at the end of a queue for as long as the broker holds it.",
}
"""Answers that a run may have at one side alone; if both sides have one, its fields are compared."""

BY_CHANCE_OF_GO: Final = {
    "11 -> 19*": _END,
    "15 -> 0*": _END,
    "105 -> 17 remark * %DLQ%*": "Depends on whether the topic is known when it is first looked for.",
    "324 -> *": _END,
    "broker 326 -> 0*": _END,
}
"""What Go's program may hear from one side alone: it ends while pulls are held, and while offsets are stored."""
