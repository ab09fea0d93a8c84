"""Messages that a broker cannot return: every kind of consumer goes on after them, and says which they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rocketflow.aio.loop import run as run_loop
from rocketflow.arrow import pull_arrow
from rocketflow.cli.app import run
from rocketflow.client import ConsumeFrom, PullConsumer, PullListener, PullOptions, sync
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.consume import pulls
from rocketflow.client.consume.gaps import UNEXPLAINED
from rocketflow.client.options import ClientOptions
from rocketflow.client.skipped import SkippedMessages
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.headers.pull import PullMessageRequestHeader
from rocketflow_store import Message
from tests.support.network_stores import brokers, write
from tests.support.pushing import Noted, committed, consuming, options
from tests.support.pushing import until as until_async
from tests.support.servers import until

COUNT = 45
DAMAGED = {5, 6, 20, 44}
"""In one answer two neighbours and another one, and the last message of the queue."""

WHOLE = [number for number in range(COUNT) if number not in DAMAGED]
QUEUE = MessageQueue("orders", "x", 0)
SPANS = [(5, 7), (20, 21), (44, 45)]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a broker with a damaged topic; return the address of its NameServer."""
    home = tmp_path_factory.mktemp("damaged")
    bodies = [f"<{number}>".encode() for number in range(COUNT)]
    tags = ["ab"[number % 2] for number in range(COUNT)]
    messages = [Message("orders", body, tags=tag, queue_id=0) for body, tag in zip(bodies, tags, strict=True)]
    store = write(home / "x", [*messages, Message("sound", b"1", queue_id=0)])
    (log,) = (store / "commitlog").iterdir()
    raw = bytearray(log.read_bytes())
    for number in DAMAGED:
        raw[raw.index(bodies[number])] ^= 1
    log.write_bytes(raw)
    with brokers(home) as one:
        one.start("x")
        yield one.address


