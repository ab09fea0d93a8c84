from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store.filters.sql92 import compile_filter
from rocketflow_store.filters.sql92.java_numbers import compare_doubles, parse_double, parse_integer
from rocketflow_store.model.errors import InvalidFilterError

WORDS = ["a", "b", "5", "'x'", "(", ")", "=", "<>", ">", "AND", "OR", "NOT", "IN", "IS", "NULL", "-", ",", "1.5"]
ROW = {
    "n": "7",
    "five": "5.5",
    "big": "3000000000",
    "name": "o'neil",
    "yes": "TRUE",
    "no": "false",
    "empty": "",
    "zero": "0",
    "TAGS": "TagA",
    "$x_1": "1",
    "neg": "-3",
    "nan": "NaN",
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # numbers are read as the type of the other side
        ("n > 5", True),
        ("n > 7", False),
        ("n >= 7 AND n <= 7", True),
        ("5 < n", True),
        ("five > 5", False),
        ("NOT (five > 5)", False),
        ("five > 5.0", True),
        ("five = 5.5", True),
        ("big > 5", False),
        ("big > 2999999999", True),
        ("big = 3000000000L", True),
        ("n = 7L", True),
        ("n = 7.0", True),
        ("7 = n", True),
        ("n = '7'", True),
        ("n = '07'", False),
        ("neg = -3", True),
        ("neg > - 4 AND neg < -2", True),
        ("neg = - -3", False),
        ("n = +7", True),
        ("zero = 0", True),
        # RocketMQ reads the 0 and ignores the rest
        ("zero = 010", True),
        ("zero = 08", True),
        ("zero = 0x10", True),
        ("zero = 0L", True),
        ("zero = 00l", True),
        ("n = 007", False),
        ("zero = -010", True),
        ("n > 07", True),
        ("zero BETWEEN 0 AND 0x1F", True),
        ("nan > 5.5", True),
        ("nan = nan", True),
        ("n > name", False),
        ("n > five", True),
        ("five < n", True),
        # text
        ("name = 'o''neil'", True),
        ("name <> 'x'", True),
        ("name = 5", False),
        ("name <> 5", False),
        ("empty = ''", True),
        ("TAGS IN ('TagA', 'TagB')", True),
        ("TAGS NOT IN ('TagA')", False),
        ("TAGS NOT IN ('TagB')", True),
        ("missing IN ('a')", False),
        ("missing NOT IN ('a')", False),
        ("TAGS CONTAINS 'ag'", True),
        ("TAGS NOT CONTAINS 'ag'", False),
        ("TAGS STARTSWITH 'Tag' AND TAGS ENDSWITH 'A'", True),
        ("TAGS STARTSWITH 'tag'", False),
        ("TAGS NOT STARTSWITH 'tag'", True),
        ("missing NOT CONTAINS 'a'", False),
        ("NOT (missing CONTAINS 'a')", True),
        ("TAGS CONTAINS ''", False),
        ("TAGS NOT CONTAINS ''", False),
        ("'abc' CONTAINS 'b'", True),
        ("5 CONTAINS '5'", False),
        # booleans
        ("TRUE", True),
        ("FALSE", False),
        ("NULL", False),
        ("yes = TRUE", True),
        ("no = TRUE", False),
        ("no = FALSE", True),
        ("name = FALSE", True),
        ("TRUE = yes", False),
        ("NOT (TRUE = yes)", False),
        ("yes", False),
        ("NOT yes", True),
        ("NOT missing", False),
        ("(n > 5) = TRUE", True),
        ("(n > 5) = (n < 5)", False),
        ("(n > 5) = 1", False),
        ("NOT n = 7", False),
        ("1 = TRUE", False),
        # null
        ("missing IS NULL", True),
        ("missing IS NOT NULL", False),
        ("n IS NOT NULL", True),
        ("empty IS NULL", False),
        ("missing = 5", False),
        ("missing <> 5", False),
        ("NOT (missing > 5)", False),
        ("missing > 5 OR n = 7", True),
        ("missing > 5 OR n = 8", False),
        ("NOT (missing > 5 AND n = 8)", True),
        ("NOT (missing > 5 AND n = 7)", False),
        ("(missing > 5) IS NULL", True),
        ("missing = absent", True),
        ("n = missing", False),
        ("n <> missing", True),
        ("-n = missing", True),
        ("-n IS NULL", True),
        # errors end the evaluation, unless it is decided before
        ("name > 5 OR n = 7", False),
        ("n = 7 OR name > 5", True),
        ("n = 8 AND name > 5 OR n = 7", True),
        ("NOT (n = 7 AND name > 5)", False),
        # between
        ("n BETWEEN 7 AND 8", True),
        ("n BETWEEN 6 AND 7", True),
        ("n NOT BETWEEN 8 AND 9", True),
        ("n NOT BETWEEN 9 AND 1", True),
        ("n BETWEEN -1 AND -9", False),
        ("missing BETWEEN 1 AND 2", False),
        ("5 BETWEEN 1 AND 9", True),
        ("n BETWEEN five AND 8.0", True),
        # form
        ("n>5and TAGS='TagA'", True),
        ("n > 5 -- a comment\n AND /* another * / one */ n < 9", True),
        ("n > 5 -- to the end", True),
        ("$x_1 = 1", True),
        ("((((n)))) = 7", True),
        ("n > .5", True),
        ("n > 5.", True),
        ("n < 1e3 and n < 1.5E+1", True),
        ("n = 7 = TRUE", True),
        ("n <> 7 = FALSE", True),
        ("n = 1 OR n = 2 OR n = 7", True),
        ("n = 7 OR n = 2 AND n = 3", True),
    ],
)
def test_matches_as_rocketmq_does(expression: str, expected: bool) -> None:
    assert compile_filter(expression).matches(ROW) is expected


