"""What can go wrong in a store, as types.

Every error derives from `StoreError` and carries two decisions for its caller: whether trying again can help
(`retriable`) and the exit code a command ends with (`exit_code`: 1 nothing was lost, 2 wrong use, 3 data lost or
set aside, 75 busy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rocketflow_store.model.status import PutMessageStatus


class StoreError(Exception):
    """Base of all errors of the storage engine."""

    retriable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1

    def __reduce__(self) -> tuple[Callable[..., StoreError], tuple[Any, ...]]:
        """For another process: what it says and carries, not what it was once made of."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[StoreError], args: tuple[Any, ...], carried: dict[str, Any]) -> StoreError:
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
    """A directory that a store is spread over is not there, or is not the one that was written to."""

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
    """The directory was written by a version, or with sizes, that this open cannot honour."""

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
    """Bytes of a file that the disk cannot read, or that were cut off while it was open; the others can be read."""

    exit_code = 3

    def __init__(self, path: object, start: int, stop: int) -> None:
        super().__init__(
            path, f"something in [{start}, {stop}) cannot be read: a disk error, or the file was cut; restore the file"
        )
        self.start, self.stop = start, stop


class StoreLockedError(StoreError):
    """Another process owns the directory for writing."""

    retriable = True
    exit_code = 75

    def __init__(self, path: object, holder: str) -> None:
        super().__init__(f"{path}: locked by {holder}; stop it, or write through it")
        self.path, self.holder = str(path), holder


class StoreReplacedError(StoreError):
    """Files of the store were replaced while a range of it was read."""

    retriable = True

    def __init__(self, path: object) -> None:
        super().__init__(
            f"{path}: files were replaced while they were read (a restore, or a recovery that cut the end); "
            "read again from a queue offset that you know"
        )
        self.path = str(path)


class StoreFencedError(StoreError):
    """A sync failed earlier: nothing is acknowledged any more until the store is opened anew."""

    def __init__(self, path: object, why: str) -> None:
        super().__init__(f"{path}: fenced after a failed sync ({why}); reads go on, reopen the store to append")
        self.path, self.why = str(path), why


class StoreFullError(StoreError):
    """No space is left for the next CommitLog file or record."""

    retriable = True

    def __init__(self, path: object, why: str, remedy: str = "append again (no restart is needed)") -> None:
        super().__init__(f"{path}: {why}; free space, then {remedy}")
        self.path, self.why = str(path), why


class RemoteStoreError(StoreError):
    """Object storage, or another place beyond this machine, does not answer as it should; nothing was changed."""

    def __init__(self, uri: object, why: str) -> None:
        super().__init__(f"{uri}: {why}; nothing is half done: see that it can be reached and run this again")
        self.uri, self.why = str(uri), why


class RebuildFailedError(StoreError):
    """What was made beside the store does not agree with the log; nothing was swapped."""

    def __init__(self, path: object, why: str) -> None:
        super().__init__(f"{path}: {why}; the store is as it was: run `rocketflow store verify`, then try again")
        self.path, self.why = str(path), why


class FlushDiskTimeoutError(StoreError):
    """A sync takes too long: what was appended may be stored, and will be seen once it is synced."""

    def __init__(self, path: object, waited_s: float) -> None:
        super().__init__(
            f"{path}: what was appended is not synced within {waited_s:g} s (syncFlushTimeout); it may be stored"
        )
        self.path, self.waited_s = str(path), waited_s


class FileAllocationTimeoutError(StoreError):
    """The next CommitLog file takes too long to be made."""

    retriable = True

    def __init__(self, path: object, waited_s: float) -> None:
        super().__init__(f"{path}: is not made after {waited_s:g} s (is the disk hanging?); append again")
        self.path, self.waited_s = str(path), waited_s


class StorePoolDeficientError(StoreError):
    """The next CommitLog file needs a buffer, and the TransientStorePool has none left."""

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
    """The slices of a get were asked for behind its release."""

    def __init__(self) -> None:
        super().__init__("the result was released; take its slices, or `messages`, before that")


class MessageRejectedError(StoreError):
    """A message was refused before anything was written; `status` says as what, `row` which one of a batch."""

    def __init__(self, status: PutMessageStatus, why: str, row: int | None = None) -> None:
        super().__init__(f"{'' if row is None else f'row {row}: '}{why} ({status.name})")
        self.status, self.why, self.row = status, why, row


class PutStatusError(StoreError):
    """A put was answered with another status than PUT_OK; `status` says which, `why` for what reason."""

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
    """A batch to append lacks a column, names one twice, or has one whose values are not what the column holds."""

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
    """A file that is to be written exists, and was not to be overwritten."""

    exit_code = 2

    def __init__(self, path: object) -> None:
        super().__init__(f"{path} exists: give another directory, or --force (overwrite) to replace it")
        self.path = path


class MessageNotFoundError(StoreError):
    """No message begins where one was asked for."""

    def __init__(self, path: object, phy_offset: int) -> None:
        super().__init__(f"{path}: no message begins at physical offset {phy_offset}; it is gone, or never was there")
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
    """A queue range was asked for that retention removed or that was never written."""

    exit_code = 3

    def __init__(self, topic: str, queue_id: int, offset: int, min_offset: int, max_offset: int) -> None:
        super().__init__(f"topic {topic} queue {queue_id}: offset {offset} is outside [{min_offset}, {max_offset})")
        self.topic, self.queue_id, self.offset = topic, queue_id, offset
        self.min_offset, self.max_offset = min_offset, max_offset


class CorruptRecordError(StoreError):
    """Bytes are not what the place they stand in says they are."""

    exit_code = 3

    def __init__(self, file: object, offset: int, why: str) -> None:
        super().__init__(f"{file} at {offset}: {why}")
        self.file, self.offset, self.why = str(file), offset, why


class TruncatedRecordError(CorruptRecordError):
    """A field would reach past the bytes that are there."""

    def __init__(self, file: object, offset: int, field: str, needed: int, remaining: int) -> None:
        super().__init__(file, offset, f"{field} needs {needed} bytes, {remaining} are left")
        self.field, self.needed, self.remaining = field, needed, remaining


class UnsupportedRecordError(StoreError):
    """A well-formed thing that this version does not know (a magic code, a compression): kept, not guessed at."""

    exit_code = 3

    def __init__(self, file: object, offset: int, why: str) -> None:
        super().__init__(f"{file} at {offset}: {why}")
        self.file, self.offset, self.why = str(file), offset, why
