"""Row N10: requests of operators whose headers and bodies are mutated; one that is refused changes no file."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from rocketflow.access.permissions import Audience
from rocketflow.aio.channel import Channel
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting import bodies
from rocketflow.remoting.bodies import encode_body
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.signature import sign
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig, TopicConfig
from tests.reliability.network.access import QUIET, fingerprint
from tests.reliability.network.wire import ANSWER_SECONDS, CODE
from tests.support.mutated_frames import EVIL, bodies_of, fields_of, mutated, with_evil_values
from tests.support.processed_codes import ROWS
from tests.support.results import Tally
from tests.support.servers import no_traceback
from tests.support.signed import ADMIN, users_broker
from tests.support.trials import LEVEL, SEED

pytestmark = pytest.mark.slow

REQUESTS: Final = {"sample": 800, "fast": 6_000, "full": 60_000}[LEVEL]
AT_ONCE: Final = 40

_ENTRY: Final = bodies.PolicyEntryInfo(resource="Topic:t", actions=["Pub"], decision="Allow", source_ips=["10.0.0.1"])

BODIES: Final[Mapping[int, bytes]] = {
    CODE.UPDATE_AND_CREATE_TOPIC_LIST: encode_body({"topicConfigList": [TopicConfig(topic_name="t")]}),
    CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: encode_body(SubscriptionGroupConfig(group_name="g")),
    CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: encode_body(
        {"groupConfigList": [SubscriptionGroupConfig(group_name="g")]}
    ),
    CODE.SET_MESSAGE_REQUEST_MODE: encode_body(bodies.SetMessageRequestModeRequestBody(topic="t", consumer_group="g")),
    CODE.UPDATE_BROKER_CONFIG: b"brokerName=other\n",
    CODE.AUTH_CREATE_USER: encode_body(bodies.UserInfo(username="u", password="p")),
    CODE.AUTH_UPDATE_USER: encode_body(bodies.UserInfo(username="u", password="q")),
    CODE.AUTH_CREATE_ACL: encode_body(bodies.AclInfo(policies=[bodies.PolicyInfo(entries=[_ENTRY])])),
    CODE.AUTH_UPDATE_ACL: encode_body(bodies.AclInfo(policies=[bodies.PolicyInfo(entries=[_ENTRY])])),
}
"""A body for each request of operators that has one."""

CODES: Final = sorted(code for code, row in ROWS.items() if row.audience is Audience.ADMIN)


def with_evil_member(rng: random.Random, body: bytes) -> bytes:
    """Return a JSON body one of whose values has another type or an unusual value, or is absent."""
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return mutated(rng, body)
    places: list[tuple[Any, Any]] = []

    def visit(value: Any) -> None:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, key))
            if isinstance(inner, dict | list):
                visit(inner)

    if isinstance(document, dict | list):
        visit(document)
    if not places:
        return mutated(rng, body)
    holder, key = rng.choice(places)
    values = [rng.choice(EVIL), None, True, -1, 2**31, 2**63, 2**70, 1.5, [], {}, [[]], {"a": []}, ["x"] * 1_000]
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = rng.choice(values)
    return json.dumps(document).encode()


def mutated_request(rng: random.Random) -> Command:
    """Return a signed request of an operator with unusual fields, an unusual body, or both."""
    code = rng.choice(CODES)
    command = with_evil_values(rng, 0, code)
    if rng.random() < 0.5:
        command.fields.update(fields_of(code))
    body = BODIES.get(code) or bodies_of(rng)
    command.body = rng.choice([body, with_evil_member(rng, body), with_evil_member(rng, body), mutated(rng, body)])
    sign(command, ADMIN)
    return command


def test_refused_requests_of_operators_change_no_file(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts, rng = tally("N10", "operators"), random.Random(SEED)
    with users_broker(tmp_path, *QUIET) as broker:

        async def answers(channel: Channel, commands: list[Command]) -> list[int]:
            found = await asyncio.gather(*(channel.ask(one, timeout_s=ANSWER_SECONDS) for one in commands))
            return [one.code for one in found]

        async def main() -> None:
            peers, others = Peers(), Peers()
            channel, other = await peers.channel(broker.address), await others.channel(broker.address)
            before = fingerprint(broker)
            for begin in range(0, REQUESTS, AT_ONCE):
                commands = [mutated_request(rng) for _ in range(AT_ONCE)]
                if begin % (2 * AT_ONCE):  # reads and changes in turn
                    commands = [one for one in commands if not ROWS[one.code].is_read]
                codes = await answers(channel, commands)
                context = f"seed {SEED}, requests from {begin}"
                changes = [
                    one
                    for one, code in zip(commands, codes)
                    if code == ResponseCode.SUCCESS and not ROWS[one.code].is_read
                ]
                after = fingerprint(broker)
                if not changes:
                    assert after == before, context
                before = after
                for one, code in zip(commands, codes):
                    counts.trial(None, f"{context}, {one.code}", hit=code != ResponseCode.SUCCESS)
                alive = Command(CODE.GET_BROKER_RUNTIME_INFO)
                sign(alive, ADMIN)
                assert (await answers(other, [alive])) == [ResponseCode.SUCCESS], context
            assert channel.is_open
            assert other.is_open
            await peers.close()
            await others.close()

        run(main())
        no_traceback(broker)
        assert broker.stop() == 0
