"""Messages with any property and any sysFlag: what is acknowledged is visible, and stored as the table says."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.puts.client_properties import BY_BROKER, PROPERTIES
from rocketflow.broker.puts.sends import own_properties
from rocketflow.broker.transactions.messages import OF_HALF, half_message
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.header import Header
from rocketflow_store import StoreReader
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.model.message_id import decode_offset_msg_id
from rocketflow_store.spi.broker import RawMessage, encode_properties
from tests.rocketflow.broker.test_operator_requests import ASK_SECONDS, Ask, Check
from tests.support.client_messages import KINDS, fate_of, sent_properties
from tests.support.request_headers import send_header
from tests.support.sent_inputs import with_letters
from tests.support.servers import running_broker

CODE: Final = RequestCode
WAITING: Final = {"RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"}
PATIENT: Final = ("waitTimeMillsInSendQueue=60000", "osPageCacheBusyTimeOutMills=60000")
"""The machine is shared with other tests."""
SYS_FLAGS: Final = (*range(16), *(1 << bit for bit in range(4, 12)), 0x30, 0x300, 0x700, 0x14, 0x84, -1, -(2**31))


def asked(home: Path, check: Check) -> None:
    """Run a check with a broker process, which is killed: its timer files take longer than a short stop allows."""

    async def main() -> None:
        peers = Peers()

        async def ask(code: int, header: Header | None = None, body: bytes = b"") -> Command:
            return await peers.request(broker.address, code, header, body=body, timeout_s=ASK_SECONDS)

        try:
            await check(ask)
        finally:
            await peers.close()

    with running_broker(home, "timerWheelEnable=true", *PATIENT) as broker:
        run(main())
        broker.kill()


def stores_below(home: Path) -> list[Path]:
    """Return the directories of the stores below a directory."""
    return [one.parent for one in home.rglob("commitlog")]


def stored(home: Path, answer: Command) -> Any:
    """Return the message that an answer names, or None for a refusal."""
    if answer.code != ResponseCode.SUCCESS:
        return None
    (store,) = stores_below(home)
    with StoreReader(store) as reader:
        return reader.look_message_by_offset(decode_offset_msg_id(answer.fields["msgId"].split(",")[0])[1])


@pytest.mark.parametrize("kind", KINDS)
def test_each_property_has_the_fate_that_its_table_says(kind: str, tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        found, expected = {}, {}
        for name, fates in PROPERTIES.items():
            properties, value = sent_properties(kind, name)
            answer = await ask(CODE.SEND_MESSAGE, send_header(properties=encode_properties(properties).decode()), b"x")
            message = stored(tmp_path, answer)
            found[name] = fate_of(name, value, None if message is None else message.properties)
            expected[name] = getattr(fates, kind)
            if message is not None and name == "REAL_TOPIC" and kind != "usual":
                assert message.properties["REAL_TOPIC"] == "t"
        assert found == expected

    asked(tmp_path, check)


def test_acknowledged_message_is_visible_or_waits_whatever_its_flags_say(tmp_path: Path) -> None:
    """Halves without TRAN_MSG, which RocketMQ acknowledges without a place in any queue, are refused."""
    keys = count()

    async def check(ask: Ask) -> None:
        answers: dict[str, tuple[Command, str]] = {}
        entry = BatchEntry(0, b"x", b"")
        for flag in SYS_FLAGS:
            for more in ({}, {"TRAN_MSG": "false"}, {"TRAN_MSG": "true"}, {"DELAY": "3"}, {"TIMER_DELAY_SEC": "60"}):
                for times in (0, 1):
                    key = f"K{next(keys)}"
                    text = encode_properties({**more, "UNIQ_KEY": key}).decode()
                    header = send_header(sys_flag=flag, properties=text, reconsume_times=times)
                    answers[f"{flag:#x} {more} {times}"] = await ask(CODE.SEND_MESSAGE, header, b"x"), key
            header = send_header(sys_flag=flag, batch=True)
            body = encode_batch_body([entry, entry])
            for code, form in ((CODE.SEND_MESSAGE, header), (CODE.SEND_BATCH_MESSAGE, with_letters(header))):
                answer = await ask(code, form, body)
                assert answer.code == (ResponseCode.MESSAGE_ILLEGAL if flag & 0x8C else ResponseCode.SUCCESS), flag
            refused = bool(flag & 0x84)
            answer = await ask(CODE.SEND_MESSAGE_V2, with_letters(send_header(sys_flag=flag)), b"x")
            assert answer.code == (ResponseCode.MESSAGE_ILLEGAL if refused else ResponseCode.SUCCESS), flag
        (store,) = stores_below(tmp_path)
        with StoreReader(store) as reader:
            for what, (answer, key) in answers.items():
                if answer.code == ResponseCode.SUCCESS:
                    place = decode_offset_msg_id(answer.fields["msgId"])[1]
                    found = reader.look_message_by_offset(place)
                    assert found is not None, what
                    queued = reader.get_message(found.topic, found.queue_id, found.queue_offset, 1).messages
                    assert [(one.phy_offset, one.properties["UNIQ_KEY"]) for one in queued] == [(place, key)], what
                    assert found.topic == "t" or found.topic in WAITING, what
                else:
                    assert answer.code == ResponseCode.MESSAGE_ILLEGAL, (what, answer.code, answer.remark)
        prepared = {what: answer.code for what, (answer, _) in answers.items() if what.startswith(("0x4 ", "0xc "))}
        assert {what for what, code in prepared.items() if code == ResponseCode.SUCCESS} == {
            f"{flag} {more} {times}"
            for flag in ("0x4", "0xc")
            for more, times in (({"TRAN_MSG": "true"}, 0), ({"TRAN_MSG": "true"}, 1))
        }

    asked(tmp_path, check)


def test_delayed_retry_of_a_transactions_message_is_delivered_though_it_has_the_flag_of_a_half(tmp_path: Path) -> None:
    """Clients before 4.6.1 send it so; RocketMQ stores it where no reader looks."""

    async def check(ask: Ask) -> None:
        text = encode_properties({"TRAN_MSG": "true", "DELAY": "3", "UNIQ_KEY": "k"}).decode()
        answer = await ask(CODE.SEND_MESSAGE, send_header(sys_flag=4, properties=text, reconsume_times=1), b"x")
        found = stored(tmp_path, answer)
        assert (found.topic, found.sys_flag, found.properties["REAL_TOPIC"]) == ("SCHEDULE_TOPIC_XXXX", 0, "t")

    asked(tmp_path, check)


NAMES: Final = st.sampled_from([*PROPERTIES, "colour", "CLUSTERS", "xPOP_CK"])
TEXTS: Final = st.text("ab:,+%=1", min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(NAMES, TEXTS), max_size=8))
def test_any_properties_in_any_order_lose_those_of_the_broker(sent: list[tuple[str, str]]) -> None:
    """Also names that are a part of others, or are sent several times; the last value counts."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in sent)
    own = own_properties(text).encode()
    kept = {name: value for name, value in dict(sent).items() if name not in BY_BROKER}
    assert decode_properties(own) == kept
    message = RawMessage("t", 3, b"", own, 0, 4, 0, bytes(8))
    half = decode_properties(half_message(message).properties)
    uniq_key = re.search(b"(?:^|\x02)UNIQ_KEY\x01([^\x02]+)", own)
    set_by_broker = {"REAL_TOPIC": "t", "REAL_QID": "3"}
    if uniq_key is not None:
        set_by_broker["__transactionId__"] = uniq_key[1].decode()
    assert half == {name: value for name, value in kept.items() if name not in OF_HALF} | set_by_broker
