"""The kinds of expectations; README.md has them as a table.

* ROW: GX's own condition decides for each row alone whether it is unexpected.
* UNIQUE: as ROW, after Spark counted which values occur more than once in the batch.
* SQL: `unexpected_rows_expectation` of the form `SELECT * FROM {batch} WHERE condition`; any other query is TABLE.
* TABLE: about all rows of the batch; it gates the batch.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(Enum):
    """The kind of judgement of an expectation."""

    ROW = "row"
    UNIQUE = "unique"
    SQL = "sql"
    TABLE = "table"


SQL_TYPE: Final = "unexpected_rows_expectation"
ROW_TYPES: Final = frozenset(
    {
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_be_null",
        "expect_column_values_to_be_in_set",
        "expect_column_values_to_not_be_in_set",
        "expect_column_values_to_be_between",
        "expect_column_values_to_match_regex",
        "expect_column_values_to_not_match_regex",
        "expect_column_values_to_match_regex_list",
        "expect_column_values_to_not_match_regex_list",
        "expect_column_value_lengths_to_be_between",
        "expect_column_value_lengths_to_equal",
        "expect_column_values_to_match_strftime_format",
        "expect_column_values_to_be_json_parseable",
        "expect_column_values_to_match_json_schema",
        "expect_column_pair_values_to_be_equal",
        "expect_column_pair_values_a_to_be_greater_than_b",
        "expect_column_pair_values_to_be_in_set",
        "expect_multicolumn_sum_to_equal",
        "expect_multicolumn_values_to_be_equal",
        "expect_select_column_values_to_be_unique_within_record",
    }
)
UNIQUE_TYPES: Final = frozenset({"expect_column_values_to_be_unique", "expect_compound_columns_to_be_unique"})
REFUSED_TYPES: Final[dict[str, str]] = {
    "expect_column_values_to_be_increasing": "rows of a batch come from several queues and have no order",
    "expect_column_values_to_be_decreasing": "rows of a batch come from several queues and have no order",
    "expect_column_value_z_scores_to_be_less_than": "whether a row is good would depend on the batch it comes in",
    "expect_column_values_to_not_be_outliers": "whether a row is good would depend on the batch it comes in",
    "expect_table_row_count_to_equal_other_table": "a micro-batch has no other table beside it",
    "expect_query_results_to_match_comparison": "a micro-batch has no other data source beside it",
    "expect_column_values_to_match_like_pattern": "Great Expectations has it for SQL alone; use ..._match_regex",
    "expect_column_values_to_not_match_like_pattern": "Great Expectations has it for SQL alone; use ..._match_regex",
    "expect_column_values_to_match_like_pattern_list": "Great Expectations has it for SQL alone; use ..._match_regex",
    "expect_column_values_to_not_match_like_pattern_list": "Great Expectations has it for SQL alone; use a regex",
    "expect_column_values_to_be_dateutil_parseable": "Great Expectations has it for pandas alone; use a regex",
}

_SIMPLE_QUERY: Final = re.compile(r"\s*select\s+\*\s+from\s+\{batch\}\s+where\s+(.+?)[\s;]*\Z", re.I | re.S)
_WORDS: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\w+", re.S)
_NOT_OF_A_ROW: Final = frozenset({"select", "group", "order", "limit", "having", "union", "over", "qualify", "window"})


def kind_of(expectation_type: str, kwargs: Mapping[str, Any]) -> Kind:
    """Return the kind of an expectation of this type, which may not be applicable."""
    if expectation_type in ROW_TYPES:
        return Kind.ROW
    if expectation_type in UNIQUE_TYPES:
        return Kind.UNIQUE
    if expectation_type == SQL_TYPE and row_condition_of(str(kwargs.get("unexpected_rows_query", ""))) is not None:
        return Kind.SQL
    return Kind.TABLE


def row_condition_of(query: str) -> str | None:
    """Return the condition of `SELECT * FROM {batch} WHERE condition`, or None for a query over several rows."""
    found = _SIMPLE_QUERY.match(query)
    if found is None:
        return None
    condition = found[1].replace("{{", "\x00").replace("}}", "\x01")
    if "{" in condition or "}" in condition:
        return None
    if any(word.lower() in _NOT_OF_A_ROW for word in _WORDS.findall(condition)):
        return None
    return condition.replace("\x00", "{").replace("\x01", "}")


def columns_of(kwargs: Mapping[str, Any]) -> list[str]:
    """Return the columns that an expectation names by the usual arguments."""
    found = [kwargs[name] for name in ("column", "column_A", "column_B") if isinstance(kwargs.get(name), str)]
    listed = kwargs.get("column_list")
    return [*found, *(listed if isinstance(listed, (list, tuple)) else ())]