@pytest.fixture(params=["announced", "in silence"])
def why(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the reason of gaps: the broker's, or the client's if it does not see the announcement, as of Apache's."""
    if request.param == "announced":
        return "CRC of the whole record differs"
    monkeypatch.setattr(pulls, "skipped_spans", lambda text: ())
    return UNEXPLAINED


class Skips(PullListener):
    """Notes what is skipped."""

    def __init__(self) -> None:
        self.found: list[SkippedMessages] = []

    def messages_skipped(self, skipped: SkippedMessages) -> None:
        self.found.append(skipped)


def pull_options(names: str, group: str, **more: Any) -> PullOptions:
    return PullOptions(name_servers=names, group=group, start=ConsumeFrom.FIRST, timeout_s=30, **more)


def expected(why: str) -> list[SkippedMessages]:
    return [SkippedMessages(QUEUE, start, end, why) for start, end in SPANS]


def test_consume_reports_each_gap_and_ends_with_3(
    names: str, why: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert run(["consume", "-n", names, "--topic", "orders", "--json"]) == 3
    found = capfd.readouterr()
    assert found.out.count('"queueOffset"') == len(WHOLE)
    assert caplog.messages == [
        f"RF-SKIP broker x offset {start} count {end - start}: skipped in topic orders, queue 0: {why}"
        for start, end in SPANS
    ]
    assert found.err == "error: 4 messages could not be read; see store verify at their broker\n"


@pytest.mark.parametrize("arguments", [["orders", "--max", "5"], ["sound"], ["orders", "--from", "last"]])
def test_consume_reports_no_gap_that_it_does_not_pass(
    names: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, arguments: list[str]
) -> None:
    assert run(["consume", "-n", names, "--json", "--topic", *arguments]) == 0
    assert (capfd.readouterr().err, caplog.messages) == ("", [])


def test_filter_is_no_gap_and_damage_that_it_selects_is_reported(
    names: str, why: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The broker says what it skips among messages that it would have selected; in silence no client can know."""
    is_announced = why != UNEXPLAINED
    assert run(["consume", "-n", names, "--topic", "orders", "--tags", "b", "--json"]) == (3 if is_announced else 0)
    assert capfd.readouterr().out.count('"queueOffset"') == len([one for one in WHOLE if one % 2])
    assert len(caplog.messages) == is_announced
    assert run(["consume", "-n", names, "--topic", "sound", "--tags", "zz"]) == 0


def test_pull_consumer_names_the_gaps_that_it_passes(names: str, why: str) -> None:
    async def call() -> None:
        skips = Skips()
        async with PullConsumer(pull_options(names, f"pull{len(why)}", listener=skips)) as consumer:
            await consumer.assign([QUEUE])
            some = await consumer.poll(max_messages=10)
            assert [one.queue_offset for one in some] == WHOLE[:10]
            assert (skips.found, consumer.skipped) == (expected(why)[:1], 2)
            while len(some) < len(WHOLE):
                some += await consumer.poll(max_messages=10)
            assert [one.queue_offset for one in some] == WHOLE
            await until_async(lambda: consumer.position(QUEUE) == COUNT)
            assert (skips.found, consumer.skipped) == (expected(why), 4)
            consumer.seek(QUEUE, 21)
            while len(some) < len(WHOLE) + 23:
                some += await consumer.poll()
            assert skips.found[3:] in ([], expected(why)[2:])

    run_loop(call())


def test_columns_of_a_pull_consumer_leave_out_the_same(names: str, why: str) -> None:
    async def call() -> None:
        skips = Skips()
        async with PullConsumer(pull_options(names, f"arrow{len(why)}", listener=skips)) as consumer:
            await consumer.assign([QUEUE])
            found: list[int] = []
            while len(found) < len(WHOLE):
                found += [
                    offset
                    for batch in await pull_arrow(consumer, ["queueOffset"])
                    for offset in batch.column(0).to_pylist()
                ]
            await until_async(lambda: consumer.position(QUEUE) == COUNT)
        assert found == WHOLE
        assert skips.found == expected(why)

    run_loop(call())


@pytest.mark.parametrize("orderly", [False, True])
def test_push_consumer_counts_what_it_skips_and_its_lag_is_0(
    names: str, why: str, caplog: pytest.LogCaptureFixture, orderly: bool
) -> None:
    group = f"push{len(why)}{orderly}"

    async def call() -> None:
        noted = Noted()
        async with consuming(options(names, group, orderly=orderly), noted, "orders") as consumer:
            await until_async(lambda: len(noted.messages) == len(WHOLE) and consumer.skipped == 4)
        assert sorted(one.queue_offset for one in noted.messages) == WHOLE
        assert sum((await committed(names, group, "orders")).values()) == COUNT

    with caplog.at_level("WARNING", "rocketflow.client"):
        run_loop(call())
    assert [record.rf_code for record in caplog.records if hasattr(record, "rf_code")] == ["RF-SKIP"] * 3


def test_consumers_with_plain_methods_count_them_too(names: str) -> None:
    with sync.PullConsumer(pull_options(names, "sync-pull")) as puller:
        puller.assign([QUEUE])
        found: list[int] = []
        while len(found) < len(WHOLE):
            found += [one.queue_offset for one in puller.poll()]
        assert until(lambda: puller.skipped() == 4)
    noted: list[int] = []

    def listen(messages: list[Any], context: object) -> None:
        noted.extend(one.queue_offset for one in messages)

    pusher = sync.PushConsumer(options(names, "sync-push"), listen)
    pusher.subscribe("orders")
    with pusher:
        assert until(lambda: len(noted) == len(WHOLE) and pusher.skipped() == 4)


def test_answers_of_a_pull_have_one_more_field_only_if_something_is_skipped(names: str) -> None:
    """Java's and Go's clients read the fields that they know: the others stay as they are."""

    async def call() -> None:
        async with AdminClient(ClientOptions(name_servers=names)) as admin:
            (address,) = await admin.masters("orders")

            async def fields(offset: int, count: int) -> dict[str, str]:
                header = PullMessageRequestHeader(
                    consumer_group="TOOLS_CONSUMER", topic="orders", queue_id=0, queue_offset=offset,
                    max_msg_nums=count, sys_flag=4, commit_offset=0, suspend_timeout_millis=0, subscription="*",
                    sub_version=0,
                )  # fmt: skip
                return dict((await admin.cluster.ask(address, RequestCode.PULL_MESSAGE, header)).fields)

            clean = await fields(0, 4)
            assert "skippedMessages" not in clean
            both = await fields(0, 32)
            assert both.pop("skippedMessages") == "5-6,20 CRC of the whole record differs"
            assert both == {**clean, "nextBeginOffset": "32"}
            assert (await fields(44, 1))["skippedMessages"] == "44 CRC of the whole record differs"

    run_loop(call())


def test_operators_pull_logs_what_its_broker_skips(names: str, caplog: pytest.LogCaptureFixture) -> None:
    async def call() -> None:
        async with AdminClient(ClientOptions(name_servers=names)) as admin:
            assert len((await admin.pull(QUEUE, 0)).messages) == 29

    with caplog.at_level("WARNING", "rocketflow.client"):
        run_loop(call())
    assert [one.split(": ")[0] for one in caplog.messages] == [
        "RF-SKIP broker x offset 5 count 2",
        "RF-SKIP broker x offset 20 count 1",
    ]
