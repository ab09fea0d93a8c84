"""Changes of a topic's attributes leave what RocketMQ 5.3.3 leaves, and are refused where it refuses them."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from rocketflow.broker.topics.attributes import OF_TOPICS, AttributesError, merged_attributes, parse_changes
from tests.apache.clients import jars
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import java_and_javac
from tests.support.trials import LEVEL, SEED

pytestmark = [
    pytest.mark.apache,
    pytest.mark.skipif(LEVEL == "sample", reason="starts Java: RF_FULL=1 runs it"),
]

VERSION: Final = "5.3.3"
ANSWER: Final = "ANSWER\t"
CASES: Final = 5_000
NAMES: Final = ("queue.type", "cleanup.policy", "message.type", "reserve.time")
KNOWN: Final = ("queue.type=BatchCQ", "cleanup.policy=DELETE", "message.type=FIFO", "reserve.time=7", "no.such=1")
ODD: Final = ("no.such", "", "message-type", "+message.type", "reserve.time ", "Message.type")
VALUES: Final = ("SimpleCQ", "BatchCQ", "DELETE", "FIFO", "DELAY", "NORMAL", "UNSPECIFIED", "TRANSACTION")
ODD_VALUES: Final = ("", "fifo", "-1", "-2", "0", "+5", "007", "1.5", " 7", f"{2**63 - 1}", f"{2**63}", "x+y", "x-y")
"""Not among them: COMPACTION, which RocketFlow refuses, MIXED, which a broker refuses before it looks at attributes,
values with an equals sign, where RocketMQ cuts them off, and digits of other scripts, which it takes."""


def changes(random_number: random.Random) -> str:
    """Return a text of changes, most of them good."""
    parts = []
    for _ in range(random_number.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        name = random_number.choice(NAMES if random_number.random() < 0.85 else ODD)
        value = random_number.choice(VALUES if random_number.random() < 0.7 else ODD_VALUES)
        parts.append(random_number.choice((f"+{name}={value}",) * 5 + (f"-{name}",) * 4 + (f"-{name}={value}", name)))
    return ",".join(parts) + random_number.choice(("",) * 9 + (",",))


def cases() -> Iterator[tuple[bool, list[str], str]]:
    """Return whether a topic is new, the attributes that it has, and changes."""
    random_number = random.Random(SEED)
    for _ in range(CASES):
        is_new = random_number.random() < 0.3
        has = [] if is_new else [one for one in KNOWN if random_number.random() < 0.5]
        yield is_new, has, changes(random_number)


def meaning(is_new: bool, has: list[str], text: str) -> str:
    """Return the attributes after changes, or `refused`."""
    known = dict(one.split("=") for one in has)
    try:
        found = merged_attributes(None if is_new else known, parse_changes(text), OF_TOPICS)
    except AttributesError:
        return "refused"
    return "".join(f"{name}={found[name]};" for name in sorted(found))


def test_changes_mean_what_they_mean_to_rocketmq(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    lib = jars(VERSION)
    tried = list(cases())
    done = subprocess.run(
        [
            *(java_and_javac()[0], *FLAGS, f"-Duser.home={tmp_path}"),
            *("-cp", f"{lib}/*:{compiled('Attributes', VERSION, lib)}", "Attributes"),
        ],
        input="".join(f"{str(is_new).lower()}\t{';'.join(has)}\t{text}\n" for is_new, has, text in tried),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    answers = [line[len(ANSWER) :] for line in done.stdout.split("\n") if line.startswith(ANSWER)]
    assert len(answers) == len(tried), done.stderr[-2000:]
    assert [(*one, answer) for one, answer in zip(tried, answers) if answer != meaning(*one)] == []
    good = sum(answer != "refused" for answer in answers)
    assert good > CASES / 10
    assert good < CASES
