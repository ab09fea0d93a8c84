"""Health and figures over HTTP: what is answered when, and how many connections are held."""

from __future__ import annotations

import asyncio
import urllib.error

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rocketflow.aio.exposition import Exposition
from rocketflow.aio.histogram import Histogram
from rocketflow.aio.http import MAX_CONNECTIONS, HttpServer
from rocketflow.aio.loop import run
from rocketflow.aio.rpc_latency import MAX_KINDS, Rpc, RpcLatency
from tests.support.http_get import get


def test_readiness_and_figures_are_503_with_the_reason_until_the_server_is_ready() -> None:
    async def main() -> None:
        why, figures = "the store is not open yet", b""

        async def text() -> bytes:
            return figures

        server = HttpServer(lambda: why, text)
        port = await server.start("127.0.0.1", 0)

        async def asked(path: str) -> tuple[int, str]:
            return await asyncio.to_thread(get, port, path)

        assert (await asked("/health/live"))[0] == 200
        assert await asked("/health/ready") == (503, f"{why}\n")
        assert await asked("/metrics") == (503, f"{why}\n")
        why, figures = "", b"a 1\n"
        assert await asked("/health/ready") == (200, "ready\n")
        assert await asked("/metrics") == (200, "a 1\n")
        assert (await asked("/"))[0] == 404
        await server.stop()
        with pytest.raises(urllib.error.URLError):
            await asked("/health/live")

    run(main())


def test_silent_connections_do_not_keep_others_out() -> None:
    async def text() -> bytes:
        return b"a 1\n"

    async def main() -> None:
        server = HttpServer(lambda: "", text)
        port = await server.start("127.0.0.1", 0)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * MAX_CONNECTIONS)]
        for _ in range(5):
            assert await asyncio.to_thread(get, port, "/metrics") == (200, "a 1\n")
        async with asyncio.timeout(20):
            for reader, _ in silent[:MAX_CONNECTIONS]:
                assert await reader.read() == b""
        for _, writer in silent:
            writer.transport.abort()
        await server.stop()

    run(main())


def test_histograms_are_exported_with_inclusive_bounds() -> None:
    one = Histogram((1, 2.5))
    for value in (0.5, 1, 1.5, 2.5, 3):
        one.observe(value)
    shown = Exposition(node_id="n")
    shown.histogram("h", "a histogram", [(("x",), one)], ("label",))
    one.observe(1)  # after the snapshot
    (family,) = text_string_to_metric_families(shown.render().decode())
    found = {
        (sample.name, sample.labels.get("le")): sample.value
        for sample in family.samples
        if sample.labels["label"] == "x" and sample.labels["node_id"] == "n"
    }
    assert found == {
        ("h_bucket", "1.0"): 2,
        ("h_bucket", "2.5"): 4,
        ("h_bucket", "+Inf"): 5,
        ("h_count", None): 5,
        ("h_sum", None): 8.5,
    }


def test_label_values_are_escaped_and_requests_have_their_names() -> None:
    latency = RpcLatency()
    latency.record(Rpc(310, 0, False, "success"), 0.001, 2)
    latency.took_together(310, 1)
    latency.took_together(310, 2)
    latency.record(Rpc(11, 19, True, "success"), 15.0)
    shown = Exposition(cluster='a"b\\c\nd')
    shown.rpc_latency(latency)
    family, together = text_string_to_metric_families(shown.render().decode())
    sums = {
        (sample.labels["request_code"], sample.labels["response_code"], sample.labels["is_long_polling"]): sample.value
        for sample in family.samples
        if sample.name.endswith("_sum")
    }
    assert sums == {
        ("send_message_v2", "success", "false"): 2.0,
        ("pull_message", "pull_not_found", "true"): 15_000.0,
    }
    assert {sample.labels["cluster"] for sample in family.samples} == {'a"b\\c\nd'}
    assert [(one.name, one.labels["request_code"], one.value) for one in together.samples] == [
        ("rocketflow_requests_together_total", "send_message_v2", 3.0)
    ]


def test_kinds_of_requests_have_a_limit() -> None:
    latency = RpcLatency()
    for number in range(3 * MAX_KINDS):
        latency.record(Rpc(number, 0, False, "success"), 0.0)
    assert len(latency.by_kind) == MAX_KINDS + 1
    assert sum(sum(one.counts) for one in latency.by_kind.values()) == 3 * MAX_KINDS
