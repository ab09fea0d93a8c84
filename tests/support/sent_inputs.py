"""Sends of delayed messages, to names like those of system topics, and of others with rules of their own.

Each has the outcome that it has at RocketMQ's broker, and at RocketFlow's: see `Input`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.header import Header
from rocketflow.remoting.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rocketflow_store import StoreReader
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.model.message_id import decode_offset_msg_id
from rocketflow_store.spi.broker import encode_properties
from tests.support.request_headers import send_header, topic_header

LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h 1h 1s"
"""A broker's `messageDelayLevel`: two levels more than RocketMQ has without it."""

GROUP: Final = "g"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"
TIMER: Final = "rmq_sys_wheel_timer"
HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TIMER_NAMES: Final = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
_SHOWN: Final = ("DELAY", "REAL_TOPIC", "REAL_QID", PRIORITY, "DLQ_ORIGIN_TOPIC")
_NAMED: Final = ("TIMER_OUT_MS", *TIMER_NAMES)
_HOUR: Final = 3_600_000
_FAR: Final = f"now+{100 * _HOUR}"
_PREPARED: Final = {"TRAN_MSG": "true", "PGROUP": "p"}


class Ask(Protocol):
    """Sends a request to a broker and returns the answer."""

    def __call__(self, code: int, header: Header | None = None, body: bytes = b"") -> Awaitable[Command]: ...


