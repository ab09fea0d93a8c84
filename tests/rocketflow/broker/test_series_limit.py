"""A scrape of a broker with more topics, groups and clients than its tables take has at most 10,000 series."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.aio.rpc_latency import MAX_KINDS, Rpc, RpcLatency
from rocketflow.broker import service
from rocketflow.broker.figures import parts
from rocketflow.broker.figures.counts import Counts
from rocketflow.broker.figures.labels import MAX_CONNECTION_KINDS
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.bodies import ConsumerData, HeartbeatData, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow_store.spi.broker import WritingStore, open_store
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.http_get import get
from tests.support.ports import free_port

LIMIT: Final = 10_000
NAMES: Final = 1_200
"""More than any table takes."""
DELAY_LEVELS, EVENTS = 18, 80
"""Series that this broker does not have: waiting messages by level, events by code. So are kinds of producers."""


def filled_counts() -> Counts:
    """Return the counts of more topics and groups than are kept, each with all kinds of figures."""
    counts = Counts()
    for number in range(NAMES):
        topic, group = f"t{number}", f"g{number}"
        for properties in (b"", b"DELAY\x011\x02", b"__SHARDINGKEY\x01k\x02"):
            counts.send(topic, properties, 1, 10)
        counts.pull(group, topic, 1, 10)
        counts.dead_letter(group)
        counts.half(topic, 1)
        counts.delay(topic, 1.0)
        for is_commit in (True, False):
            counts.end(topic, [1.0], is_commit=is_commit)
    return counts


def filled_latency() -> RpcLatency:
    """Return the times of more kinds of requests than are kept."""
    latency = RpcLatency()
    for number in range(MAX_KINDS + 10):
        latency.record(Rpc(10, number, False, "success"), 0.001)
    return latency


def test_a_scrape_has_at_most_ten_thousand_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    options = {**options_at(tmp_path), "metricsExporterType": "PROM", "metricsPromExporterPort": str(port)}
    settings, config, given = load_broker_settings(None, options, {})

    def with_offsets(*arguments: Any, **named: Any) -> WritingStore:
        store = open_store(*arguments, **named)
        for number in range(NAMES):
            store.offset_table.commit(f"g{number}", "t", 0, 0)
        return store

    monkeypatch.setattr(service, "open_store", with_offsets)
    monkeypatch.setattr(parts, "Counts", filled_counts)
    monkeypatch.setattr(parts, "RpcLatency", filled_latency)

    async def main() -> str:
        broker, peers = Broker(settings, config, given), Peers()
        await broker.start()
        try:
            groups = [ConsumerData(group_name=f"g{number}") for number in range(MAX_CONNECTION_KINDS + 5)]
            beat = encode_body(HeartbeatData(client_id="c", consumer_data_set=groups))
            done = await peers.request(settings.broker_address, RequestCode.HEART_BEAT, body=beat, timeout_s=60)
            assert done.code == ResponseCode.SUCCESS, done.remark
            return (await asyncio.to_thread(get, port, "/metrics"))[1]
        finally:
            await peers.close()
            await broker.stop()

    series = [line for line in run(main()).splitlines() if line and not line.startswith("#")]
    elsewhere = MAX_CONNECTION_KINDS + DELAY_LEVELS + EVENTS
    assert 0.9 * LIMIT < len(series) + elsewhere <= LIMIT
    for name in ("rocketmq_consumer_ready_messages", "rocketmq_half_messages", "rocketmq_delay_message_latency"):
        assert any(one.startswith(name) for one in series), name
