"""Broadcasting consumers with default options, each a process: restarts continue, two of a host stay apart."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rocketflow.aio.loop import run
from tests.support.pushing import make_topic, put, until
from tests.support.trials import environment

CONSUMER: Final = """
import sys
from rocketflow.client import PushOptions
from rocketflow.client.sync import PushConsumer

def listen(messages, context):
    for one in messages:
        sys.stdout.write(one.body.decode() + "\\n")  # as one text: threads print side by side
        sys.stdout.flush()

consumer = PushConsumer(PushOptions(group="g-hosts", broadcasting=True, name_servers=sys.argv[1]), listen)
consumer.subscribe("hosts")
with consumer:
    sys.stdin.read()
"""


def texts(first: int, end: int) -> list[str]:
    return [str(one) for one in range(first, end)]


class Consumer:
    """A consumer process whose home directory is `home`."""

    def __init__(self, names: str, home: Path) -> None:
        self.out = (home / "out").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-c", CONSUMER, names],
            stdin=subprocess.PIPE,
            stdout=self.out,
            env=environment(HOME=str(home)),
        )

    def bodies(self) -> Counter[str]:
        """Return what the listener got."""
        return Counter(Path(self.out.name).read_text().split())

    def stop(self) -> None:
        """End the consumer in order."""
        self.process.communicate(timeout=30)
        assert self.process.returncode == 0


@contextmanager
def consumer(names: str, home: Path) -> Iterator[Consumer]:
    """Run a consumer, which is killed at the end of the block unless it has stopped."""
    (home / "out").unlink(missing_ok=True)
    one = Consumer(names, home)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.communicate()
        one.out.close()


def places(home: Path) -> dict[str, int]:
    """Return how many queues have an offset in each client's file."""
    found = sorted((home / ".rocketmq_offsets").glob("*/g-hosts/offsets.json"))
    return {one.parent.parent.name.partition("@")[2]: one.read_text().count("queueId") for one in found}


def test_restarted_broadcasting_consumers_continue_and_two_of_a_host_stay_apart(names: str, tmp_path: Path) -> None:
    async def consume() -> None:
        await make_topic(names, "hosts", 2)
        await put(names, "hosts", texts(0, 4), queues=2)
        with consumer(names, tmp_path):  # it begins after these, and is killed before the first message
            await until(lambda: places(tmp_path) == {"DEFAULT": 2})
        await put(names, "hosts", texts(4, 10), queues=2)
        with consumer(names, tmp_path) as one:
            await until(lambda: one.bodies().total() >= 6)
            one.stop()
        assert one.bodies() == Counter(texts(4, 10))
        await put(names, "hosts", texts(10, 14), queues=2)
        other = tmp_path / "other"
        other.mkdir()
        (other / ".rocketmq_offsets").symlink_to(tmp_path / ".rocketmq_offsets")
        with consumer(names, tmp_path) as one, consumer(names, other) as two:
            await until(lambda: places(tmp_path) == {"DEFAULT": 2, "DEFAULT-2": 2})
            await put(names, "hosts", texts(14, 16), queues=2)
            await until(lambda: one.bodies().total() + two.bodies().total() >= 8)
            one.stop()
            two.stop()
        assert sorted([one.bodies(), two.bodies()], key=Counter.total) == [
            Counter(texts(14, 16)),
            Counter(texts(10, 16)),
        ]

    run(consume())
