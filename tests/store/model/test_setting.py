"""Rows of settings: values of texts, bounds, and attributes that are declared as rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from rocketflow_store.spi.setting_rows import (
    LONG_MAX,
    Kind,
    Setting,
    ValueNotAllowedError,
    nearest_name,
    option,
    rocketmq_setting,
    rows_of,
    same_setting,
    setting,
)


class Colour(Enum):
    RED = "RED"
    BLUE = "BLUE"


@dataclass(kw_only=True)
class Base:
    max_age: int = rocketmq_setting("Age.", 7, "s", (1, 9))
    label: str = setting("Label.", "", key="rocketflow.label", secret=True)


@dataclass(kw_only=True)
class Derived(Base):
    colour: Colour = setting("Colour.", Colour.RED, choices=("RED", "BLUE"))
    linger_s: float = option("Time.", 0.5, "s", (0, LONG_MAX))
    again: int = same_setting(rows_of(Base)[0], since=None)
    note: str = "no row"


def test_attributes_are_rows_with_key_kind_and_default() -> None:
    rows = {one.field: one for one in rows_of(Derived)}
    assert [(one.key, one.kind, one.since) for one in rows.values()] == [
        ("maxAge", Kind.INT, "4.9.7"),
        ("rocketflow.label", Kind.TEXT, None),
        ("colour", Kind.CHOICE, None),
        ("linger_s", Kind.FLOAT, None),
        ("maxAge", Kind.INT, None),
    ]
    assert Derived() == Derived(max_age=7, label="", colour=Colour.RED, linger_s=0.5, again=7)
    assert (rows["label"].variable, rows["max_age"].values_text()) == ("ROCKETFLOW_label", "1 to 9")


@pytest.mark.parametrize(
    ("row", "text", "value"),
    [
        (Setting("a", kind=Kind.FLAG), " TRUE ", True),
        (Setting("a", kind=Kind.INT), "+7", 7),
        (Setting("a", kind=Kind.INT), "2147483648", None),
        (Setting("a", kind=Kind.LONG), "2147483648", 1 << 31),
        (Setting("a", kind=Kind.LONG), "9223372036854775808", None),
        (Setting("a", kind=Kind.FLOAT), "1e3d", 1000.0),
        (Setting("a", kind=Kind.FLOAT), "", None),
        (Setting("a", kind=Kind.COUNT), "0", None),
        (Setting("a", kind=Kind.COUNT, bounds=(0, 5)), "5", 5),
        (Setting("a", kind=Kind.COUNT, bounds=(0, 5)), "6", None),
        (Setting("a", kind=Kind.DURATION), "2 H", 7_200_000),
        (Setting("a", kind=Kind.DURATION), "2x", None),
        (Setting("a", kind=Kind.SIZE), "10MB", 10 << 20),
        (Setting("a", kind=Kind.SIZE), "10bb", None),
        (Setting("a", kind=Kind.SIZE), "0", None),
        (Setting("a", "", Colour.RED, Kind.CHOICE, choices=("RED", "BLUE")), "BLUE", Colour.BLUE),
        (Setting("a", "", "x", Kind.CHOICE, choices=("x", "y")), "X", None),
        (Setting("a"), " text ", "text"),
    ],
)
def test_a_text_has_a_value_or_an_error_that_says_what_is_allowed(row: Setting, text: str, value: Any) -> None:
    if value is None:
        with pytest.raises(ValueNotAllowedError, match="must be "):
            row.typed(text)
    else:
        assert row.typed(text) == value


def test_bounds_refuse_numbers_outside_and_a_fraction_at_the_lowest() -> None:
    age, linger = rows_of(Derived)[0], rows_of(Derived)[3]
    for row, value in ((age, 0), (age, 10), (age, "7"), (linger, 0.0), (linger, -1.0)):
        with pytest.raises(ValueNotAllowedError):
            row.check(value)
    age.check(9)
    linger.check(0.01)
    assert (age.fitted(0), age.fitted(99)) == (1, 9)


def test_a_hint_names_a_near_name_only() -> None:
    assert nearest_name("LISTENPRT", ["listenPort", "store export"], 0.75) == "listenPort"
    assert nearest_name("listen", ["store export"], 0.75) is None
