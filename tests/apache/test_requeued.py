"""Send-backs and requeues by RocketFlow, read and appended to by Apache RocketMQ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.commits.staged_part import stage_alike
from rocketflow_store.commits.store_commits import StoreCommits
from rocketflow_store.delivery.requeue.requeue_rows import ChosenRows, requeued_chunks
from rocketflow_store.delivery.requeue.requeue_run import RequeuedBatch, RequeueRequest, advance_run, begin_run
from rocketflow_store.delivery.requeue.send_back import SendBack, consumer_send_msgs_back
from tests.apache.judge import ApacheStore, versions
from tests.apache.test_apache_opens_rocketflow_stores import SIZES, check_and_append

pytestmark = pytest.mark.apache


@pytest.mark.parametrize("version", versions("5.5.0"))
def test_apache_reads_sent_back_and_requeued_messages(version: str, tmp_path: Path) -> None:
    path, count = tmp_path / "s", 500
    with MessageStore.open(path, SIZES) as store:
        store.put_messages(Message("orders", b"one %d" % n, tags="t", keys=[f"k{n}"]) for n in range(20))
        messages = [
            Message("src", b"s %d" % n, tags=f"t{n % 3}", keys=[f"s{n}"], properties={"é": "ü"}) for n in range(count)
        ]
        offsets = [one.physical_offset for one in store.put_messages(messages)]
        assert len(consumer_send_msgs_back(store, SendBack("g"), offsets)) == count
        assert len(consumer_send_msgs_back(store, SendBack("g", -1), offsets)) == count
        run = begin_run(StoreCommits(store), RequeueRequest("r", "%DLQ%g", "back"), {0: (0, count)})
        zeros = np.zeros(count, np.int32)
        rows = ChosenRows("r", "%DLQ%g", zeros, np.arange(count), ("back",), zeros, (8,))
        with StoreReader(path) as reader:
            parts = stage_alike(requeued_chunks(reader, rows, store.config), path / "rocketflow/staging/r/0", "p")
        advance_run(StoreCommits(store), run, RequeuedBatch({0: count}, True, count, parts, {"back": count}))
        assert [one.properties["REQUEUE_RUN_ID"] for one in store.query_message("back", "s499")] == ["r"]
    check_and_append(ApacheStore(version), path)
