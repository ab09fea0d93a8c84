"""Verification of a killed store without derived files; a rebuild with an implausible head."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.rebuild.rebuild import rebuild_store
from tests.support.damage import CONFIG, make


@pytest.mark.parametrize(
    ("lost", "kinds"),
    [
        (["index"], ["missing-entry"]),
        (["consumequeue/orders/1"], ["missing-unit"]),
        (["consumequeue", "index"], ["missing-entry", "missing-unit"]),
    ],
    ids="+".join,
)
def test_killed_broker_with_missing_files_is_reported(tmp_path: Path, lost: list[str], kinds: list[str]) -> None:
    """RocketMQ leaves neither a frontier nor a stop record."""
    path = make(tmp_path / "s").path
    shutil.rmtree(path / "rocketflow")
    (path / "abort").touch()
    assert verify_store(path, CONFIG).findings == []
    for one in lost:
        shutil.rmtree(path / one)
    found = {one.kind for one in verify_store(path, CONFIG).findings}
    assert sorted(found - {"offset"}) == kinds  # positions are after the ends of missing queues
    MessageStore.open(path, CONFIG).close()
    assert verify_store(path, CONFIG).findings == []


def test_rebuild_reports_a_record_with_a_distant_claim(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, replace(CONFIG, enabled_append_prop_crc=False)) as store:
        places = [store.put_message(Message("t", b"%d" % n, queue_id=0)).physical_offset for n in range(50)]
    with (path / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(places[20] + 20)
        log.write(struct.pack(">q", 0xFFF))
    before = verify_store(path, CONFIG)
    shutil.rmtree(path / "consumequeue")
    result = rebuild_store(path, config=CONFIG)
    assert (result.records, result.exit_code) == (49, 3)
    assert [one["why"].split(" of ")[0] for one in result.damaged] == [
        "says it is queue offset 4095, which no queue has",
        "no record has queue offset 20",
    ]
    after = verify_store(path, CONFIG)
    assert before.lost_records == after.lost_records == 1
