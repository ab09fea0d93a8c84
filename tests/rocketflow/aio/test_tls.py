"""TLS of connections, over real sockets: who is served, who is refused, and files that change."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import ChannelClosedError, Peers
from rocketflow.aio.server import Limits, Request, Server
from rocketflow.aio.tls import Tls, TlsError, TlsFiles, client_context, self_signed_context, server_context
from rocketflow.remoting.command import encode_command, request
from tests.support.certificates import Authority, serial_in, serial_of

ECHO = 1
SECONDS = 20.0
LARGE = bytes(3_000_000)

Loop = Callable[[Awaitable[None]], None]


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest) -> Loop:
    """Run a test on both event loops."""
    return run if request.param == "uvloop" else asyncio.run  # type: ignore[return-value]


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def server_tls(ca: Authority, auth: ssl.VerifyMode = ssl.CERT_NONE, *, optional: bool = False) -> Tls:
    cert, key = ca.issue("server")
    files = TlsFiles("tls.server", str(cert), str(key), "", str(ca.path) if auth else "")
    return Tls(lambda: server_context(files, auth), files.paths, optional=optional)


def client_tls(trusted: Authority, own: tuple[Path, Path] | None = None) -> Tls:
    cert, key = ("", "") if own is None else (str(own[0]), str(own[1]))
    files = TlsFiles("tls.client", cert, key, "", str(trusted.path))
    return Tls(lambda: client_context(files, verify=True), files.paths)


def echo(one: Request) -> None:
    one.reply(body=one.command.body)


@asynccontextmanager
async def served(tls: Tls | None, **limits: float) -> AsyncIterator[tuple[Server, str]]:
    server = Server({ECHO: echo}, limits=Limits(**limits), tls=tls)  # type: ignore[arg-type]
    try:
        yield server, f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"
    finally:
        await server.close()


async def answer(address: str, tls: Tls | None, body: bytes = b"x") -> bytes:
    peers = Peers(tls=tls)
    try:
        return (await peers.request(address, ECHO, body=body, timeout_s=SECONDS)).body
    finally:
        await peers.close()


async def is_closed(address: str, data: bytes) -> None:
    """Check that a connection that begins with these bytes is closed without an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
    writer.write(data)
    assert b"opaque" not in await rest(reader)
    writer.close()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the connection is closed."""
    async with asyncio.timeout(SECONDS):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


async def is_answered(address: str, tls: Tls | None) -> bool:
    try:
        return await answer(address, tls) == b"x"
    except (ChannelClosedError, OSError):
        return False


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("body", [b"small", LARGE])
def test_a_request_over_tls_is_answered(loop: Loop, ca: Authority, body: bytes) -> None:
    async def main() -> None:
        async with served(server_tls(ca)) as (server, address):
            assert await answer(address, client_tls(ca), body) == body
            await until(lambda: server.connection_count == 0)

    loop(main())


def test_many_requests_of_one_connection_are_answered_in_order(loop: Loop, ca: Authority) -> None:
    async def main() -> None:
        async with served(server_tls(ca)) as (_, address):
            peers = Peers(tls=client_tls(ca))
            channel = await peers.channel(address)
            bodies = [bytes([n % 256]) * (n * 37 % 9000) for n in range(300)]
            found = await asyncio.gather(*(channel.request(ECHO, body=one, timeout_s=SECONDS) for one in bodies))
            assert [one.body for one in found] == bodies
            await peers.close()

    loop(main())


def test_a_server_of_another_authority_is_refused_by_the_client(loop: Loop, ca: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")

    async def main() -> None:
        async with served(server_tls(ca)) as (server, address):
            with pytest.raises(OSError, match=r"127\.0\.0\.1:\d+: the TLS handshake failed: .*verify"):
                await answer(address, client_tls(other))
            assert await answer(address, client_tls(ca)) == b"x"
            await until(lambda: server.connection_count == 0)

    loop(main())


def test_mutual_tls_serves_known_clients_and_refuses_all_others(loop: Loop, ca: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger").issue("stranger-client")

    async def main() -> None:
        async with served(server_tls(ca, ssl.CERT_REQUIRED)) as (server, address):
            for own in (None, stranger):
                with pytest.raises((ChannelClosedError, OSError)):
                    await answer(address, client_tls(ca, own))
            assert await answer(address, client_tls(ca, ca.issue("client"))) == b"x"
            await until(lambda: server.connection_count == 0)

    loop(main())


def test_optional_client_certificates_are_checked_if_given(loop: Loop, ca: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger").issue("stranger-client")

    async def main() -> None:
        async with served(server_tls(ca, ssl.CERT_OPTIONAL)) as (_, address):
            assert await answer(address, client_tls(ca)) == b"x"
            with pytest.raises((ChannelClosedError, OSError)):
                await answer(address, client_tls(ca, stranger))

    loop(main())


PLAIN = encode_command(request(ECHO, opaque=1))


def test_an_enforcing_port_closes_plain_connections(loop: Loop, ca: Authority) -> None:
    async def main() -> None:
        async with served(server_tls(ca)) as (_, address):
            with pytest.raises((ChannelClosedError, OSError)):
                await answer(address, None)
            await is_closed(address, PLAIN)
            await is_closed(address, b"\x16\x03\x01\x00\x05hello")
            assert await answer(address, client_tls(ca)) == b"x"

    loop(main())


def test_a_permissive_port_serves_both_and_a_port_without_tls_closes_handshakes(loop: Loop, ca: Authority) -> None:
    async def main() -> None:
        async with served(server_tls(ca, optional=True)) as (server, address):
            assert await answer(address, None, LARGE) == LARGE
            assert await answer(address, client_tls(ca), LARGE) == LARGE
            await is_closed(address, b"\x16\x03\x01\x00\x05hello")
            await until(lambda: server.connection_count == 0)
        async with served(None) as (_, address):
            with pytest.raises(OSError):
                await answer(address, client_tls(ca))
            assert await answer(address, None) == b"x"

    loop(main())


def test_a_side_that_expects_tls_and_one_without_it_name_the_setting(
    loop: Loop, ca: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        caplog.set_level(logging.INFO, "rocketflow.aio")
        async with served(None) as (_, address):
            with pytest.raises(OSError, match=r"127\.0\.0\.1:\d+: .*TLS handshake.*tls\.server\.certPath"):
                await answer(address, client_tls(ca))
            assert "a TLS handshake has come to a port without TLS: set tls.server.certPath" in caplog.text
            await is_closed(address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert "gRPC clients need RocketMQ's proxy" in caplog.text
        async with served(server_tls(ca)) as (_, address):
            with pytest.raises(ChannelClosedError, match="may demand TLS"):
                await answer(address, None)
            assert "it began without TLS, which tls.server.mode=enforcing demands" in caplog.text

    loop(main())


def test_a_connection_that_ends_after_an_answer_is_not_said_to_lack_tls(loop: Loop) -> None:
    async def main() -> None:
        server = Server({ECHO: lambda one: one.reply() if one.command.body else one.channel.close()})
        peers = Peers()
        address = f"127.0.0.1:{await server.listen('127.0.0.1', 0)}"
        try:
            await peers.request(address, ECHO, body=b"x", timeout_s=SECONDS)
            with pytest.raises(ChannelClosedError, match=r"before the answer came$"):
                await peers.request(address, ECHO, timeout_s=SECONDS)
        finally:
            await peers.close()
            await server.close()

    loop(main())


def test_a_tls_client_that_does_not_read_holds_its_own_limit_and_no_more(loop: Loop, ca: Authority) -> None:
    def large(one: Request) -> None:
        one.reply(body=bytes(1 << 20))

    async def main() -> None:
        server = Server({ECHO: large}, limits=Limits(unsent=4 << 20), tls=server_tls(ca))
        port = await server.listen("127.0.0.1", 0)
        context = client_tls(ca).context
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=1 << 12)
        writer.write(b"".join(encode_command(request(ECHO, opaque=number)) for number in range(64)))
        await until(lambda: any(channel.is_held for channel in server.channels))
        (channel,) = server.channels
        assert channel.unsent_size < 8 << 20
        answered = 0
        async with asyncio.timeout(SECONDS):
            while answered < 64:
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
                answered += 1
        await until(lambda: not channel.is_held)
        writer.close()
        await server.close()

    loop(main())


@pytest.mark.parametrize("optional", [False, True])
def test_handshakes_that_take_too_long_are_closed_and_others_are_served(
    loop: Loop, ca: Authority, optional: bool
) -> None:
    async def main() -> None:
        async with served(server_tls(ca, optional=optional), handshake_s=0.5, idle_s=3.0) as (server, address):
            port = int(address.rpartition(":")[2])
            slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for number, (_, writer) in enumerate(slow):
                if number % 2:
                    writer.write(b"\x16\x03\x01")  # the rest of the ClientHello never comes
            assert await answer(address, client_tls(ca)) == b"x"
            for reader, writer in slow:
                assert await rest(reader) == b""
                writer.close()
            await until(lambda: server.connection_count == 0)

    loop(main())


def test_connections_that_have_not_shaken_hands_count_for_the_limit(loop: Loop, ca: Authority) -> None:
    async def main() -> None:
        async with served(server_tls(ca), connections=3) as (server, address):
            port = int(address.rpartition(":")[2])
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            await is_closed(address, b"")
            for _, writer in silent:
                writer.transport.abort()
            async with asyncio.timeout(SECONDS):
                while not await is_answered(address, client_tls(ca)):
                    await asyncio.sleep(0.05)
            await until(lambda: server.connection_count == 0)

    loop(main())


def test_a_server_that_closes_ends_handshakes_and_frees_its_port(loop: Loop, ca: Authority) -> None:
    async def main() -> None:
        async with served(server_tls(ca, optional=True)) as (_, address):
            port = int(address.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.sleep(0.1)
        assert await rest(reader) == b""
        writer.close()
        with socket.create_server(("127.0.0.1", port)):
            pass

    loop(main())


async def certificate(address: str) -> int:
    """Return the serial number of the certificate that a server shows."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]), ssl=context)
    found = serial_of(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    writer.close()
    return found


def test_new_connections_get_the_new_certificate_and_old_connections_live(
    loop: Loop, ca: Authority, tmp_path: Path
) -> None:
    async def main() -> None:
        tls = server_tls(ca)
        watching = asyncio.ensure_future(tls.watch())
        async with served(tls) as (_, address):
            first = serial_in(tmp_path / "server.pem")
            assert await certificate(address) == first
            peers = Peers(tls=client_tls(ca))
            channel = await peers.channel(address)
            ca.issue("server")
            second = serial_in(tmp_path / "server.pem")
            assert second != first
            async with asyncio.timeout(SECONDS):
                while await certificate(address) != second:
                    await asyncio.sleep(0.05)
            assert (await channel.request(ECHO, timeout_s=SECONDS)).code == 0
            await peers.close()
        watching.cancel()

    loop(main())


def test_files_that_do_not_fit_leave_the_certificate_as_it_was(
    loop: Loop, ca: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        tls = server_tls(ca)
        first = serial_in(tmp_path / "server.pem")
        async with served(tls) as (_, address):
            other, other_key = ca.issue("next")
            os.replace(other, tmp_path / "server.pem")  # the key comes later
            tls.reload()
            assert "tls.server.keyPath" in caplog.text
            assert await certificate(address) == first
            os.replace(other_key, tmp_path / "server.key")
            tls.reload()
            assert await certificate(address) == serial_in(tmp_path / "server.pem") != first
            (tmp_path / "server.key").unlink()
            tls.reload()
            assert await answer(address, client_tls(ca)) == b"x"

    loop(main())


def test_an_encrypted_key_needs_its_password(ca: Authority) -> None:
    cert, key = ca.issue("server", password="secret")
    files = TlsFiles("tls.server", str(cert), str(key), "secret")
    server_context(files, ssl.CERT_NONE)
    for wrong in ("", "other", "x" * 5000):
        with pytest.raises(TlsError, match=r"tls\.server\.keyPassword"):
            server_context(files._replace(key_password=wrong), ssl.CERT_NONE)


def test_the_certificate_of_the_test_mode_is_served_and_trusted_by_no_one(loop: Loop, ca: Authority) -> None:
    trusting = Tls(lambda: client_context(TlsFiles("tls.client"), verify=False))

    async def main() -> None:
        async with served(Tls(self_signed_context)) as (_, address):
            assert await answer(address, trusting) == b"x"
            with pytest.raises(OSError, match="handshake failed"):
                await answer(address, client_tls(ca))

    loop(main())
