"""Java's parsing of numbers and order of doubles."""

from __future__ import annotations

import math
import re
from typing import Final

_INTEGER: Final = re.compile(r"[+-]?\d+")  # digits of any script, as Character.digit accepts them
_DOUBLE: Final = re.compile(
    r"""(?P<sign>[+-]?)
        (?: (?P<name>NaN|Infinity)
          | (?P<decimal>(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[fFdD]?
          | (?P<hex>0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?
        )""",
    re.VERBOSE,
)
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))


def parse_integer(text: str, bits: int) -> int:
    """Parse like Integer.valueOf (`bits` = 32) or Long.valueOf (64).

    Raises:
        ValueError: Java throws NumberFormatException.
    """
    if not _INTEGER.fullmatch(text) or any(char > "\uffff" for char in text):
        raise ValueError("not an integer")
    digits = text.lstrip("+-").lstrip("0")
    value = int(text) if len(digits) < 20 else 1 << 64
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"not a {bits}-bit integer")
    return value


def parse_double(text: str) -> float:
    """Parse like Double.valueOf.

    Raises:
        ValueError: Java throws NumberFormatException.
    """
    match = _DOUBLE.fullmatch(text.strip(_JAVA_BLANKS))
    if match is None:
        raise ValueError("not a number")
    if match["name"]:
        value = math.nan if match["name"] == "NaN" else math.inf
    elif match["decimal"]:
        value = float(match["decimal"])
    else:
        try:
            value = float.fromhex(match["hex"])
        except OverflowError:
            value = math.inf
    return -value if match["sign"] == "-" else value


def compare_doubles(left: float, right: float) -> int:
    """Compare like Double.compareTo: -0.0 is below 0.0, NaN equals itself and is above all other values."""
    if left < right:
        return -1
    if left > right:
        return 1
    return _rank(left) - _rank(right)


def _rank(value: float) -> int:
    if math.isnan(value):
        return 2
    return 0 if math.copysign(1.0, value) > 0 or value else -1


def parse_boolean(text: str) -> bool:
    """Parse like Boolean.valueOf: "true" in any case is True, other text is False."""
    return text.lower() == "true"
