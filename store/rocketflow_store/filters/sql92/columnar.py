"""Evaluation over columns of properties: the same answers as `scalar`, a whole batch at a time.

A condition is an int8 array of states; ERROR marks a message for which RocketMQ's evaluation throws.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.filters.sql92.java_numbers import parse_double, parse_integer
from rocketflow_store.filters.sql92.scalar import IncomparableError, compare, equal, negated, order, text_test
from rocketflow_store.filters.sql92.syntax_tree import (
    And,
    BooleanCast,
    Compare,
    Constant,
    Equal,
    In,
    Negate,
    Node,
    Not,
    Number,
    NumberType,
    Operator,
    Or,
    Property,
    TextTest,
    TextTestKind,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    Mask: TypeAlias = npt.NDArray[np.bool_]
    States: TypeAlias = npt.NDArray[np.int8]
    Numbers: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.float64]

FALSE: Final = 0
TRUE: Final = 1
NULL: Final = 2
ERROR: Final = 3

_FALSE_SCALAR: Final = pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(b"\0")])[0]

_NOT: Final = np.array([TRUE, FALSE, NULL, ERROR], np.int8)
_AND: Final = np.array(  # [left, right]
    [
        [FALSE, FALSE, FALSE, FALSE],
        [FALSE, TRUE, NULL, ERROR],
        [FALSE, NULL, NULL, ERROR],
        [ERROR, ERROR, ERROR, ERROR],
    ],
    np.int8,
)
_OR: Final = np.array(
    [
        [FALSE, TRUE, NULL, ERROR],
        [TRUE, TRUE, TRUE, TRUE],
        [NULL, TRUE, NULL, ERROR],
        [ERROR, ERROR, ERROR, ERROR],
    ],
    np.int8,
)

# Numbers that Arrow parses like Java. Other text that Java might accept is parsed row by row; the rest is an error.
_PLAIN_INTEGER: Final = r"^[+-]?[0-9]{1,18}$"
_LONG_INTEGER: Final = r"^[+-]?[0-9]{19,}$"
_PLAIN_DOUBLE: Final = r"^[+-]?([0-9]{1,20}(\.[0-9]{1,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,2})?$"
_ODD_DOUBLE: Final = r"^[\x00-\x20]*[+-]?([0-9.]|NaN|Infinity)"


@dataclass(slots=True)
class _Text:
    """One property of all rows; null for messages without it."""

    array: pa.Array
    null: Mask
    numbers: dict[NumberType, tuple[Numbers, Mask]] = field(default_factory=dict)

    def as_numbers(self, kind: NumberType) -> tuple[Numbers, Mask]:
        """Return (values, mask of the rows that are numbers); parsed once per type."""
        if kind not in self.numbers:
            if kind is NumberType.DOUBLE:
                self.numbers[kind] = _parse_doubles(self)
            else:
                self.numbers[kind] = _parse_integers(self, 32 if kind is NumberType.INT else 64)
        return self.numbers[kind]


@dataclass(frozen=True, slots=True)
class _Scalar:
    """The same value in all rows."""

    value: Value


@dataclass(frozen=True, slots=True)
class _States:
    states: States


_Column: TypeAlias = _Text | _Scalar | _States


def mask(node: Node, columns: Mapping[str, pa.Array | pa.ChunkedArray], num_rows: int) -> Mask:
    """Return a mask of the rows for which the condition `node` is TRUE; a column not given is missing in every row."""
    return np.equal(_Evaluation(columns, num_rows).states(node), TRUE)


class _Evaluation:
    def __init__(self, columns: Mapping[str, pa.Array | pa.ChunkedArray], num_rows: int) -> None:
        self._given = columns
        self._rows = num_rows
        self._texts: dict[str, _Text] = {}

    def states(self, node: Node) -> States:
        """Evaluate a condition to its states, int8[rows]."""
        column = self.column(node)
        if isinstance(column, _States):
            return column.states
        assert isinstance(column, _Scalar)  # a literal TRUE, FALSE or NULL
        return self._full(NULL if column.value is None else int(column.value is True))

    def column(self, node: Node) -> _Column:
        match node:
            case Constant(value):
                return _Scalar(value)
            case Property(name):
                return self._property(name)
            case Negate(operand):
                return self._negated(self.column(operand))
            case BooleanCast(operand):
                return _States(np.where(self._property(operand.name).null, NULL, FALSE).astype(np.int8))
            case Not(operand):
                return _States(_NOT[self.states(operand)])
            case And(operands):
                return self._joined(operands, _AND)
            case Or(operands):
                return self._joined(operands, _OR)
            case Equal(left, right):
                return _States(self._equal(self.column(left), self.column(right)))
            case Compare(operator, left, right):
                return _States(self._compare(operator, self.column(left), self.column(right)))
            case In(operand, values, negated_):
                text = self._property(operand.name)
                found = _mask(pc.is_in(text.array, value_set=string_array(values)))
                return _States(np.where(text.null, NULL, found != negated_).astype(np.int8))
            case TextTest(kind, operand, search, negated_):
                return _States(self._text_test(kind, operand, search, negated_))
        assert_never(node)

    def _property(self, name: str) -> _Text:
        text = self._texts.get(name)
        if text is None:
            array = self._given.get(name)
            if array is None:
                array = pa.nulls(self._rows, pa.string())
            if isinstance(array, pa.ChunkedArray):
                array = array.combine_chunks()
            if array.type != pa.string():
                array = array.cast(pa.string())
            if len(array) != self._rows:
                raise ValueError(f"column {name} has {len(array)} rows, not {self._rows}")
            text = self._texts[name] = _Text(array, _mask(array.is_null()))
        return text

    def _full(self, state: int) -> States:
        return np.full(self._rows, state, np.int8)

    def _joined(self, operands: tuple[Node, ...], table: States) -> _Column:
        states = self.states(operands[0])
        for operand in operands[1:]:
            states = table[states, self.states(operand)]
        return _States(states)

    def _negated(self, column: _Column) -> _Column:
        if isinstance(column, _Scalar):
            return _Scalar(negated(column.value))
        if isinstance(column, _Text):
            return _Scalar(None)
        return _States(np.where(column.states == ERROR, ERROR, NULL).astype(np.int8))

    def _nulls(self, column: _Column) -> Mask:
        if isinstance(column, _Text):
            return column.null
        if isinstance(column, _States):
            return np.equal(column.states, NULL)
        return np.full(self._rows, column.value is None)

    def _errors(self, column: _Column) -> Mask:
        return column.states == ERROR if isinstance(column, _States) else np.zeros(self._rows, bool)

    def _equal(self, left: _Column, right: _Column) -> States:
        if isinstance(left, _Scalar) and isinstance(right, _Scalar):
            return self._scalar_states(lambda: equal(left.value, right.value))
        left_null, right_null = self._nulls(left), self._nulls(right)
        states = self._equal_present(left, right)
        states[right_null] = FALSE
        states[left_null] = NULL
        states[left_null & right_null] = TRUE
        states[self._errors(left) | self._errors(right)] = ERROR
        return states

    def _equal_present(self, left: _Column, right: _Column) -> States:
        """Return the states of `=`, valid only for rows in which both sides have a value."""
        if any(isinstance(side, _Scalar) and side.value is None for side in (left, right)):
            return self._full(FALSE)
        if isinstance(left, _Text) and isinstance(right, _Text):
            return _mask(pc.equal(left.array, right.array)).astype(np.int8)
        if isinstance(left, _Text):
            return self._text_equals(left, right)
        if isinstance(right, _Text):
            if isinstance(left, _States) or isinstance(left.value, bool):
                return self._full(ERROR)  # Java casts the text to Boolean, and throws
            return self._text_equals(right, left)
        if isinstance(left, _States) and isinstance(right, _States):
            return np.asarray(left.states == right.states, np.int8)
        return self._states_equal_scalar(left, right)

    def _text_equals(self, text: _Text, other: _Column) -> States:
        if isinstance(other, _States):
            return np.asarray(_is_true(text) == (other.states == TRUE), np.int8)
        assert isinstance(other, _Scalar)
        if isinstance(other.value, bool):
            return np.asarray(_is_true(text) == other.value, np.int8)
        if isinstance(other.value, str):
            return _mask(pc.equal(text.array, string_scalar(other.value))).astype(np.int8)
        assert isinstance(other.value, Number)
        signs, parsed = _number_signs(text, other.value)
        return np.where(parsed, signs == 0, ERROR).astype(np.int8)

    def _states_equal_scalar(self, left: _Column, right: _Column) -> States:
        """Compare a condition with a literal: look up each state in the results for FALSE, TRUE, NULL and ERROR."""

        def answer(state: bool) -> int:
            values: list[Value] = [column.value if isinstance(column, _Scalar) else state for column in (left, right)]
            try:
                return int(compare(values[0], values[1]) == 0)
            except IncomparableError:
                return ERROR

        condition = left if isinstance(left, _States) else right
        assert isinstance(condition, _States)
        return np.array([answer(False), answer(True), NULL, ERROR], np.int8)[condition.states]

    def _compare(self, operator: Operator, left: _Column, right: _Column) -> States:
        if isinstance(left, _Scalar) and isinstance(right, _Scalar):
            if left.value is None or right.value is None:
                return self._full(NULL)
            return self._scalar_states(lambda: operator.holds(order(left.value, right.value)))
        states = self._compare_present(operator, left, right)
        states[self._nulls(right)] = NULL
        states[self._errors(right)] = ERROR
        states[self._nulls(left)] = NULL  # if the left side is null, the right side is not evaluated
        states[self._errors(left)] = ERROR
        return states

    def _compare_present(self, operator: Operator, left: _Column, right: _Column) -> States:
        """Return the states of an order comparison, valid only for rows in which both sides have a value."""
        if isinstance(left, _Text) and isinstance(right, _Text):
            (lefts, left_parsed), (rights, right_parsed) = (
                text.as_numbers(NumberType.DOUBLE) for text in (left, right)
            )
            signs, parsed = _double_signs(lefts, rights), left_parsed & right_parsed
        elif isinstance(left, _Text) and isinstance(right, _Scalar) and isinstance(right.value, Number):
            signs, parsed = _number_signs(left, right.value)
        elif isinstance(right, _Text) and isinstance(left, _Scalar) and isinstance(left.value, Number):
            signs, parsed = _number_signs(right, left.value)
            signs = -signs
        else:
            return self._full(NULL)  # a negated condition or property: never a value
        return np.where(parsed, _holds(operator, signs), ERROR).astype(np.int8)

    def _text_test(self, kind: TextTestKind, operand: Node, search: str, negated_: bool) -> States:
        if not search:
            return self._full(FALSE)
        column = self.column(operand)
        if isinstance(column, _Scalar):
            return self._full(int(text_test(kind, column.value, search, negated_)))
        if isinstance(column, _States):
            return np.where(column.states == ERROR, ERROR, FALSE).astype(np.int8)
        test: Callable[..., Any] = {
            TextTestKind.CONTAINS: pc.match_substring,
            TextTestKind.STARTS_WITH: pc.starts_with,
            TextTestKind.ENDS_WITH: pc.ends_with,
        }[kind]
        found = _mask(test(column.array, pattern=search))
        return np.asarray((found != negated_) & ~column.null, np.int8)

    def _scalar_states(self, answer: Callable[[], bool | None]) -> States:
        try:
            state = answer()
        except IncomparableError:
            return self._full(ERROR)
        return self._full(NULL if state is None else int(state))


def _is_true(text: _Text) -> Mask:
    return _mask(pc.equal(pc.ascii_lower(text.array), string_scalar("true")))


def _number_signs(text: _Text, number: Number) -> tuple[npt.NDArray[np.int8], Mask]:
    """Return the signs of text minus number, and a mask of the rows whose text is a number of that type."""
    values, parsed = text.as_numbers(number.type)
    if number.type is NumberType.DOUBLE:
        return _double_signs(values, np.float64(number.value)), parsed
    return _signs(values, number.value), parsed


def _double_signs(left: Any, right: Any) -> npt.NDArray[np.int8]:
    """Compare like Double.compareTo: -0.0 is below 0.0, NaN equals itself and is above all other values."""

    def rank(values: Any) -> Any:
        zero = np.where((values == 0) & np.signbit(values), -1, 0)
        return np.where(np.isnan(values), 2, zero).astype(np.int8)

    with np.errstate(invalid="ignore"):
        signs = _signs(left, right)
    ranks = np.sign(rank(left) - rank(right))
    return np.asarray(np.where(signs == 0, ranks, signs), np.int8)


def _signs(left: Any, right: Any) -> npt.NDArray[np.int8]:
    return np.asarray(np.greater(left, right), np.int8) - np.asarray(np.less(left, right), np.int8)


def _holds(operator: Operator, signs: npt.NDArray[np.int8]) -> Mask:
    if operator is Operator.GREATER:
        return signs > 0
    if operator is Operator.GREATER_EQUAL:
        return signs >= 0
    return signs < 0 if operator is Operator.LESS else signs <= 0


def _parse_integers(text: _Text, bits: int) -> tuple[Numbers, Mask]:
    plain = _no_nulls(pc.match_substring_regex(text.array, pattern=_PLAIN_INTEGER))
    parsed = _mask(plain)
    values = np.zeros(len(parsed), np.int64)
    values[parsed] = _read_numbers(text.array.filter(plain), pa.int64(), np.int64)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    odd = ~parsed & ~text.null
    parsed &= (values >= low) & (values <= high)
    if odd.any():
        long = _mask(pc.match_substring_regex(text.array, pattern=_LONG_INTEGER))
        odd &= long | ~_mask(pc.string_is_ascii(text.array))
        _parse_rows(text, odd, values, parsed, lambda one: parse_integer(one, bits))
    return values, parsed


def _parse_doubles(text: _Text) -> tuple[Numbers, Mask]:
    plain = _no_nulls(pc.match_substring_regex(text.array, pattern=_PLAIN_DOUBLE))
    parsed = _mask(plain)
    values = np.zeros(len(parsed), np.float64)
    values[parsed] = _read_numbers(text.array.filter(plain), pa.float64(), np.float64)
    odd = ~parsed & ~text.null
    if odd.any():
        odd &= _mask(pc.match_substring_regex(text.array, pattern=_ODD_DOUBLE))
        _parse_rows(text, odd, values, parsed, parse_double)
    return values, parsed


def _read_numbers(array: pa.Array, arrow_type: pa.DataType, dtype: type[np.number[Any]]) -> Any:
    """Parse texts without nulls by Arrow, after a leading plus is removed; avoids to_numpy, which imports pandas."""
    if not len(array):
        return np.zeros(0, dtype)
    numbers = pc.utf8_ltrim(array, characters="+").cast(arrow_type)
    return np.frombuffer(numbers.buffers()[1], dtype)[numbers.offset : numbers.offset + len(numbers)]


def _parse_rows(text: _Text, rows: Mask, values: Numbers, parsed: Mask, parse: Callable[[str], float]) -> None:
    for row in np.flatnonzero(rows).tolist():
        try:
            values[row] = parse(text.array[row].as_py())
        except ValueError:
            continue
        parsed[row] = True


def _no_nulls(array: pa.Array) -> pa.Array:
    """Return a boolean Arrow array with nulls as false. Avoids pc.fill_null, which imports pandas for its scalar."""
    return pc.call_function("coalesce", [array, _FALSE_SCALAR]) if array.null_count else array


def _mask(array: pa.Array) -> Mask:
    """Convert a boolean Arrow array to numpy, with nulls as False."""
    if not len(array):
        return np.zeros(0, bool)
    array = _no_nulls(array)
    packed = np.frombuffer(array.buffers()[1], np.uint8)
    return np.unpackbits(packed, count=array.offset + len(array), bitorder="little")[array.offset :].astype(bool)


def string_array(values: tuple[str, ...]) -> pa.Array:
    """Return an Arrow string array, built without pa.array, which imports pandas."""
    raw = [value.encode("utf-8", "surrogatepass") for value in values]
    offsets = np.zeros(len(raw) + 1, np.int32)
    np.cumsum([len(one) for one in raw], out=offsets[1:])
    return pa.Array.from_buffers(pa.string(), len(raw), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(raw))])


def string_scalar(value: str) -> pa.Scalar:
    return string_array((value,))[0]