@dataclass(frozen=True)
class Input:
    """A send and its outcomes.

    An outcome is the code of the answer, and for a message that is stored also the queue that the answer names, the
    place of its record, and properties of the record: some with their values, others by their names. `outcome` is that
    of RocketMQ 5.5.0, `in_5_3` that of 5.3.3 and `own` RocketFlow's if they are others; `own` is a difference that
    ROCKETMQ.md explains. A value `now+N` is a time N ms from now.
    """

    properties: Mapping[str, str]
    outcome: str
    in_5_3: str | None = None
    own: str | None = None
    topic: str = "t"
    queue_id: int = 2
    form: RequestCode = RequestCode.SEND_MESSAGE_V2
    entries: tuple[Mapping[str, str], ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    def outcome_in(self, version: str) -> str:
        """Return the outcome at a version of RocketMQ."""
        return self.outcome if self.in_5_3 is None or not version.startswith("5.3") else self.in_5_3

    @property
    def own_outcome(self) -> str:
        """Return the outcome at RocketFlow's broker."""
        return self.outcome if self.own is None else self.own


def _delayed(queue: int, delay: str, topic: str = "t", real: int = 2) -> str:
    return f"0 {real} -> {SCHEDULE} {queue} DELAY={delay} REAL_TOPIC={topic} REAL_QID={real}"


def _timed(name: str, topic: str = "t", real: int = 2, before: str = "") -> str:
    return f"0 {real} -> {TIMER} 0{before} REAL_TOPIC={topic} REAL_QID={real} TIMER_OUT_MS {name}"


def _to(topic: str, outcome: str = "", **more: Any) -> Input:
    return Input({}, outcome or f"0 0 -> {topic} 0", topic=topic, queue_id=0, **more)


def _retry(outcome: str, times: int = 17, group: str = GROUP, **properties: str) -> Input:
    return Input(
        properties, outcome, topic=f"%RETRY%{group}", queue_id=0, fields={"reconsume_times": times} if times else {}
    )


def _levels() -> Iterator[tuple[str, Input]]:
    """Yield delay levels, of which the broker has 20."""
    for level in (1, 18, 19, 20):
        yield f"level {level}", Input({"DELAY": f"{level}"}, _delayed(level - 1, f"{level}"))
    for text in ("21", "25", "2147483647"):
        yield f"level {text} of 20", Input({"DELAY": text}, _delayed(19, "20"))
    yield "level +3", Input({"DELAY": "+3"}, _delayed(2, "+3"))
    yield "level 3 by request 10", Input({"DELAY": "3"}, _delayed(2, "3"), form=RequestCode.SEND_MESSAGE)
    yield (
        "level 3 to any queue",
        Input({"DELAY": "3"}, f"0 any -> {SCHEDULE} 2 DELAY=3 REAL_TOPIC=t REAL_QID=any", queue_id=-1),
    )
    for text in ("0", "-1"):
        yield f"level {text}", Input({"DELAY": text}, f"0 2 -> t 2 DELAY={text}")
        yield (
            f"half with level {text}",
            Input({"DELAY": text, **_PREPARED}, f"0 2 -> {HALF} 0 DELAY={text} REAL_TOPIC=t REAL_QID=2"),
        )
    for text in ("abc", "3.5", " 3", "2147483648"):
        yield f"level {text!r}", Input({"DELAY": text}, "1", own="13")
    yield (
        "half with level 3",
        Input({"DELAY": "3", **_PREPARED}, _delayed(2, "3", HALF, 0).replace("0 0 ->", "0 2 ->"), own="13"),
    )
    yield "level 3 and an invalid time", Input({"DELAY": "3", "TIMER_DELIVER_MS": "abc"}, _delayed(2, "3"))
    yield "half", Input(_PREPARED, f"0 2 -> {HALF} 0 REAL_TOPIC=t REAL_QID=2")


def _batches() -> Iterator[tuple[str, Input]]:
    """Yield batches: RocketMQ 5.5.0 stores none of a batch's own properties."""
    own = ({}, {})
    for text in ("3", "25"):
        yield f"batch with level {text}", Input({"DELAY": text}, "13", entries=own)
    for name, value in (("DELAY", "0"), ("TIMER_DELIVER_MS", "5")):  # the level is no delay, the time is over
        kept = f"0 2 -> t 2 {name}" + ("=0" if name == "DELAY" else "")
        yield f"batch with {name}={value}", Input({name: value}, "0 2 -> t 2", kept, kept, entries=own)
    yield "batch of delayed messages", Input({}, "0 2 -> t 2 DELAY=3", entries=({"DELAY": "3"}, {"DELAY": "3"}))
    yield (
        "batch with a time",
        Input(
            {"TIMER_DELAY_SEC": "60"},
            f"0 2 -> {TIMER} 0",
            in_5_3=_timed("TIMER_DELAY_SEC"),
            own="13",
            entries=own,
        ),
    )
    yield "batch with an invalid time", Input({"TIMER_DELAY_SEC": "abc"}, "13", entries=own)
    yield "batch of timer messages", Input({}, "0 2 -> t 2 TIMER_DELAY_SEC", entries=({"TIMER_DELAY_SEC": "60"},))
    for name, value in (("DELAY", "3"), ("TIMER_DELAY_SEC", "60")):
        properties = {"UNIQ_KEY": "B", name: value}
        yield f"batch with {name} to a BatchCQ topic", Input(properties, "13", topic="batches", entries=own)
    yield "batch to a retry topic", Input({}, "13", topic=f"%RETRY%{GROUP}", queue_id=0, entries=own)


def _times() -> Iterator[tuple[str, Input]]:
    for name in TIMER_NAMES:
        for text in ("abc", "1.5", " 60", "9223372036854775808"):
            yield f"{name}={text!r}", Input({name: text}, "13")
        for text in ("-5", "0", "-9223372036854775808"):
            yield f"{name}={text}", Input({name: text}, f"0 2 -> t 2 {name}")
        outcome = "13" if name == "TIMER_DELIVER_MS" else f"0 2 -> t 2 {name}"
        yield f"{name}, the largest", Input({name: "9223372036854775807"}, outcome, own="13")
    for name, near, far in zip(TIMER_NAMES, ("60", "+60000", f"now+{_HOUR}"), ("300000", "3000000000", _FAR)):
        yield f"{name}, near", Input({name: near}, _timed(name))
        yield f"{name}, too far", Input({name: far}, "13")
    yield (
        "times, the first invalid",
        Input({"TIMER_DELAY_SEC": "abc", "TIMER_DELIVER_MS": f"now+{_HOUR}"}, "13"),
    )
    yield (
        "level 0 and a time",
        Input({"DELAY": "0", "TIMER_DELIVER_MS": f"now+{_HOUR}"}, _timed("TIMER_DELIVER_MS", before=" DELAY=0")),
    )
    yield "level -1 and an invalid time", Input({"DELAY": "-1", "TIMER_DELIVER_MS": "abc"}, "13")
    recall = {"TIMER_DEL_UNIQKEY": "t+x"}
    yield "recall whose time is over", Input({"TIMER_DELIVER_MS": "1", **recall}, "13")
    yield "recall of a time too far", Input({"TIMER_DELIVER_MS": _FAR, **recall}, "13")
    yield (
        "timed before",
        Input({"TIMER_DELIVER_MS": "abc", "TIMER_OUT_MS": "5"}, "0 2 -> t 2 TIMER_OUT_MS TIMER_DELIVER_MS"),
    )
    yield "retry at a time", _retry(_timed("TIMER_DELAY_SEC", f"%RETRY%{GROUP}", 0), 0, TIMER_DELAY_SEC="60")
    yield "retry at an invalid time", _retry("13", 0, TIMER_DELAY_SEC="abc")


def _names() -> Iterator[tuple[str, Input]]:
    for name in (
        *("rmq_sys_TRACE_DATA_DefaultRegion", "rmq_sys_TRACE_DATA_%a|b", "rmq_sys_", "rmq_sys_x", "RMQ_SYS_x"),
        *("rmq_sys_SYNC_BROKER_MEMBER_b", "rmq_sys_REVIVE_LOG_RF", "CID_RMQ_SYS_x", "%SYS%x"),
        *("RMQ_SYS_TRACE_TOPIC", "TBW102", "BenchmarkTest", "CHECKPOINT_TOPIC", "RF", "RF_REPLY_TOPIC"),
        *(f"%DLQ%{GROUP}", f"%RETRY%{GROUP}", "DefaultHeartBeatSyncerTopic"),
    ):
        yield f"to {name}", _to(name)
    for name in (
        *(SCHEDULE, HALF, "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC"),
        "OFFSET_MOVED_EVENT",
    ):
        yield f"to {name}", _to(name, "16")
    for name in ("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"):
        yield f"to {name}", _to(name, "16", in_5_3=f"0 0 -> {name} 0")
    for name in (TIMER, "rmq_sys_ROCKETFLOW_COMMIT", "rmq_sys_ROCKETFLOW_QUALITY"):
        yield f"to {name}", _to(name, own="16")
    for name in ("%LMQ%", "%LMQ%x"):
        yield f"to {name}", _to(name, own="13")
    name = "rmq_sys_x"
    yield f"delayed to {name}", replace(_to(name, _delayed(2, "3", name, 0)), properties={"DELAY": "3"})
    timed = {"TIMER_DELAY_SEC": "3600"}
    yield f"timed to {name}", replace(_to(name, _timed("TIMER_DELAY_SEC", name, 0)), properties=timed)
    yield f"half to {name}", replace(_to(name, f"0 0 -> {HALF} 0 REAL_TOPIC={name} REAL_QID=0"), properties=_PREPARED)


def _compacted() -> Iterator[tuple[str, Input]]:
    topic = "compacted"
    for keys in ({}, {"KEYS": ""}, {"KEYS": " "}, {"KEYS": "\u3000"}):
        yield f"without a key: {keys}", Input(keys, "13", topic=topic)
    yield "half without a key", Input(_PREPARED, "13", topic=topic)
    yield "delayed without a key", Input({"DELAY": "3"}, "13", topic=topic)
    yield "with a key", Input({"KEYS": "k"}, f"0 2 -> {topic} 2", topic=topic)
    yield "batch without a key", Input({}, f"0 2 -> {topic} 2", topic=topic, entries=({}, {}))


def _dead_letters() -> Iterator[tuple[str, Input]]:
    """Yield what orderly consumers send to retry topics; after 16 tries it is a dead letter."""
    dead = f"%DLQ%{GROUP}"
    origin = {"RETRY_TOPIC": "t", "ORIGIN_MESSAGE_ID": "A"}
    yield "dead letter", _retry(f"0 0 -> {dead} 0 DELAY=-1", DELAY="19", **origin)
    yield "dead letter without a level", _retry(f"0 0 -> {dead} 0 DELAY=-1", **origin)
    yield (
        "dead letter with a time",
        _retry(_timed("TIMER_DELAY_SEC", dead, 0, " DELAY=-1"), TIMER_DELAY_SEC="3600", **origin),
    )
    yield "dead letter with TRAN_MSG", _retry(f"0 0 -> {HALF} 0 DELAY=-1 REAL_TOPIC={dead} REAL_QID=0", **_PREPARED)
    yield "16th retry", _retry(_delayed(18, "19", f"%RETRY%{GROUP}", 0), 16, DELAY="19")
    yield "retry with TRAN_MSG", _retry(_delayed(4, "5", f"%RETRY%{GROUP}", 0), 4, DELAY="5", **_PREPARED)


def _priorities() -> Iterator[tuple[str, Input]]:
    """Yield priorities, by which RocketMQ chooses the queue since 5.4, in a topic of any type."""
    for topic in ("t", "priority"):
        for text, queue in (("0", 0), ("1", 1), ("9", 3)):
            usual = f"0 2 -> {topic} 2 {PRIORITY}={text}"
            yield (
                f"priority {text} to {topic}",
                Input({PRIORITY: text}, f"0 {queue} -> {topic} {queue} {PRIORITY}={text}", usual, usual, topic),
            )
        for text in ("-1", "abc"):
            yield (
                f"priority {text} to {topic}",
                Input({PRIORITY: text}, f"0 2 -> {topic} 2 {PRIORITY}={text}", topic=topic),
            )
    delayed = f"{_delayed(2, '3', 'priority')} {PRIORITY}=1"
    yield (
        "priority and a level",
        Input({PRIORITY: "1", "DELAY": "3"}, _delayed(2, "3", "priority"), delayed, delayed, "priority"),
    )


INPUTS: Final[Mapping[str, Input]] = {
    name: one
    for some in (_levels, _batches, _times, _names, _compacted, _dead_letters, _priorities)
    for name, one in some()
}
"""By what they are."""

OF_ROCKETMQ: Final = {
    "compacted": {"cleanup.policy": "COMPACTION"},
    "priority": {"message.type": "PRIORITY"},
    "lite": {"message.type": "LITE", "lite.topic.expiration": "30"},
}
"""Topics of stores that RocketMQ wrote, with attributes that RocketFlow gives no topic."""


def write_topics(store: Path) -> None:
    """Write a `topics.json` as RocketMQ does, with the topics of OF_ROCKETMQ."""
    (store / "config").mkdir(parents=True)
    usual = {"order": False, "perm": 6, "readQueueNums": 4, "writeQueueNums": 4, "topicSysFlag": 0}
    entries = {
        name: {"attributes": own, "topicName": name, "topicFilterType": "SINGLE_TAG", **usual}
        for name, own in OF_ROCKETMQ.items()
    }
    table = {"dataVersion": {"counter": 3, "stateVersion": 0, "timestamp": 1}, "topicConfigTable": entries}
    (store / "config/topics.json").write_text(json.dumps(table))


async def create_topics(ask: Ask, attributes: Mapping[str, Mapping[str, str]]) -> None:
    """Create the topics of the inputs, those of `attributes` with these."""
    for topic, own in {"t": {}, "batches": {"queue.type": "BatchCQ"}, **attributes}.items():
        text = ",".join(f"+{name}={value}" for name, value in own.items())
        header = topic_header(topic)
        answer = await ask(RequestCode.UPDATE_AND_CREATE_TOPIC, msgspec.structs.replace(header, attributes=text))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    group = {"groupName": GROUP, "retryQueueNums": 1, "retryMaxTimes": 16, "consumeEnable": True, "brokerId": 0}
    body = json.dumps(group).encode()
    assert (await ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)).code == ResponseCode.SUCCESS


