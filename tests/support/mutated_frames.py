"""Valid requests of every code, and what becomes of them when a few bytes or values change."""

from __future__ import annotations

import random
import struct
from types import ModuleType
from typing import Any, Final

import msgspec

from rocketflow.remoting import bodies, store_bodies
from rocketflow.remoting.bodies import encode_body
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command, encode_command
from rocketflow.remoting.frame import HeaderType
from rocketflow.remoting.headers import admin, client, offset, pull, route, send, transaction
from rocketflow.remoting.headers.header import Header

MODULES: Final[tuple[ModuleType, ...]] = (admin, client, offset, pull, route, send, transaction)
HEADERS: Final = tuple(
    one
    for module in MODULES
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, Header) and one is not Header
)
BODIES: Final = tuple(
    one
    for one in vars(bodies).values()
    if isinstance(one, type) and issubclass(one, bodies.Body) and one is not bodies.Body
)
STORE_BODIES: Final = tuple(
    one for one in vars(store_bodies).values() if isinstance(one, type) and issubclass(one, store_bodies.StoreBody)
)

EVIL: Final = (
    *("", " ", "-1", "0", "1", "2147483647", "2147483648", "-2147483648", "9223372036854775807", "9" * 40, "NaN"),
    *(
        "1e400",
        "true",
        "null",
        "..",
        "../../etc/passwd",
        "a/b",
        "\0",
        "\x01\x02",
        "%RETRY%",
        "%DLQ%g",
        "SCHEDULE_TOPIC",
    ),
    *(
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "rmq_sys_x",
        "TBW102",
        "x" * 128,
        "x" * 5000,
        "ä",
        "\U0001f600",
    ),
    *("a > 1 AND", "(" * 3000, "a IN ('b')", "a || b", "||", "*", "t@g", "127.0.0.1:1", "{}", "[]", '{"a":'),
)
"""Values that fields are given: numbers at their limits, names that no topic may have, halves of expressions."""

_PLAUSIBLE: Final = {
    "topic": "t",
    "b": "t",
    "a": "p",
    "c": "TBW102",
    "i": "KEYS\x01k\x02",
    "consumerGroup": "g",
    "group": "g",
    "producerGroup": "p",
    "defaultTopic": "TBW102",
    "properties": "KEYS\x01k\x02",
    "subscription": "*",
    "expressionType": "TAG",
    "perm": "6",
    "brokerName": "broker-a",
    "clusterName": "DefaultCluster",
    "brokerAddr": "127.0.0.1:1",
    "bodyCrc32": "0",
}
_FIELDS: Final = tuple(sorted({field.encode_name for one in HEADERS for field in msgspec.structs.fields(one)}))


def fields_of(code: int) -> dict[str, str]:
    """Return a value for each field that any header has: every request finds its own among them."""
    found = {name: _PLAUSIBLE.get(name, "1") for name in _FIELDS}
    if code == RequestCode.PULL_MESSAGE or code == RequestCode.LITE_PULL_MESSAGE:
        found |= {"sysFlag": "4"}
    return found


def bodies_of(rng: random.Random) -> bytes:
    """Return a body that some request has."""
    if rng.random() < 0.2:
        return struct.pack(">iiiii", 30, 0, 0, 0, 2) + b"ab" + struct.pack(">h", 6) + b"KEYS\x01k"
    data = bodies.HeartbeatData(
        client_id="c",
        producer_data_set=[bodies.ProducerData(group_name="p")],
        consumer_data_set=[
            bodies.ConsumerData(group_name="g", subscription_data_set=[bodies.SubscriptionData(topic="t")])
        ],
    )
    commit = store_bodies.CommitBatchBody(
        sink_id="s",
        query_id="q",
        batch_id=0,
        run_id="r",
        run_seq=1,
        parts=[
            store_bodies.PartBody(
                file="p", rows=1, size=1, crc=1, digest="0123456789abcdef", topics=["t"], property_crc=False
            )
        ],
        queues=8,
    )
    move = store_bodies.CommitProgressBody(sink_id="s", run_id="r", progress={"at": 1}, parts=[], queues={"t": 1})
    some = [data, rng.choice(BODIES)(), commit, move, store_bodies.RequeueBody(until_ms=1, levels=True, timers=True)]
    return rng.choice([b"", b"{}", *(encode_body(one) for one in some)])


def valid(rng: random.Random, opaque: int, code: int | None = None) -> Command:
    """Return a request that a server understands."""
    chosen = rng.choice(list(RequestCode)) if code is None else code
    fits = chosen < 2**15
    kind = HeaderType.ROCKETMQ if fits and rng.random() < 0.5 else HeaderType.JSON
    version = rng.choice([0, 317, 479])
    return Command(
        chosen,
        fields_of(chosen),
        body=bodies_of(rng),
        opaque=opaque,
        header_type=kind,
        version=version,
        language="JAVA",
    )


def with_evil_values(rng: random.Random, opaque: int, code: int) -> Command:
    """Return a request some of whose values are unusual, or absent."""
    command = valid(rng, opaque, code)
    fields: dict[str, str] = command.fields
    for name in rng.sample(sorted(fields), rng.choice([1, 1, 2, 5, 40])):
        fields[name] = rng.choice(EVIL)
    if rng.random() < 0.1:
        for name in rng.sample(sorted(fields), 60):
            del fields[name]
    return command


_LARGE: Final = (
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    bytes(4),
    b"\xff" * 8,
    b'"',
    b"{",
    b"[[[[",
    b"\\ud800",
)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with a few changes."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 8])):
        at = rng.randrange(len(changed) + 1)
        what = rng.randrange(5)
        if what == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            piece = rng.choice(_LARGE)
            changed[at : at + len(piece)] = piece
        elif what == 2:
            changed[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif what == 3:
            del changed[at : at + rng.randrange(1, 9)]
        else:
            del changed[at:]
    return bytes(changed)


def bad_frame(rng: random.Random, opaque: int) -> bytes:
    """Return random bytes, or a valid frame with a few changes: in its length, its header or its body."""
    if rng.random() < 0.05:
        return rng.randbytes(rng.randrange(1, 64))
    data = encode_command(valid(rng, opaque))
    if rng.random() < 0.7:  # the length stays right, so that the change is seen
        changed = mutated(rng, data[8:])
        header = min(int.from_bytes(data[5:8], "big"), len(changed))
        return (4 + len(changed)).to_bytes(4, "big") + data[4:5] + header.to_bytes(3, "big") + changed
    return mutated(rng, data)


def decoded(command: Command, header: type[Header], body: type[Any]) -> None:
    """Decode everything of a request. Raises RemotingError and nothing else."""
    bodies.decode_body(command.body, body)
    command.header(header)
