"""Answers that RocketMQ's broker gives too: about batches, units of queues, groups and topics."""

from __future__ import annotations

from pathlib import Path

from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow_store.spi.messages import Message, batch_body, received_messages
from tests.rocketflow.broker.test_operator_requests import with_broker
from tests.support.answer_checks import BATCH_KEY, CHECKS
from tests.support.pull_checks import Ask
from tests.support.request_headers import pull_header, send_header


def test_answers_are_those_of_rocketmq(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        for one in CHECKS:
            await one(ask)

    with_broker(tmp_path, check)


def test_messages_of_a_batch_have_its_properties_and_ids_of_their_own(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        key = f"UNIQ_KEY\x01{BATCH_KEY}\x02own\x01of the batch\x02"
        body = batch_body([Message("shared", b"1"), Message("shared", b"2")])
        sent = await ask(RequestCode.SEND_MESSAGE, send_header("shared", properties=key, batch=True), body)
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        found = list(received_messages((await ask(RequestCode.PULL_MESSAGE, pull_header("shared"))).body))
        assert [one.properties["own"] for one in found] == ["of the batch"] * 2
        assert len({one.properties["UNIQ_KEY"] for one in found} - {BATCH_KEY}) == 2

    with_broker(tmp_path, check)
