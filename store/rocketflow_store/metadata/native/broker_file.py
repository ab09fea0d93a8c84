"""`rocketflow/broker`: the broker that serves the store, for processes that find the store locked.

Checked JSON (`checked_json`), readable by the broker's user only. The broker writes the file once it serves and removes
it when it stops. After a kill the file remains: it counts only while the store is locked and a broker at `address`
answers with `store_id`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.json_fields import bool_field, int64_field, text_field
from rocketflow_store.metadata.native.checked_json import encode_checked_json, read_checked_json

if TYPE_CHECKING:
    from pathlib import Path

BROKER_FILE_VERSION: Final = 1
_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class BrokerFile:
    """The process that serves a store, and the address ("host:port") at which clients reach it."""

    address: str
    pid: int
    store_id: str
    tls: bool = False
    """True if the broker takes connections with TLS only."""

    secret: str = field(default="", repr=False)
    """What jobs sign their requests with; "" if the broker does not check them."""

    def encode(self) -> bytes:
        """Return the file's bytes."""
        fields = {"address": self.address, "pid": self.pid, "storeId": self.store_id, "tls": self.tls}
        secret = {"secret": self.secret} if self.secret else {}
        return encode_checked_json({"version": BROKER_FILE_VERSION, **fields, **secret})


def read_broker_file(path: Path) -> BrokerFile | None:
    """Return the content of the file; None if it is missing, invalid or of another version."""
    document = read_checked_json(path)
    try:
        if document is None or int64_field(document, "version", 0) != BROKER_FILE_VERSION:
            return None
        address, store_id = text_field(document, "address", ""), text_field(document, "storeId", "")
        pid, tls = int64_field(document, "pid", 0), bool_field(document, "tls", False)
        return BrokerFile(address, pid, store_id, tls, text_field(document, "secret", "")) if address else None
    except ValueError:
        return None


def write_broker_file(path: Path, broker: BrokerFile) -> None:
    """Write the file durably."""
    os_files.write_atomically(path, broker.encode(), mode=_MODE)
