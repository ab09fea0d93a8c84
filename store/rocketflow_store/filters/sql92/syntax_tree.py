"""Syntax tree of a filter expression; its nodes are RocketMQ's, so that its corner cases carry over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class NumberType(Enum):
    """Java's type of a number; property text is parsed as the type of the number that it is compared with."""

    INT = "int"
    LONG = "long"
    DOUBLE = "double"


@dataclass(frozen=True, slots=True)
class Number:
    type: NumberType
    value: int | float


Value: TypeAlias = bool | str | Number | None
"""Value of a node: null, a boolean, the text of a property or literal, or a number."""


class Operator(Enum):
    GREATER = ">"
    GREATER_EQUAL = ">="
    LESS = "<"
    LESS_EQUAL = "<="

    def holds(self, sign: int) -> bool:
        """Return True if the comparison holds for this sign of left minus right."""
        if self is Operator.GREATER:
            return sign > 0
        if self is Operator.GREATER_EQUAL:
            return sign >= 0
        return sign < 0 if self is Operator.LESS else sign <= 0


class TextTestKind(Enum):
    CONTAINS = "CONTAINS"
    STARTS_WITH = "STARTSWITH"
    ENDS_WITH = "ENDSWITH"


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal as written; a negated number is a Negate, whose operand some checks do not inspect."""

    value: Value


@dataclass(frozen=True, slots=True)
class Property:
    name: str


@dataclass(frozen=True, slots=True)
class Negate:
    """Unary minus: negates a number; any other value gives null."""

    operand: Node


@dataclass(frozen=True, slots=True)
class BooleanCast:
    """A property used as a condition: null if missing, else FALSE because properties are text."""

    operand: Property


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    """`=`, and IS NULL with a constant null on the right: two nulls are equal."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Compare:
    operator: Operator
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class In:
    operand: Property
    values: tuple[str, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class TextTest:
    kind: TextTestKind
    operand: Node
    search: str
    negated: bool


Node: TypeAlias = Constant | Property | Negate | BooleanCast | Not | And | Or | Equal | Compare | In | TextTest


def is_condition(node: Node) -> bool:
    """Return True if the node is a condition by its form; of the literals, TRUE, FALSE and NULL are."""
    if isinstance(node, Constant):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, Property | Negate)
