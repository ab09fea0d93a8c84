"""Run the tests that a change can break, the nearest first, as long as the time lasts: `make test-changed`.

A test file depends on what it imports, directly or through other modules, and on the conftests above it. Its distance
from a change is the number of imports between them. These are near without an import, since they start commands or
read files: tests in the folder of a changed package, tests that name a changed file, and those that read the code.

On a module of the ground floor nearly every test depends. So the files are taken in the order of their distance until
their seconds (those of their last run, in pytest's cache) fill the time; no test begins after its end. Tests marked
`slow`, and rules of the code that take long, are for `make test`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grimp

from tests.support.seconds import KEY, UNTIL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).parents[2]
PROCESSES: Final = 3
SECONDS: Final = 140.0
"""For `make check` and the beginning of tests; the last ones end within three minutes."""
UNKNOWN_SECONDS: Final = 4.0
"""Expected of a file that has not run yet."""
RULES_DISTANCE: Final = 2
RULES_SECONDS: Final = 8.0
"""Rules of the code that take longer are for `make test`."""
READS_CODE: Final = re.compile(r'glob\("\*\.py"\)|^import grimp', re.M)
"""In a test that holds a rule of the product's code."""
NAMES: Final = re.compile(r"\b(?:rocketflow(?:_store)?|tests)(?:\.\w+)+")


def module_of(file: str) -> str:
    """Return the module that a file of the repository is, or "" if it is none of the product's or the tests'."""
    parts = Path(file.removeprefix("store/")).with_suffix("").parts
    if not file.endswith(".py") or parts[0] not in {"rocketflow", "rocketflow_store", "tests"}:
        return ""
    return ".".join(parts).removesuffix(".__init__")


