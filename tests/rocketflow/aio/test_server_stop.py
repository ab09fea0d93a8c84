"""What a server answers between the begin of its stop and its end."""

from __future__ import annotations

import asyncio

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.aio.server import STOPPING, Request, Server
from rocketflow.remoting.codes import OWN_CODES, RequestCode, ResponseCode
from rocketflow.remoting.command import Command, request

OK, AWAY = ResponseCode.SUCCESS, ResponseCode.GO_AWAY
V5_3_1, V5_3_2_SNAPSHOT, V5_3_3 = 475, 476, 479


def test_clients_that_understand_it_get_go_away_from_a_server_that_stops() -> None:
    processed: list[int] = []

    def process(received: Request) -> None:
        processed.append(received.command.code)
        received.reply()

    def asked(code: int, version: int) -> Command:
        command = request(code)
        command.version = version
        return command

    async def main() -> None:
        server = Server(dict.fromkeys((RequestCode.SEND_MESSAGE, RequestCode.HEART_BEAT, *OWN_CODES), process))
        port = await server.listen("127.0.0.1", 0)
        peers = Peers()
        try:
            channel = await peers.channel(f"127.0.0.1:{port}")

            async def answer(code: int, version: int) -> Command:
                return await channel.ask(asked(code, version), timeout_s=20)

            versions = (0, 399, V5_3_1, V5_3_2_SNAPSHOT, V5_3_3, 599)
            assert {(await answer(RequestCode.SEND_MESSAGE, one)).code for one in versions} == {OK}
            server.stop_listening()
            found = {one: (await answer(RequestCode.SEND_MESSAGE, one)).code for one in versions}
            assert found == {0: OK, 399: OK, V5_3_1: OK, V5_3_2_SNAPSHOT: AWAY, V5_3_3: AWAY, 599: AWAY}
            assert (await answer(RequestCode.HEART_BEAT, V5_3_3)).remark == STOPPING
            assert (await answer(9999, V5_3_3)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            assert {(await answer(code, V5_3_3)).code for code in OWN_CODES} == {OK}
            processed.clear()
            channel.notify(RequestCode.HEART_BEAT)
            assert (await answer(RequestCode.SEND_MESSAGE, V5_3_3)).code == AWAY
            assert processed == [RequestCode.HEART_BEAT], "a request that has no answer is processed"
        finally:
            await asyncio.gather(peers.close(), server.close())

    run(main())
