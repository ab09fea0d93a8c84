"""The JSON of RocketMQ's config files: read as fastjson writes it, written so that fastjson and all others read it.

fastjson writes maps with integer keys as `{0:10,1:12}`; it may write other bare keys too. Both are read. What we write
is standard JSON in fastjson's pretty shape: tabs, no blank behind the colon, quoted keys.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from rocketflow_store.files.json_text import parse_json

_BARE_KEY: Final = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*+(?:"|\\?\Z))"""  # a whole string literal, left as it is
    r"""|(?P<before>[{,]\s*+)(?P<key>-?[0-9]++|[A-Za-z_$][A-Za-z0-9_$]*+)(?=\s*+:)""",
    re.DOTALL,
)


def parse_json_object(text: str) -> dict[str, Any]:
    """The object that `text` holds; ValueError where it holds none. Keys come out as strings."""
    try:
        value = parse_json(text)
    except json.JSONDecodeError:
        value = parse_json(_BARE_KEY.sub(_quote, text))
    if not isinstance(value, dict):
        raise ValueError("is not a JSON object")
    return value


def format_json(document: dict[str, Any]) -> bytes:
    """`document` in fastjson's pretty shape, ASCII only, integer keys quoted."""
    return json.dumps(document, indent="\t", separators=(",", ":"), allow_nan=False).encode("ascii")


def _quote(match: re.Match[str]) -> str:
    if match["text"] is not None:
        return match["text"]
    return f'{match["before"]}"{match["key"]}"'
