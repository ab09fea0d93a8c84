"""The errors of a store, as types, and the base of all errors of RocketFlow.

Every error carries two decisions for its caller: `retriable` if another attempt can help, and the exit code of a
command (`exit_code`: 1 nothing was lost, 2 wrong use, 3 data lost or quarantined, 75 busy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rocketflow_store.model.status import PutMessageStatus


class RocketFlowError(Exception):
    """Base of all errors that RocketFlow raises for its users."""

    retriable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1

    def __reduce__(self) -> tuple[Callable[..., RocketFlowError], tuple[Any, ...]]:
        """Return what pickle needs: the message and the attributes, not the arguments of the constructor."""
        return _restored, (type(self), self.args, self.__dict__)


class StoreError(RocketFlowError):
    """Base of all errors of the storage engine."""


def _restored(kind: type[RocketFlowError], args: tuple[Any, ...], carried: dict[str, Any]) -> RocketFlowError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(carried)
    return error


class NotAStoreError(StoreError):
    """The path is missing, is a file, or holds no RocketMQ store."""

    exit_code = 2

    def __init__(self, path: object, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.why = str(path), why


class MissingStorePathError(StoreError):
    """A directory of a store that uses several is missing, or is not the one that was written to."""

    exit_code = 2

    def __init__(self, key: str, path: object, why: str) -> None:
        super().__init__(f"{path} ({key}) {why}; nothing was changed: mount or restore it and open again")
        self.key, self.path, self.why = key, str(path), why


class StoreConfigError(StoreError):
    """A configuration key has a value that cannot be used."""

    exit_code = 2

    def __init__(self, key: str, value: object, why: str) -> None:
        super().__init__(f"{key}={value!r}: {why}")
        self.key, self.value, self.why = key, value, why


class StoreVersionError(StoreError):
    """The directory was written by a version, or with sizes, that this open does not support."""

    exit_code = 2

    def __init__(self, path: object, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.why = str(path), why


class OtherEngineError(StoreVersionError):
    """A part of the store is kept by an engine that RocketFlow does not have: `feature`, by RocketMQ's `setting`."""

    def __init__(self, path: object, feature: str, setting: str, way_out: str) -> None:
        super().__init__(path, f"is {feature} ({setting}), which RocketFlow cannot use: {way_out}")
        self.feature, self.setting, self.way_out = feature, setting, way_out


