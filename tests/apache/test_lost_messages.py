"""Messages lost with the end of the log keep their queue offsets: what a real broker serves at these offsets."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore
from rocketflow_store.fsck.verify import verify_store
from tests.apache.judge import VERSIONS_5, read_with_rocketflow, versions
from tests.apache.test_apache_opens_rocketflow_stores import SIZES as SMALL
from tests.support.real_broker import RealBroker
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.skipif(LEVEL == "sample", reason="boots a broker: RF_FAULTS=1 runs it"),
]

SIZES = replace(SMALL, mapped_file_size_commit_log=1 << 20)
KEPT, LOST = 37, 3


def lose_the_end(path: Path) -> None:
    """Write a store that lost the last messages of "shop", all of "new", and one of two delayed messages."""
    delay = {"DELAY": "1"}
    with MessageStore.open(path, SIZES) as store:
        store.append_batch(pa.RecordBatch.from_pydict({"body": [b"x" * 1000] * 700}), topic="filler")
        for number in range(KEPT):
            assert store.put_message(Message("shop", b"shop %d" % number, queue_id=0)).stored
        assert store.put_message(Message("later", b"due", queue_id=0, properties=delay)).stored
        end = store.max_phy_offset
        for number in range(LOST):
            assert store.put_message(Message("shop", b"lost %d" % number, queue_id=0)).stored
        for number in range(2):
            assert store.put_message(Message("new", b"lost new %d" % number, queue_id=0)).stored
        assert store.put_message(Message("later", b"lost due", queue_id=0, properties=delay)).stored
    (log,) = (path / "commitlog").iterdir()
    with log.open("r+b") as file:
        file.seek(end)
        file.write(bytes(SIZES.mapped_file_size_commit_log - end))
    (path / "abort").write_text("1")
    with MessageStore.open(path, SIZES) as store:
        assert store.recovery.truncated_to == end
        assert (store.max_offset("shop", 0), store.max_offset("new", 0)) == (KEPT + LOST, 2)
    assert {one.kind for one in verify_store(path).findings} == {"lost-message"}


@pytest.mark.slow
@pytest.mark.parametrize("version", versions("5.5.0", of=VERSIONS_5))
def test_broker_serves_messages_before_and_after_lost_ones(version: str, tmp_path: Path) -> None:
    """The broker serves the message before the lost ones again at their offsets, then the messages after them."""
    path = tmp_path / "s"
    lose_the_end(path)
    with RealBroker(version, path, SIZES, tmp_path / "home") as broker:
        sends = [f"SEND\t{topic}\t0\t{base64.b64encode(b'after').decode()}\tt\tk" for topic in ("shop", "new")]
        answers = broker.ask("shop", ["PULL\tshop\t0", *sends, "PULL\tshop\t0", "PULL\tnew\t0", "PULL\tlater\t0"])
    assert [one[1:3] for one in answers if one[0] == "SENT"] == [["SEND_OK", str(KEPT + LOST)], ["SEND_OK", "2"]]
    got = [(one[1], int(one[3]), base64.b64decode(one[8])) for one in answers if one[0] == "MESSAGE"]
    shop = [("shop", number, b"shop %d" % number) for number in range(KEPT)] + [("shop", KEPT - 1, b"shop 36")] * LOST
    after = [("shop", KEPT + LOST, b"after"), ("new", 2, b"after")]
    assert got == [*shop, *shop, *after, ("later", 0, b"due")]
    stored = {
        place: one.body for place, one in read_with_rocketflow(path).items() if place[0] in ("shop", "new", "later")
    }
    assert stored == {(topic, 0, number): body for topic, number, body in got}
    assert {one.kind for one in verify_store(path).findings} == {"lost-message"}
