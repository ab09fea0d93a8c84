"""Requests with and without signatures, as accounts of access rules send them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow.remoting.command import VERSION, Command, request
from rocketflow.remoting.signature import Credentials, sign

if TYPE_CHECKING:
    from rocketflow.remoting.headers.header import Header

ADMIN: Final = Credentials("administrator", "secret-of-the-admin")
READER: Final = Credentials("reader-1", "secret-of-the-reader")
WRITER: Final = Credentials("writer-1", "secret-of-the-writer")

PLAIN_RULES: Final = """
globalWhiteRemoteAddresses: []
accounts:
- accessKey: administrator
  secretKey: secret-of-the-admin
  admin: true
- accessKey: reader-1
  secretKey: secret-of-the-reader
  whiteRemoteAddress:
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [orders=SUB, closed=DENY]
  groupPerms: [readers=SUB]
- accessKey: writer-1
  secretKey: secret-of-the-writer
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - orders=PUB
  - both = PUB|SUB
"""
"""A plain_acl.yml with these accounts: `reader-1` consumes orders as readers, `writer-1` sends to orders."""


def signed(
    code: int, header: Header | None = None, body: bytes = b"", by: Credentials | None = None, version: int = VERSION
) -> Command:
    """Return a request, signed by an account if there is one."""
    command = request(code, header, body=body)
    command.version = version
    if by is not None:
        sign(command, by)
    return command
