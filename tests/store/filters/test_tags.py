from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store.filters.tags import TagFilter
from rocketflow_store.model.errors import InvalidFilterError
from rocketflow_store.model.java_compat import string_hash


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_empty_expression_and_star_match_every_message(expression: str | None) -> None:
    found = TagFilter.parse(expression)
    assert found.matches_all
    assert found.matches_code(5)
    assert found.matches_tag(None)
    assert found.mask_codes(np.array([0, -1], np.int64)).tolist() == [True, True]
    assert found.mask_tags(pa.array([None, "x"])).tolist() == [True, True]


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("TagA", ("TagA",)),
        ("TagA || TagB", ("TagA", "TagB")),
        ("TagA||TagB||TagA", ("TagA", "TagB")),
        ("|| TagA ||  ", ("TagA",)),
        ("a b||*", ("a b", "*")),
        ("TagA|TagB", ("TagA|TagB",)),
    ],
)
def test_parse_splits_trims_and_deduplicates_tags(expression: str, tags: tuple[str, ...]) -> None:
    found = TagFilter.parse(expression)
    assert found.tags == tags
    assert found.codes == {string_hash(tag) for tag in tags}


@pytest.mark.parametrize("expression", [" ", "   ", "\t", " || || ", "|| "])
def test_expression_of_blanks_matches_no_message(expression: str) -> None:
    found = TagFilter.parse(expression)
    assert found.matches_none
    assert not found.matches_all
    assert not found.matches_code(0)
    assert not found.matches_tag(None)
    assert found.mask_codes(np.array([0, 2598919], np.int64)).tolist() == [False, False]
    assert found.mask_tags(pa.array([None, "x", ""])).tolist() == [False, False, False]


def test_star_between_blanks_is_a_tag() -> None:
    found = TagFilter.parse(" * ")
    assert (found.tags, found.matches_all) == (("*",), False)


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_expression_without_tag_raises_invalid_filter_error(expression: str) -> None:
    with pytest.raises(InvalidFilterError):
        TagFilter.parse(expression)


def test_codes_are_java_hashes_and_match_by_low_32_bits() -> None:
    found = TagFilter.parse("TagA || polygenelubricants")
    assert found.codes == {2598919, -2147483648}
    for code, expected in [
        (2598919, True),
        (-2147483648, True),
        (0x80000000, True),
        (0, False),
        ((9 << 32) + 2598919, True),
    ]:
        assert found.matches_code(code) is expected
        assert found.mask_codes(np.array([code], np.int64)).tolist() == [expected]


def test_tag_with_colliding_hash_matches_by_code_but_not_by_name() -> None:
    found = TagFilter.parse("Aa")
    assert string_hash("Aa") == string_hash("BB")
    assert found.matches_code(string_hash("BB"))
    assert not found.matches_tag("BB")
    assert found.mask_tags(pa.array(["Aa", "BB", None, ""])).tolist() == [True, False, False, False]


_TAG = (
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="|"), min_size=1)
    .map(str.strip)
    .filter(lambda tag: tag not in ("", "*"))
)


@given(st.lists(_TAG, min_size=1, max_size=5), st.lists(st.none() | _TAG, max_size=5))
def test_masks_equal_matches_of_single_values(tags: list[str], others: list[str | None]) -> None:
    found = TagFilter.parse("||".join(tags))
    column = [*tags, *others]
    assert found.mask_tags(pa.array(column, pa.string())).tolist() == [found.matches_tag(tag) for tag in column]
    assert all(found.matches_tag(tag) for tag in tags)
    codes = [string_hash(tag or "") for tag in column]
    assert found.mask_codes(np.array(codes, np.int64)).tolist() == [found.matches_code(code) for code in codes]