def with_letters(header: SendMessageRequestHeader) -> SendMessageRequestHeaderV2:
    """Return a header as requests 310 and 320 have it: its fields are named by letters."""
    names = {one.name for one in msgspec.structs.fields(SendMessageRequestHeaderV2)}
    values = msgspec.structs.asdict(header)
    return SendMessageRequestHeaderV2(**{name: values[name] for name in names & values.keys()})


async def outcomes(ask: Ask, store: Path) -> dict[str, str]:
    """Send all inputs to a broker of a store, and return their outcomes."""
    answers = {name: await _answer(ask, one) for name, one in INPUTS.items()}
    with StoreReader(store) as reader:
        return {name: _outcome(reader, INPUTS[name], one) for name, one in answers.items()}


async def _answer(ask: Ask, one: Input) -> Command:
    properties, is_batch = _text(one.properties), bool(one.entries)
    header = send_header(one.topic, one.queue_id, properties=properties, batch=is_batch, **one.fields)
    body = encode_batch_body([BatchEntry(0, b"x", _text(own).encode()) for own in one.entries]) if is_batch else b"x"
    form = RequestCode.SEND_BATCH_MESSAGE if is_batch else one.form
    return await ask(form, header if form == RequestCode.SEND_MESSAGE else with_letters(header), body)


