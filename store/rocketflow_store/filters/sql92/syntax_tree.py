"""What a filter expression says, as a tree; its nodes are RocketMQ's, so that its corner cases carry over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class NumberType(Enum):
    """Java's type of a number; property text is read as the type of what it is compared with."""

    INT = "int"
    LONG = "long"
    DOUBLE = "double"


@dataclass(frozen=True, slots=True)
class Number:
    type: NumberType
    value: int | float


Value: TypeAlias = bool | str | Number | None
"""What a node evaluates to: nothing, a boolean, the text of a property or literal, a number."""


class Operator(Enum):
    GREATER = ">"
    GREATER_EQUAL = ">="
    LESS = "<"
    LESS_EQUAL = "<="

    def holds(self, sign: int) -> bool:
        """Whether the comparison is true when left minus right has this sign."""
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
    """A literal as written; a negated number is a Negate, which some checks do not look into."""

    value: Value


@dataclass(frozen=True, slots=True)
class Property:
    name: str


@dataclass(frozen=True, slots=True)
class Negate:
    """Minus: of a number its opposite, of anything else null."""

    operand: Node


@dataclass(frozen=True, slots=True)
class BooleanCast:
    """A property where a condition stands: null if missing, else FALSE, for properties are text."""

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
    """Whether the node is boolean by its form: TRUE, FALSE and NULL are, other values are not."""
    if isinstance(node, Constant):
        return node.value is None or isinstance(node.value, bool)
    return not isinstance(node, Property | Negate)
