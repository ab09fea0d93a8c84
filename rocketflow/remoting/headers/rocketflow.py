"""Headers of RocketFlow's own requests whose bodies are not JSON."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from rocketflow.remoting.headers.header import Header, Int32, Int64, RpcRequestHeader
from rocketflow.remoting.store_bodies import FileName

Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


UNKNOWN_SIZE: Final = 1 << 62


class StagePartRequestHeader(RpcRequestHeader, kw_only=True):
    """30002: begin to stage rows of a batch, or, with `file`, write the body's bytes at `position` of a part.

    A part is complete, and gets its name, once `size` bytes of it have been written. The same bytes may be sent again.
    Before its last piece the sender may not know the size, and says UNKNOWN_SIZE.
    """

    sink_id: str
    batch_id: Position
    run_id: str
    file: FileName | None = None
    position: Position = 0
    size: Position = 0


class StagePartResponseHeader(Header, kw_only=True):
    """Answer 30002: the sequence number of the run."""

    run_seq: Int64


class PullRangeRequestHeader(RpcRequestHeader, kw_only=True):
    """30009: read records of the queue offsets [start, end), as many as `max_bytes` hold, at least one."""

    consumer_group: str
    topic: str
    queue_id: Int32
    start: Position
    end: Position
    max_bytes: Int32


class PullRangeResponseHeader(Header, kw_only=True):
    """Answer 30009: the offset after the last record of the body, and the queue's offsets [min, max).

    Without a record `next_offset` is the start: pulls of single messages decide about the first one.
    """

    next_offset: Int64
    min_offset: Int64
    max_offset: Int64
