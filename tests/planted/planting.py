"""Plants bugs into a copy of the tree, never into the tree itself, and runs the tests that must fail with them."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hatch_build import FOLDER, MODULE, SOURCES, compile_kernel
from tests.support.trials import ROOT, SEED

PRODUCT = (Path("store") / "rocketflow_store", Path("rocketflow"))
COPIED = ("store", "rocketflow", "jobs", "tests", "pyproject.toml")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "golden", "*.pyc")
SEEDS = 20
"""The largest number of runs in which a test must catch a bug."""
TRIALS = 3
"""Trials of each run of a random test; no seed is tried twice."""
TEST_SECONDS = 240
FAILED = 1
"""pytest's exit code for failed tests; other codes but 0 are errors of the run."""


class DoesNotApplyError(Exception):
    """The product no longer holds the text that a bug replaces exactly once; update the bug."""


@dataclass(frozen=True)
class Change:
    """A replacement of `old`, which occurs exactly once in the product, by `new`; the file may be any."""

    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """One known bug: its changes, and the tests (pytest arguments) that must fail with them.

    `seeds` is the number of seeds with which random tests run; with `with_kernel` the change is in Python's code that
    only runs with the kernel.
    """

    name: str
    what: str
    changes: Sequence[Change]
    tests: Sequence[str]
    seeds: int = 1
    with_kernel: bool = False


@dataclass(frozen=True)
class Outcome:
    """The result for one bug: `seed` is the first that caught it or -1, `why` the last line of pytest."""

    caught: bool
    seed: int
    why: str


class Tree:
    """A copy of product and tests that bugs are planted in."""

    def __init__(self, path: Path, origin: Path = ROOT) -> None:
        self.path = path
        path.mkdir(parents=True)
        for name in COPIED:
            source = origin / name
            if source.is_dir():
                ignored = NOT_COPIED if origin == ROOT and name == "tests" else None
                shutil.copytree(source, path / name, ignore=ignored, symlinks=True)
            else:
                shutil.copy2(source, path / name)
        if origin == ROOT:
            (path / "tests" / "golden").symlink_to(ROOT / "tests" / "golden")  # large and read-only
            for product in PRODUCT:
                compileall.compile_dir(path / product, quiet=2)  # what the copied __pycache__ lacks
        modules = sorted(module for product in PRODUCT for module in (path / product).rglob("*.py"))
        modules += sorted(one for one in (path / FOLDER).iterdir() if one.suffix in SOURCES)
        self._changed: set[Path] = set()
        self.texts = {module: module.read_text("utf-8") for module in modules}

    def plant(self, bug: Bug) -> list[Path]:
        """Plant the bug and return the changed files; raise DoesNotApplyError if a text does not occur once."""
        return [self._replace(bug, change) for change in bug.changes]

    def is_of_the_kernel(self, bug: Bug) -> bool:
        """Return whether a bug changes a source of the compiled kernel, or code that only runs with it."""
        if bug.with_kernel:
            return True
        sources = [text for module, text in self.texts.items() if module.suffix in SOURCES]
        return any(change.old in text for change in bug.changes for text in sources)

    def _replace(self, bug: Bug, change: Change) -> Path:
        counts = {path: text.count(change.old) for path, text in self.texts.items()}
        found = [path for path, count in counts.items() if count]
        times = sum(counts.values())
        if times != 1:
            raise DoesNotApplyError(
                f"{bug.name}: this text occurs {times} times in the product, expected once:\n{change.old}"
            )
        text = self.texts[found[0]].replace(change.old, change.new)
        if found[0].suffix == ".py":
            compile(text, found[0].name, "exec")
        self._write(found[0], text)
        return found[0]

    def restore(self, origin: Tree) -> None:
        """Give every module that was changed its text in `origin`, from which this tree was copied."""
        for module in sorted(self._changed):
            self._write(module, origin.texts[origin.path / module.relative_to(self.path)])
        self._changed.clear()

    def _write(self, module: Path, text: str) -> None:
        module.write_text(text, "utf-8")
        self.texts[module] = text
        self._changed.add(module)
        for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*.pyc"):
            compiled.unlink()

    def run(
        self, tests: Sequence[str], seed: int, temporary: Path, trials: int = 0, *, kernel: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run tests in this tree, with `trials` trials each, or with the default sample if it is 0.

        Without the `kernel` all work is that of Python's code.
        """
        given = {"RF_SEED": str(seed), **({"RF_TRIALS": str(trials)} if trials else {})}
        given["ROCKETFLOW_REQUIRE_KERNEL" if kernel else "ROCKETFLOW_NO_KERNEL"] = "1"
        limit = TEST_SECONDS * (1 + len(tests))
        options = "-x", f"--timeout={TEST_SECONDS}", f"--basetemp={temporary}", "--hypothesis-profile=project"
        return self.pytest(*options, *tests, limit=limit, **given)

    def pytest(self, *arguments: str, limit: int = 2 * TEST_SECONDS, **given: str) -> subprocess.CompletedProcess[str]:
        """Run pytest on this tree's modules for at most `limit` s, with the variables `given` in the environment."""
        roots = [str(self.path), str(self.path / "store")]
        inherited = {name: value for name, value in os.environ.items() if name not in ("RF_FULL", "RF_TRIALS")}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "--no-header", "-p", "no:cacheprovider", *arguments],
            cwd=self.path,
            env={**inherited, "PYTHONPATH": os.pathsep.join(roots), **given},
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )


def assert_unchanged_tree_passes(tree: Tree, bugs: Sequence[Bug], temporary: Path) -> None:
    """Assert that the tests pass without any bug; otherwise their failure would prove nothing."""
    for kernel in (False, True):
        tests = dict.fromkeys(test for bug in bugs if tree.is_of_the_kernel(bug) is kernel for test in bug.tests)
        if tests:
            done = tree.run(list(tests), SEED, temporary, kernel=kernel)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def hunt(tree: Tree, bug: Bug, temporary: Path) -> Outcome:
    """Plant the bug and run its tests, seed after seed, until one fails. A bug of the kernel is compiled."""
    kernel = tree.is_of_the_kernel(bug)
    tree.plant(bug)
    if kernel:
        compile_kernel(tree.path / FOLDER, tree.path / FOLDER / MODULE)
    why = ""
    runs = min(bug.seeds, SEEDS)
    for seed in range(SEED, SEED + runs * TRIALS, TRIALS):
        done = tree.run(bug.tests, seed, temporary, TRIALS if runs > 1 else 0, kernel=kernel)
        why = last_words(done.stdout)
        assert done.returncode in (0, FAILED), f"{bug.name}: {done.stdout[-3000:]}{done.stderr[-1000:]}"
        if done.returncode == FAILED:
            return Outcome(True, seed, why)
    return Outcome(False, -1, why)


def last_words(output: str) -> str:
    """Return pytest's line that names the failed test, or its last line."""
    lines = [line for line in output.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return (failed or lines or ["pytest said nothing"])[-1].strip()
