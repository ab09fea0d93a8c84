"""The decoders of what servers and clients send: frames, headers, JSON bodies, handles."""

from __future__ import annotations

import random
from contextlib import suppress

import msgspec

from rocketflow.access.plain_files import load_document
from rocketflow.access.plain_rules import PlainRulesError, parse_rules
from rocketflow.remoting import fastjson
from rocketflow.remoting.bodies import decode_body
from rocketflow.remoting.command import Command, decode_command, encode_command
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.frame import FrameReceiver
from rocketflow.remoting.recall_handle import RecallHandle, decode_recall_handle
from rocketflow.remoting.signature import is_signed
from rocketflow.remoting.store_bodies import decode_store_body
from tests.support.mutated_frames import BODIES, HEADERS, STORE_BODIES, decoded, valid
from tests.support.processed_codes import ROWS
from tests.support.signed import PLAIN_RULES

for header in HEADERS:  # decoders are made when they are first used
    wrong = {field.encode_name: "x" for field in msgspec.structs.fields(header)}
    for body in BODIES:
        for fields in (msgspec.Raw(b'{"a":"1"}'), {"a": "1"}, wrong):
            with suppress(RemotingError):
                Command(0, fields).header(header)
            with suppress(RemotingError):
                decode_body(b"{}", body)
for store_body in STORE_BODIES:
    with suppress(RemotingError):
        decode_store_body(b"{}", store_body)


def frames(data: bytes) -> None:
    """Decode the frames of a connection, each as every kind of request and answer."""
    for frame in FrameReceiver().feed(data):
        command = decode_command(frame)
        number = command.code % len(HEADERS)
        for header in (HEADERS[number], HEADERS[number - 1]):
            with suppress(RemotingError):
                decoded(command, header, BODIES[command.opaque % len(BODIES)])
        with suppress(RemotingError):
            decode_store_body(command.body, STORE_BODIES[command.opaque % len(STORE_BODIES)])
        with suppress(RemotingError):
            is_signed(command, "secret")
        with suppress(RemotingError):
            _ = list(ROWS[_CODES[command.code % len(_CODES)]].needs_of(command))


_CODES = sorted(ROWS)


def accounts(data: bytes) -> None:
    """Read a file of accounts."""
    with suppress(PlainRulesError):
        parse_rules(load_document(data))


def accounts_seeds() -> list[bytes]:
    """Return a file of accounts, and its parts in other spellings."""
    return [PLAIN_RULES.encode(), b'{"accounts":[{accessKey: "1234567", secretKey: \'12345678\', admin: TRUE}]}']


def frame_seeds() -> list[bytes]:
    """Return valid frames, and two of them together."""
    rng = random.Random(1)
    found = [encode_command(valid(rng, number)) for number in range(40)]
    return [*found, found[0] + found[1]]


def fast_json(data: bytes) -> None:
    """Decode JSON as fastjson writes it."""
    fastjson.loads(data)


def fast_json_seeds() -> list[bytes]:
    """Return what no other JSON has: objects as keys, bare names, references, comments."""
    return [
        b'{{"brokerName":"b","queueId":0,"topic":"t"}:{"maxOffset":9}}',
        b'{0:[1,2,],name:\'x\',"a":{"$ref":"$.name"}}',
        b'/* c */{"a":null,"b":true,"c":1e3,"d":"\\u0041\\x41"}// end',
    ]


def recall_handle(data: bytes) -> None:
    """Decode a handle."""
    decode_recall_handle(data.decode("latin-1"))


def recall_handle_seeds() -> list[bytes]:
    """Return a handle."""
    return [RecallHandle("t", "b", 1, "k").encode().encode()]
