"""Evaluation over the properties of one message by RocketMQ's rules.

The order of evaluation matters: after FALSE AND, an error on the right side is never reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from rocketflow_store.filters.sql92.java_numbers import compare_doubles, parse_boolean, parse_double, parse_integer
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
    Or,
    Property,
    TextTest,
    TextTestKind,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class IncomparableError(Exception):
    """Two values cannot be compared; Java throws, and the message does not match."""


def evaluate(node: Node, properties: Mapping[str, str]) -> Value:
    """Evaluate `node` for one message.

    Raises:
        IncomparableError: RocketMQ's evaluation throws.
    """
    match node:
        case Constant(value):
            return value
        case Property(name):
            return properties.get(name)
        case Negate(operand):
            return negated(evaluate(operand, properties))
        case BooleanCast(operand):
            return None if evaluate(operand, properties) is None else False
        case Not(operand):
            state = evaluate(operand, properties)
            return None if state is None else not state
        case And(operands):
            return _joined(operands, properties, dominant=False)
        case Or(operands):
            return _joined(operands, properties, dominant=True)
        case Equal(left, right):
            return equal(evaluate(left, properties), evaluate(right, properties))
        case Compare(operator, left, right):
            value = evaluate(left, properties)
            other = None if value is None else evaluate(right, properties)
            if value is None or other is None:
                return None
            return operator.holds(order(value, other))
        case In(operand, values, negated_):
            found = evaluate(operand, properties)
            return None if found is None else (found in values) != negated_
        case TextTest(kind, operand, search, negated_):
            return bool(search) and text_test(kind, evaluate(operand, properties), search, negated_)
    assert_never(node)


def negated(value: Value) -> Value:
    """Negate a number; return None for any other value."""
    return Number(value.type, -value.value) if isinstance(value, Number) else None


def equal(left: Value, right: Value) -> bool | None:
    """Evaluate `=`: None if only the left side is null, False if only the right side is, True if both are."""
    if left is None:
        return True if right is None else None
    return right is not None and compare(left, right) == 0


def order(left: Value, right: Value) -> int:
    """Return the sign of left minus right for `<`, `<=`, `>`, `>=`; two texts are compared as doubles."""
    if isinstance(left, str) and isinstance(right, str):
        return compare_doubles(_double(left), _double(right))
    return compare(left, right)


def compare(left: Value, right: Value) -> int:
    """Return the sign of left minus right for values that are not null, -1 for types that do not match."""
    if isinstance(left, bool):
        if isinstance(right, str):
            raise IncomparableError("a boolean on the left of a string")
        return (left > right) - (left < right) if isinstance(right, bool) else -1
    if isinstance(left, str):
        if isinstance(right, str):
            return (left > right) - (left < right)
        if isinstance(right, bool):
            return compare(parse_boolean(left), right)
        if isinstance(right, Number):
            return compare_numbers(parsed(left, right.type), right)
    if isinstance(left, Number):
        if isinstance(right, str):
            return compare_numbers(left, parsed(right, left.type))
        if isinstance(right, Number):
            return compare_numbers(left, right)
    return -1


def compare_numbers(left: Number, right: Number) -> int:
    if NumberType.DOUBLE in (left.type, right.type):
        return compare_doubles(float(left.value), float(right.value))
    return (left.value > right.value) - (left.value < right.value)


def parsed(text: str, kind: NumberType) -> Number:
    """Parse property text as a number of type `kind`.

    Raises:
        IncomparableError: the text is no such number.
    """
    if kind is NumberType.DOUBLE:
        return Number(kind, _double(text))
    try:
        return Number(kind, parse_integer(text, 32 if kind is NumberType.INT else 64))
    except ValueError as error:
        raise IncomparableError(f"{text!r} is {error}") from None


def text_test(kind: TextTestKind, value: Value, search: str, negated_: bool) -> bool:
    """Evaluate CONTAINS, STARTSWITH or ENDSWITH; False for a value that is not text, negated or not.

    `search` must not be empty.
    """
    if not isinstance(value, str):
        return False
    if kind is TextTestKind.CONTAINS:
        found = search in value
    elif kind is TextTestKind.STARTS_WITH:
        found = value.startswith(search)
    else:
        found = value.endswith(search)
    return found != negated_


def _joined(operands: tuple[Node, ...], properties: Mapping[str, str], *, dominant: bool) -> bool | None:
    """Evaluate AND (FALSE is dominant) or OR (TRUE is dominant) from left to right, up to the first dominant value."""
    unknown = False
    for operand in operands:
        state = evaluate(operand, properties)
        if state is dominant:
            return dominant
        unknown |= state is None
    return None if unknown else not dominant


def _double(text: str) -> float:
    try:
        return parse_double(text)
    except ValueError as error:
        raise IncomparableError(f"{text!r} is {error}") from None
