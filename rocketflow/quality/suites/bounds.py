"""Arguments that no value meets: bounds that exclude each other, counts that are not whole numbers."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_COUNTING: Final = ("value_lengths_", "_count_to_", "unique_value_count_")


def bounds_problem(expectation_type: str, kwargs: Mapping[str, Any]) -> str | None:
    """Return the reason why no batch could meet an expectation with these arguments, or None."""
    if any(one in expectation_type for one in _COUNTING):
        for name in ("value", "min_value", "max_value"):
            given = kwargs.get(name)
            if isinstance(given, float) and not given.is_integer():
                return f"{name} {given} is not a whole number, but a count"
    strict = bool(kwargs.get("strict_min") or kwargs.get("strict_max"))
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    if _excluded(low, high, strict=strict):
        return f"min_value {low} and max_value {high}: nothing is between them"
    ranges = kwargs.get("quantile_ranges")
    if isinstance(ranges, dict):
        quantiles, values = ranges.get("quantiles"), ranges.get("value_ranges")
        if not isinstance(quantiles, list) or not isinstance(values, list):
            return "quantile_ranges must have the lists quantiles and value_ranges"
        if any(not isinstance(one, (int, float)) or not 0 <= one <= 1 for one in quantiles):
            return f"quantiles {quantiles}: they are from 0 to 1"
        if any(not isinstance(one, list) or len(one) != 2 for one in values):
            return f"value_ranges {values}: each is a list of two, [lowest, highest]"
        if len(quantiles) != len(values):
            return f"quantile_ranges has {len(quantiles)} quantiles and {len(values)} value_ranges"
        for one in values:
            if _excluded(one[0], one[1], strict=False):
                return f"value_ranges: nothing is between {one[0]} and {one[1]}"
    return None


def _excluded(low: Any, high: Any, *, strict: bool) -> bool:
    try:
        low, high = _comparable(low), _comparable(high)
        return low is not None and high is not None and bool(low > high or (strict and low == high))
    except (TypeError, ValueError):  # GX checks their types
        return False


def _comparable(bound: Any) -> Any:
    return datetime.fromisoformat(bound).replace(tzinfo=None) if isinstance(bound, str) else bound
