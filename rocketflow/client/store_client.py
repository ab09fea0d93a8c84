"""RocketFlow's own requests to the broker that serves a store, for callers without an event loop.

Each request has a connection of its own, except within `StoreClient.connected`.

A broker is asked first which store it serves: the port of one that was killed may belong to another by now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from rocketflow.aio.channel import Channel, ChannelClosedError
from rocketflow.aio.loop import new_loop, run
from rocketflow.aio.peers import Peers
from rocketflow.aio.signing_hook import signing_hooks
from rocketflow.aio.tls import Tls, TlsFiles, client_context
from rocketflow.client.errors import RequestRefusedError
from rocketflow.errors import RocketFlowError
from rocketflow.remoting.bodies import encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.headers.offset import UpdateConsumerOffsetRequestHeader
from rocketflow.remoting.headers.rocketflow import StagePartRequestHeader, StagePartResponseHeader
from rocketflow.remoting.signature import JOB_ACCESS_KEY, Credentials
from rocketflow.remoting.store_bodies import StoreBody, StoreInfoBody, decode_store_body

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command
    from rocketflow.remoting.headers.header import Header

B = TypeVar("B")
T = TypeVar("T")

ANSWER_SECONDS: Final = 10.0
"""How long a broker may take to say which store it serves."""

PING_SECONDS: Final = 20.0
PIECE_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 24 * 3600.0


class NoBrokerError(RocketFlowError):
    """No broker at the address serves the store; nothing was requested."""


class NotRocketFlowError(NoBrokerError):
    """A broker answers that is not RocketFlow's."""


class NotAllowedError(NoBrokerError):
    """The broker does not let the caller commit."""


class AnswerLostError(RocketFlowError):
    """The connection ended before the answer: the request may have been carried out, or may still be."""


def unchecked_tls() -> Tls:
    """Return TLS that does not check the broker's certificate: the store's id says that it is the right one."""
    return Tls(lambda: client_context(TlsFiles("tls.client"), verify=False))