def git(*arguments: str) -> list[str]:
    """Return the lines that git prints."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def changed_files(base: str | None) -> list[str]:
    """Return the files that differ from where this branch left `base`, uncommitted and new ones too.

    Without a base it is `origin/main`, else `main`.
    """
    known = git("for-each-ref", "--format=%(refname:short)", "refs/remotes/origin/main", "refs/heads/main")
    (left,) = git("merge-base", base or [*sorted(known, reverse=True), "HEAD"][0], "HEAD")
    return [*git("diff", "--name-only", left), *git("ls-files", "--others", "--exclude-standard")]


@dataclass
class Imports:
    """Imports of the product's modules, by grimp, and of the tests' modules, by their syntax trees."""

    texts: Mapping[str, str]
    """Contents of the tests' modules, by file."""
    _exports: dict[tuple[str, str], str] = field(default_factory=dict)

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """Return the modules that import a module, by its name."""
        found: dict[str, set[str]] = defaultdict(set)
        whole = grimp.build_graph("rocketflow_store", "rocketflow", cache_dir=None)
        run = grimp.build_graph("rocketflow_store", "rocketflow", cache_dir=None, exclude_type_checking_imports=True)
        for module in whole.modules:
            # a package's imports of types are the names that it loads when they are first used
            graph = whole if whole.find_children(module) else run
            for imported in graph.find_modules_directly_imported_by(module):
                found[imported].add(module)
        known = {*whole.modules, *(module_of(file) for file in self.texts)}
        for package in sorted(whole.modules):
            path = ROOT / ("store" if package.startswith("rocketflow_store") else "") / package.replace(".", "/")
            if (path / "__init__.py").exists():
                for node in ast.walk(ast.parse((path / "__init__.py").read_text("utf-8"))):
                    if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                        self._exports |= {(package, one.asname or one.name): node.module for one in node.names}
        for file, text in self.texts.items():
            for imported in self._imported(file, text):
                if imported in known:
                    found[imported].add(module_of(file))
        return found

    def _imported(self, file: str, text: str) -> Iterator[str]:
        for folder in Path(file).parents:
            if f"{folder}/conftest.py" in self.texts:
                yield module_of(f"{folder}/conftest.py")
        tree = ast.parse(text)
        # what a fixture of a conftest imports is not for all tests below it
        for node in tree.body if file.endswith("conftest.py") else ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (one.name for one in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for one in node.names:
                    yield f"{node.module}.{one.name}"
                    yield self._home(node.module, one.name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # of processes that a test starts
                yield from NAMES.findall(node.value)

    def _home(self, module: str, name: str) -> str:
        while (module, name) in self._exports:
            module = self._exports[module, name]
        return module

    def distances(self, changed: Iterable[str]) -> dict[str, int]:
        """Return the number of imports between each module that depends on a changed one, and the nearest of these."""
        found = dict.fromkeys(changed, 0)
        reached = list(found)
        for module in reached:
            for one in sorted(self.importers.get(module, ())):
                if one not in found:
                    found[one] = found[module] + 1
                    reached.append(one)
        return found


def distance_by_place(test: str, text: str, changed: Sequence[str]) -> int | None:
    """Return the distance of a test file from changed files for which no import is needed."""
    near: list[int] = []
    folder = Path(test).parent
    for file in changed:
        module = module_of(file)
        package = Path("tests", *module.replace("rocketflow_store", "store", 1).split(".")).parent
        if not module:
            if Path(file).name in text or Path(file).parent.is_relative_to(folder):
                near.append(1)
            elif folder == Path("tests/project"):
                near.append(RULES_DISTANCE)
        elif not module.startswith("tests"):
            if len(package.parts) > 2 and folder.is_relative_to(package):
                near.append(1)
            elif READS_CODE.search(text):
                near.append(RULES_DISTANCE)
    return min(near, default=None)


@cache
def imports() -> Imports:
    """Return the imports of this checkout."""
    listed = git("ls-files", "-co", "--exclude-standard", "tests/*.py")
    return Imports({one: (ROOT / one).read_text("utf-8") for one in listed if (ROOT / one).exists()})


def nearest(changed: Sequence[str], seconds: Mapping[str, float]) -> dict[str, int]:
    """Return the distances of the test files that the changed files can break, the nearest and shortest first."""
    by_import = imports().distances(one for one in map(module_of, changed) if one)
    found: dict[str, int] = {}
    for file, text in imports().texts.items():
        if Path(file).name.startswith("test_"):
            ways = by_import.get(module_of(file)), distance_by_place(file, text, changed)
            distances = [one for one in ways if one is not None]
            if distances and (ways[1] != RULES_DISTANCE or seconds.get(file, UNKNOWN_SECONDS) < RULES_SECONDS):
                found[file] = min(distances)
    halves = {_half(one) for one in changed}

    def order(file: str) -> tuple[int, bool, float, str]:
        return found[file], _half(file) not in halves, seconds.get(file, UNKNOWN_SECONDS), file

    return {file: found[file] for file in sorted(found, key=order)}


def _half(file: str) -> str:
    """Return the half of the product, or the tests' folder, that a file belongs to."""
    return file.removeprefix("tests/").split("/")[0]


def fitting(files: Iterable[str], seconds: Mapping[str, float], room: float) -> list[str]:
    """Return the first files that take `room` seconds in all; the first that does not fit ends them."""
    chosen = []
    for file in files:
        room -= seconds.get(file, UNKNOWN_SECONDS)
        if room < 0:
            break
        chosen.append(file)
    return chosen


def main() -> int:
    """Choose the tests and run them; return pytest's exit code."""
    parser = argparse.ArgumentParser(description="run the tests that a change can break, nearest first")
    parser.add_argument("base", nargs="?", help="branch or commit that the change is compared with")
    parser.add_argument("--began", type=float, default=time.time(), help="time of day (s) at which the time began")
    options = parser.parse_args()
    until = options.began + SECONDS
    changed = changed_files(options.base)
    cache = ROOT / ".pytest_cache" / "v" / KEY
    seconds = json.loads(cache.read_text("utf-8")) if cache.exists() else {}
    found = nearest(changed, seconds)
    chosen = fitting(found, seconds, PROCESSES * (until - time.time()))
    sys.stdout.write(
        f"{len(changed)} changed files can break {len(found)} test files; "
        f"{len(chosen)} run, up to distance {max((found[one] for one in chosen), default=0)}\n"
    )
    sys.stdout.flush()
    if not chosen:
        return 0
    command = [sys.executable, "-m", "pytest", "-n", str(PROCESSES), "-m", "not slow", *chosen]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, UNTIL: str(until)}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
