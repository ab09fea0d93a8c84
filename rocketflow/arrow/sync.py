"""Messages of a synchronous pull consumer as Arrow columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rocketflow.arrow.decoder import LINGER_S, decoder
from rocketflow.client.pull.consumer import POLL_BYTES, POLL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rocketflow.client.sync.pull_consumer import PullConsumer

__all__ = ["pull_arrow"]


def pull_arrow(
    consumer: PullConsumer,
    columns: Sequence[str] | None = None,
    *,
    timeout_s: float = POLL_SECONDS,
    max_bytes: int = POLL_BYTES,
    on_bad_body: Literal["fail", "raw", "quarantine"] = "fail",
) -> list[pa.RecordBatch]:
    """Return messages as RecordBatches, as `rocketflow.arrow.pull_arrow` does."""
    decode = decoder(columns, on_bad_body)
    return [batch for some in consumer.poll_answers(decode, timeout_s, max_bytes, LINGER_S) for batch in some]
