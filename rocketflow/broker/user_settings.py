"""Settings of RocketMQ 5's users and policies.

RocketMQ's source: auth/config/AuthConfig.java, broker/BrokerStartup.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from rocketflow.errors import UsageError
from rocketflow.remoting.signature import Credentials

T = TypeVar("T")

_PACKAGE: Final = "org.apache.rocketmq.auth."
_CLASSES: Final = {
    "authenticationProvider": ("authentication.provider.DefaultAuthenticationProvider",),
    "authenticationMetadataProvider": ("authentication.provider.LocalAuthenticationMetadataProvider",),
    "authenticationStrategy": (
        "authentication.strategy.StatelessAuthenticationStrategy",
        "authentication.strategy.StatefulAuthenticationStrategy",
    ),
    "authorizationProvider": ("authorization.provider.DefaultAuthorizationProvider",),
    "authorizationMetadataProvider": ("authorization.provider.LocalAuthorizationMetadataProvider",),
    "authorizationStrategy": (
        "authorization.strategy.StatelessAuthorizationStrategy",
        "authorization.strategy.StatefulAuthorizationStrategy",
    ),
}
"""RocketMQ's own classes, whose behaviour is built in, by the key that may name them."""


class _InitialUser(msgspec.Struct):
    username: str
    password: str


class _InnerClient(msgspec.Struct, rename="camel"):
    access_key: str
    secret_key: str


class UserSettings(NamedTuple):
    """The checks to make, and the super users that are made at the start if they do not exist."""

    authorizes: bool
    unauthenticated: frozenset[int]
    unauthorized: frozenset[int]
    first_users: tuple[Credentials, ...]


def initial_user(text: str) -> Credentials | None:
    """Return the user of `initAuthenticationUser`, None for "". Raises UsageError, whose text has no password."""
    if not text.strip():
        return None
    found = _decoded("initAuthenticationUser", text, _InitialUser, '{"username":"...","password":"..."}')
    return Credentials(found.username, found.password)


def inner_client(text: str) -> Credentials | None:
    """Return the account of `innerClientAuthenticationCredentials`, None for "". Raises UsageError."""
    if not text.strip():
        return None
    example = '{"accessKey":"...","secretKey":"..."}'
    found = _decoded("innerClientAuthenticationCredentials", text, _InnerClient, example)
    return Credentials(found.access_key, found.secret_key)


def code_list(key: str, text: str) -> frozenset[int]:
    """Return the request codes of a list with commas. Raises UsageError."""
    codes = [one.strip() for one in text.split(",") if one.strip()]
    if not all(one.isdecimal() and one.isascii() for one in codes):
        raise UsageError(f"{key}={text}: request codes with commas between them are expected")
    return frozenset(map(int, codes))


def check_user_keys(given: Mapping[str, Any]) -> None:
    """Refuse values that name classes of others, and the import of RocketMQ 4's accounts. Raises UsageError."""
    for key, classes in _CLASSES.items():
        value = str(given.get(key) or "")
        known = [f"{_PACKAGE}{one}" for one in classes]
        if value and value not in known:
            raise UsageError(f"{key}={value}: classes of your own are not supported: remove it, or set {known[0]}")
    if given.get("migrateAuthFromV1Enabled"):
        raise UsageError(
            "migrateAuthFromV1Enabled=true is not supported: keep aclEnable=true, or create the users with mqadmin"
        )


def _decoded(key: str, text: str, kind: type[T], example: str) -> T:
    try:
        found = msgspec.json.decode(text.encode(errors="replace"), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UsageError(f"{key}: {example} is expected") from None
    if not all(getattr(found, one) for one in kind.__struct_fields__):  # type: ignore[attr-defined]
        raise UsageError(f"{key}: {example} is expected, without empty values")
    return found
