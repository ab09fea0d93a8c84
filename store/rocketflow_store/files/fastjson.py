"""The JSON of RocketMQ's config files: read as fastjson writes it, written so that every parser reads it.

fastjson writes maps with integer keys as `{0:10,1:12}`; it may write other bare keys too. Both are read. The output is
standard JSON in fastjson's pretty shape: tabs, no blank after the colon, quoted keys.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from rocketflow_store.files.json_text import parse_json

_BARE_KEY: Final = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*+(?:"|\\?\Z))"""  # a string literal, which is not changed
    r"""|(?P<before>[{,]\s*+)(?P<key>-?[0-9]++|[A-Za-z_$][A-Za-z0-9_$]*+)(?=\s*+:)""",
    re.DOTALL,
)


def parse_json_object(text: str) -> dict[str, Any]:
    """Parse the object in `text`, with strings as keys; raise ValueError if it is none."""
    try:
        value = parse_json(text)
    except json.JSONDecodeError:
        value = parse_json(_BARE_KEY.sub(_quote, text))
    if not isinstance(value, dict):
        raise ValueError("is not a JSON object")
    return value


def format_json(document: dict[str, Any]) -> bytes:
    """Format `document` in fastjson's pretty shape, ASCII only, integer keys quoted."""
    return json.dumps(document, indent="\t", separators=(",", ":"), allow_nan=False).encode("ascii")


def _quote(match: re.Match[str]) -> str:
    if match["text"] is not None:
        return match["text"]
    return f'{match["before"]}"{match["key"]}"'
