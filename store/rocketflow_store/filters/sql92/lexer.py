"""Lexer of filter expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rocketflow_store.model.errors import InvalidFilterError

KEYWORDS: Final = frozenset(
    {
        "NOT",
        "AND",
        "OR",
        "BETWEEN",
        "IN",
        "TRUE",
        "FALSE",
        "NULL",
        "IS",
        "CONTAINS",
        "STARTSWITH",
        "ENDSWITH",
    }
)

_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\n\r\f]++|--[^\n\r]*+|/\*.*?\*/)
      | (?P<float>[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]+)?|\.[0-9]++(?:[eE][+-]?[0-9]+)?|[0-9]++[eE][+-]?[0-9]+)
      | (?P<cut>0(?:[xX][0-9a-fA-F]++|[0-9]++)[lL]?|0[lL])(?![A-Za-z0-9_$])
      | (?P<decimal>0|[1-9][0-9]*+[lL]?)
      | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*+)
      | (?P<string>'(?:[^']|'')*+')
      | (?P<symbol><>|>=|<=|[=<>(),+-])""",
    re.VERBOSE | re.DOTALL,
)
_HINTS: Final = {
    "'": "a string without its closing quote",
    '"': 'strings are written in single quotes, not in "',
    "!": "there is no !=, write <>",
    "/": "there is no arithmetic, and no comment ends here",
    "*": "there is no arithmetic",
    ".": "names are made of letters, digits, _ and $",
    "%": "there is no arithmetic",
    "|": "conditions are joined by AND and OR",
    "&": "conditions are joined by AND and OR",
}


class TokenKind(Enum):
    KEYWORD = "keyword"
    IDENTIFIER = "identifier"
    DECIMAL = "integer"
    CUT = "integer of which RocketMQ reads the 0 that it begins with"
    FLOAT = "number"
    STRING = "string"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `text` of a keyword is in upper case, of a string without its quotes; `position` counts from 0."""

    kind: TokenKind
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind is TokenKind.END else repr(self.text)


def tokenize(expression: str) -> list[Token]:
    """Return all tokens of an expression; the last one is END.

    Raises:
        InvalidFilterError: the text at a position is no token.
    """
    tokens: list[Token] = []
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            char = expression[position]
            raise InvalidFilterError(expression, position, _HINTS.get(char, f"{char!r} is not part of the language"))
        text = match[0]
        if match.lastgroup == "word":
            keyword = text.upper() in KEYWORDS
            kind = TokenKind.KEYWORD if keyword else TokenKind.IDENTIFIER
            tokens.append(Token(kind, text.upper() if keyword else text, position))
        elif match.lastgroup == "string":
            tokens.append(Token(TokenKind.STRING, text[1:-1].replace("''", "'"), position))
        elif match.lastgroup == "decimal":
            tokens.append(Token(TokenKind.DECIMAL, text, position))
        elif match.lastgroup == "cut":
            tokens.append(Token(TokenKind.CUT, text, position))
        elif match.lastgroup == "float":
            tokens.append(Token(TokenKind.FLOAT, text, position))
        elif match.lastgroup == "symbol":
            tokens.append(Token(TokenKind.SYMBOL, text, position))
        position = match.end()
    tokens.append(Token(TokenKind.END, "", position))
    return tokens
