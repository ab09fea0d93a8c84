"""Parser of filter expressions, with the checks that RocketMQ makes when it compiles an expression.

Differences from RocketMQ 5.3.3, which silently ignores everything after the part that it can parse:

    expression           RocketMQ                         here
    a = 1 b, a + 1 = 2   ignores all after a = 1, a       an error
    a = 1e, a = 1)       a = 1                            an error
    a = --1              a = 1: negated twice             a comment, and so an error
    a = 010, 08, 0x10,   a = 0: ignores all after the 0   the same at the end of an expression; an error if
    0L                                                    more follows, which RocketMQ would ignore too
"""

from __future__ import annotations

import sys
from typing import Final

from rocketflow_store.filters.sql92.lexer import Token, TokenKind, tokenize
from rocketflow_store.filters.sql92.scalar import IncomparableError, compare
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
    is_condition,
)
from rocketflow_store.model.errors import InvalidFilterError

MAX_DEPTH: Final = 64

_OPERATORS: Final = {operator.value: operator for operator in Operator}
_TEXT_TESTS: Final = {kind.value: kind for kind in TextTestKind}
_INT_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1
_DOUBLE_MIN: Final = 5e-324


def parse(expression: str) -> tuple[Node, tuple[str, ...]]:
    """Return (condition, names of its properties in order of appearance).

    Raises:
        InvalidFilterError: the expression is invalid; the error has the position and the reason.
    """
    parser = _Parser(expression)
    return parser.expression(), tuple(parser.properties)


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = tokenize(expression)
        self._at = 0
        self._depth = 0
        self.properties: dict[str, None] = {}

    def expression(self) -> Node:
        first = self._token
        if first.kind is TokenKind.END:
            raise self._error(first, "is empty; write a condition such as a > 5, or omit the filter")
        node = self._condition(self._or(), first)
        if self._token.kind is not TokenKind.END:
            raise self._error(self._token, f"expected AND, OR or the end, not {self._token}")
        return node

    def _or(self) -> Node:
        first = self._token
        node = self._and()
        if not self._sees("OR"):
            return node
        operands = [self._condition(node, first)]
        while self._take("OR"):
            first = self._token
            operands.append(self._condition(self._and(), first))
        return Or(tuple(operands))

    def _and(self) -> Node:
        first = self._token
        node = self._equality()
        if not self._sees("AND"):
            return node
        operands = [self._condition(node, first)]
        while self._take("AND"):
            first = self._token
            operands.append(self._condition(self._equality(), first))
        return And(tuple(operands))

    def _equality(self) -> Node:
        depth = self._depth
        first = self._token
        node = self._comparison()
        while True:
            operator = self._token
            if self._take("="):
                node = self._equal(node, first, operator)
            elif self._take("<>"):
                node = Not(self._equal(node, first, operator))
            elif self._take("IS"):
                negated = self._take("NOT")
                self._expect("NULL")
                node = Equal(node, Constant(None))
                node = Not(node) if negated else node
            else:
                self._depth = depth
                return node
            self._deeper(operator)

    def _equal(self, left: Node, first: Token, operator: Token) -> Node:
        second = self._token
        right = self._comparison()
        for operand, token in ((left, first), (right, second)):
            if isinstance(operand, Constant) and operand.value is None:
                raise self._error(token, "NULL cannot be compared; write IS NULL or IS NOT NULL")
        constants = isinstance(left, Constant) and isinstance(right, Constant)
        if constants and is_condition(left) and not is_condition(right):
            raise self._error(operator, "a boolean cannot be compared with a number or a string")
        return Equal(left, right)

    def _comparison(self) -> Node:
        depth = self._depth
        first = self._token
        node = self._unary()
        while True:
            token = self._token
            operator = _OPERATORS.get(token.text) if token.kind is TokenKind.SYMBOL else None
            if operator is not None:
                self._at += 1
                second = self._token
                node = self._compare(operator, (node, first), (self._unary(), second))
            else:
                negated = self._sees("NOT")
                word = self._tokens[self._at + 1] if negated else token
                if word.kind is not TokenKind.KEYWORD or word.text not in ("BETWEEN", "IN", *_TEXT_TESTS):
                    self._depth = depth
                    return node
                self._at += 2 if negated else 1
                if word.text == "BETWEEN":
                    node = self._between(node, first, negated)
                elif word.text == "IN":
                    node = self._in(node, first, negated)
                else:
                    node = TextTest(_TEXT_TESTS[word.text], node, self._string(), negated)
            self._deeper(token)

    def _compare(self, operator: Operator, left: tuple[Node, Token], right: tuple[Node, Token]) -> Node:
        for operand, token in (left, right):
            if is_condition(operand) or (isinstance(operand, Constant) and not isinstance(operand.value, Number)):
                raise self._error(token, f"only properties and numbers can be compared with {operator.value}")
        return Compare(operator, left[0], right[0])

    def _between(self, node: Node, first: Token, negated: bool) -> Node:
        low_token = self._token
        low = self._unary()
        self._expect("AND")
        high_token = self._token
        high = self._unary()
        if negated:
            return Or(
                (
                    self._compare(Operator.LESS, (node, first), (low, low_token)),
                    self._compare(Operator.GREATER, (node, first), (high, high_token)),
                )
            )
        if isinstance(low, Constant) and isinstance(high, Constant):
            if low.value is None or high.value is None:
                raise self._error(low_token, "the bounds of BETWEEN cannot be NULL")
            try:
                reversed_bounds = compare(high.value, low.value) < 0
            except IncomparableError as error:
                raise self._error(low_token, f"the bounds of BETWEEN do not go together: {error}") from None
            if reversed_bounds:
                raise self._error(low_token, "the lower bound of BETWEEN is above the upper one")
        return And(
            (
                self._compare(Operator.GREATER_EQUAL, (node, first), (low, low_token)),
                self._compare(Operator.LESS_EQUAL, (node, first), (high, high_token)),
            )
        )

    def _in(self, node: Node, first: Token, negated: bool) -> Node:
        if not isinstance(node, Property):
            raise self._error(first, "only a property is allowed before IN")
        self._expect("(")
        values = [self._string()]
        while self._take(","):
            values.append(self._string())
        self._expect(")")
        return In(node, tuple(dict.fromkeys(values)), negated)

    def _unary(self) -> Node:
        token = self._token
        depth = self._depth
        self._deeper(token)
        if self._take("+"):
            node = self._unary()
        elif self._take("-"):
            node = Negate(self._unary())
        elif self._take("NOT"):
            first = self._token
            node = Not(self._condition(self._unary(), first))
        else:
            node = self._primary()
        self._depth = depth
        return node

    def _primary(self) -> Node:
        token = self._token
        self._at += 1
        if token.kind is TokenKind.IDENTIFIER:
            name = sys.intern(token.text)
            self.properties[name] = None
            return Property(name)
        if token.kind is TokenKind.STRING:
            return Constant(token.text)
        if token.kind is TokenKind.DECIMAL:
            return Constant(self._decimal(token))
        if token.kind is TokenKind.CUT:
            return Constant(self._cut(token))
        if token.kind is TokenKind.FLOAT:
            return Constant(self._float(token))
        if token.kind is TokenKind.KEYWORD and token.text in ("TRUE", "FALSE", "NULL"):
            return Constant({"TRUE": True, "FALSE": False, "NULL": None}[token.text])
        if token.kind is TokenKind.SYMBOL and token.text == "(":
            node = self._or()
            self._expect(")")
            return node
        self._at -= 1
        raise self._error(token, f"expected a property, a literal or (, not {token}")

    def _decimal(self, token: Token) -> Number:
        digits = token.text.rstrip("lL")
        value = int(digits) if len(digits) <= 19 else _LONG_MAX + 1
        if value > _LONG_MAX:
            raise self._error(token, f"integers end at {_LONG_MAX}")
        return Number(NumberType.INT if value <= _INT_MAX else NumberType.LONG, value)

    def _cut(self, token: Token) -> Number:
        if self._token.kind is not TokenKind.END:
            raise self._error(token, f"RocketMQ reads 0 and ignores all after it; write 0 instead of {token.text}")
        return Number(NumberType.INT, 0)

    def _float(self, token: Token) -> Number:
        value = float(token.text)
        if value == float("inf"):
            raise self._error(token, "is above the largest double")
        if value < _DOUBLE_MIN:
            raise self._error(token, "is below the smallest positive double; write 0 for zero")
        return Number(NumberType.DOUBLE, value)

    def _condition(self, node: Node, first: Token) -> Node:
        if is_condition(node):
            return node
        if isinstance(node, Property):
            return BooleanCast(node)
        raise self._error(first, "a condition is needed here, not a value")

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _sees(self, text: str) -> bool:
        return self._token.kind in (TokenKind.KEYWORD, TokenKind.SYMBOL) and self._token.text == text

    def _take(self, text: str) -> bool:
        found = self._sees(text)
        self._at += found
        return found

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._error(self._token, f"expected {text}, not {self._token}")

    def _string(self) -> str:
        token = self._token
        if token.kind is not TokenKind.STRING:
            raise self._error(token, f"expected a string in single quotes, not {token}")
        self._at += 1
        return token.text

    def _deeper(self, token: Token) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(token, f"is nested more than {MAX_DEPTH} deep")

    def _error(self, token: Token, why: str) -> InvalidFilterError:
        return InvalidFilterError(self._expression, token.position, why)
