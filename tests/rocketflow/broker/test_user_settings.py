"""Requests that `authenticationWhitelist` and `authorizationWhitelist` of a broker's settings leave unchecked."""

from __future__ import annotations

import json
from pathlib import Path

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.bodies import UserInfo, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.auth import UserRequestHeader
from rocketflow.remoting.headers.header import Header
from rocketflow.remoting.headers.offset import GetMaxOffsetRequestHeader, SearchOffsetRequestHeader
from rocketflow.remoting.signature import Credentials
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import pull_header, send_header, topic_header
from tests.support.signed import ADMIN, signed

CODE, OK, REFUSED = RequestCode, ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION
BOB = Credentials("bob", "secret-of-bob")


def test_each_list_of_unchecked_codes_is_for_its_own_check(tmp_path: Path) -> None:
    lists = {
        "authenticationWhitelist": f"{CODE.SEND_MESSAGE}, {CODE.GET_MAX_OFFSET}",
        "authorizationWhitelist": f"{CODE.SEND_MESSAGE},{CODE.PULL_MESSAGE}",
    }
    switches = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
    first = {"initAuthenticationUser": json.dumps({"username": ADMIN.access_key, "password": ADMIN.secret_key})}
    settings, config, given = load_broker_settings(None, {**options_at(tmp_path), **switches, **first, **lists}, {})
    end = GetMaxOffsetRequestHeader(topic="t", queue_id=0)
    search = SearchOffsetRequestHeader(topic="t", queue_id=0, timestamp=0)

    async def main() -> None:
        broker, peers = Broker(settings, config, given), Peers()
        await broker.start()
        try:
            channel = await peers.channel(settings.broker_address)

            async def ask(code: int, header: Header, by: Credentials | None, body: bytes = b"") -> int:
                return (await channel.ask(signed(code, header, body, by), timeout_s=10)).code

            user = encode_body(UserInfo(password=BOB.secret_key, user_type="Normal"))
            assert await ask(CODE.AUTH_CREATE_USER, UserRequestHeader(username="bob"), ADMIN, user) == OK
            assert await ask(CODE.UPDATE_AND_CREATE_TOPIC, topic_header("t"), ADMIN) == OK
            for what, code, header, by, expected in (
                ("in both lists", CODE.SEND_MESSAGE, send_header(), None, OK),
                ("without an account, and not authorized", CODE.GET_MAX_OFFSET, end, None, REFUSED),
                ("known, and not authorized", CODE.GET_MAX_OFFSET, end, BOB, REFUSED),
                ("not authenticated", CODE.PULL_MESSAGE, pull_header(), None, REFUSED),
                ("authenticated, and needs no policy", CODE.PULL_MESSAGE, pull_header(), BOB, OK),
                ("in no list", CODE.SEARCH_OFFSET_BY_TIMESTAMP, search, BOB, REFUSED),
                ("in no list, by a super user", CODE.SEARCH_OFFSET_BY_TIMESTAMP, search, ADMIN, OK),
            ):
                assert await ask(code, header, by) == expected, what
        finally:
            await peers.close()
            await broker.stop()

    run(main())


def test_the_settings_have_two_lists(tmp_path: Path) -> None:
    lists = {"authenticationWhitelist": "10, 34", "authorizationWhitelist": "11"}
    users = load_broker_settings(None, {"authenticationEnabled": "true", **lists}, {})[0].users
    assert users is not None
    assert (users.unauthenticated, users.unauthorized) == ({10, 34}, {11})
