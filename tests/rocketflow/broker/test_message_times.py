"""Store times of messages in the answers to operators: of the first, the last, the last read, and the next one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.groups.lags import Lag, lags_of
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.bodies import decode_body
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.headers.admin import QueryConsumeTimeSpanRequestHeader
from rocketflow.remoting.headers.offset import GetEarliestMsgStoretimeRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketflow_store import StoreConfig
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.spi.broker import RawMessage, open_store
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import send_header

NONE = {"consumeTimeStamp": -1, "delayTime": 0, "maxTimeStamp": -1, "minTimeStamp": -1}


def test_times_of_each_queue_are_answered(tmp_path: Path) -> None:
    settings, config, given = load_broker_settings(None, options_at(tmp_path), {})

    async def main() -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
        broker, peers = Broker(settings, config, given), Peers()
        await broker.start()

        async def ask(code: RequestCode, header: Any, body: bytes = b"") -> Any:
            answer = await peers.request(settings.broker_address, code, header, body=body)
            assert answer.code == 0, answer.remark
            return answer

        try:
            for _ in range(3):
                await ask(RequestCode.SEND_MESSAGE, send_header("t", 1), b"x")
            await ask(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                UpdateConsumerOffsetRequestHeader(consumer_group="g", topic="t", queue_id=1, commit_offset=2),
            )
            spans = await ask(
                RequestCode.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpanRequestHeader(topic="t", group="g")
            )
            earliest = [
                await ask(
                    RequestCode.GET_EARLIEST_MSG_STORETIME,
                    GetEarliestMsgStoretimeRequestHeader(topic="t", queue_id=queue_id),
                )
                for queue_id in (0, 1)
            ]
            found = decode_body(spans.body, dict[str, Any])["consumeTimeSpanSet"]
            return found, [one.fields for one in earliest]
        finally:
            await peers.close()
            await broker.stop()

    spans, earliest = run(main())
    by_queue = {one.pop("messageQueue")["queueId"]: one for one in spans}
    assert [by_queue[queue_id] for queue_id in (0, 2, 3)] == [NONE] * 3
    times = by_queue[1]
    assert 0 < times["minTimeStamp"] <= times["consumeTimeStamp"] <= times["maxTimeStamp"]
    assert times["delayTime"] >= 0
    assert [one["timestamp"] for one in earliest] == ["-1", str(times["minTimeStamp"])]


def test_times_of_messages_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    clock = ManualClock(1_000)
    store = open_store(tmp_path / "s", StoreConfig(clock=clock), store_host="127.0.0.1:10911")
    for _ in range(3):
        host = bytes((127, 0, 0, 1, 0, 0, 0, 5))
        store.publish(store.append([RawMessage("t", 2, b"x", b"", 0, 0, 1, host, 0)]).end)
        clock.set(clock.now_ms() + 10)
    try:
        for offset, wanted in ((-1, {}), (0, {2: 1_000}), (2, {2: 1_020}), (3, {}), (1 << 40, {})):
            assert store.stored_times("t", {0: offset, 2: offset, 9: offset}) == wanted
        assert store.stored_times("none", {0: 0}) == {}
        assert store.ends("t", 4) == [store.bounds("t", one)[1] for one in range(4)] == [0, 0, 3, 0]
        assert store.ends("none", 2) == [0, 0]
        store.append([RawMessage("t", 2, b"x", b"", 0, 0, 1, host, 0)])
        assert store.ends("t", 4) == [0, 0, 3, 0]  # it is not published yet
        cases: list[tuple[int, dict[int, int], tuple[int, ...]]] = [
            (1, {}, (2, 990, 0, 2, 990)),
            (1, {2: 2, 7: 6}, (2, 990, 1, 1, 980)),
            (1, {2: 0}, (2, 990, 0, 2, 990)),  # set back, or pulled before a reset
            (1, {2: 9}, (2, 990, 2, 0, 0)),
            (3, {2: 3}, (0, 0, 0, 0, 0)),
        ]
        for offset, pulled, expected in cases:
            pull_offsets: dict[tuple[str, ...], dict[int, int]] = {("g", "t"): pulled}
            [lag] = lags_of(store, {("t", "g"): {2: offset, 7: 5}}, lambda *key, of=pull_offsets: of[key], 2_000)
            assert lag == Lag("g", "t", *expected)
    finally:
        store.close()
