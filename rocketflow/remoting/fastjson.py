"""The JSON of RocketMQ's fastjson 1.2 where it is not standard JSON.

Three things differ: keys may be bare words or numbers (`{0:"a"}`), keys may be objects (`{{"queueId":0}:5}`), and an
object that was written before stands as `{"$ref":"$.a[0]"}`.

RocketMQ's source: remoting/protocol/RemotingSerializable.java.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rocketflow.remoting.errors import BodyError

MAX_DEPTH: Final = 64
_MAX_DIGITS: Final = 20

_SPACE: Final = re.compile(r"[ \t\r\n\f\b]*")
_BARE: Final = re.compile(r"[A-Za-z_$0-9.+-][\w$.+-]*")
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'', re.DOTALL)
_NUMBER: Final = re.compile(r"-?(\d+)(\.\d+)?([eE][+-]?\d+)?$")
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_PATH_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def loads(data: bytes) -> Any:
    """Decode fastjson's text to dictionaries, lists, texts, numbers, booleans and None.

    A key that is an object becomes a tuple of its (name, value) pairs in the order of the names; every other key
    becomes a text. Raises BodyError.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BodyError(f"JSON: {error}") from None
    parser = _Parser(text)
    value = parser.whole_text()
    return _with_references(value, value, []) if '"$ref"' in text else value


def object_keys(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the text of a map from JSON keys and JSON values, as fastjson writes one whose keys are objects."""
    return b"{" + b",".join(key + b":" + value for key, value in entries) + b"}"


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole_text(self) -> Any:
        value = self._value(0)
        if self._next_mark():
            raise self._error("the end")
        return value

    def _next_mark(self) -> str:
        """Skip blanks and return the next character, or "" at the end."""
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> Any:
        mark = self._next_mark()
        if mark in ("{", "["):
            if depth == MAX_DEPTH:
                raise BodyError(f"JSON: more than {MAX_DEPTH} levels at character {self._at}")
            return self._object(depth + 1) if mark == "{" else self._array(depth + 1)
        if mark in ('"', "'"):
            return self._string()
        return self._plain(self._bare())

    def _object(self, depth: int) -> dict[Any, Any]:
        self._at += 1
        found: dict[Any, Any] = {}
        if self._next_mark() == "}":
            self._at += 1
            return found
        while True:
            key = self._key(depth)
            if self._next_mark() != ":":
                raise self._error('":"')
            self._at += 1
            found[key] = self._value(depth)
            if self._ends("}"):
                return found

    def _array(self, depth: int) -> list[Any]:
        self._at += 1
        found: list[Any] = []
        if self._next_mark() == "]":
            self._at += 1
            return found
        while True:
            found.append(self._value(depth))
            if self._ends("]"):
                return found

    def _ends(self, end: str) -> bool:
        """Check whether an object or array ends here; skip the comma where it goes on."""
        mark = self._next_mark()
        if mark not in (end, ","):
            raise self._error(f'"," or "{end}"')
        self._at += 1
        return mark == end

    def _key(self, depth: int) -> Any:
        mark = self._next_mark()
        if mark == "{":
            value = self._value(depth)
            if not all(isinstance(name, str) for name in value) or not all(
                isinstance(one, str | int | float | None) for one in value.values()
            ):
                raise self._error("a key of plain values")
            return tuple(sorted(value.items()))
        return self._string() if mark in ('"', "'") else self._bare()

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if found is None:
            raise self._error("the end of a text")
        self._at = found.end()
        if found[1] is not None:
            return self._unescaped(found[1])
        return self._unescaped(found[2].replace("\\'", "'").replace('"', '\\"'))

    def _unescaped(self, text: str) -> str:
        if "\\" not in text:
            return text
        escaped = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # fastjson takes them as they are
        try:
            return msgspec.json.decode(f'"{escaped}"', type=str)
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise self._error("a valid escape") from None

    def _bare(self) -> str:
        found = _BARE.match(self._text, self._at)
        if found is None:
            raise self._error("a value")
        self._at = found.end()
        return found[0]

    def _plain(self, word: str) -> Any:
        if word in _WORDS:
            return _WORDS[word]
        number = _NUMBER.match(word)
        if number is None or len(number[1]) > _MAX_DIGITS:
            raise self._error("a value")
        return int(word) if number[2] is None and number[3] is None else float(word)

    def _error(self, expected: str) -> BodyError:
        found = self._text[self._at : self._at + 1]
        return BodyError(f"JSON: {expected} is expected at character {self._at}, found {found!r}")


_WORDS: Final = {"true": True, "false": False, "null": None}


def _with_references(value: Any, root: Any, parents: list[Any]) -> Any:
    """Return a value whose references are replaced by what they name."""
    if isinstance(value, dict):
        if value.keys() == {"$ref"}:
            return _referenced(str(value["$ref"]), root, parents)
        inner = [*parents, value]
        return {key: _with_references(one, root, inner) for key, one in value.items()}
    if isinstance(value, list):
        inner = [*parents, value]
        return [_with_references(one, root, inner) for one in value]
    return value


def _referenced(path: str, root: Any, parents: list[Any]) -> Any:
    """Return what a reference names; it has to stand elsewhere and to contain no reference itself."""
    if path in ("@", ".."):
        raise BodyError(f'JSON: "$ref" {path!r} names an object that contains it')
    value = root
    position = 1
    while path.startswith("$") and position < len(path):
        step = _PATH_STEP.match(path, position)
        if step is None:
            break
        try:
            value = value[int(step[2])] if step[2] else value[step[1]]
        except (KeyError, IndexError, TypeError):
            break
        position = step.end()
    else:
        if path.startswith("$") and not any(value is one for one in parents) and not _has_reference(value):
            return value
    raise BodyError(f'JSON: "$ref" {path!r} names nothing that was written before')


def _has_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return value.keys() == {"$ref"} or any(map(_has_reference, value.values()))
    return isinstance(value, list) and any(map(_has_reference, value))
