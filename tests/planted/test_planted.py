"""All bugs can still be planted, and the tests catch a sample of them; `make test-planted` plants them all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rocketflow_store.kernel import COMPILED
from tests.planted.bugs import BUGS
from tests.planted.planting import Tree, assert_unchanged_tree_passes, hunt
from tests.support.trials import FULL, SEED

SAMPLE = 1


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return Tree(tmp_path_factory.mktemp("planted") / "base")


def test_every_bug_can_be_planted(base: Tree, tmp_path: Path) -> None:
    tree = Tree(tmp_path / "spoilt", base.path)
    for bug in BUGS:
        for path in tree.plant(bug):
            assert path.read_text("utf-8") != base.texts[base.path / path.relative_to(tree.path)]
        tree.restore(base)
    assert len({bug.name for bug in BUGS}) == len(BUGS)


def test_every_bug_names_tests_that_exist(base: Tree) -> None:
    named = {test for bug in BUGS for test in bug.tests}
    found = {file: definitions(base.path / file) for file in {test.split("::")[0] for test in named}}
    unknown = {
        test for test in named for file, *names in [test.split("[")[0].split("::")] if not found[file].issuperset(names)
    }
    assert unknown == set()
    with_parameters = {test for test in named if "[" in test}
    done = base.pytest("--collect-only", *sorted({test.split("::")[0] for test in with_parameters}))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert with_parameters - set(done.stdout.splitlines()) == set()


def definitions(file: Path) -> set[str]:
    """Return the names of the functions, classes and assigned variables of a file; hypothesis adds `runTest`."""
    names = {"runTest"}
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    return names


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_planted_bugs_are_noticed(base: Tree, tmp_path: Path) -> None:
    known = [bug for bug in BUGS if COMPILED is not None or not base.is_of_the_kernel(bug)]
    first = SEED % len(known)
    bugs = known if FULL else [known[(first + number * len(known) // SAMPLE) % len(known)] for number in range(SAMPLE)]
    assert_unchanged_tree_passes(base, bugs, tmp_path / "unchanged")
    missed = [bug.name for bug in bugs if not hunt(Tree(tmp_path / bug.name, base.path), bug, tmp_path / "t").caught]
    assert missed == [], f"seed {SEED}"
