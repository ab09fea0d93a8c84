"""Row N09: bodies that decompress to far more than they take are stored and delivered as they are.

A broker decompresses no body. A reader does, up to its limit, and a NameServer the tables of a broker, up to its own.
"""

from __future__ import annotations

import functools
import itertools
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Final

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.headers.route import RegisterBrokerRequestHeader
from rocketflow_store import SkipFaults, StoreReader
from rocketflow_store.model.compression import MAX_DECOMPRESSED_SIZE, compress_body
from tests.reliability.network.wire import CODE, asked
from tests.support.memory import rss_anon_mib
from tests.support.request_headers import pull_header, send_header
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback, store_of

pytestmark = pytest.mark.slow

KINDS: Final = {"zlib": 3, "lz4": 1, "zstd": 2, "zlib of older clients": 0}
FORMS: Final = ("whole", "cut", "nested")
PLAIN: Final = bytes(MAX_DECOMPRESSED_SIZE + 1)
MEMORY_MIB: Final = 24.0


@functools.cache
def packed_zeros(kind: int) -> bytes:
    return compress_body(PLAIN, kind)


def bomb(kind: int, form: str) -> bytes:
    """Return what is sent: compressed zeros beyond the limit, the same without its end, or compressed twice."""
    packed = packed_zeros(kind)
    return {"whole": packed, "cut": packed[: len(packed) // 2], "nested": compress_body(packed, kind)}[form]


def test_bombs_pass_the_broker_as_they_are_and_a_reader_stops_at_its_limit(
    broker: RunningServer, tally: Callable[..., Tally]
) -> None:
    counts = tally("N09", "messages")
    cases = list(itertools.product(KINDS.values(), FORMS))
    bodies = [bomb(*case) for case in cases]
    before = rss_anon_mib(broker.process.pid)

    async def main() -> None:
        peers = Peers()
        channel = await peers.channel(broker.address)
        for (kind, _), body in zip(cases, bodies, strict=True):
            sent = await asked(channel, CODE.SEND_MESSAGE, send_header("bombs", sys_flag=kind << 8 | 1), body)
            assert sent.code == ResponseCode.SUCCESS, sent.remark
            found = await asked(
                channel, CODE.PULL_MESSAGE, pull_header("bombs", offset=int(sent.fields["queueOffset"]))
            )
            assert body in found.body
        await peers.close()

    run(main())
    assert rss_anon_mib(broker.process.pid) - before < MEMORY_MIB
    no_traceback(broker)
    skipped = SkipFaults()
    tracemalloc.start()
    try:
        with StoreReader(store_of(broker)) as reader:
            batches = reader.read("bombs", 0, *reader.bounds("bombs", 0), columns=["body"], faults=skipped)
            read = [one for rows in batches for one in rows.column(0).to_pylist()]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read == [packed_zeros(kind) for kind, form in cases if form == "nested"]
    assert skipped.count == len(cases) - len(read)
    assert peak < 3 * MAX_DECOMPRESSED_SIZE
    counts.trials = counts.hits = len(cases)


def test_tables_of_a_broker_that_are_a_bomb_are_refused(names: RunningServer, tally: Callable[..., Tally]) -> None:
    counts = tally("N09", "registrations")
    before = rss_anon_mib(names.process.pid)

    async def main() -> None:
        peers = Peers()
        channel = await peers.channel(names.address)
        for body in (zlib.compress(PLAIN), zlib.compress(PLAIN)[:-100], zlib.compress(zlib.compress(PLAIN))):
            header = RegisterBrokerRequestHeader(
                broker_name="broker-a",
                broker_addr="127.0.0.1:10911",
                cluster_name="C",
                ha_server_addr="127.0.0.1:10912",
                broker_id=0,
                compressed=True,
            )
            answer = await asked(channel, CODE.REGISTER_BROKER, header, body)
            assert answer.code != ResponseCode.SUCCESS
            counts.trial(None, "3 bombs")
        assert (await asked(channel, CODE.GET_BROKER_CLUSTER_INFO)).code == ResponseCode.SUCCESS
        await peers.close()

    run(main())
    assert rss_anon_mib(names.process.pid) - before < MEMORY_MIB
    no_traceback(names)
