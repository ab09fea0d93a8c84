"""A broker's second port, and the topics with the names of cluster and broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.operators import FAST_PORT_DISTANCE
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import BrokerSettings, load_broker_settings
from rocketflow.remoting.bodies import HeartbeatData, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.fastjson import loads
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import pull_header, send_header

CODE = RequestCode


def with_broker(home: Path, check: Callable[[BrokerSettings, Peers], Awaitable[None]], **changes: str) -> None:
    """Run a check with a broker."""
    settings, config, given = load_broker_settings(None, {**options_at(home), **changes}, {})

    async def main() -> None:
        broker, peers = Broker(settings, config, given), Peers()
        await broker.start()
        try:
            await check(settings, peers)
        finally:
            await peers.close()
            await broker.stop()

    run(main())


def test_the_second_port_takes_all_requests_but_pulls(tmp_path: Path) -> None:
    async def check(settings: BrokerSettings, peers: Peers) -> None:
        first = settings.broker_address
        second = f"127.0.0.1:{settings.listen_port - FAST_PORT_DISTANCE}"
        for address in (second, first):
            sent = await peers.request(address, CODE.SEND_MESSAGE, send_header("t"), body=b"x")
            assert sent.code == ResponseCode.SUCCESS, sent.remark
        heartbeat = encode_body(HeartbeatData(client_id="me"))
        assert (await peers.request(second, CODE.HEART_BEAT, body=heartbeat)).code == ResponseCode.SUCCESS
        assert (await peers.request(second, CODE.GET_BROKER_RUNTIME_INFO)).code == ResponseCode.SUCCESS
        for code in (CODE.PULL_MESSAGE, CODE.LITE_PULL_MESSAGE):
            assert (await peers.request(first, code, pull_header("t"))).code == ResponseCode.SUCCESS
            refused = await peers.request(second, code, pull_header("t"))
            assert refused.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    with_broker(tmp_path, check)


@pytest.mark.parametrize("enabled", [True, False])
def test_cluster_and_broker_names_are_topics_unless_they_are_disabled(tmp_path: Path, enabled: bool) -> None:
    async def check(settings: BrokerSettings, peers: Peers) -> None:
        cluster, name = settings.broker_cluster_name, settings.broker_name
        for sent in (send_header(cluster), send_header(name), send_header("new", default_topic=cluster)):
            answer = await peers.request(settings.broker_address, CODE.SEND_MESSAGE, sent, body=b"x")
            assert answer.code == ResponseCode.SUCCESS, (sent.topic, answer.remark)  # producers look at the permission
        for topic in (cluster, name, "new"):
            pulled = await peers.request(settings.broker_address, CODE.PULL_MESSAGE, pull_header(topic))
            assert pulled.code == (ResponseCode.SUCCESS if enabled else ResponseCode.NO_PERMISSION), topic
        found = loads((await peers.request(settings.broker_address, CODE.GET_ALL_TOPIC_CONFIG)).body)
        perms = {one: found["topicConfigTable"][one]["perm"] for one in (cluster, name, "new")}
        assert perms == ({cluster: 7, name: 7, "new": 6} if enabled else {cluster: 1, name: 1, "new": 0})

    text = str(enabled).lower()
    with_broker(tmp_path, check, clusterTopicEnable=text, brokerTopicEnable=text)
