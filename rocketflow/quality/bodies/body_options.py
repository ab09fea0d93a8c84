"""Options of Spark's parsers of bodies. Spark ignores unknown names; here they are an error."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from rocketflow.quality.errors import BodySchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOTH: Final = (
    "dateFormat", "timestampFormat", "timestampNTZFormat", "enableDateTimeParsingFallback", "locale", "timeZone",
)  # fmt: skip
_KNOWN: Final = {
    "json": (
        *_BOTH, "primitivesAsString", "allowComments", "allowUnquotedFieldNames", "allowSingleQuotes",
        "allowNumericLeadingZeros", "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars",
        "allowNonNumericNumbers", "maxNestingDepth", "maxNumLen", "maxStringLen",
    ),
    "csv": (
        *_BOTH, "sep", "delimiter", "quote", "escape", "charToEscapeQuoteEscaping", "comment", "nullValue",
        "emptyValue", "nanValue", "positiveInf", "negativeInf", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace",
        "maxColumns", "maxCharsPerColumn", "unescapedQuoteHandling",
    ),
}  # fmt: skip


def check_options(body_format: str, options: Mapping[str, str]) -> None:
    """Raise BodySchemaError if an option does not exist for the format."""
    known = _KNOWN.get(body_format, ())
    for name in options:
        if name.lower() in {one.lower() for one in known}:
            continue
        if not known:
            raise BodySchemaError(f"--body-option {name}: bodies of format {body_format} have no options")
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        raise BodySchemaError(f"--body-option {name}: no option of {body_format} bodies ({hint})")
