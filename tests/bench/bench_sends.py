"""Processor time of sends inside a broker's process, without sockets, with and without the kernel in turn.

python -m tests.bench.bench_sends [ROUNDS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from unittest.mock import patch

from rocketflow_store.records.encoding import sent_frames
from tests.support.sender import Sender, send, text_of

MESSAGES = 12_800
SIZES = {"mappedFileSizeCommitLog": str(1 << 30), "maxHashSlotNum": "1000000", "maxIndexNum": "4000000"}


def us_a_message(sender: Sender, together: int) -> float:
    """Return the processor time of a send of 200 bytes, of which so many arrive in one read."""
    reads = []
    for first in range(0, MESSAGES, together):
        numbers = range(first, min(first + together, MESSAGES))
        keys = (text_of({"UNIQ_KEY": f"7F000001{one:024X}", "WAIT": "true"}) for one in numbers)
        reads.append(b"".join(send(one, b"x" * 200, key, e=str(one % 4)) for one, key in zip(numbers, keys)))
    began = time.process_time()
    for data in reads:
        sender.feed(data)
    return (time.process_time() - began) / MESSAGES * 1e6


def main(rounds: int) -> None:
    """Print the medians."""
    with tempfile.TemporaryDirectory() as home:
        on = Sender(Path(home, "on"), together=True, **SIZES)
        with patch.object(sent_frames, "COMPILED", None):
            off = Sender(Path(home, "off"), together=False, **SIZES)
        for one in (on, off):
            one.feed(*(send(queue, e=str(queue)) for queue in range(4)))
        for together in (1, 8, 32, 64):
            figures = [(us_a_message(on, together), us_a_message(off, together)) for _ in range(rounds)]
            with_kernel, without = (median(each) for each in zip(*figures))
            print(f"{together:3} in a read: {with_kernel:6.2f} us with the kernel, {without:6.2f} without it")
        for one in (on, off):
            one.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
