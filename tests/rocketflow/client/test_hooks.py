"""Hooks of clients: they see requests and answers in order, and what they add is signed."""

from __future__ import annotations

from pathlib import Path

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, ProducerOptions, RpcHook
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command
from tests.support.signed import WRITER, orders_at, plain_broker


class NotingHook(RpcHook):
    """Adds a field to each request, and notes requests and answers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, int]] = []
        self.answers: list[tuple[str, int, int]] = []

    def before_request(self, address: str, request: Command) -> None:
        request.fields["tenant"] = "blue"
        self.requests.append((address, request.code))

    def after_response(self, address: str, request: Command, response: Command) -> None:
        assert request.opaque == response.opaque
        assert request.fields["tenant"] == "blue"
        self.answers.append((address, request.code, response.code))


def test_hooks_see_requests_and_answers_and_the_signature_covers_their_fields(tmp_path: Path) -> None:
    hook = NotingHook()

    async def main(address: str) -> None:
        async with orders_at(address) as (names, _):
            options = ProducerOptions(group="g", name_servers=names, credentials=WRITER, hooks=(hook,))
            async with Producer(options) as producer:
                await producer.send(Message("orders", b"one"))
                await producer.send_one_way(Message("orders", b"two"))

        sends = [code for at, code in hook.requests if at == address and code == RequestCode.SEND_MESSAGE_V2]
        assert len(sends) == 2
        assert (address, RequestCode.SEND_MESSAGE_V2, 0) in hook.answers
        assert (names, RequestCode.GET_ROUTEINFO_BY_TOPIC, 0) in hook.answers
        assert len([code for _, code, _ in hook.answers if code == RequestCode.SEND_MESSAGE_V2]) == 1  # not of one-way

    with plain_broker(tmp_path) as broker:
        run(main(broker.address))
