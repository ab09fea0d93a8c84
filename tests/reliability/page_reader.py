"""A child that reads a store with unreadable pages: `python -m tests.reliability.page_reader WHAT STORE`.

It prints as JSON the messages that each way of reading returned, and the typed errors; the system kills it if a reader
touches such a page.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rocketflow_store import MessageStore, SkipFaults, StoreReader
from rocketflow_store.files import disk
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.errors import StoreError
from rocketflow_store.rebuild.rebuild import rebuild_store
from tests.reliability.images import ENDS, IMAGE_CONFIG
from tests.support.damage import Place, key_of

Store = MessageStore | StoreReader


def each(get: Callable[[Place], Iterator[Place]]) -> list[Place]:
    """Return the messages that `get` returns for each place; a typed error returns none."""
    found: list[Place] = []
    for (topic, queue), end in ENDS.items():
        for offset in range(end):
            with suppress(StoreError):
                found += [one for one in get((topic, queue, offset)) if one == (topic, queue, offset)]
    return found


def everything(store: Store, places: dict[Place, int]) -> dict[str, Any]:
    """Return the results of all ways of reading."""

    def alone(place: Place) -> Iterator[Place]:
        for batch in store.read(*place, place[2] + 1, ["queueOffset", "body", "tags"]):
            yield from ((*place[:2], row) for row in batch.column(0).to_pylist())

    def got(place: Place) -> Iterator[Place]:
        with store.get_message(*place, 1) as result:
            yield from ((one.topic, one.queue_id, one.queue_offset) for one in result.messages)

    def looked(place: Place) -> Iterator[Place]:
        one = store.look_message_by_offset(places[place])
        if one is not None:
            yield one.topic, one.queue_id, one.queue_offset

    def queried(place: Place) -> Iterator[Place]:
        for one in store.query_message(place[0], key_of(place)):
            yield one.topic, one.queue_id, one.queue_offset

    found: dict[str, Any] = {"alone": each(alone), "get": each(got), "look": each(looked), "query": each(queried)}
    found["skip"], found["error"] = [], []
    for (topic, queue), end in ENDS.items():
        for columns in (["queueOffset", "body"], ["queueOffset"]):
            rows: list[Place] = []
            for batch in store.read(topic, queue, 0, end, columns, faults=SkipFaults(), max_batch_bytes=9000):
                rows += [(topic, queue, row) for row in batch.column(0).to_pylist()]
            found["skip"] = rows if columns[1:] and not found["skip"] else found["skip"]
            found.setdefault(f"skip {topic} {queue}", []).append(rows)
        try:
            list(store.read(topic, queue, 0, end))
        except StoreError as error:
            found["error"].append([type(error).__name__, str(error)])
    del found["skip"]
    return found


def main(what: str, path: Path, places: dict[Place, int], cut: tuple[str, int]) -> dict[str, Any]:
    def cut_now() -> None:
        os.truncate(path / "commitlog" / cut[0], cut[1])

    match what:
        case "read":
            with StoreReader(path) as reader:
                return everything(reader, places)
        case "open":
            with MessageStore.open(path, IMAGE_CONFIG) as store:
                return everything(store, places)
        case "verify":
            return {"findings": [(one.kind, one.file, one.offset, one.length) for one in verify_store(path).findings]}
        case "rebuild":
            made = rebuild_store(path)
            return {"records": made.records, "damaged": made.damaged, "swapped": made.swapped}
        case "recover":
            try:
                MessageStore.open(path, IMAGE_CONFIG).close()
            except StoreError as error:
                return {"error": [[type(error).__name__, str(error)]]}
            return {"error": []}
        case "cut under a writer":
            store = MessageStore.open(path, IMAGE_CONFIG)
            everything(store, places)
            cut_now()
            return everything(store, places)
        case "cut in the middle of a read":
            errors = []
            with StoreReader(path) as reader:
                (topic, queue), end = next(iter(ENDS.items()))
                results = [reader.get_message(topic, queue, offset, 1) for offset in range(end)]
                batches = reader.read(topic, queue, 0, end, max_batch_bytes=1000)
                next(batches)
                cut_now()
                for work in (lambda: list(batches), *(lambda one=one: one.messages for one in results)):
                    try:
                        work()
                    except StoreError as error:
                        errors.append([type(error).__name__, str(error)])
            return {"error": errors}
    raise AssertionError(what)


def no_populate(mapped: object, start: int, length: int) -> None:
    """Fail, as Linux before 5.14 does."""
    raise OSError(errno.EINVAL, "no such advice")


if __name__ == "__main__":
    given = json.loads(sys.stdin.read())
    if given["old"]:
        disk.populate = no_populate  # type: ignore[assignment]
    known = {(topic, queue, offset): at for topic, queue, offset, at in given["places"]}
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), known, tuple(given["cut"]))), flush=True)
    os._exit(0)
