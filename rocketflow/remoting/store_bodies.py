"""JSON bodies of RocketFlow's own requests about the store of a broker (30001 to 30008), and of their answers.

`v` is the version of a body: a broker answers 15 to a version that it does not know. A job that sees the store's
directory stages its parts there; another one sends their bytes (`headers.rocketflow`). `VERIFY` (30007) is not built:
`rocketflow store verify` reads the directory beside the broker.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import msgspec

from rocketflow.remoting.bodies import Body
from rocketflow.remoting.errors import BodyError

STORE_BODY_VERSION: Final = 1

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
FileName = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}\Z")]
"""A name without a directory."""


B = TypeVar("B")


def decode_store_body(data: bytes, body: type[B]) -> B:
    """Decode a body. Raises BodyError."""
    try:
        return msgspec.json.decode(data, type=body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BodyError(f"{body.__name__}: {error}") from None


class StoreBody(Body, kw_only=True):
    """Base of these bodies."""

    v: int = STORE_BODY_VERSION


class WriteBody(StoreBody, kw_only=True):
    """Base of the writes."""

    sync: bool = True
    """Whether the answer waits until the rows are on the disk, whatever the broker's flush mode."""


class PartBody(Body, kw_only=True):
    """A staged part: a file in the directory of its sink and batch below `rocketflow/staging`."""

    file: FileName
    rows: Count
    size: Count
    crc: Count
    digest: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{16}\Z")] | None
    """A number of 64 bits."""
    topics: list[str]
    property_crc: bool


class CommitBatchBody(WriteBody, kw_only=True):
    """30001: a sink's batch."""

    sink_id: str
    query_id: str
    batch_id: Count
    run_id: str
    run_seq: Count
    parts: list[PartBody]
    more_follow: bool = False
    queues: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = 8
    """The number of queues of a topic that the commit creates."""
    replay_mismatch: str = "error"


class CommitResultBody(StoreBody, kw_only=True):
    """Answer 30001."""

    status: str
    rows: Count
    begin_offset: Count
    end_offset: Count


class CommitProgressBody(WriteBody, kw_only=True):
    """30003: the progress of a source, and rows that were made from it."""

    sink_id: str
    run_id: str
    after: str | None = None
    """The envelope of the commit that the plan was made from, as its text."""
    progress: dict[str, Any]
    parts: list[PartBody]
    queues: dict[str, Annotated[int, msgspec.Meta(ge=1, le=65_536)]]
    """The numbers of queues of topics that the commit creates."""
    least_queues: dict[str, Annotated[int, msgspec.Meta(ge=1, le=65_536)]] = msgspec.field(default_factory=dict)
    """The numbers of queues that topics have after the commit, or more."""


class LastCommitBody(StoreBody, kw_only=True):
    """30004: the newest commit of a sink."""

    sink_id: str


class EnvelopeBody(StoreBody, kw_only=True):
    """Answers 30003 and 30004: the text of the newest envelope, null if the sink never committed."""

    envelope: str | None = None


class StoreInfoBody(StoreBody, kw_only=True):
    """Answer 30005: the store of the broker."""

    store_id: str
    path: str
    confirm_offset: Count = 0
    min_phy_offset: Count = 0
    max_phy_offset: Count = 0
    property_crc: bool = False
    """Whether records of the store have a CRC of themselves."""
    store_host: str = ""
    """The address in the ids of messages."""


class SnapshotBody(StoreBody, kw_only=True):
    """30006: make everything durable for a backup, which reads the store's directory."""


class SnapshotResultBody(StoreBody, kw_only=True):
    """Answer 30006: the physical offset before which all messages are that the broker has acknowledged."""

    confirm_offset: Count


class RequeueBody(WriteBody, kw_only=True):
    """30008: deliver the messages that are due at `until_ms`; `levels` are delays and retries."""

    until_ms: Count
    levels: bool = False
    timers: bool = False


class RequeueResultBody(StoreBody, kw_only=True):
    """Answer 30008: the counts of both deliveries, null for one that was not asked for."""

    levels: dict[str, Any] | None = None
    timers: dict[str, Any] | None = None
