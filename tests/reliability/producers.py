"""A process with many producers of topic `t`, for the row in which producers and a query write it.

python -m tests.reliability.producers ADDRESS FIRST COUNT

Producer i of COUNT sends the numbers FIRST + i, FIRST + i + COUNT, ... to one queue, each after the answer to the one
before, until the broker ends. It prints each number before it is sent, and again, with its place, once it is stored.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import Final

from rocketflow.aio.loop import run
from rocketflow.client.errors import ClientError
from rocketflow_store.spi.messages import Message
from tests.support.servers import direct, put_batch
from tests.support.workload import body

PAUSE_SECONDS: Final = 0.2


async def produce(address: str, number: int, queue_id: int, step: int) -> None:
    """Send every `step`-th number to a queue, on a connection of its own."""
    async with direct() as client:
        with suppress(ClientError):  # the broker was killed, or stops
            while True:
                os.write(1, b"%d\n" % number)
                message = Message("t", body(number), keys=f"k{number}")
                offset = await put_batch(client, address, queue_id, [message])
                os.write(1, b"%d %d %d\n" % (number, queue_id, offset))
                number += step
                await asyncio.sleep(PAUSE_SECONDS)


async def main() -> None:
    address, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    await asyncio.gather(*(produce(address, first + one, one % 2, count) for one in range(count)))


if __name__ == "__main__":
    run(main())
