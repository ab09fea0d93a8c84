"""The hook that signs requests with an account."""

from __future__ import annotations

import itertools
import secrets
import time
from typing import TYPE_CHECKING

from rocketflow.remoting.rpc_hook import RpcHook
from rocketflow.remoting.signature import RequestMark, sign

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command
    from rocketflow.remoting.signature import Credentials


class SigningHook(RpcHook):
    """A hook that adds account, mark and signature, which covers all fields: it has to be the last hook."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._client = secrets.token_urlsafe(16)
        self._numbers = itertools.count(1)

    def before_request(self, address: str, request: Command) -> None:
        """Add account, mark and signature to the request."""
        mark = RequestMark(int(time.time() * 1000), self._client, next(self._numbers), "")
        sign(request, self._credentials, mark)


def signing_hooks(credentials: Credentials | None) -> tuple[RpcHook, ...]:
    """Return the hook that signs with credentials, none without them."""
    return () if credentials is None else (SigningHook(credentials),)