@pytest.mark.parametrize(
    ("expression", "position", "why"),
    [
        ("", 0, "empty"),
        ("  -- nothing", 12, "empty"),
        ("a >", 3, "not the end"),
        ("a > 5 b", 6, "AND, OR or the end"),
        ("a > 5)", 5, "AND, OR or the end"),
        ("(a > 5", 6, "expected )"),
        ("a != 5", 2, "write <>"),
        ("a = 'x", 4, "closing quote"),
        ('a = "x"', 4, "single quotes"),
        ("a + 5 > 3", 2, "AND, OR or the end"),
        ("a * 5", 2, "arithmetic"),
        ("a > 5 /* x", 6, "arithmetic"),
        ("a LIKE 'x'", 2, "AND, OR or the end"),
        ("5", 0, "condition"),
        ("'x' AND a = 5", 0, "condition"),
        ("a = 5 AND -b", 10, "condition"),
        ("a > 'x'", 4, "only properties and numbers"),
        ("TRUE > a", 0, "only properties and numbers"),
        ("a > NULL", 4, "only properties and numbers"),
        ("a > (b = 1)", 4, "only properties and numbers"),
        ("a > 5 > 3", 0, "only properties and numbers"),
        ("a = NULL", 4, "IS NULL"),
        ("NULL <> a", 0, "IS NULL"),
        ("TRUE = 5", 5, "boolean"),
        ("a BETWEEN 9 AND 1", 10, "above"),
        ("a BETWEEN 1 AND NULL", 10, "NULL"),
        ("a BETWEEN 'x' AND 5", 10, "go together"),
        ("a BETWEEN 'a' AND 'b'", 10, "only properties and numbers"),
        ("a NOT BETWEEN TRUE AND 5", 14, "only properties and numbers"),
        ("a IN (5)", 6, "single quotes"),
        ("a IN ()", 6, "single quotes"),
        ("5 IN ('5')", 0, "only a property"),
        ("a CONTAINS b", 11, "single quotes"),
        ("a IS 5", 5, "expected NULL"),
        ("a = 9223372036854775808", 4, "end at"),
        ("a = 0.0", 4, "smallest"),
        ("a = 1e999", 4, "largest"),
        ("a = 010 AND b = 1", 4, "write 0 instead of 010"),
        ("a = 0L AND b = 1", 4, "write 0 instead of 0L"),
        ("(a = 0x10)", 5, "write 0 instead of 0x10"),
        ("010 = a", 0, "write 0 instead of 010"),
        ("010", 0, "condition"),
        ("a = 0xg", 5, "AND, OR or the end"),
        ("a = 1e", 5, "AND, OR or the end"),
        ("a = 10LL", 7, "AND, OR or the end"),
        ("a = --1", 7, "not the end"),
        ("a + 1 = 2", 2, "AND, OR or the end"),
        ("a.b = 1", 1, "letters, digits"),
        ("a = 1 & b = 2", 6, "AND and OR"),
        ("é = 1", 0, "not part of the language"),
        ("(" * 200 + "a = 1" + ")" * 200, 64, "nested"),
        ("NOT " * 200 + "a", 256, "nested"),
        ("a = 1" + " = TRUE" * 200, None, "nested"),
    ],
)
def test_invalid_filter_error_names_position_and_reason(expression: str, position: int | None, why: str) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        compile_filter(expression)
    assert why in caught.value.why
    if position is not None:
        assert caught.value.position == position


def test_compiled_filter_lists_properties_once_in_order() -> None:
    assert compile_filter("b > 1 AND a IN ('x') OR b IS NULL").properties == ("b", "a")


def test_compiled_filter_can_be_pickled() -> None:
    found = pickle.loads(pickle.dumps(compile_filter("a > 1")))
    assert found.matches({"a": "2"})


def test_long_chain_of_conditions_is_not_nested_deeper() -> None:
    found = compile_filter(" OR ".join(f"a = {number}" for number in range(5000)))
    assert found.matches({"a": "4999"})
    assert not found.matches({"a": "5000"})


@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_any_text_compiles_or_raises_invalid_filter_error(text: str) -> None:
    try:
        found = compile_filter(text)
    except InvalidFilterError as error:
        if not 0 <= error.position <= len(text):
            raise AssertionError(f"position {error.position} of {len(text)}") from error
        return
    assert found.matches({"a": "5"}) in (True, False)


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5.0), (" 5\t", 5.0), ("+.5e1D", 5.0), ("5.f", 5.0), ("0x1.8p1", 3.0), ("1e999", float("inf")), ("-0", -0.0)],
)
def test_parse_double_accepts_text_that_java_accepts(text: str, value: float) -> None:
    assert compare_doubles(parse_double(text), value) == 0


@pytest.mark.parametrize("text", ["", " ", "5 5", "1_0", "0x10", "inf", "nan", ".", "e5", "5L", "\u00a05", "٣", "+-5"])
def test_parse_double_refuses_text_that_java_refuses(text: str) -> None:
    with pytest.raises(ValueError):
        parse_double(text)


@pytest.mark.parametrize(("text", "value"), [("0007", 7), ("+7", 7), ("-0", 0), ("٣", 3), ("0" * 50 + "7", 7)])
def test_parse_integer_accepts_text_that_java_accepts(text: str, value: int) -> None:
    assert parse_integer(text, 32) == value


@pytest.mark.parametrize("text", ["", "+", "7 ", "1_0", "0x7", "7L", "2147483648", "9" * 5000, "𝟕"])
def test_parse_integer_refuses_text_that_java_refuses(text: str) -> None:
    with pytest.raises(ValueError):
        parse_integer(text, 32)
