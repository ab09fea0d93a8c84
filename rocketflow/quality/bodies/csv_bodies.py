"""Bodies that are one line of CSV, by RFC 4180: the rules that Spark's parser, Python's and a draft share.

Spark's parser accepts more than that, and guesses: a quote that is never closed, text after a closing quote, a second
line. `CsvDialect.pattern` distinguishes such bodies from lines.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketflow.quality.errors import BodySchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The separator and quoting of fields: `quote` "" is none, `escape` precedes a quote within quotes.

    A field that is `null`, quoted or not, has no value.
    """

    separator: str = ","
    quote: str = '"'
    escape: str = '"'
    null: str = ""

    def spark_options(self) -> dict[str, str]:
        """Return the options for Spark's parser, whose default escape is a backslash."""
        return {"quote": self.quote, "escape": self.escape} if self.quote else {"quote": ""}

    @property
    def pattern(self) -> str:
        """A Java regular expression that matches a complete line; linear, without recursion."""
        separator, quote, escape = (
            "".join(f"\\x{{{ord(one):x}}}" for one in text) for text in (self.separator, self.quote, self.escape)
        )
        end = f"{separator}\\r\\n"
        plain = f"[^{end}]*+" if len(self.separator) == 1 else f"(?:(?!{separator})[^\\r\\n])*+"
        if not self.quote:
            field = plain
        else:
            inner = f"[^{quote}]++|{quote}{quote}" if escape == quote else f"[^{quote}{escape}]++|{escape}[\\s\\S]"
            field = f"(?:{quote}(?:{inner})*+{quote}|(?!{quote}){plain})"
        return f"\\A{field}(?:{separator}{field})*+(?:\\r?\\n)?\\z"

    def lines(self, text: str) -> list[list[str]]:
        """Return the fields of every line of a text; raise csv.Error if it is not CSV, or if Python cannot read it."""
        if len(self.separator) != 1 or len(self.quote) > 1 or len(self.escape) > 1:
            raise csv.Error(f"the separator {self.separator!r} is no single character")
        doubled = self.escape == self.quote
        reader = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=self.separator,
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            doublequote=doubled,
            escapechar=None if doubled else self.escape or None,
            strict=True,
        )
        return list(reader)


def csv_dialect(options: Mapping[str, str]) -> CsvDialect:
    """Return the dialect of `--body-option`s, under Spark's names; raise BodySchemaError for an invalid value."""
    given = {name.lower(): value for name, value in options.items()}
    separator = given.get("sep", given.get("delimiter", ","))
    separator = {"\\t": "\t", "\\\\": "\\"}.get(separator, separator)
    quote = given.get("quote", '"')
    escape = given.get("escape", quote)
    for name, text, least in (("sep", separator, 1), ("quote", quote, 0), ("escape", escape, 0)):
        if len(text) < least or (name != "sep" and len(text) > 1):
            raise BodySchemaError(f"--body-option {name}={text!r}: give it one character")
    return CsvDialect(separator, quote, escape, given.get("nullvalue", ""))
