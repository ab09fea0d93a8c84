"""Signatures of requests: an HMAC-SHA1 over the values of their fields, in the order of the names, and their body.

RocketMQ's signature covers no code, no names of fields, not where a value ends, no time and no number: a program that
reads a request on the wire can send it again, or send another one with the same values. RocketFlow's clients therefore
add a field with a mark (`RequestMark`), which is signed with the others; RocketMQ's servers ignore it. The values of
marked requests begin with the account and the mark, so that a server recognises one whose mark was moved elsewhere.

RocketMQ's source: acl/common/AclUtils.java, AclSigner.java, AclClientRPCHook.java,
auth/authentication/builder/DefaultAuthenticationContextBuilder.java.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"

JOB_ACCESS_KEY: Final = "rocketflow.job"
"""The access key of jobs that see the store's directory; its secret is in the file `rocketflow/broker` of the store."""

UNIQUE_KEY_SIGNED_SINCE: Final = 400
"""Version ordinals from here on sign `_UNIQUE_KEY_QUERY`; older clients add it after they have signed."""

MARK: Final = "AccessKeyMark"
"""The field of the mark; no field of RocketMQ has a name between this one and that of the account."""

_MARK: Final = "~rocketflow1~"
_MARK_VALUE: Final = re.compile(
    f"{_MARK}(?P<time>[0-9]{{1,15}})[.](?P<number>[0-9]{{1,15}})[.](?P<client>[A-Za-z0-9_-]{{22}})"
    "[.](?P<digest>[A-Za-z0-9_-]{20})~",
    re.ASCII,
)
_UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"
_UNSIGNED: Final = frozenset({SIGNATURE, "__ZONE_NAME", "__ZONE_MODE"})
"""Fields that clients add after they have signed."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The name of an account and its secret."""

    access_key: str
    secret_key: str = field(repr=False)


class RequestMark(NamedTuple):
    """The parts that make a request unique: time, client (random letters, digits, - and _) and its number there.

    `digest` covers the code, the names of the fields, and the lengths of their values and of the body.
    """

    time_ms: int
    client: str
    number: int
    digest: str

    def __str__(self) -> str:
        """Return the value of the field."""
        return f"{_MARK}{self.time_ms}.{self.number}.{self.client}.{self.digest}~"


def signed_content(fields: Mapping[str, str], body: bytes, version: int) -> bytes:
    """Return what a client of a version signs: the values without separators, then the body."""
    return "".join([fields[one] for one in _signed_names(fields, version)]).encode(errors="replace") + body


def _signed_names(fields: Mapping[str, str], version: int) -> list[str]:
    names = [one for one in fields if one not in _UNSIGNED]
    if version < UNIQUE_KEY_SIGNED_SINCE and _UNIQUE_KEY_QUERY in fields:
        names.remove(_UNIQUE_KEY_QUERY)
    names.sort(key=None if "".join(names).isascii() else _utf16)
    return names


def digest_of(command: Command) -> str:
    """Return the digest of a request for its mark. Raises HeaderError."""
    fields = command.fields
    names = [one for one in _signed_names(fields, command.version) if one != MARK]
    sizes = " ".join([str(len(fields[one])) for one in names])
    text = "\n".join((str(command.code), *names, f"{len(command.body)} {sizes}"))
    found = hashlib.sha256(text.encode(errors="replace")).digest()
    return base64.urlsafe_b64encode(found[:15]).decode()


def signature(content: bytes, secret_key: str) -> str:
    """Return the signature of a content, in Base64."""
    return base64.b64encode(hmac.digest(secret_key.encode(errors="replace"), content, "sha1")).decode()


def sign(command: Command, credentials: Credentials, mark: RequestMark | None = None) -> None:
    """Add account, mark (its digest is computed here) and signature to the fields of a request that is complete."""
    fields = command.fields
    fields[ACCESS_KEY] = credentials.access_key
    fields.pop(MARK, None)
    if mark is not None:
        fields[MARK] = str(mark._replace(digest=digest_of(command)))
    fields.pop(SIGNATURE, None)
    fields[SIGNATURE] = signature(signed_content(fields, command.body, command.version), credentials.secret_key)


def is_signed(command: Command, secret_key: str) -> bool:
    """Return whether a request has the signature of a secret. Raises HeaderError."""
    return verified_content(command, secret_key) is not None


def verified_content(command: Command, secret_key: str) -> bytes | None:
    """Return what the client of a request has signed, None if the signature is not one of the secret.

    The comparison takes the same time for all signatures. Raises HeaderError if the fields cannot be decoded.
    """
    content = signed_content(command.fields, command.body, command.version)
    return content if is_signature(command.fields.get(SIGNATURE, ""), content, secret_key) else None


def is_signature(given: str, content: bytes, secret_key: str) -> bool:
    """Return whether a text is the signature of a content; it takes the same time for all signatures."""
    return hmac.compare_digest(signature(content, secret_key).encode(), given.encode(errors="replace"))


def mark_of(command: Command, content: bytes) -> RequestMark | None:
    """Return the mark of a request whose verified content is known, None if its client adds none.

    Raises ValueError if a client added one and it is not in its field, or is that of another request, and HeaderError.
    """
    fields = command.fields
    given = fields.get(MARK, "")
    if not given and not content.startswith(f"{fields.get(ACCESS_KEY, '')}{_MARK}".encode(errors="replace")):
        return None
    found = _MARK_VALUE.fullmatch(given)
    if found is None or found["digest"] != digest_of(command):
        raise ValueError("its fields are not those that its client signed")
    return RequestMark(int(found["time"]), found["client"], int(found["number"]), found["digest"])


def _utf16(name: str) -> bytes:
    """Return a key that sorts names as Java does: by UTF-16 units."""
    return name.encode("utf-16-be", errors="replace")
