"""Connections to other servers by address, and requests to them.

RocketMQ's source: remoting/netty/NettyRemotingClient.java.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rocketflow.aio.channel import UNSENT_LIMIT, Channel, ChannelClosedError
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.command import Command, answer

if TYPE_CHECKING:
    from rocketflow.aio.tls import Tls
    from rocketflow.remoting.headers.header import Header
    from rocketflow.remoting.rpc_hook import RpcHook

CONNECT_SECONDS: Final = 3.0
CLOSE_SECONDS: Final = 0.5
"""How long an orderly end of connections may take."""


class Peers:
    """Holds one connection to each address that requests were sent to.

    `processors` handle the requests that a server sends on such a connection, by code. With `tls`, connections begin
    with a handshake; `hooks` run with every request. While more than `unsent_limit` bytes wait for a server,
    `Channel.wait_for_peer` waits.
    """

    def __init__(
        self,
        processors: Mapping[int, Callable[[Channel, Command], None]] | None = None,
        *,
        tls: Tls | None = None,
        hooks: Sequence[RpcHook] = (),
        unsent_limit: int = UNSENT_LIMIT,
    ) -> None:
        self._hooks = tuple(hooks)
        self._unsent_limit = unsent_limit
        self._processors = dict(processors or {})
        self._tls = tls
        self._channels: dict[str, Channel] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._closed = asyncio.Event()

    async def request(
        self, address: str, code: int, header: Header | None = None, *, body: bytes = b"", timeout_s: float = 3.0
    ) -> Command:
        """Send a request to `host:port` and return the answer.

        Raises OSError if the address cannot be reached, ChannelClosedError, and TimeoutError after `timeout_s` seconds.
        """
        channel = await self.channel(address)
        return await channel.request(code, header, body=body, timeout_s=timeout_s)

    def open_channel(self, address: str) -> Channel | None:
        """Return the connection to an address, or None if there is none."""
        found = self._channels.get(address)
        return found if found is not None and found.is_open else None

    async def channel(self, address: str) -> Channel:
        """Return the connection to an address, opened if there is none. Raises OSError."""
        found = self.open_channel(address)
        if found is not None:
            return found
        async with self._locks.setdefault(address, asyncio.Lock()):
            channel = self.open_channel(address)
            if channel is None:
                channel = await self._connected(address)
                self._channels[address] = channel
            return channel

    async def _connected(self, address: str) -> Channel:
        host, _, port = address.rpartition(":")
        if not port.isdecimal():
            raise OSError(f"{address!r} is no address; host:port is expected")
        loop = asyncio.get_running_loop()
        context = None if self._tls is None else self._tls.context
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, channel = await loop.create_connection(
                    lambda: Channel(self, hooks=self._hooks, unsent_limit=self._unsent_limit),
                    host.strip("[]"),
                    int(port),
                    ssl=context,
                )
        except TimeoutError:
            raise OSError(f"{address}: no connection within {CONNECT_SECONDS:g} s") from None
        except ssl.SSLError as error:
            raise OSError(f"{address}: the TLS handshake failed: {error}") from None
        except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError) as error:
            if context is None:
                raise
            raise OSError(
                f"{address}: the server ended the connection during the TLS handshake: its port may have no TLS. Set "
                "tls.server.certPath and tls.server.keyPath there, or connect without TLS"
            ) from error
        except (ValueError, OverflowError) as error:  # a host that cannot be encoded, a port above 65535
            raise OSError(f"{address!r} is no address: {error}") from None
        return channel

    async def close(self) -> None:
        """End all connections; those that do not end within CLOSE_SECONDS are aborted.

        A connection with TLS ends when its peer has answered, which needs the event loop.
        """
        for channel in self._channels.values():
            channel.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while self._channels:
                    self._closed.clear()
                    await self._closed.wait()
        for channel in list(self._channels.values()):
            channel.abort()
        self._channels.clear()
        await asyncio.sleep(0)

    # --- what channels call

    @property
    def is_congested(self) -> bool:
        """Return False: what waits for other servers is small."""
        return False

    @property
    def limits_requests(self) -> bool:
        """Return False: the senders limit what waits for answers."""
        return False

    def opened(self, channel: Channel) -> None:
        """Take note of a new connection."""

    def wrote_much(self, channel: Channel) -> None:
        """Take note that many bytes may wait for the peer."""

    def unread_changed(self, channel: Channel, size: int) -> None:
        """Take note how many bytes of an incomplete frame have arrived."""

    def closed(self, channel: Channel) -> None:
        """Forget a connection that has ended."""
        for address, one in list(self._channels.items()):
            if one is channel:
                del self._channels[address]
                self._closed.set()

    def received(self, channel: Channel, command: Command) -> None:
        """Pass a server's request to the processor of its code; unknown codes are answered with 3."""
        processor = self._processors.get(command.code)
        if processor is not None:
            processor(channel, command)
        elif not command.is_one_way:
            unknown = f"request code {command.code} is not supported"
            channel.send(answer(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=unknown))


__all__ = ["ChannelClosedError", "Peers"]
