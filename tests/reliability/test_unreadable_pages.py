"""Row S19 with real pages that cannot be read: the system kills (SIGBUS) a process that accesses one through a map.

A file that was cut while it was open has such pages, and so has a file system whose disk answers EIO. Every way of
reading skips or quarantines those records, returns the others, and survives.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import MessageStore
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.rebuild.rebuild import rebuild_store
from tests.reliability.faulty_mount import mounted
from tests.reliability.images import ENDS, IMAGE_CONFIG, LOG_FILE, Images, fresh, judged, make_images, touching
from tests.support.damage import Planted
from tests.support.results import Tally
from tests.support.trials import ROOT, environment

pytestmark = pytest.mark.slow

FILE = f"{LOG_FILE:020d}"
FIRST, LAST = 8192, 12288
"""The page of the second log file that cannot be read; or the position where it is cut."""
needs_fuse = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="mounting a file system that fails needs root and FUSE"
)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    return make_images(tmp_path_factory.mktemp("images"))


@pytest.fixture
def bad(images: Images) -> Iterator[tuple[Planted, Path]]:
    """Yield a store whose log is on a file system that fails, and the list of its unreadable pages."""
    planted = fresh(images.take("closed"))
    with mounted(planted.path / "commitlog") as pages:
        yield planted, pages


def run_child(what: str, planted: Planted, *, old: bool = False) -> dict[str, Any]:
    """Run the child, which has to survive; return its results."""
    given = {"old": old, "cut": [FILE, FIRST], "places": [[*place, at] for place, (at, _) in planted.places.items()]}
    done = subprocess.run(
        [sys.executable, "-m", "tests.reliability.page_reader", what, str(planted.path)],
        input=json.dumps(given), capture_output=True, text=True, cwd=ROOT, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{what}: ended with {done.returncode}\n{done.stderr[-3000:]}"
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def check_results(results: dict[str, Any], planted: Planted, start: int, stop: int) -> None:
    """Check that each way returns all records outside [start, stop), and that errors are typed and name the file."""
    touched = touching(planted, start, stop)
    assert len(touched) > 1
    for way in ("alone", "get", "look", "query"):
        assert {(topic, queue, offset) for topic, queue, offset in results[way]} == planted.places.keys() - touched, way
    for (topic, queue), end in ENDS.items():
        wanted = [offset for offset in range(end) if (topic, queue, offset) not in touched]
        for rows in results[f"skip {topic} {queue}"]:
            assert [row[2] for row in rows] == wanted, (topic, queue)
    assert len(results["error"]) == len({place[:2] for place in touched})
    for kind, text in results["error"]:
        assert kind == "UnreadableError", text
        assert FILE in text


@needs_fuse
@pytest.mark.parametrize("what", ["read", "open"])
def test_a_page_that_the_disk_cannot_read(bad: tuple[Planted, Path], what: str, tally: Callable[..., Tally]) -> None:
    planted, pages = bad
    pages.write_text(f"{FILE} {FIRST} {LAST}\n")
    check_results(run_child(what, planted), planted, LOG_FILE + FIRST, LOG_FILE + LAST)
    tally("S19", f"EIO under a map, {what}").trial(None, what)


@needs_fuse
def test_verify_names_a_page_that_the_disk_cannot_read(bad: tuple[Planted, Path], tally: Callable[..., Tally]) -> None:
    planted, pages = bad
    pages.write_text(f"{FILE} {FIRST} {LAST}\n")
    touched = [planted.places[place] for place in touching(planted, LOG_FILE + FIRST, LOG_FILE + LAST)]
    start, stop = min(touched)[0], max(at + size for at, size in touched)
    found = [tuple(one) for one in run_child("verify", planted)["findings"] if one[0] == "record"]
    assert found == [("record", str(planted.path / "commitlog" / FILE), start - LOG_FILE, stop - start)]
    pages.write_text("")
    assert not verify_store(planted.path).findings
    tally("S19", "EIO under a map, verify").trial(None, "verify")


@needs_fuse
def test_rebuild_skips_unreadable_records(bad: tuple[Planted, Path], tally: Callable[..., Tally]) -> None:
    """They count as damage; once the page is readable again, the next rebuild makes their units."""
    planted, pages = bad
    pages.write_text(f"{FILE} {FIRST} {LAST}\n")
    touched = [planted.places[place] for place in touching(planted, LOG_FILE + FIRST, LOG_FILE + LAST)]
    start, stop = min(touched)[0], max(at + size for at, size in touched)
    first = run_child("rebuild", planted)
    assert [(one["physicalOffset"], one["length"]) for one in first["damaged"]] == [(start, stop - start)]
    pages.write_text("")
    again = rebuild_store(planted.path)
    assert (again.damaged, again.swapped) == ([], True)
    assert again.records == first["records"] + len(touched)
    assert not verify_store(planted.path).findings
    tally("S19", "EIO under a map, rebuild").trial(None, "rebuild")


@needs_fuse
def test_recovery_changes_nothing_for_a_page_that_the_disk_cannot_read(
    images: Images, tally: Callable[..., Tally]
) -> None:
    """Data that cannot be read now is no torn tail: it may be readable later."""
    planted = fresh(images.take("killed"))
    end = max(at + size for at, size in planted.places.values())
    last = (end - 1) // LOG_FILE * LOG_FILE
    first = (end - 1) % LOG_FILE // 4096 * 4096
    before = {one: one.read_bytes() for one in (planted.path / "commitlog").iterdir()}
    with mounted(planted.path / "commitlog") as pages:
        pages.write_text(f"{last:020d} {first} {first + 4096}\n")
        ((kind, text),) = run_child("recover", planted)["error"]
        assert (kind, f"{last:020d}" in text) == ("UnreadableError", True)
        pages.write_text("")
        assert {one: one.read_bytes() for one in (planted.path / "commitlog").iterdir()} == before
        MessageStore.open(planted.path, IMAGE_CONFIG).close()
        counts = tally("S19", "EIO under a map, recovery")
        counts.trial(judged(planted, set(), "read again"), "read again")


@pytest.mark.parametrize("old", [False, True], ids=["", "Linux before 5.14"])
def test_a_file_that_is_cut_while_it_is_open(images: Images, old: bool, tally: Callable[..., Tally]) -> None:
    planted = fresh(images.take("closed"))
    check_results(run_child("cut under a writer", planted, old=old), planted, LOG_FILE + FIRST, 2 * LOG_FILE)
    planted = fresh(images.take("closed"))
    errors = run_child("cut in the middle of a read", planted, old=old)["error"]
    lost = [place for place in touching(planted, LOG_FILE + FIRST, 2 * LOG_FILE) if place[:2] == next(iter(ENDS))]
    assert len(errors) == 1 + len(lost)
    assert {kind for kind, _ in errors} <= {"UnreadableError", "StoreReplacedError"}, errors
    tally("S19", "cut under a map").trial(None, "cut")