class StoreAccessError(StoreError):
    """The operating system refused to open or read a file of the store."""

    exit_code = 2

    def __init__(self, path: object, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.why = str(path), why


class UnreadableError(StoreAccessError):
    """Bytes of a file that the disk cannot read, or that were cut off while it was open; other bytes are readable."""

    exit_code = 3

    def __init__(self, path: object, start: int, stop: int) -> None:
        super().__init__(
            path,
            f"bytes in [{start}, {stop}) cannot be read: a disk error, or a truncated file; restore it",
        )
        self.start, self.stop = start, stop


class WouldBlockError(StoreError):
    """A read would have to wait for the disk, and its caller asked not to wait."""

    retriable = True

    def __init__(self, path: object) -> None:
        super().__init__(f"{path}: what is to be read is not in memory; read it in a thread that may wait")
        self.path = str(path)


class StoreLockedError(StoreError):
    """Another process has locked the directory for writing."""

    retriable = True
    exit_code = 75

    def __init__(self, path: object, holder: str, remedy: str = "stop it, or write through it") -> None:
        super().__init__(f"{path}: locked by {holder}; {remedy}")
        self.path, self.holder = str(path), holder


class StoreReplacedError(StoreError):
    """Files of the store were replaced while a range of it was read."""

    retriable = True

    def __init__(self, path: object) -> None:
        super().__init__(
            f"{path}: files were replaced while they were read (a restore, or a recovery that truncated the end); "
            "read again from a known queue offset"
        )
        self.path = str(path)


class StoreFencedError(StoreError):
    """A sync failed earlier: nothing is acknowledged until the store is reopened."""

    def __init__(self, path: object, why: str) -> None:
        super().__init__(f"{path}: fenced after a failed sync ({why}); reopen the store to append, reads still work")
        self.path, self.why = str(path), why


class StoreMovedError(StoreFencedError):
    """Files of an open store are no longer at their place: nothing is acknowledged until it is opened again there."""

    def __init__(self, path: object, why: str) -> None:
        StoreError.__init__(
            self,
            f"{path}: fenced, since {why}, then open the store again; nothing is written here, reads still work",
        )
        self.path, self.why = str(path), why


class StoreFullError(StoreError):
    """There is no space for the next CommitLog file or record."""

    retriable = True

    def __init__(self, path: object, why: str, remedy: str = "append again (no restart is needed)") -> None:
        super().__init__(f"{path}: {why}; free space, then {remedy}")
        self.path, self.why = str(path), why


class DescriptorLimitError(StoreError):
    """A topic or a queue cannot be created: almost all file descriptors of the process are in use."""

    retriable = True

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(
            f"{name} cannot be created: almost all of the {limit:,} file descriptors of this process are in use "
            "(ulimit -n); existing queues are still written: close other files or connections, or raise the limit"
        )
        self.name, self.limit = name, limit


class RemoteStoreError(StoreError):
    """Object storage, or another remote location, does not respond as expected; nothing was changed."""

    def __init__(self, uri: object, why: str) -> None:
        super().__init__(f"{uri}: {why}; nothing was changed: check that it is reachable and run this again")
        self.uri, self.why = str(uri), why


class RebuildFailedError(StoreError):
    """The rebuilt files do not match the log; nothing was swapped."""

    def __init__(self, path: object, why: str) -> None:
        super().__init__(f"{path}: {why}; the store is unchanged: run `rocketflow store verify`, then try again")
        self.path, self.why = str(path), why


class FlushDiskTimeoutError(StoreError):
    """A sync takes too long: the appended messages may be stored, and are visible once they are synced."""

    def __init__(self, path: object, waited_s: float) -> None:
        super().__init__(
            f"{path}: the append was not synced within {waited_s:g} s (syncFlushTimeout); it may be stored"
        )
        self.path, self.waited_s = str(path), waited_s


class FileAllocationTimeoutError(StoreError):
    """The allocation of the next CommitLog file takes too long."""

    retriable = True

    def __init__(self, path: object, waited_s: float) -> None:
        super().__init__(f"{path}: not allocated after {waited_s:g} s (is the disk hanging?); append again")
        self.path, self.waited_s = str(path), waited_s


class StorePoolDeficientError(StoreError):
    """The next CommitLog file needs a buffer, and all of the TransientStorePool's are in use."""

    retriable = True

    def __init__(self, path: object, size: int) -> None:
        super().__init__(
            f"{path}: all {size} buffers of the TransientStorePool wait to be committed; raise transientStorePoolSize "
            "or switch fastFailIfNoBufferInStorePool off"
        )
        self.path = str(path)


class StoreClosedError(StoreError):
    """The store was closed."""

    def __init__(self, path: object) -> None:
        super().__init__(f"{path}: the store is closed")
        self.path = str(path)


class ResultReleasedError(StoreError):
    """The slices of a get were accessed after its release."""

    def __init__(self) -> None:
        super().__init__("the result was released; take its slices, or `messages`, before that")


class MessageRejectedError(StoreError):
    """A message was refused before anything was written, with a `status`; `row` is its number in a batch."""

    def __init__(self, status: PutMessageStatus, why: str, row: int | None = None) -> None:
        super().__init__(f"{'' if row is None else f'row {row}: '}{why} ({status.name})")
        self.status, self.why, self.row = status, why, row


class PutStatusError(StoreError):
    """A put ended with another `status` than PUT_OK, for the reason `why`."""

    def __init__(self, status: PutMessageStatus, topic: str, why: str) -> None:
        super().__init__(f"topic {topic}: {status.name}: {why or 'the message was not stored'}")
        self.status, self.topic, self.why = status, topic, why


class UnknownColumnError(StoreError):
    """A column name is not one of those allowed."""

    exit_code = 2

    def __init__(self, column: str, allowed: Iterable[str]) -> None:
        self.column, self.allowed = column, tuple(allowed)
        super().__init__(f"unknown column {column!r}; allowed are {', '.join(self.allowed)}")


class BatchSchemaError(StoreError):
    """A batch to append lacks a column, has one twice, or has one with values of another type."""

    exit_code = 2

    def __init__(self, column: str, why: str) -> None:
        self.column, self.why = column, why
        super().__init__(f"column {column}: {why}")


class UnknownTopicError(StoreError):
    """The store holds no such topic, or the topic no such queue."""

    exit_code = 2

    def __init__(self, topic: str, queue_id: int | None = None) -> None:
        what = f"topic {topic!r}" if queue_id is None else f"queue {queue_id} of topic {topic!r}"
        super().__init__(f"no {what} in this store")
        self.topic, self.queue_id = topic, queue_id


class FileExistsInTargetError(StoreError):
    """A file to be written exists, and overwriting was not requested."""

    exit_code = 2

    def __init__(self, path: object) -> None:
        super().__init__(f"{path} exists: give another directory, or --force (overwrite) to replace it")
        self.path = path


class BackupTargetError(StoreError):
    """A backup cannot be written at this path; nothing there was changed."""

    exit_code = 2

    def __init__(self, path: object, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path = str(path)


class UncleanStoreError(StoreError):
    """The last writer of the store was killed: before a recovery its end is not certain."""

    def __init__(self, path: object) -> None:
        super().__init__(
            f"{path}: its last writer was killed, so that the end of its log is not certain; start its broker or run "
            "`rocketflow store recover`, then try again"
        )
        self.path = str(path)


class MessageNotFoundError(StoreError):
    """No message begins at the requested offset."""

    def __init__(self, path: object, phy_offset: int) -> None:
        super().__init__(f"{path}: no message begins at physical offset {phy_offset}; it was deleted, or never existed")
        self.path, self.phy_offset = str(path), phy_offset


class InvalidFilterError(StoreError):
    """A tag or SQL92 expression does not parse; `position` counts characters from 0."""

    exit_code = 2

    def __init__(self, expression: str, position: int, why: str) -> None:
        super().__init__(f"filter {expression!r}, position {position}: {why}")
        self.expression, self.position, self.why = expression, position, why


class InvalidMessageIdError(StoreError, ValueError):
    """A text is not the id of a message."""

    exit_code = 2

    def __init__(self, msg_id: str) -> None:
        super().__init__(f"{msg_id[:64]!r} is not a message id: 32 or 56 hex digits are expected")
        self.msg_id = msg_id


class OffsetOutOfRangeError(StoreError):
    """The requested queue range was removed by retention or never written."""

    exit_code = 3

    def __init__(self, topic: str, queue_id: int, offset: int, min_offset: int, max_offset: int) -> None:
        super().__init__(f"topic {topic} queue {queue_id}: offset {offset} is outside [{min_offset}, {max_offset})")
        self.topic, self.queue_id, self.offset = topic, queue_id, offset
        self.min_offset, self.max_offset = min_offset, max_offset


class CorruptRecordError(StoreError):
    """Bytes do not match the format of their place, or its checksum."""

    exit_code = 3

    def __init__(self, file: object, offset: int, why: str) -> None:
        super().__init__(f"{file} at {offset}: {why}")
        self.file, self.offset, self.why = str(file), offset, why


class DamagedBodyError(CorruptRecordError):
    """The body of a message cannot be decoded, though the record is as it was sent: nothing is lost.

    `reason` is the cause alone; `file` and `offset` are the place of the record.
    """

    exit_code = 1

    def __init__(self, file: object, offset: int, message: tuple[str, int, int], reason: str) -> None:
        """Take the place of the record, (topic, queue id, queue offset), and the cause."""
        self.topic, self.queue_id, self.queue_offset = message
        self.reason = reason
        where = f"topic {self.topic}, queue {self.queue_id}, queue offset {self.queue_offset}"
        super().__init__(file, offset, f"body: {reason} ({where}); {BAD_BODY_REMEDY}")


BadBodyError = DamagedBodyError
"""The name before 0.3."""

BAD_BODY_REMEDY: Final = (
    "the record is as it was sent: onBadBody=raw (--on-bad-body raw, on_bad_body='raw') returns its body as it is "
    "stored, quarantine skips the message and reports it"
)


class TruncatedRecordError(CorruptRecordError):
    """A field would reach past the existing bytes."""

    def __init__(self, file: object, offset: int, field: str, needed: int, remaining: int) -> None:
        super().__init__(file, offset, f"{field} needs {needed} bytes, {remaining} remain")
        self.field, self.needed, self.remaining = field, needed, remaining


class StagedPartError(CorruptRecordError):
    """A staged part whose bytes are not the records that its commit announces: nothing of the batch was written."""

    def __init__(self, part: str, why: str, row: int | None = None) -> None:
        super().__init__(part, 0, why)
        self.row = row
        place = part if row is None else f"{part}, row {row}"
        self.args = (f"{place}: {why}; nothing of the batch was written",)


class UnsupportedRecordError(StoreError):
    """A well-formed value that this version does not know (a magic code, a compression): kept unchanged."""

    exit_code = 3

    def __init__(self, file: object, offset: int, why: str) -> None:
        super().__init__(f"{file} at {offset}: {why}")
        self.file, self.offset, self.why = str(file), offset, why