class StoreClient:
    """Requests to the broker at `address` about the store with an id, which the caller sees at `path`.

    With `tls` a connection begins with a handshake. `secret` is the one that the broker has written into the store's
    directory; requests are signed with it, "" for none.

    A caller on another host gives no path: then the broker's store is the right one, and `credentials` sign requests.
    """

    def __init__(
        self,
        address: str,
        path: str | Path | None = None,
        store_id: str = "",
        *,
        tls: Tls | None = None,
        secret: str = "",
        credentials: Credentials | None = None,
    ) -> None:
        self.address = address
        self._path, self._store_id = None if path is None else Path(path), store_id
        self._credentials = Credentials(JOB_ACCESS_KEY, secret) if secret else credentials
        self._tls = tls
        self._kept: tuple[asyncio.Runner, Peers] | None = None

    def check(self) -> None:
        """Raise NoBrokerError unless the broker serves the store."""
        self._run(_nothing)

    def info(self) -> StoreInfoBody:
        """Return what the broker answers about its store. Raises NoBrokerError."""
        return self._run(self._info_of)

    def send(self, code: RequestCode, header: Header) -> Command:
        """Send a request of RocketMQ's and return the answer, whatever its code.

        Raises NoBrokerError and AnswerLostError.
        """

        async def sent(channel: Channel) -> Command:
            try:
                return await channel.request(code, header, timeout_s=ANSWER_SECONDS)
            except (OSError, ChannelClosedError) as error:
                raise AnswerLostError(f"{self.address}: {error}") from None

        return self._run(sent)

    def stage(self, header: StagePartRequestHeader, piece: bytes = b"") -> int:
        """Send a piece of a part, or only its run if the header names no file; return the number of the run.

        Raises NoBrokerError, AnswerLostError, and RequestRefusedError for another answer than 0.
        """
        code = RequestCode.ROCKETFLOW_STAGE_PART

        async def sent(channel: Channel) -> Command:
            try:
                return await channel.request(code, header, body=piece, timeout_s=PIECE_SECONDS)
            except (OSError, ChannelClosedError) as error:
                raise AnswerLostError(f"{self.address}: {error}") from None

        answer = self._run(sent)
        if answer.code != ResponseCode.SUCCESS:
            raise RequestRefusedError(self.address, code, answer.code, answer.remark)
        return answer.header(StagePartResponseHeader).run_seq

    def ask(self, code: RequestCode, body: StoreBody, answer: type[B]) -> B:
        """Send a request and return the body of its answer, however long that takes.

        Raises NoBrokerError, AnswerLostError, and RequestRefusedError for another answer than 0.
        """
        found = self._run(lambda channel: self._answer(channel, code, encode_body(body)))
        try:
            return decode_store_body(found, answer)
        except RemotingError as error:
            raise RequestRefusedError(self.address, code, ResponseCode.SYSTEM_ERROR, str(error)) from None

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit the next offset of each (topic, queue id) for a group, as RocketMQ's consumers do.

        Raises NoBrokerError, AnswerLostError, and RequestRefusedError for another answer than 0.
        """
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        headers = [
            UpdateConsumerOffsetRequestHeader(
                consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
            )
            for (topic, queue_id), offset in offsets.items()
        ]

        async def commit(channel: Channel) -> list[Command]:
            try:
                return await asyncio.gather(*(channel.request(code, one, timeout_s=ANSWER_SECONDS) for one in headers))
            except (OSError, ChannelClosedError) as error:
                raise AnswerLostError(f"{self.address}: {error}") from None

        for answer in self._run(commit):
            if answer.code != ResponseCode.SUCCESS:
                raise RequestRefusedError(self.address, code, answer.code, answer.remark)

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Use one connection for all requests of a block, in one thread; it is opened again if it ends."""
        peers = self._peers()
        with asyncio.Runner(loop_factory=new_loop) as runner:
            self._kept = runner, peers
            try:
                yield
            finally:
                self._kept = None
                runner.run(peers.close())

    def _run(self, call: Callable[[Channel], Awaitable[T]]) -> T:
        """Return the result of a call with a connection to the broker, which serves the store."""
        if self._kept is None:
            return run(self._with_connection(call))
        runner, peers = self._kept

        async def called() -> T:
            return await call(await self._checked_channel(peers))

        return runner.run(called())

    async def _with_connection(self, call: Callable[[Channel], Awaitable[T]]) -> T:
        peers = self._peers()
        try:
            return await call(await self._checked_channel(peers))
        finally:
            await peers.close()

    def _peers(self) -> Peers:
        return Peers(tls=self._tls, hooks=signing_hooks(self._credentials))

    async def _checked_channel(self, peers: Peers) -> Channel:
        try:
            channel = await peers.channel(self.address)
        except OSError as error:
            raise NoBrokerError(f"{self.address}: {error}") from None
        if self._path is None:
            return channel
        info = await self._info_of(channel)
        if info.store_id != self._store_id or await asyncio.to_thread(self._is_elsewhere, Path(info.path)):
            raise NoBrokerError(f"{self.address}: serves another store, {info.path}")
        return channel

    async def _info_of(self, channel: Channel) -> StoreInfoBody:
        code = RequestCode.ROCKETFLOW_STORE_INFO
        try:
            answer = await channel.request(code, timeout_s=ANSWER_SECONDS)
        except (OSError, ChannelClosedError) as error:  # TimeoutError is an OSError
            raise NoBrokerError(f"{self.address}: {error}") from None
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            refusal = RequestRefusedError(self.address, code, answer.code, answer.remark)
            raise NotRocketFlowError(f"the broker is not RocketFlow's, or too old: {refusal}")
        if answer.code == ResponseCode.NO_PERMISSION:
            raise NotAllowedError(f"{self.address}: {answer.remark}")
        if answer.code != ResponseCode.SUCCESS:
            raise NoBrokerError(f"{self.address}: answer {answer.code}: {answer.remark}")
        try:
            return decode_store_body(answer.body, StoreInfoBody)
        except RemotingError as error:
            raise NoBrokerError(f"{self.address}: {error}") from None

    def _is_elsewhere(self, path: Path) -> bool:
        """Return whether `path` is a directory of this machine other than the caller's, a copy of the store say."""
        try:
            return self._path is not None and not path.samefile(self._path)
        except OSError:  # the broker runs on another machine, or in a container
            return False

    async def _answer(self, channel: Channel, code: RequestCode, body: bytes) -> bytes:
        """Return the answer; ask for a sign of life every PING_SECONDS, which also keeps the connection open."""
        waiting = asyncio.ensure_future(channel.request(code, body=body, timeout_s=_LONGEST_SECONDS))
        try:
            while not (await asyncio.wait({waiting}, timeout=PING_SECONDS))[0]:
                await channel.request(RequestCode.ROCKETFLOW_STORE_INFO, timeout_s=ANSWER_SECONDS)
            answer = await waiting
        except (OSError, ChannelClosedError) as error:
            raise AnswerLostError(f"{self.address}: {error}") from None
        finally:
            waiting.cancel()
        if answer.code != ResponseCode.SUCCESS:
            raise RequestRefusedError(self.address, code, answer.code, answer.remark)
        return answer.body


async def _nothing(_: Channel) -> None:
    """Ask for nothing more than the check of the connection."""


__all__ = [
    "AnswerLostError",
    "NoBrokerError",
    "NotAllowedError",
    "NotRocketFlowError",
    "RequestRefusedError",
    "StoreClient",
    "unchecked_tls",
]
