"""Columns give the same answers as rows, for any expression and any messages."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketflow_store.filters.sql92 import compile_filter
from rocketflow_store.model.errors import InvalidFilterError
from tests.support.trials import some

NAMES = ["a", "b", "c"]
LITERALS = [
    "0",
    "5",
    "7",
    "3000000000",
    "5L",
    "5.5",
    "1e3",
    "0.1",
    "'5'",
    "'x'",
    "'true'",
    "''",
    "TRUE",
    "FALSE",
    "NULL",
]
TEXTS = [
    *[
        "0",
        "5",
        "7",
        "+5",
        "-5",
        "005",
        "5.5",
        "5.",
        ".5",
        "-0.0",
        "0.0",
        "5e0",
        "5f",
        "0x1p0",
        " 5 ",
        "NaN",
        "Infinity",
    ],
    *["-Infinity", "1e999", "1e-999", "3000000000", "-2147483648", "2147483648", "9223372036854775807"],
    *[
        "9223372036854775808",
        "0000000000000000000005",
        "٣",
        "x",
        "xy",
        "",
        "true",
        "TRUE",
        "False",
        "N12345",
        "é",
        "5 5",
    ],
    *["1" * 30, "1" * 30 + ".5", "0." + "1" * 30, "1e+5", "1E-5", "+", "-", ".", "\n5", "5\n", "𝟕"],
]


def _expressions() -> st.SearchStrategy[str]:
    value = st.sampled_from([*NAMES, *NAMES, *LITERALS])
    value = value | st.builds("- {}".format, value) | st.builds("+ {}".format, value)
    quoted = st.sampled_from(["'5'", "'x'", "''", "'e'", "'true'"])
    negation = st.sampled_from(["", "NOT "])

    def conditions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        either = value | st.builds("({})".format, inner)
        return st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner),
            st.builds("(NOT {})".format, inner),
            st.builds("({} {} {})".format, either, st.sampled_from(["=", "<>"]), either),
            st.builds("({} IS {}NULL)".format, either, negation),
            st.builds("(-({}) {} {})".format, inner, st.sampled_from(["=", "<", ">="]), value),
            st.builds("({} {} -({}))".format, value, st.sampled_from(["=", "<", ">="]), inner),
            st.builds(
                "({} {}{} {})".format, either, negation, st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]), quoted
            ),
        )

    leaves = st.one_of(
        st.builds("({} {} {})".format, value, st.sampled_from(["=", "<>", ">", ">=", "<", "<="]), value),
        st.builds("({} {}IN ({}, {}))".format, st.sampled_from(NAMES), negation, quoted, quoted),
        st.builds("({} {}BETWEEN {} AND {})".format, value, negation, value, value),
        st.sampled_from([*NAMES, "TRUE", "FALSE", "NULL"]),
    )
    return st.recursive(leaves, conditions, max_leaves=6)


def _text() -> st.SearchStrategy[str | None]:
    plain = st.characters(codec="utf-8")
    number = st.text(alphabet="0123456789+-.eEfdNx \t", max_size=8)
    return st.none() | st.sampled_from(TEXTS) | number | st.text(alphabet=plain, max_size=4)


ROWS = st.lists(st.fixed_dictionaries({name: _text() for name in NAMES}), max_size=12)
GRID = [
    {"a": left, "b": right, "c": None} for left in [*TEXTS, None] for right in ["5", "5.5", "x", "NaN", "-0.0", None]
]


def _columns(rows: list[dict[str, str | None]]) -> dict[str, pa.Array]:
    return {name: pa.array([row[name] for row in rows], pa.string()) for name in NAMES}


def _check(expression: str, rows: list[dict[str, str | None]]) -> None:
    found = compile_filter(expression)
    expected = [found.matches({name: text for name, text in row.items() if text is not None}) for row in rows]
    assert found.mask(_columns(rows)).tolist() == expected


@settings(max_examples=some(600), deadline=None)
@given(_expressions(), ROWS)
@example("(TRUE = a) OR (b = 5)", [{"a": "true", "b": "5", "c": None}])
@example("(-(a = TRUE) < 5)", [{"a": None, "b": None, "c": None}])
def test_mask_equals_matches_of_every_row(expression: str, rows: list[dict[str, str | None]]) -> None:
    try:
        compile_filter(expression)
    except InvalidFilterError:
        return
    _check(expression, rows)


@pytest.mark.parametrize("literal", [literal for literal in LITERALS if literal != "NULL"])
@pytest.mark.parametrize("shape", ["a {} {}", "{1} {0} a", "NOT (a {} {})", "(b = 5) = (a {} {})"])
@pytest.mark.parametrize("operator", ["=", "<>", "<", ">="])
def test_mask_equals_matches_for_every_text_and_literal(literal: str, shape: str, operator: str) -> None:
    expression = shape.format(operator, literal)
    try:
        compile_filter(expression)
    except InvalidFilterError:
        assert operator in ("<", ">=")
        assert literal[0] in "'TF"
        return
    _check(expression, GRID)


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
def test_mask_equals_matches_for_two_properties(operator: str) -> None:
    _check(f"a {operator} b", GRID)
    _check(f"NOT (a {operator} b)", GRID)
    _check(f"c {operator} a OR a {operator} a", GRID)


def test_mask_accepts_chunks_slices_and_other_string_types() -> None:
    found = compile_filter("a > 5 AND a IN ('6', '8')")
    texts = ["5", "6", None, "7", "8", "x"]
    expected = [False, True, False, False, True, False]
    assert found.mask({"a": pa.chunked_array([texts[:2], texts[2:]])}).tolist() == expected
    assert found.mask({"a": pa.array(texts, pa.large_string())}).tolist() == expected
    assert found.mask({"a": pa.array(texts).dictionary_encode()}).tolist() == expected
    assert found.mask({"a": pa.array(["1", "2", "3", *texts]).slice(3)}).tolist() == expected
    assert found.mask({"a": pa.array([], pa.string())}).tolist() == []
    assert found.mask({"a": pa.chunked_array([], pa.string())}).tolist() == []


def test_mask_treats_column_not_given_as_missing_in_every_row() -> None:
    assert compile_filter("a IS NULL").mask({"b": pa.array(["1", "2"])}).tolist() == [True, True]
    assert compile_filter("TRUE").mask({}, 3).tolist() == [True] * 3
    with pytest.raises(ValueError, match="num_rows"):
        compile_filter("TRUE").mask({})
    with pytest.raises(ValueError, match="rows"):
        compile_filter("a = b").mask({"a": pa.array(["1"]), "b": pa.array(["1", "2"])})


def test_mask_returns_writable_booleans() -> None:
    found = compile_filter("a = 'x'").mask({"a": pa.array(["x", "y"])})
    assert found.dtype == np.bool_
    assert found.flags.writeable


def test_mask_does_not_import_pandas() -> None:
    code = (
        "import sys; from rocketflow_store.filters.sql92 import compile_filter as c;"
        "from rocketflow_store.filters.sql92.columnar import string_array as s;"
        "a = s(('5', 'x', '5.5', ' 5', '9' * 30));"
        "c(\"a = 5 OR a > 5.5 OR a IN ('x') OR a CONTAINS 'x' OR a = TRUE OR z IS NULL OR a = z\").mask({'a': a});"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})
