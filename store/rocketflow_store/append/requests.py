"""What can be put, and what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from rocketflow_store.format.record import RecordFields
from rocketflow_store.model.message import Message, MessageBatch
from rocketflow_store.model.results import PutMessageResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

Positions: TypeAlias = "Sequence[int] | npt.NDArray[np.int64]"
"""Where the entries of a batch body begin."""

PutRequest: TypeAlias = Message | MessageBatch | RecordFields
"""What can be put: a message, a client's batch, or a record whose fields are given byte for byte."""

Outcomes: TypeAlias = list[PutMessageResult | Exception]
"""What came of requests: an exception where one made no sense."""

LATE: Final = "the sync took longer than syncFlushTimeout; the message may be stored"


def body_size(request: PutRequest) -> int:
    """Return the size of a request's body in bytes; 0 for what is no message, which is refused when its turn comes."""
    try:
        return len(request.body or b"")
    except (TypeError, AttributeError):
        return 0


def unseen_because(error: BaseException) -> str:
    """Return why a message that is in the log is not seen."""
    return f"stored, but nobody sees it yet ({error}); it will be seen when that is over"
