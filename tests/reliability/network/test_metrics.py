"""Health and figures of running servers: exact counts of what was sent and read, and what is 503 when."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.groups.member_calls import offset_of_message_id
from rocketflow.broker.settings import load_broker_settings
from rocketflow.broker.transactions.messages import COMMIT, ROLLBACK
from rocketflow.errors import UsageError
from rocketflow.namesrv.settings import load_namesrv_settings
from rocketflow.remoting.bodies import ConsumerData, HeartbeatData, ProducerData, encode_body
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.headers.transaction import EndTransactionRequestHeader
from rocketflow_store.spi.messages import Message, batch_body
from tests.reliability.network.test_server_start import started
from tests.reliability.network.wire import CODE, asked
from tests.support.http_get import get
from tests.support.ports import free_port
from tests.support.request_headers import GROUP, pull_header, send_header
from tests.support.servers import no_traceback, running, running_broker
from tests.support.trials import ROOT

pytestmark = pytest.mark.slow

Figures = Callable[..., float]

HALF: Final = "TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01u\x02"

DASHBOARD: Final = ROOT / "conf" / "grafana-broker.json"


def names_in(dashboard: Path) -> set[str]:
    """Return the metrics that the queries of a Grafana dashboard name."""
    panels = json.loads(dashboard.read_text("utf-8"))["panels"]
    queries = " ".join(target["expr"] for panel in panels for target in panel.get("targets", ()))
    found = re.findall(r"\b(?:rocketmq|rocketflow)_[a-z_]+", queries)
    return {re.sub("_(bucket|count|sum)$", "", one) for one in found}


def figures(port: int) -> Figures:
    """Return a function that returns the sum of the values with a name and labels; 0 without one."""
    status, text = get(port, "/metrics")
    assert status == 200, text
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    assert len(samples) < 10_000

    def value(name: str, **labels: str) -> float:
        return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())

    return value


def test_a_broker_exports_what_clients_did(tmp_path: Path) -> None:
    port, names_port = free_port(), free_port()
    exporter = ("metricsExporterType=PROM", f"metricsPromExporterPort={port}")
    names_exporter = ("metricsExporterType=PROM", f"metricsPromExporterPort={names_port}")
    own = [part for one in (f"kvConfigPath={tmp_path}/kv.json", *names_exporter) for part in ("--set", one)]
    with (
        running("namesrv", tmp_path, *own) as names,
        running_broker(tmp_path, f"namesrvAddr={names.address};127.0.0.1:1", *exporter) as broker,
    ):

        async def main() -> None:
            peers = Peers()
            channel = await peers.channel(broker.address)
            for number in range(10):
                sent = await asked(channel, CODE.SEND_MESSAGE, send_header("single"), bytes(100))
                assert sent.code == ResponseCode.SUCCESS, (number, sent.remark)
            for how in (COMMIT, ROLLBACK, 0):  # the last one stays undecided
                half = await asked(channel, CODE.SEND_MESSAGE, send_header("paid", properties=HALF, sys_flag=4), b"x")
                end = EndTransactionRequestHeader(
                    producer_group="p",
                    tran_state_table_offset=int(half.fields["queueOffset"]),
                    commit_log_offset=offset_of_message_id(half.fields["msgId"]),
                    commit_or_rollback=how,
                    msg_id="u",
                )
                if how:
                    assert (await asked(channel, CODE.END_TRANSACTION, end)).code == ResponseCode.SUCCESS
            later = send_header("single", properties="DELAY\x0118\x02")
            assert (await asked(channel, CODE.SEND_MESSAGE, later, b"in two hours")).code == ResponseCode.SUCCESS
            delayed = send_header("single", properties="DELAY\x011\x02")
            assert (await asked(channel, CODE.SEND_MESSAGE, delayed, b"later")).code == ResponseCode.SUCCESS
            now_ms = int(time.time() * 1000)
            timed = f"TIMER_DELIVER_MS\x01{now_ms // 1000 * 1000 + 300_999}\x02"
            header = send_header("timed", properties=timed, born_timestamp=now_ms // 1000 * 1000)
            assert (await asked(channel, CODE.SEND_MESSAGE, header, b"in five minutes")).code == ResponseCode.SUCCESS
            body = batch_body(Message("t", bytes(2000)) for _ in range(32))
            batch = await asked(channel, CODE.SEND_MESSAGE, send_header("batch", batch=True), body)
            assert batch.code == ResponseCode.SUCCESS, batch.remark
            found = await asked(channel, CODE.PULL_MESSAGE, pull_header("batch", sys_flag=5, commit_offset=0))
            assert found.code == ResponseCode.SUCCESS
            update = pull_header("batch", offset=32, sys_flag=7, commit_offset=20, suspend_timeout_millis=200)
            assert (await asked(channel, CODE.PULL_MESSAGE, update)).code == ResponseCode.PULL_NOT_FOUND
            await asked(channel, 9999)
            groups = [ConsumerData(group_name=one) for one in (GROUP, "other-group")]
            beat = HeartbeatData(
                client_id="c", consumer_data_set=groups, producer_data_set=[ProducerData(group_name="p")]
            )
            assert (await asked(channel, CODE.HEART_BEAT, None, encode_body(beat))).code == ResponseCode.SUCCESS
            _check(figures(port), len(found.body))
            await peers.close()
            async with asyncio.timeout(30):
                while figures(port)("rocketmq_consumer_connections"):
                    await asyncio.sleep(0.05)
                while figures(port)("rocketflow_delivered_total", kind="delay") < 1:
                    await asyncio.sleep(0.05)
                while figures(port)("rocketmq_timer_enqueue_total") < 1:
                    await asyncio.sleep(0.05)
                while figures(port)("rocketmq_storage_dispatch_behind_bytes"):
                    await asyncio.sleep(0.05)
            value = figures(port)
            assert value("rocketflow_delivered_total") == 1
            store = {"storage_type": "local", "storage_medium": "disk"}
            assert value("rocketmq_timer_dequeue_lag", **store) == value("rocketmq_timer_enqueue_total", **store) == 1
            assert value("rocketmq_timer_message_snapshot") == 1
            for name in ("enqueue_lag", "enqueue_latency", "dequeue_total"):
                assert value(f"rocketmq_timer_{name}") == 0, name
            assert value("rocketflow_delivery_failing") == 0
            text = get(port, "/metrics")[1]
            assert [one for one in names_in(DASHBOARD) if f"# TYPE {one} " not in text] == []

        run(main())
        assert get(port, "/health/ready") == (200, "ready\n")
        assert get(port, "/health/live")[0] == 200
        value = figures(names_port)
        assert value("rocketflow_live_brokers", node_type="nameserver") == 1
        assert value("rocketmq_rpc_latency_count", request_code="register_broker", response_code="success") >= 1
        assert value("rocketflow_loop_lag_seconds_count") > 0
        for server in (broker, names):
            assert server.stop() == 0
            no_traceback(server)


def _check(value: Figures, pulled_bytes: int) -> None:
    labels = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
    single = {"topic": "single", "message_type": "normal", "is_system": "false", **labels}
    assert value("rocketmq_messages_in_total", **single) == 10
    assert value("rocketmq_throughput_in_total", **single) > 1000
    assert value("rocketmq_message_size_bucket", **single, le="1024.0") == 10
    assert value("rocketmq_messages_in_total", message_type="delay") == 3
    assert value("rocketmq_commit_messages_total", topic="paid") == value("rocketmq_rollback_messages_total") == 1
    assert value("rocketmq_half_messages", topic="paid") == value("rocketmq_half_messages") == 1
    assert value("rocketmq_finish_message_latency_count", topic="paid") == 1  # of commits alone, as with RocketMQ
    assert value("rocketflow_half_messages_open") == 3
    assert value("rocketflow_op_marks_unread") == 2
    assert value("rocketflow_delayed_messages", level="18") == 1
    assert value("rocketmq_messages_in_total", topic="batch") == 32
    assert value("rocketmq_message_size_bucket", topic="batch", le="4096.0") == 1
    pulled = {"topic": "batch", "consumer_group": GROUP, "is_retry": "false"}
    assert value("rocketmq_messages_out_total", **pulled) == 32
    assert value("rocketmq_throughput_out_total", **pulled) == pulled_bytes
    assert value("rocketmq_consumer_lag_messages", **pulled) == 12
    assert value("rocketmq_consumer_lag_latency", **pulled) > 0
    assert value("rocketmq_consumer_inflight_messages", **pulled) == 12  # the second pull began at 32
    assert value("rocketmq_consumer_ready_messages") == value("rocketmq_consumer_queueing_latency") == 0
    store = {"storage_type": "local", "storage_medium": "disk", **labels}
    assert value("rocketmq_delay_message_latency_bucket", topic="timed", le="600.0", **store) == 1
    assert value("rocketmq_delay_message_latency_sum", topic="timed") == 300
    assert value("rocketflow_put_run_messages_sum") == 51  # 45 of clients, three half messages, a commit, two op marks
    rpc = {"protocol_type": "remoting", "result": "success"}
    assert value("rocketmq_rpc_latency_count", request_code="send_message", response_code="success", **rpc) == 17
    held = {"request_code": "pull_message", "response_code": "pull_not_found", "is_long_polling": "true", **rpc}
    assert value("rocketmq_rpc_latency_count", **held) == 1
    assert value("rocketmq_rpc_latency_bucket", **held, le="100.0") == 0  # it waited 200 ms or more
    assert value("rocketmq_topic_number") >= 2
    assert value("rocketmq_consumer_group_number") >= 1
    assert value("rocketmq_broker_permission") == 6
    assert value("rocketmq_storage_size", storage_type="local", storage_medium="disk") > 0
    assert value("rocketmq_storage_message_reserve_time") > 0
    assert value("rocketflow_connections") == 1
    assert value("rocketflow_held_pulls") == 0
    client = {"language": "python", "version": "479", "protocol_type": "remoting"}
    assert value("rocketmq_producer_connections", **client) == 1
    assert value("rocketmq_consumer_connections", consumer_group=GROUP, consume_mode="push", **client) == 1
    assert value("rocketmq_consumer_connections") == 2
    assert value("rocketflow_loop_lag_seconds_count") > 0
    assert value("rocketflow_name_server_up", name_server="127.0.0.1:1") == 0
    assert value("rocketflow_name_server_up") == 1


def test_a_port_of_figures_in_use_ends_the_start_before_a_store_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        exporter = ("metricsExporterType=PROM", f"metricsPromExporterPort={port}")
        options = [f"listenPort={free_port((-2, 1))}", f"storePathRootDir={tmp_path}/other", *exporter]
        code, said = started("broker", tmp_path, *[part for one in options for part in ("--set", one)])
    assert code == 75, said
    assert str(port) in said
    assert "metricsPromExporterPort" in said
    assert "Traceback" not in said
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"metricsExporterType": "OTLP_GRPC"}, "PROM"),
        ({"metricsPromExporterHost": "0.0.0.0"}, "rocketflow.allowInsecure"),
        ({"metricsPromExporterHost": "10.1.2.3", "tls.server.mode": "disabled"}, "metricsPromExporterHost"),
        ({"metricsPromExporterPort": "0"}, "metricsPromExporterPort"),
    ],
)
def test_wrong_settings_of_metrics_are_refused(options: dict[str, str], named: str) -> None:
    for load in (lambda: load_broker_settings(None, options, {}), lambda: load_namesrv_settings(None, options)):
        with pytest.raises(UsageError, match=named):
            load()
