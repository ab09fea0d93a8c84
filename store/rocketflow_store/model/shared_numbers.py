"""Numbers (int64) in an array that an object shares with the compiled kernel: both read and write them."""

from __future__ import annotations

from typing import Any


def number(at: int) -> int:
    """Return a property of a class: number `at` of the array `numbers` of its object."""

    def get(owner: Any) -> Any:
        return owner.numbers[at]

    def put(owner: Any, value: int) -> None:
        owner.numbers[at] = value

    return property(get, put)  # type: ignore[return-value]
