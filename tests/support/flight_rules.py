"""The expectation suite of the flights, evaluated with pandas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pandas as pd

SUITE: Final = Path(__file__).parents[2] / "conf/expectations/flights.json"


def bad_flights(flights: pd.DataFrame) -> pd.Series[bool]:
    """Return True for each row that breaks the suite and must be quarantined."""
    asked = {
        (one["type"], one["kwargs"].get("column")): one["kwargs"]
        for one in json.loads(SUITE.read_text())["expectations"]
    }

    def outside(name: str) -> pd.Series[bool]:
        bounds = asked["expect_column_values_to_be_between", name]
        return flights[name].notna() & ~flights[name].fillna(0).between(bounds["min_value"], bounds["max_value"])

    def unknown(name: str) -> pd.Series[bool]:
        return ~flights[name].isin(asked["expect_column_values_to_be_in_set", name]["value_set"])

    tails = asked["expect_column_values_to_match_regex", "tailnum"]["regex"]
    return (
        flights["dep_time"].isna()
        | unknown("carrier")
        | unknown("origin")
        | (flights["tailnum"].notna() & ~flights["tailnum"].fillna("").str.match(tails))
        | (flights["dest"].str.len() != 3)
        | outside("month")
        | outside("air_time")
        | outside("arr_delay")
        | (flights["dep_time"].isna() & flights["air_time"].notna())
    )
