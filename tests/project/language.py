"""Check the words and the docstrings of the tree: `python -m tests.project.language [PATH ...]`.

Prints one line for each finding and ends with 1 if there is one. Without a path, everything in `FINISHED` is checked.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FINISHED: Final = (ROOT / "tests/project/finished.txt").read_text("utf-8").split()
"""Paths that `make check` holds to these rules."""
SUFFIXES: Final = {".py", ".md", ".toml", ".conf", ".sh", ".yml", ".yaml", ".service", ".timer", ""}
NOT_CHECKED: Final = (
    "tests/project/language.py",  # names the words
    "tests/golden/",  # bytes and lists of others
    "tests/project/stored_names.txt",  # names that scripts have stored
    "tests/project/verbs.txt",
)

WORDS: Final = {
    r"(?<!\.)tell(?:s|ing)?|told": "report, log, raise, return, name, distinguish",
    r"behind": "after; past; under",
    r"in front of": "before",
    r"made (?:again|anew)": "rebuilt",
    r"made (?:ahead|late)": "preallocated, allocated on demand",
    r"put again|given back": "redelivered, requeued, replayed",
    r"set aside": "quarantined, skipped",
    r"gone": "missing, deleted, ended",
    r"stands? at|how far (?:it|they) (?:is|are)": "position, progress",
    r"wild|odd unit": "out-of-range, malformed",
    r"stand-ins?": "placeholder",
    r"light queues?": "LMQ",
    r"foreign|ours|theirs": "RocketFlow's, written by RocketMQ, of another process",
    r"spares?": "pooled, reusable",
    r"forsak\w+|forsook": "abandon",
    r"somebody|someone|whoever|nobody|anybody": "the caller, a reader, the writer, no reader",
    r"given up": "abandoned",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"left out|leav(?:e|es|ing) out": "skipped, omitted",
    r"faults? hits?": "fault triggered",
    r"house|houses|rooms": "architecture, packages",
}
"""A pattern of a word or phrase, and the words to use instead. Case and `_` beside it do not matter."""
_WORD: Final = re.compile(
    "|".join(f"(?P<w{number}>(?<![A-Za-z])(?:{one})(?![A-Za-z]))" for number, one in enumerate(WORDS)), re.IGNORECASE
)
_ALLOWED: Final = re.compile(
    r"lag(?:s|ged|ging)? behind|left_out|def tell\(|\.behind-\{|foreign-file|rocketflow/spare|\"spare\""
    r"|['\"]foreign['\"]|behind a disk call|_behind_bytes",
    re.IGNORECASE,
)
"""`left_out` is a key of stored JSON, `tell` a method of Python's files, `.behind-SIZE` a name in the quarantine,
`foreign-file` a kind of findings, `rocketflow/spare` a directory of a store, the next two are in reliability.json, the
last ends names of RocketMQ's figures."""

NO_SUMMARY_BEGINS_WITH: Final = frozenset(
    ["what", "where", "who", "whose", "how", "whether", "of", "some", "as", "nothing", "which", "why", "so", "nobody"]
)
VERBS: Final = frozenset((ROOT / "tests/project/verbs.txt").read_text("utf-8").split())
"""The imperative verbs that a function's docstring may begin with."""


def files(paths: list[str]) -> list[Path]:
    """Return the text files under `paths` that git tracks and that the rules apply to."""
    done = subprocess.run(["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in done.stdout.splitlines() if not name.startswith(NOT_CHECKED)]
    return [ROOT / name for name in names if Path(name).suffix in SUFFIXES and (ROOT / name).is_file()]


def words(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, problem) of each word of `WORDS` in `text`."""
    instead = list(WORDS.values())
    for number, line in enumerate(text.splitlines(), 1):
        for found in _WORD.finditer(_ALLOWED.sub("", line)):
            index = int((found.lastgroup or "w0")[1:])
            yield number, f"{found[0]!r}: write {instead[index]}"


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, problem) of each docstring of the Python `source` whose first word is a wrong one.

    A function's begins with an imperative verb; a test, a property and a class may begin with a noun phrase.
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if not text:
            continue
        line = node.body[0].lineno
        first = re.split(r"[\s,;:.]", text, maxsplit=1)[0]
        if first.lower() in NO_SUMMARY_BEGINS_WITH:
            yield line, f"a summary begins with {first!r}"
        elif _is_verb_asked(node) and not (first.istitle() and first.lower() in VERBS):
            yield line, f"a function's docstring begins with {first!r}, not with an imperative verb"


def _is_verb_asked(node: ast.AST) -> bool:
    """Return True if `node` is a function that is neither a test nor a property."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    decorators = [ast.unparse(one) for one in node.decorator_list]
    return not node.name.startswith("test_") and not any("property" in one for one in decorators)


def findings(paths: list[str]) -> list[str]:
    """Return a line for each problem in the files under `paths`."""
    lines = []
    for path in files(paths):
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found = [*words(text), *(docstrings(text) if path.suffix == ".py" else ())]
        lines += [f"{path.relative_to(ROOT)}:{line}: {problem}" for line, problem in sorted(found)]
    return lines


def main() -> int:
    """Print the problems; return 1 if there are any."""
    found = findings(sys.argv[1:] or FINISHED)
    print("\n".join(found) if found else "language ok")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
