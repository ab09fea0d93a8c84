"""Signatures of requests: an HMAC-SHA1 over the values of their fields, in the order of the names, and their body.

A signature says who sent which fields and body; it holds no time and no number, so a program that reads a request on
the wire can send the same request again. TLS prevents that.

RocketMQ's source: acl/common/AclUtils.java, AclSigner.java, AclClientRPCHook.java,
auth/authentication/builder/DefaultAuthenticationContextBuilder.java.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"

JOB_ACCESS_KEY: Final = "rocketflow.job"
"""The access key of jobs that see the store's directory; its secret is in the file `rocketflow/broker` of the store."""

UNIQUE_KEY_SIGNED_SINCE: Final = 400
"""Version ordinals from here on sign `_UNIQUE_KEY_QUERY`; older clients add it after they have signed."""

_UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
_UNSIGNED: Final = frozenset({SIGNATURE, "__ZONE_NAME", "__ZONE_MODE"})
"""Fields that clients add after they have signed."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The name of an account and its secret."""

    access_key: str
    secret_key: str = field(repr=False)


def signed_content(fields: Mapping[str, str], body: bytes, version: int) -> bytes:
    """Return what a client of a version signs: the values without separators, then the body."""
    names = [one for one in fields if one not in _UNSIGNED]
    if version < UNIQUE_KEY_SIGNED_SINCE and _UNIQUE_KEY_QUERY in fields:
        names.remove(_UNIQUE_KEY_QUERY)
    names.sort(key=_utf16)
    return "".join([fields[one] for one in names]).encode(errors="replace") + body


def signature(content: bytes, secret_key: str) -> str:
    """Return the signature of a content, in Base64."""
    return base64.b64encode(hmac.digest(secret_key.encode(errors="replace"), content, "sha1")).decode()


def sign(command: Command, credentials: Credentials) -> None:
    """Add account and signature to the fields of a request that is complete."""
    fields = command.fields
    fields[ACCESS_KEY] = credentials.access_key
    fields.pop(SIGNATURE, None)
    fields[SIGNATURE] = signature(signed_content(fields, command.body, command.version), credentials.secret_key)


def is_signed(command: Command, secret_key: str) -> bool:
    """Return whether a request has the signature of a secret; the comparison takes the same time for all signatures.

    Raises HeaderError if the fields of the request cannot be decoded.
    """
    fields = command.fields
    expected = signature(signed_content(fields, command.body, command.version), secret_key)
    return hmac.compare_digest(expected.encode(), fields.get(SIGNATURE, "").encode(errors="replace"))


def _utf16(name: str) -> bytes:
    """Return a key that sorts names as Java does: by UTF-16 units."""
    return name.encode("utf-16-be", errors="replace")
