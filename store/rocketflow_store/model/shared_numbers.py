"""Numbers (int64) in an array that an object shares with the compiled kernel: both read and write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:

    class Number(Protocol):
        """A property that is an int."""

        def __get__(self, owner: Any, kind: type | None = None) -> int: ...
        def __set__(self, owner: Any, value: int) -> None: ...


def number(at: int) -> Number:
    """Return a property of a class: number `at` of the array `numbers` of its object."""

    def get(owner: Any) -> Any:
        return owner.numbers[at]

    def put(owner: Any, value: int) -> None:
        owner.numbers[at] = value

    return property(get, put)
