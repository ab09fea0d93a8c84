"""A topic without write queues: every message is refused with MESSAGE_ILLEGAL, and none is stored."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore
from rocketflow_store.metadata.config_files import TopicsFile
from rocketflow_store.model.errors import MessageRejectedError
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.damage import CONFIG


def test_put_to_topic_without_write_queues_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with MessageStore.open(path, CONFIG) as store:
        TopicsFile(store.paths.config).put(TopicConfig("closed", read_queue_nums=4, write_queue_nums=0))
    with MessageStore.open(path, CONFIG) as store:
        messages = [
            Message("closed", b"x", queue_id=1),
            Message("closed", b"x"),
            Message("closed", b"x", sharding_key="a"),
        ]
        for message in messages:
            refused = store.put_message(message)
            assert refused.status is PutMessageStatus.MESSAGE_ILLEGAL
            assert "closed" in refused.why
        for more in ({}, {"shardingKey": ["a"]}):
            rows = pa.RecordBatch.from_pydict({"topic": ["closed"], "body": [b"x"], **more})
            with pytest.raises(MessageRejectedError, match="closed") as raised:
                store.append_batch(rows)
            assert raised.value.status is PutMessageStatus.MESSAGE_ILLEGAL
        assert store.max_phy_offset == 0
        assert store.put_message(Message("open", b"x")).status is PutMessageStatus.PUT_OK
