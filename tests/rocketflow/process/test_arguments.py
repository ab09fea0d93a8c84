"""Command lines of jobs: values, kinds and bounds come from the rows of the arguments."""

from __future__ import annotations

from enum import Enum
from typing import Final

import pytest

from rocketflow.errors import UsageError
from rocketflow.process.arguments import JobParser, argument
from rocketflow_store.spi.setting_rows import LONG_MAX, Kind


class Engine(Enum):
    LOCAL = "local"
    SPARK = "spark"


ROWS: Final = (
    argument("--store", "store directory", form="PATH", required=True),
    argument("--max", "at most 50% of N", form="N", kind=Kind.COUNT, bounds=(1, LONG_MAX)),
    argument("--dry-run", "write nothing", False),
    argument("--topic", "only these", kind=Kind.LIST, form="T"),
    argument("--option", "an option", kind=Kind.PAIRS, form="K=V", field="options"),
    argument("--engine", "where", Engine.LOCAL, choices=("local", "spark")),
)


def values(*words: str) -> dict[str, object]:
    parser = JobParser(prog="job")
    parser.add_rows(ROWS)
    return parser.values(words)


def test_values_have_the_kinds_and_attributes_of_their_rows(capsys: pytest.CaptureFixture[str]) -> None:
    defaults = {"max": None, "dry_run": False, "topic": [], "options": {}, "engine": Engine.LOCAL}
    assert values("--store", "s") == {"store": "s", **defaults}
    given = ("--store", "s", "--max", "3", "--dry-run", "--topic", "a", "--topic", "b", "--option", "k=v=w")
    found = values(*given, "--engine", "spark")
    assert found == {
        "store": "s",
        "max": 3,
        "dry_run": True,
        "topic": ["a", "b"],
        "options": {"k": "v=w"},
        "engine": Engine.SPARK,
    }
    with pytest.raises(SystemExit):
        values("--help")
    assert "at most 50% of N" in capsys.readouterr().out


def test_a_wrong_value_names_the_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="--max 0: must be at least 1"):
        values("--store", "s", "--max", "0")
    with pytest.raises(UsageError, match="--option 'k': give it as key=value"):
        values("--store", "s", "--option", "k")
    for words in ((), ("--store", "s", "--engine", "x"), ("--store", "s", "--max", "x")):
        with pytest.raises(SystemExit):
            values(*words)
    assert capsys.readouterr().err.count("error: ") == 3
