"""Events: a code that stays the same, a log line with place and count, a counter."""

from __future__ import annotations

import errno
import logging
import time
import traceback
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, PutMessageStatus, StoreConfig
from rocketflow_store.engine.clean_service import CleanService
from rocketflow_store.telemetry import events
from tests.support.disk_layer import GROWS, SYNCS, Call, Failing

CONFIG = StoreConfig(
    flush_disk_type=FlushDiskType.SYNC_FLUSH,
    mapped_file_size_commit_log=1 << 16,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=50,
    max_index_num=200,
)


def codes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.rf_code for record in caplog.records if hasattr(record, "rf_code")]


def test_fence_is_logged_once_and_refusals_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def of_the_log(call: Call) -> bool:
        return "/commitlog/" in str(call.path)

    with MessageStore.open(tmp_path / "s", CONFIG) as store:
        store.put_message(Message("t", b"x"))
        with Failing(SYNCS, 1, where=of_the_log):
            assert store.put_message(Message("t", b"y")).status is PutMessageStatus.FLUSH_DISK_TIMEOUT
        for _ in range(3):
            assert store.put_message(Message("t", b"z")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert store.statistics()["events"] == {events.FENCED: 1, events.REFUSED: 3}
    assert codes(caplog) == [events.FENCED, events.REFUSED]
    line = caplog.records[0].getMessage()
    assert line.startswith(f"RF-FENCE {tmp_path / 's' / 'commitlog'}")


def test_undispatched_message_refuses_puts_until_dispatch_succeeds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def of_a_queue(call: Call) -> bool:
        return "/consumequeue/" in str(call.path)

    with MessageStore.open(tmp_path / "s", CONFIG) as store:
        store.create_topic("t", 1)
        with Failing(GROWS, 1, errno.ENOSPC, on=True, where=of_a_queue):
            result = store.put_message(Message("t", b"first", keys=["k"]))
            assert result.status is PutMessageStatus.FLUSH_DISK_TIMEOUT
            assert "/consumequeue/" in result.why
            assert store.put_message(Message("t", b"refused")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
            assert store.max_offset("t", 0) == 0
        assert store.put_message(Message("t", b"second", keys=["k"])).stored
        assert [one.body for one in store.query_message("t", "k")] == [b"first", b"second"]
        assert store.max_offset("t", 0) == 2
    assert codes(caplog) == [events.HELD_UP, events.REFUSED]


@pytest.mark.parametrize("kind", [PermissionError, KeyError])
def test_failing_retention_is_logged_once_with_the_place_of_an_unexpected_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    monkeypatch.setattr("rocketflow_store.engine.clean_rounds.FIRST_CLEAN_S", 0.01)
    with MessageStore.open(tmp_path / "s", replace(CONFIG, clean_resource_interval=10)) as store:
        looks: list[str] = []

        def refused(*_: object) -> None:
            looks.append("")
            raise kind("consumequeue may not be changed")

        monkeypatch.setattr(CleanService, "step", refused)
        deadline = time.monotonic() + 30
        while len(looks) < 6 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(looks) > 5
        assert store.statistics()["events"] == {events.SERVICE_HELD: 1}
    assert codes(caplog) == [events.SERVICE_HELD]
    assert "RF-SERVICE-HELD clean-resource" in caplog.text
    assert "consumequeue may not be changed" in caplog.text
    errors = [one.exc_info[2] for one in caplog.records if one.exc_info]  # a formatter may show them in its own way
    assert [traceback.extract_tb(one)[-1].name for one in errors] == (["refused"] if kind is KeyError else [])


def test_event_text_with_newlines_stays_one_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rocketflow_store"):
        events.report(events.SKIPPED, tmp_path, "place", "a\nRF-LOST b\x1b[0m", offset=3, count=2)
    assert caplog.messages == ["RF-SKIP place offset 3 count 2: a\\nRF-LOST b\\x1b[0m"]
    assert events.counts(tmp_path) == {events.SKIPPED: 1}
