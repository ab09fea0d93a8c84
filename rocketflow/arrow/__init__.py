"""Messages of a pull consumer as Arrow columns.

    from rocketflow.arrow import pull_arrow
    from rocketflow.client import PullConsumer, PullOptions

    async with PullConsumer(PullOptions(name_servers="127.0.0.1:9876", group="g")) as consumer:
        await consumer.subscribe("orders")
        batches = await pull_arrow(consumer, ["queueOffset", "body"])

`rocketflow.arrow.sync` has the same function for `rocketflow.client.sync.PullConsumer`. The package is above
`rocketflow.client`, which needs neither the store nor pyarrow, and uses the store's decoder of records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rocketflow.arrow.decoder import LINGER_S, decoder
from rocketflow.client.pull.consumer import POLL_BYTES, POLL_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rocketflow.client.pull.consumer import PullConsumer

__all__ = ["pull_arrow"]


async def pull_arrow(
    consumer: PullConsumer,
    columns: Sequence[str] | None = None,
    *,
    timeout_s: float = POLL_SECONDS,
    max_bytes: int = POLL_BYTES,
    on_bad_body: Literal["fail", "raw", "quarantine"] = "fail",
) -> list[pa.RecordBatch]:
    """Return messages as RecordBatches, each of one queue and in its order; none if `timeout_s` passes.

    Waits and commits as `PullConsumer.poll` does, and returns the same messages, about `max_bytes`. After the
    first have arrived it waits 50 ms for more, because a batch of many rows costs little more than one of few. The
    columns are those of the Spark source, all but `properties` if None. Bodies are decompressed; CRCs are checked in
    bulk. `on_bad_body` says what happens to a message whose body cannot be decoded: `raw` returns the body as it is
    stored, with the reason in the column `bodyError`, `quarantine` skips the message and logs it (RF-BAD-BODY).

    Raises MissingPackageError without pyarrow, UnknownColumnError, DamagedBodyError, and CorruptRecordError for a
    record that is damaged; both name broker, topic and offset, and a seek after it goes on.
    """
    decode = decoder(columns, on_bad_body)
    return [batch for some in await consumer.poll_answers(decode, timeout_s, max_bytes, LINGER_S) for batch in some]
