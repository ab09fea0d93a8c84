"""Answers of brokers decoded to columns, without a Python call for each message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from rocketflow.client.consume.subscriptions import ALL, TAG
from rocketflow.errors import RocketFlowError

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketflow.client.pull.queue_buffer import Answer


LINGER_S: Final = 0.05
"""Wait for more messages after the first: a batch takes half a millisecond, and a microsecond for each message."""


class MissingPackageError(RocketFlowError):
    """pyarrow or numpy is not installed."""


def decoder(columns: Sequence[str] | None, on_bad_body: str = "fail") -> Callable[[Answer], list[pa.RecordBatch]]:
    """Return a function that decodes an answer to batches of these columns.

    Raises MissingPackageError, UnknownColumnError, and ValueError for another policy than those of `onBadBody`.
    """
    try:
        from rocketflow_store import RaiseFaults
        from rocketflow_store.spi.reads import PulledRecords
    except ModuleNotFoundError as error:
        raise MissingPackageError(f"pull_arrow needs {error.name}: run 'pip install pyarrow numpy isal'") from None

    PulledRecords(
        ("", "", 0), columns, None, RaiseFaults(on_bad_body)
    )  # a wrong column is reported before messages are taken

    def decode(answer: Answer) -> list[pa.RecordBatch]:
        queue, wanted = answer.queue, answer.subscription
        tags = wanted.sub_string if wanted.expression_type == TAG and wanted.sub_string != ALL else None
        place = queue.broker_name, queue.topic, queue.queue_id
        records = PulledRecords(place, columns, tags, RaiseFaults(on_bad_body))
        # as in `poll`, an offset without a message is no fault of the answer: the consumer reports it
        missing: list[tuple[int, int]] = []
        batches = list(records.batches(answer.records, answer.from_offset, answer.to_offset, lacking=missing.append))
        if answer.missing is not None:
            answer.missing.extend(missing)
        return batches

    return decode
