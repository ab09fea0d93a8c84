"""The judge itself: what it reads of Apache's own directories is what Apache's code read when they were made."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import StoreConfig
from tests.apache import judge
from tests.apache.judge import ApacheStore
from tests.conftest import GOLDEN

pytestmark = pytest.mark.apache

FIELDS = (
    *("physicalOffset", "storeSize", "flag", "bornTimestamp", "storeTimestamp", "sysFlag"),
    *("bodyCRC", "tagsCode", "msgId", "bornHost", "storeHost", "storedBodySha256", "properties"),
)


@pytest.mark.parametrize(
    ("name", "version"),
    [("basic-53", "5.3.3"), ("features-53", "5.3.3"), ("basic-49", "4.9.7"), ("basic-49", "5.3.3")],
)
def test_the_judge_reads_apaches_own(
    name: str, version: str, golden_store: Callable[..., Path], tmp_path: Path
) -> None:
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
        for one in apache.read(path, StoreConfig.for_store(path), queues)
    }
    assert len(written) == len(lines)
    assert read == written


def test_jars_that_do_not_come_are_a_reason_to_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(judge, "FETCH_SECONDS", 0.1)
    with pytest.raises(pytest.skip.Exception, match=r"what I ask for cannot be fetched: no end in 0\.1 s"):
        judge.fetch_jars(tmp_path, "what I ask for")
    maven.write_text("#!/bin/sh\necho no such artifact\nexit 1\n")
    monkeypatch.setattr(judge, "FETCH_SECONDS", 60.0)
    with pytest.raises(pytest.skip.Exception, match="no such artifact"):
        judge.fetch_jars(tmp_path, "what I ask for")
