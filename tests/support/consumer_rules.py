"""Inputs of RocketMQ's rules for consumers as lines, and what RocketMQ's own classes answer to them.

The lines are those of `tests/apache/java/ConsumerRules.java`; `cases.tsv` keeps lines with RocketMQ's answers for
machines without Java. `python -m tests.support.consumer_rules` writes it again.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rocketflow.client.consume import allocation
from rocketflow.client.consume.rebalance import sorted_client_ids, sorted_queues
from rocketflow.remoting.bodies import MessageQueue
from tests.support.golden import GOLDEN
from tests.support.java_programs import FLAGS, broker_jars, compiled
from tests.support.maven import java_and_javac

KEPT: Final = GOLDEN / "consumer_rules" / "cases.tsv"
SEED: Final = 30
SECONDS: Final = 120
NAMES: Final = (
    "broker-a",
    "broker-b",
    "room1@b",
    "room2@b",
    "room2@c",
    "room3@b",
    "@b",
    "x@",
    "a@b@c",
    "\U0001f680",
    "\uff5e",
)


def java_answers(version: str, lines: Sequence[str]) -> list[str]:
    """Return the answers of RocketMQ's classes to lines. Raises JarsNotFetchedError."""
    java = java_and_javac()[0]
    lib = broker_jars(version)
    classes = compiled("ConsumerRules", version, lib)
    done = subprocess.run(
        [java, *FLAGS, "-Dfile.encoding=UTF-8", "-cp", f"{lib}/*:{classes}", "ConsumerRules"],
        input="".join(f"{line}\n" for line in lines).encode(),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    found = [one[2:] for one in done.stdout.decode().split("\n") if one.startswith("= ")]
    assert len(found) == len(lines), (found[-2:], done.stderr[-2000:])
    return found


def allocations(count: int, seed: int) -> Iterator[str]:
    """Yield lines with random divisions: every strategy, names that sort differently in Java and in Python."""
    chance = random.Random(seed)
    for _ in range(count):
        brokers = chance.sample(NAMES, chance.randint(1, 4))
        queues = [MessageQueue("T\u00fc", name, k) for name in brokers for k in range(chance.randint(0, 5))]
        clients = [f"room{chance.randint(1, 3)}@{chance.choice('abc')}{k}" for k in range(chance.randint(0, 5))]
        client = chance.choice([*clients, *clients, "room1@stranger", ""])
        inner = chance.choice(("AVG", "AVG_BY_CIRCLE", f"CONSISTENT_HASH:{chance.randint(1, 12)}"))
        chosen = _joined(chance.sample(queues, chance.randint(0, len(queues))))
        strategy = chance.choice(
            (inner, f"CONFIG:{chosen}", "MACHINE_ROOM:room1,room2,a", f"MACHINE_ROOM_NEARBY:{inner}")
        )
        yield "\t".join(
            ("allocate", strategy, client, _joined(sorted_queues(queues)), ",".join(sorted_client_ids(clients)))
        )


def sortings(count: int, seed: int) -> Iterator[str]:
    """Yield lines with queues and clients to sort."""
    chance = random.Random(seed)
    for _ in range(count):
        queues = [MessageQueue("T", name, chance.randint(0, 20)) for name in chance.sample(NAMES, 5)]
        yield f"sort\t{_joined(queues)}\t{','.join(chance.sample(NAMES, 5))}"


def answer(line: str) -> str:
    """Return RocketFlow's answer to a line of `allocations` or `sortings`."""
    kind, *fields = line.split("\t")
    if kind == "sort":
        return f"{_joined(sorted_queues(_queues(fields[0])))}\t{','.join(sorted_client_ids(_parts(fields[1])))}"
    strategy, client, queues, clients = fields
    try:
        return _joined(_strategy(strategy).allocate(client, _queues(queues), _parts(clients)))
    except allocation.AllocationError:
        return "error"


def kept() -> list[tuple[str, str]]:
    """Return the kept lines with RocketMQ's answers."""
    found = []
    for text in KEPT.read_text("utf-8").split("\n")[:-1]:
        line, _, expected = text.partition("\t=\t")
        found.append((line, expected))
    return found


def _strategy(text: str) -> allocation.AllocationStrategy:
    kind, _, argument = text.partition(":")
    match kind:
        case "AVG":
            return allocation.Averagely()
        case "AVG_BY_CIRCLE":
            return allocation.AveragelyByCircle()
        case "CONFIG":
            return allocation.ByConfig(_queues(argument))
        case "MACHINE_ROOM":
            return allocation.ByMachineRoom(argument.split(","))
        case "MACHINE_ROOM_NEARBY":
            return allocation.MachineRoomNearby(
                _strategy(argument), lambda queue: queue.broker_name.split("@")[0], lambda client: client.split("@")[0]
            )
        case _:
            return allocation.ConsistentHash(int(argument))


def _parts(text: str) -> list[str]:
    return text.split(",") if text else []


def _queues(text: str) -> list[MessageQueue]:
    return [MessageQueue(topic, name, int(k)) for topic, name, k in (one.split("/") for one in _parts(text))]


def _joined(queues: Sequence[MessageQueue]) -> str:
    return ",".join(f"{one.topic}/{one.broker_name}/{one.queue_id}" for one in queues)


def main() -> None:
    """Write the kept lines with the answers of 5.3.3."""
    lines = [*allocations(150, SEED), *sortings(10, SEED)]
    KEPT.parent.mkdir(exist_ok=True)
    answers = java_answers("5.3.3", lines)
    Path(KEPT).write_text("".join(f"{line}\t=\t{one}\n" for line, one in zip(lines, answers)), "utf-8")


if __name__ == "__main__":
    main()
