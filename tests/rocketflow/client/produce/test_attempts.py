"""Attempts of a send: each answer, silence and damage, by brokers whose answers the tests choose."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, ProducerOptions, SendStatus
from rocketflow.client.errors import ClientError, NoAnswerError, NoRouteError, UnreachableError
from rocketflow.client.produce.errors import SendFailedError, SendRefusedError
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.remoting.codes import ResponseCode
from tests.support.ports import free_port
from tests.support.scripted_broker import SILENT, ScriptedBroker, scripted

RETRIED = [1, 2, 14, 17, 204, 205, 1500]
REFUSED = [3, 4, 13, 15, 16, 29, 207, 999]
NOT_OK = [10, 11, 12]


def options(server: ScriptedBroker, **more: object) -> ProducerOptions:
    return ProducerOptions(**{"group": "g", "name_servers": server.address, "send_timeout_s": 30.0, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("code", RETRIED)
def test_other_brokers_are_tried_after_codes_that_rocketmq_retries(code: int) -> None:
    async def main() -> None:
        brokers = [ScriptedBroker([code]), ScriptedBroker([code])]
        sends = brokers[1].sends = brokers[0].sends
        async with scripted(*brokers) as names, Producer(options(names)) as producer:
            with pytest.raises(SendFailedError, match=r"'t': not acknowledged after 3 attempts: .*scripted") as found:
                await producer.send(Message("t", b"b"))
            assert found.value.code == code
            assert not found.value.may_be_stored
        first, second, third = [one.fields["n"] for one in sends]
        assert first == third != second
        assert len({one.fields["i"] for one in sends}) == 1  # the same unique key

    run(main())


@pytest.mark.parametrize("code", REFUSED)
def test_other_codes_end_a_send(code: int) -> None:
    async def main() -> None:
        broker = ScriptedBroker([code])
        async with scripted(broker) as names, Producer(options(names)) as producer:
            with pytest.raises(SendRefusedError, match="after 1 attempt: ") as found:
                await producer.send(Message("t", b"b"))
            assert (found.value.code, found.value.exit_code) == (code, 1)
        assert len(broker.sends) == 1

    run(main())


def test_a_broker_that_is_busy_for_a_moment_is_tried_again() -> None:
    async def main() -> None:
        broker = ScriptedBroker([ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_BUSY, 0])
        async with scripted(broker) as names, Producer(options(names)) as producer:
            assert (await producer.send(Message("t", b"b"))).status is SendStatus.SEND_OK
        assert len(broker.sends) == 3

    run(main())


@pytest.mark.parametrize("code", NOT_OK)
def test_a_status_that_is_not_ok_is_a_result_or_repeated_if_asked_for(code: int) -> None:
    async def main() -> None:
        broker = ScriptedBroker([code])
        broker.fields = {"msgId": "0" * 32, "queueId": "1", "queueOffset": "7", "TRACE_ON": "false"}
        async with scripted(broker) as names:
            async with Producer(options(names)) as producer:
                result = await producer.send(Message("t", b"b"))
                assert (result.status.value, result.queue_offset, result.is_traced) == (code, 7, False)
                assert result.queue.queue_id == 1
            async with Producer(options(names, retry_not_stored=True)) as producer:
                with pytest.raises(SendFailedError, match="after 3 attempts"):
                    await producer.send(Message("t", b"b"))
        assert len(broker.sends) == 4

    run(main())


def test_a_queue_that_is_chosen_has_one_attempt() -> None:
    async def main() -> None:
        broker = ScriptedBroker([ResponseCode.SYSTEM_BUSY])
        async with scripted(broker) as names, Producer(options(names)) as producer:
            for to in (MessageQueue("t", "a", 1), lambda queues, _: queues[0]):
                with pytest.raises(SendFailedError, match="after 1 attempt"):
                    await producer.send(Message("t", b"b"), to=to)
        assert [one.fields["e"] for one in broker.sends] == ["1", "0"]

    run(main())


def test_a_silent_broker_takes_all_the_time_of_a_send_unless_an_attempt_has_less() -> None:
    async def main() -> None:
        brokers = [ScriptedBroker([SILENT]), ScriptedBroker([SILENT])]
        async with scripted(*brokers) as names:
            async with Producer(options(names)) as producer:
                with pytest.raises(SendFailedError, match="after 1 attempt") as found:
                    await producer.send(Message("t", b"b"), timeout_s=1)
                assert found.value.may_be_stored
                assert isinstance(found.value.failures[0], NoAnswerError)
            brokers[1].codes = brokers[0].codes = [SILENT, 0]
            async with Producer(options(names, attempt_timeout_s=1)) as producer:
                assert (await producer.send(Message("t", b"b"), timeout_s=30)).status is SendStatus.SEND_OK

    run(main())


def test_an_answer_that_cannot_be_read_is_an_error_that_names_the_broker() -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        broker.fields = {"queueId": "x"}
        async with scripted(broker) as names, Producer(options(names)) as producer:
            with pytest.raises(ClientError, match="broker 'a': the answer to a send cannot be read"):
                await producer.send(Message("t", b"b"))

    run(main())


def test_a_broker_that_is_away_is_named_and_nothing_may_be_stored() -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        async with scripted(broker) as names, Producer(options(names)) as producer:
            broker.routes = {"a": f"127.0.0.1:{free_port()}"}
            with pytest.raises(SendFailedError, match=f"after 3 attempts: {broker.routes['a']}") as found:
                await producer.send(Message("t", b"b"))
            assert all(isinstance(one, UnreachableError) for one in found.value.failures)
            assert not found.value.may_be_stored
            assert found.value.exit_code == 69

    run(main())


def test_failed_and_slow_brokers_are_avoided_with_latency_faults() -> None:
    async def main() -> None:
        brokers = [ScriptedBroker(), ScriptedBroker([ResponseCode.SYSTEM_BUSY]), ScriptedBroker()]
        async with scripted(*brokers) as names:
            for faults in (True, False):
                brokers[1].sends.clear()
                async with Producer(options(names, latency_faults=faults)) as producer:
                    for _ in range(30):
                        await producer.send(Message("t", b"b"))
                assert (len(brokers[1].sends) == 1) is faults

    run(main())


def test_sends_that_begin_together_ask_once_for_the_route() -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        async with scripted(broker) as names, Producer(options(names)) as producer:
            await asyncio.gather(*(producer.send(Message("t", b"b")) for _ in range(50)))
        assert broker.route_requests == 1
        assert Counter(one.fields["e"] for one in broker.sends) == {"0": 25, "1": 25}

    run(main())


def test_a_topic_that_no_broker_creates_is_refused_with_what_to_do() -> None:
    async def main() -> None:
        broker = ScriptedBroker()
        async with scripted(broker) as names, Producer(options(names)) as producer:
            broker.routes = {}
            with pytest.raises(NoRouteError, match=r"'missing'.*autoCreateTopicEnable.*updateTopic -t missing"):
                await producer.send(Message("missing", b"b"))

    run(main())


def test_a_closed_producer_takes_leave_of_each_broker_once() -> None:
    async def main() -> None:
        brokers = [ScriptedBroker(), ScriptedBroker()]
        async with scripted(*brokers) as names:
            async with Producer(options(names)) as producer:
                for queue in await producer.queues("t"):
                    await producer.send(Message("t", b"b"), to=queue)
                client_id = producer.cluster.client_id
            async with Producer(options(names)) as silent:
                assert not (await silent.queues("t"))[0].queue_id  # it has sent no broker a heartbeat
        leaves = [[one.fields for one in broker.leaves] for broker in brokers]
        assert leaves == [[{"clientID": client_id, "producerGroup": "g"}]] * 2

    run(main())
