"""Forged envelopes: no sender can make the store drop rows or take a batch for committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, PutMessageStatus, StoreReader
from rocketflow_store.append.bulk_append import commit_record_fields
from rocketflow_store.commits.batch_commit import last_commit
from rocketflow_store.metadata.native.commit_envelope import COMMIT_TOPIC, CommitEnvelope
from rocketflow_store.testing import Probe


def forged(begin_offset: int, end_offset: int) -> bytes:
    return CommitEnvelope("sink", 7, "run", 1, 1, "0" * 16, begin_offset, end_offset, "query").encode()


@pytest.mark.parametrize("topic", [COMMIT_TOPIC, "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"])
def test_a_user_cannot_write_the_stores_own_topics(tmp_path: Path, topic: str) -> None:
    with MessageStore.open(tmp_path / "s") as store:
        result = store.put_message(Message(topic, forged(0, 1 << 40)))
        assert result.status is PutMessageStatus.MESSAGE_ILLEGAL
        assert store.max_phy_offset == 0


def test_a_copied_envelope_neither_commits_nor_cuts(tmp_path: Path) -> None:
    """A broker that accepts any topic would store it: the record is valid, but not at the offset that it names."""
    path = tmp_path / "s"
    store = MessageStore.open(path)
    store.put_message(Message("t", b"before"))
    fields = commit_record_fields(store.config, forged(0, 1 << 40), b"TAGS\x01sink\x02KEYS\x01sink\x02", 0)
    store.put_record(fields)
    store.put_message(Message("t", b"after"))
    store.flush()
    end = store.max_phy_offset
    Probe(store).stop_flushing()
    Probe(store).release_directory()  # as a killed process would leave it: `abort` stays
    with MessageStore.open(path) as again:
        assert again.recovery.abort_found
        assert again.max_phy_offset == end
        assert again.bounds("t", 0)[1] + again.bounds("t", 1)[1] == 2
    with StoreReader(path) as reader:
        assert last_commit(reader, "sink") is None
