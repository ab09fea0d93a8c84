"""Result of a get: slices of mapped files, as RocketMQ's GetMessageResult and SelectMappedBufferResult.

Nothing is copied. The slices, and the descriptors of `segments`, stay valid until the result is released or dropped,
whatever retention or the close of the store do meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

from rocketflow_store.format.record import decode_record
from rocketflow_store.model.errors import ResultReleasedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from rocketflow_store.files.mapped.mapped_file import FileHold
    from rocketflow_store.format.record import RecordFrame
    from rocketflow_store.model.message import ReceivedMessage
    from rocketflow_store.model.status import GetMessageStatus
    from rocketflow_store.reading.skipped import SkippedMessages


class Segment(NamedTuple):
    """`length` bytes from `position` of the open file `fd`, for `os.sendfile`."""

    fd: int
    position: int
    length: int


@dataclass(frozen=True, slots=True, eq=False)
class SelectMappedBufferResult:
    """One record in the log: `frame` has positions in `held.view`, the map of its file."""

    held: FileHold
    frame: RecordFrame

    @property
    def start_offset(self) -> int:
        """Physical offset of the record."""
        return self.frame.phy_offset

    @property
    def size(self) -> int:
        """Bytes of the record."""
        return self.frame.size

    @property
    def byte_buffer(self) -> memoryview:
        """The complete record, read-only."""
        return self.held.view[self.frame.position : self.frame.end]

    @property
    def body(self) -> memoryview:
        """The stored body (compressed if `frame.sys_flag` says so), read-only."""
        return self.held.view[self.frame.body_start : self.frame.body_end]

    def message(self) -> ReceivedMessage:
        """Return the message, copied out of the map."""
        self.held.populate_again(self.frame.position, self.frame.end)  # a file may have been cut since
        return decode_record(self.held.view, self.frame.position, self.held.path, check_crc=False)


class GetMessageResult:
    """Result of a get: `release` it, leave its `with` block, or drop it."""

    __slots__ = (
        "_messages",
        "_selected",
        "buffer_total_size",
        "max_offset",
        "message_count",
        "min_offset",
        "next_begin_offset",
        "skipped",
        "status",
        "suggest_pulling_from_slave",
    )

    def __init__(
        self,
        status: GetMessageStatus,
        next_begin_offset: int,
        min_offset: int,
        max_offset: int,
        selected: Sequence[SelectMappedBufferResult] = (),
        *,
        skipped: Sequence[SkippedMessages] = (),
        suggest_pulling_from_slave: bool = False,
    ) -> None:
        self.status = status
        self.next_begin_offset, self.min_offset, self.max_offset = next_begin_offset, min_offset, max_offset
        self._selected: Sequence[SelectMappedBufferResult] | None = selected
        self._messages: list[ReceivedMessage] | None = None
        self.message_count = len(selected)
        self.skipped = tuple(skipped)
        """Missing or damaged messages before `next_begin_offset`; `status` is RocketMQ's and does not show losses."""
        self.buffer_total_size = sum(one.frame.size for one in selected)
        self.suggest_pulling_from_slave = suggest_pulling_from_slave
        """True if the read is further from the log's end than memory holds (`accessMessageInMemoryMaxRatio`)."""

    @property
    def message_mapped_list(self) -> Sequence[SelectMappedBufferResult]:
        """The records, in the order of the queue; raises ResultReleasedError after `release`."""
        if self._selected is None:
            raise ResultReleasedError
        return self._selected

    @property
    def messages(self) -> list[ReceivedMessage]:
        """The messages, copied out of the files at the first call; they outlive the result."""
        if self._messages is None:
            self._messages = [one.message() for one in self.message_mapped_list]
        return self._messages

    def segments(self) -> list[Segment]:
        """Return the records as runs of files, adjacent ones in one, in the order of the queue; for `os.sendfile`.

        The descriptors belong to the store: read from them at a position, and not after `release`.
        """
        return [Segment(held.fd, start, stop - start) for held, start, stop in self._runs()]

    def buffers(self) -> list[memoryview]:
        """Return the same runs as views, for `socket.sendmsg` (at most IOV_MAX of them, mostly 1024, in one call)."""
        return [held.view[start:stop] for held, start, stop in self._runs()]

    def _runs(self) -> Iterator[tuple[FileHold, int, int]]:
        run: tuple[FileHold, int, int] | None = None
        for one in self.message_mapped_list:
            frame = one.frame
            if run is not None and run[0] is one.held and run[2] == frame.position:
                run = (one.held, run[1], frame.end)
                continue
            if run is not None:
                yield run
            run = (one.held, frame.position, frame.end)
        if run is not None:
            yield run

    def release(self) -> None:
        """Release the files; may be called again. Views that were taken before stay valid while they are kept."""
        selected, self._selected = self._selected, None
        for held in {one.held for one in selected or ()}:
            held.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
