"""A producer of transactions at a broker under test: half messages, their ends, and the broker's questions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from rocketflow.aio.channel import Channel
from rocketflow.aio.peers import Peers
from rocketflow.remoting.bodies import HeartbeatData, ProducerData, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.client import HeartbeatRequestHeader
from rocketflow.remoting.headers.transaction import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rocketflow_store.model.message_id import decode_offset_msg_id
from rocketflow_store.spi.broker import StoredMessage, decode_stored
from tests.support.request_headers import send_header

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
PRODUCER_GROUP = "pg"
ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class HalfPlace:
    """The place of a half message: its offset in the half queue and in the log."""

    half_offset: int
    phy_offset: int


@dataclass(frozen=True)
class Question:
    """A request 39: its fields, the half message's place, and the message of its body."""

    header: CheckTransactionStateRequestHeader
    place: HalfPlace
    stored: StoredMessage


class TransactionClient:
    """One producer's connection to a broker.

    Questions of the broker are collected in `questions`, or given to `on_question`.
    """

    def __init__(
        self,
        address: str,
        *,
        client_id: str = "c1",
        group: str = PRODUCER_GROUP,
        on_question: Callable[[Command], None] | None = None,
    ) -> None:
        self._on_question = on_question
        self.questions: list[Question] = []
        self._address = address
        self._client_id = client_id
        self._group = group
        self._peers = Peers({RequestCode.CHECK_TRANSACTION_STATE: self._asked})

    async def __aenter__(self) -> TransactionClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._peers.close()

    async def ask(self, code: int, header: object = None, body: bytes = b"") -> Command:
        """Return the answer to a request."""
        return await self._peers.request(self._address, code, header, body=body, timeout_s=ANSWER_SECONDS)  # type: ignore[arg-type]

    async def heartbeat(self) -> None:
        """Let the broker know this producer."""
        answer = await self.introduction()
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def introduction(self) -> Command:
        """Return the answer to a heartbeat: a broker that stops refuses it."""
        data = HeartbeatData(client_id=self._client_id, producer_data_set=[ProducerData(group_name=self._group)])
        return await self.ask(RequestCode.HEART_BEAT, HeartbeatRequestHeader(), encode_body(data))

    async def send(self, body: bytes, topic: str = "t", queue_id: int = 0, **more: str) -> Command:
        """Return the answer to a half message; `more` are properties."""
        properties = {"TRAN_MSG": "true", "PGROUP": self._group, **more}
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        born_ms = int(time.time() * 1000)
        header = send_header(topic, queue_id, sys_flag=4, properties=text, born_timestamp=born_ms)
        return await self.ask(RequestCode.SEND_MESSAGE, header, body)

    async def half(self, body: bytes, topic: str = "t", queue_id: int = 0, **more: str) -> HalfPlace:
        """Store a half message and return its place."""
        answer = await self.send(body, topic, queue_id, **more)
        assert answer.code == ResponseCode.SUCCESS, (answer.code, answer.remark)
        return HalfPlace(int(answer.fields["queueOffset"]), decode_offset_msg_id(answer.fields["msgId"])[1])

    async def end(self, place: HalfPlace, state: int, *, is_checked: bool = False, group: str = "") -> Command:
        """Return the answer to the end of a transaction."""
        header = end_header(place, state, group or self._group, is_checked=is_checked)
        return await self.ask(RequestCode.END_TRANSACTION, header)

    async def end_unanswered(self, place: HalfPlace, state: int) -> None:
        """End a transaction by a one-way request."""
        channel = await self._peers.channel(self._address)
        channel.notify(RequestCode.END_TRANSACTION, end_header(place, state, self._group))

    async def asked(self, count: int, seconds: float = 20.0) -> list[Question]:
        """Return the questions once there are `count`."""
        async with asyncio.timeout(seconds):
            while len(self.questions) < count:
                await asyncio.sleep(0.02)
        return self.questions

    def _asked(self, channel: Channel, command: Command) -> None:
        if self._on_question is not None:
            self._on_question(command)
            return
        header = command.header(CheckTransactionStateRequestHeader)
        place = HalfPlace(header.tran_state_table_offset, header.commit_log_offset)
        self.questions.append(Question(header, place, decode_stored(command.body)))


def end_header(
    place: HalfPlace, state: int, group: str = PRODUCER_GROUP, *, is_checked: bool = False
) -> EndTransactionRequestHeader:
    """Return the header of the end of a transaction."""
    return EndTransactionRequestHeader(
        topic="t",
        producer_group=group,
        tran_state_table_offset=place.half_offset,
        commit_log_offset=place.phy_offset,
        commit_or_rollback=state,
        from_transaction_check=is_checked,
        msg_id="u",
        transaction_id="u",
    )
