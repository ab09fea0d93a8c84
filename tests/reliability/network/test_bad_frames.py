"""Rows N01, N02, N03 and N14: bytes that are no frames, and frames that are no requests."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.bodies import decode_body
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command, decode_command, encode_command
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.frame import FrameReceiver, HeaderType, frame_bytes
from rocketflow.remoting.store_bodies import decode_store_body
from tests.reliability.network.wire import ANSWER_SECONDS, CODE, asked, connected, frame, is_served
from tests.support import mutated_frames as mutated
from tests.support.confinement import confined_to
from tests.support.memory import rss_anon_mib
from tests.support.request_headers import send_header
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback
from tests.support.trials import FULL, LEVEL, SEED
from tests.support.workload import body

MEMORY_MIB = 64
"""How much the anonymous memory of a server may grow under attack."""


def test_any_bytes_give_requests_or_an_error_of_the_protocol(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("N01", "decoders")
    rng = random.Random(SEED)
    for header in mutated.HEADERS:  # lazy imports happen now
        for kind in HeaderType:
            with suppress(RemotingError):
                Command(1, mutated.fields_of(1), header_type=kind).header(header)
    for one in mutated.BODIES:
        decode_body(b"{}", one)
    for one in mutated.STORE_BODIES:
        with suppress(RemotingError):
            decode_store_body(b"{}", one)
    total = 2_000_000 if FULL else 200_000 if LEVEL == "fast" else 5_000
    with confined_to(tmp_path):
        for number in range(total):
            data = mutated.bad_frame(rng, number)
            with suppress(RemotingError):
                for found in FrameReceiver().feed(data):
                    command = decode_command(found)
                    with suppress(RemotingError):
                        decode_store_body(command.body, rng.choice(mutated.STORE_BODIES))
                    mutated.decoded(command, rng.choice(mutated.HEADERS), rng.choice(mutated.BODIES))
    counts.trials = counts.hits = total


async def _attacked(server: RunningServer, good: Callable[[int], asyncio.Future[None]], frames: int) -> int:
    """Send bad frames on many connections, and ask as a good client all the time; return the connections used."""
    rng = random.Random(SEED)
    connections = sent = 0
    while sent < frames:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        connections += 1
        with suppress(OSError):
            for _ in range(20):
                writer.write(mutated.bad_frame(rng, sent))
                sent += 1
            await writer.drain()
            async with asyncio.timeout(0.02):
                await reader.read(1 << 16)
        writer.transport.abort()
        if connections % 10 == 0:
            await good(connections)
    return connections


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["broker", "namesrv"])
def test_mutated_frames_disturb_no_other_connection(
    kind: str, broker: RunningServer, names: RunningServer, tally: Callable[..., Tally]
) -> None:
    counts = tally("N02", kind)
    server = broker if kind == "broker" else names
    frames = 50_000 if FULL else 5_000 if LEVEL == "fast" else 1_000

    async def main() -> None:
        peers = Peers()
        channel = await peers.channel(server.address)

        async def good(number: int) -> None:
            if kind == "broker":
                await is_served(channel, number)
            else:
                await asked(channel, CODE.GET_BROKER_CLUSTER_INFO)

        await good(0)
        before = rss_anon_mib(server.process.pid)
        await _attacked(server, good, frames)  # type: ignore[arg-type]
        await good(-1)
        assert channel.is_open
        assert rss_anon_mib(server.process.pid) < before + MEMORY_MIB
        await peers.close()

    run(main())
    no_traceback(server)
    counts.trials = counts.hits = frames


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["broker", "namesrv"])
def test_every_request_with_unusual_values_is_answered(
    kind: str, broker: RunningServer, names: RunningServer, tally: Callable[..., Tally]
) -> None:
    counts = tally("N03", f"{kind}, values")
    server = broker if kind == "broker" else names
    rng = random.Random(SEED)
    times = 50 if FULL else 10 if LEVEL == "fast" else 2

    async def main() -> None:
        peers = Peers()
        for code in RequestCode:
            held = code in (CODE.PULL_MESSAGE, CODE.LITE_PULL_MESSAGE)
            for _ in range(times):
                channel = await peers.channel(server.address)
                command = mutated.with_evil_values(rng, 0, code)
                if held:
                    command.fields["suspendTimeoutMillis"] = "0"
                if code == CODE.END_TRANSACTION:  # one that neither commits nor rolls back has no answer
                    command.fields["commitOrRollback"] = "8"
                try:
                    await channel.ask(command, timeout_s=ANSWER_SECONDS)
                except TimeoutError:
                    pytest.fail(f"{code!r} was not answered: {command.fields} {command.body!r}")
                counts.trials += 1
                counts.hits += 1
        await peers.close()

    run(main())
    no_traceback(server)


def _json(text: str) -> bytes:
    return frame_bytes(HeaderType.JSON, text.encode("utf-8", "surrogatepass"))


CLOSED = {
    "length 0": bytes(4),
    "length 3": b"\0\0\0\3abc",
    "length -1": b"\xff\xff\xff\xff",
    "length -2^31": b"\x80\0\0\0",
    "length 16 MiB + 1": (16_777_216 - 3).to_bytes(4, "big"),
    "header longer than the frame": b"\0\0\0\4\0\0\0\1",
    "unknown header type": b"\0\0\0\6\7\0\0\2{}",
    "HTTP": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(200),
    "empty header": frame_bytes(HeaderType.JSON, b""),
    "JSON list": _json("[]"),
    "JSON null": _json("null"),
    "no code": _json("{}"),
    "code is a text": _json('{"code":"x"}'),
    "NaN": _json('{"code":NaN}'),
    "Infinity": _json('{"code":1,"opaque":Infinity}'),
    "a million digits": _json('{"code":1' + "0" * 1_000_000 + "}"),
    "deep list": _json('{"code":1,"extFields":' + "[" * 100_000),
    "deep object": _json('{"code":1,"extFields":' + '{"a":' * 100_000 + "1" + "}" * 100_001),
    "half of a surrogate pair": _json('{"code":1,"remark":"\\ud800"}'),
    "not closed": _json('{"code":1'),
    "version beyond 32 bits": _json('{"code":9999,"opaque":7,"version":99999999999}'),
    "binary header, cut": frame_bytes(HeaderType.ROCKETMQ, bytes(12)),
    "binary header, remark of 2 GiB": frame_bytes(HeaderType.ROCKETMQ, bytes(13) + b"\x7f\xff\xff\xff" + bytes(4)),
    "binary header, remark of -1": frame_bytes(HeaderType.ROCKETMQ, bytes(13) + b"\xff\xff\xff\xff" + bytes(4)),
    "binary header, fields of 2 GiB": frame_bytes(HeaderType.ROCKETMQ, bytes(17) + b"\x7f\xff\xff\xff"),
    "binary header, bytes after it": frame_bytes(HeaderType.ROCKETMQ, bytes(21) + b"x"),
    "binary header, bad UTF-8": frame_bytes(HeaderType.ROCKETMQ, bytes(13) + b"\0\0\0\1\xff" + bytes(4)),
}
"""What ends its connection."""

ANSWERED = {
    "unknown code": '{"code":9999,"opaque":7}',
    "negative code": '{"code":-1,"opaque":7}',
    "language of 5000 digits": '{"code":9999,"opaque":7,"language":"' + "9" * 5000 + '"}',
    "unknown language": '{"code":9999,"opaque":7,"language":"COBOL"}',
    "language 99": '{"code":9999,"opaque":7,"language":99}',
    "duplicate keys": '{"code":1,"code":9999,"opaque":1,"opaque":7}',
    "fields of a list": '{"code":10,"opaque":7,"extFields":[1]}',
    "fields of a text": '{"code":10,"opaque":7,"extFields":"topic"}',
    "nested fields": '{"code":10,"opaque":7,"extFields":{"topic":{"a":1}}}',
    "no fields": '{"code":10,"opaque":7,"extFields":{}}',
    "unknown members": '{"code":9999,"opaque":7,"a":{"b":[1,2,{}]}}',
    "a number of 40 digits": '{"code":11,"opaque":7,"extFields":{"queueId":' + "9" * 40 + "}}",
}


def _answers(server: RunningServer, data: bytes) -> bytes:
    with connected(server) as one:
        one.sendall(data)
        found = b""
        while len(found) < 4 or len(found) < 4 + int.from_bytes(found[:4], "big"):
            piece = one.recv(1 << 16)
            if not piece:
                return found
            found += piece
        return found


@pytest.mark.parametrize("kind", ["broker", "namesrv"])
def test_what_is_no_frame_ends_its_connection_and_what_is_no_request_is_answered(
    kind: str, broker: RunningServer, names: RunningServer, tally: Callable[..., Tally]
) -> None:
    counts = tally("N03", kind)
    server = broker if kind == "broker" else names
    bad_field = frame_bytes(HeaderType.JSON, b'{"code":10,"opaque":7,"extFields":{"topic":"\xff"}}')
    for name, data in CLOSED.items():
        with suppress(ConnectionError):
            assert _answers(server, data) == b"", name
        counts.trial(None, name)
    for name, data in {**{name: _json(text) for name, text in ANSWERED.items()}, "bad UTF-8": bad_field}.items():
        (found,) = FrameReceiver().feed(_answers(server, data))
        answer = json.loads(found.header)
        assert answer["opaque"] == 7, name
        assert answer["code"] in (1, 3), name
        counts.trial(None, name)
    no_traceback(server)


def test_frames_cut_anywhere_or_joined_give_the_same_answers(
    broker: RunningServer, tally: Callable[..., Tally]
) -> None:
    counts = tally("N14")
    one = frame(CODE.SEND_MESSAGE, send_header("cut"), body(7), opaque=1)
    two = frame(CODE.GET_BROKER_CLUSTER_INFO, opaque=2)
    data = one + two

    def answered(sock: socket.socket, count: int) -> list[int]:
        receiver, found = FrameReceiver(), []
        while len(found) < count:
            piece = sock.recv(1 << 16)
            assert piece
            found += [decode_command(each).opaque for each in receiver.feed(piece)]
        return sorted(found)

    step = 1 if LEVEL != "sample" else 9
    with connected(broker) as first, connected(broker) as second:
        for at in range(1, len(data), step):
            first.sendall(data[:at])
            second.sendall(data[:at])
            first.sendall(data[at:])
            second.sendall(data[at:])
            assert answered(first, 2) == answered(second, 2) == [1, 2], at
            counts.trial(None, f"byte {at}")
        for byte in data:
            first.sendall(bytes([byte]))
        assert answered(first, 2) == [1, 2]
        first.sendall(b"".join(encode_command(mutated.valid(random.Random(1), n, 9999)) for n in range(1000)))
        assert answered(first, 1000) == list(range(1000))
