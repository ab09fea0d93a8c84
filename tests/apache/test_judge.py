"""The judge: it reads of Apache's directories what Apache's code read when they were made."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rocketflow_store.metadata.layout.file_sizes import config_for_store
from tests.apache.judge import ApacheStore
from tests.support.golden import GOLDEN
from tests.support.trials import LEVEL

pytestmark = pytest.mark.apache

FIELDS = (
    *("physicalOffset", "storeSize", "flag", "bornTimestamp", "storeTimestamp", "sysFlag"),
    *("bodyCRC", "tagsCode", "msgId", "bornHost", "storeHost", "storedBodySha256", "properties"),
)


JUDGED: Final = [
    ("features-55", "5.5.0"),
    ("basic-49", "5.3.3"),
    ("basic-53", "5.3.3"),
    ("features-53", "5.3.3"),
    ("basic-55", "5.5.0"),
    ("basic-49", "4.9.7"),
]


@pytest.mark.parametrize(("name", "version"), JUDGED if LEVEL != "sample" else JUDGED[:2])
def test_judge_reads_golden_stores(name: str, version: str, golden_store: Callable[..., Path], tmp_path: Path) -> None:
    apache = ApacheStore(version)
    path = tmp_path / "s"
    shutil.copytree(golden_store(name), path)
    lines = [json.loads(line) for line in (GOLDEN / name / "messages.jsonl").read_text().splitlines()]
    written = {(one["topic"], one["queueId"], one["queueOffset"]): tuple(one[name] for name in FIELDS) for one in lines}
    queues = sorted({(topic, queue_id) for topic, queue_id, _ in written})
    read = {
        one.place: (
            *(one.phy_offset, one.store_size, one.flag, one.born_timestamp, one.store_timestamp, one.sys_flag),
            *(one.body_crc, one.tags_code, one.msg_id, one.born_host, one.store_host),
            *(hashlib.sha256(one.body).hexdigest(), one.properties),
        )
        for one in apache.read(path, config_for_store(path), queues)
    }
    assert len(written) == len(lines)
    assert read == written