def _outcome(reader: StoreReader, one: Input, answer: Command) -> str:
    if answer.code != ResponseCode.SUCCESS:
        return str(answer.code)
    message = reader.look_message_by_offset(decode_offset_msg_id(answer.fields["msgId"].split(",")[0])[1])
    assert message is not None
    shown = {name: message.properties[name] for name in _SHOWN if name in message.properties}
    queue = answer.fields["queueId"]
    if one.queue_id < 0 and queue == shown["REAL_QID"]:
        queue = shown["REAL_QID"] = "any"
    values = [f"{name}={value}" for name, value in shown.items()]
    named = [name for name in _NAMED if name in message.properties]
    return " ".join([f"0 {queue} -> {message.topic} {message.queue_id}", *values, *named])


def _text(properties: Mapping[str, str]) -> str:
    now_ms = int(time.time() * 1000)
    values = {
        name: str(now_ms + int(one.removeprefix("now+"))) if one.startswith("now+") else one
        for name, one in properties.items()
    }
    return encode_properties(values).decode()


_LATE: Final = ("late", "rmq_sys_late", "BenchmarkTest")
"""Topics that get delayed messages: an application's, one that looks like a broker's, and one that every broker has."""
_SOON: Final = ({"DELAY": "25"}, {"TIMER_DELAY_MS": "1000"})
DELIVERED: Final = {
    (topic, name): f"2{level} REAL_TOPIC={topic} REAL_QID=2"
    for topic in _LATE
    for name, level in (("DELAY", " DELAY=20"), ("TIMER_DELAY_MS", ""))
}
"""What `delivered` returns."""


async def delivered(ask: Ask, store: Path) -> dict[tuple[str, str], str]:
    """Send messages with a level after the last one and with a time; return queue and properties of what is delivered.

    The results are by topic and by the property that asks for the delay.
    """
    for topic in _LATE:
        for properties in _SOON:
            header = with_letters(
                send_header(topic, 2, properties=_text({**properties, "KEYS": next(iter(properties))}))
            )
            assert (await ask(RequestCode.SEND_MESSAGE_V2, header, b"x")).code == ResponseCode.SUCCESS
    end = time.monotonic() + 60
    found: dict[tuple[str, str], str] = {}
    while time.monotonic() < end and len(found) < len(DELIVERED):
        with StoreReader(store) as reader:
            for topic in set(_LATE) & set(reader.topics()):
                for one in reader.get_message(topic, 2, 0).messages:
                    shown = [f" {name}={one.properties[name]}" for name in _SHOWN if name in one.properties]
                    found[topic, one.properties["KEYS"]] = "".join([str(one.queue_id), *shown])
    return found
