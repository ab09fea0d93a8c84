"""A real RocketMQ broker boots on directories that RocketFlow wrote, serves them to Apache's client, appends the
client's messages and stops cleanly; RocketFlow reads on."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.backup.backup import backup_store
from rocketflow_store.commits.batch_commit import SinkBatch, commit_batch, last_commit
from rocketflow_store.commits.staged_part import batch_directory, stage
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.config_files import LmqConsumerOffsetsFile
from rocketflow_store.metadata.native.commit_envelope import COMMIT_QUEUE_ID, COMMIT_TOPIC
from rocketflow_store.records.encoding.encode import BatchEncoder
from tests.apache.crash_images import KINDS, make_images
from tests.apache.crash_images import SIZES as CRASH_SIZES
from tests.apache.judge import VERSIONS_5, JudgedMessage, read_with_rocketflow, versions
from tests.apache.test_apache_opens_rocketflow_stores import SIZES, crash_and_recover, fill
from tests.apache.test_crash_images import read_skipping_losses, recover_and_read
from tests.support.real_broker import RealBroker
from tests.support.trials import FULL, LEVEL, ROOT, SEED, environment

pytestmark = pytest.mark.apache


ACCELERATED = "enableAcceleratedRecovery=true\n"
"""Recovery after a crash begins at the offset up to which the checkpoint says queues are durable (since 5.5.0)."""


def commit(path: Path) -> None:
    """Write two sink commits between single messages."""
    with MessageStore.open(path, SIZES) as store:
        assert store.put_message(Message("orders", b"first", queue_id=0, tags="t", keys=["k7"])).stored
        for batch_id in range(2):
            encoder = BatchEncoder(SIZES, store.queue_count, default_topic="orders", row_hashes=True)
            columns = {
                "body": [b"%d/%d " % (batch_id, row) * 20 for row in range(900)],
                "keys": [f"c{batch_id}-{row}" for row in range(900)],
                "tags": [f"t{row % 5}" for row in range(900)],
            }
            directory = batch_directory(store.paths.staging, "sink", batch_id)
            part = stage(encoder.encode(pa.RecordBatch.from_pydict(columns), 1), directory, "p0")
            commit_batch(store, SinkBatch("sink", "query", batch_id, "run", 1, [part]))


def recovered(path: Path) -> None:
    fill(path)
    crash_and_recover(path)


def repaired(path: Path) -> None:
    """Damage or delete all derived files and rebuild them with `store verify --repair`."""
    fill(path)
    for name in ("index", "checkpoint"):
        shutil.rmtree(path / name) if (path / name).is_dir() else (path / name).unlink()
    for number, file in enumerate(sorted((path / "consumequeue").rglob("0*"))):
        if file.is_file():
            file.write_bytes(b"\xff" * (file.stat().st_size if number % 2 else 100))
    (path / "abort").touch()
    assert repair_store(path).left.findings == []


def killed(path: Path) -> None:
    """Kill a writer after a flush and further puts: a broker recovers from the checkpoint of that flush."""
    commit(path)
    code = (
        "import os\nfrom rocketflow_store import *\n"
        "from tests.apache.test_apache_opens_rocketflow_stores import SIZES\n"
        f"store = MessageStore.open({str(path)!r}, SIZES)\n"
        "for number in range(300):\n"
        "    store.put_message(Message('orders', b'late %d' % number, tags='t', keys=[f'l{number}']))\n"
        "    if number == 200: store.flush()\n"
        "os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), check=False)
    assert (path / "abort").exists()


@pytest.mark.skipif(LEVEL == "sample", reason="test_rebuilt.py and others let its store read them: RF_FAULTS=1 runs it")
@pytest.mark.slow
@pytest.mark.parametrize("version", versions("5.5.0", of=VERSIONS_5))
@pytest.mark.parametrize("write", [killed] if LEVEL == "sample" else [fill, commit, recovered, repaired, killed])
def test_broker_boots_on_a_rocketflow_store_and_serves_it(
    write: Callable[[Path], None], version: str, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    write(path)
    lost = verify_store(path).findings if write is recovered else []  # a crash may lose messages that no flush covers
    assert {one.kind for one in lost} <= {"lost-message"}
    expected = read_with_rocketflow(path)
    with StoreReader(path) as reader:
        ends = {queue: bounds[1] for queue, bounds in reader.snapshot().queues.items()}
    queues = sorted({(topic, queue_id) for topic, queue_id, _ in expected if topic != COMMIT_TOPIC})
    orders = [one for one in expected.values() if (one.topic, one.queue_id) == ("orders", 0)]
    asked_by_key = [f"VIEW\torders\t{orders[-1].properties['UNIQ_KEY']}", "KEY\torders\tk7"]
    if write is killed:
        asked_by_key = []  # a broker deletes index files that are newer than the checkpoint of a crashed store
    conf = ACCELERATED if version == "5.5.0" else ""
    with RealBroker(version, path, SIZES, tmp_path / "home", conf) as broker:
        assert (path / "abort").exists()
        with StoreReader(path) as reader:
            assert reader.state == "running"
        assert in_both(read_with_rocketflow(path), expected) == expected
        answers = broker.ask(
            "orders",
            [
                *(f"PULL\t{topic}\t{queue_id}" for topic, queue_id in queues),
                *(f"SEND\torders\t0\t{base64.b64encode(b'net %d' % n).decode()}\ttn\tnet{n}" for n in range(5)),
                *asked_by_key,
            ],
        )
    messages = [tuple(one[1:]) for one in answers if one[0] == "MESSAGE"]
    (with_key,) = (one for one in expected.values() if one.topic == "orders" and one.properties.get("KEYS") == "k7")
    wanted = [over_the_network(one) for queue in queues for one in handed_out(expected, ends, *queue)]
    assert messages == [*wanted, *(over_the_network(one) for one in (orders[-1], with_key) if asked_by_key)]
    assert [one[1:3] for one in answers if one[0] == "SENT"] == [["SEND_OK", str(len(orders) + n)] for n in range(5)]
    assert not (path / "abort").exists()
    after = read_with_rocketflow(path)
    assert in_both(after, expected) == expected
    sent = [after["orders", 0, len(orders) + n] for n in range(5)]
    assert [(one.body, one.properties["KEYS"]) for one in sent] == [(b"net %d" % n, f"net{n}") for n in range(5)]
    assert [one.msg_id for one in sent] == [one[3] for one in answers if one[0] == "SENT"]
    with MessageStore.open(path) as store:
        assert not store.recovery.abort_found
        assert [one.body for one in store.query_message("orders", "net3")] == [b"net 3"]
        assert store.put_message(Message("orders", b"on", queue_id=0)).queue_offset == len(orders) + 5
        envelope = last_commit(store, "sink")
        assert (envelope is not None) == ((COMMIT_TOPIC, COMMIT_QUEUE_ID, 1) in expected)
        assert envelope is None or (envelope.batch_id, envelope.rows) == (1, 900)
    if write is killed and conf:  # between the index files that it keeps and the checkpoint's offset it indexes nothing
        assert {one.kind for one in verify_store(path).findings} == {"missing-entry"}
        repair_store(path)
    assert verify_store(path).findings == lost


def in_both(
    found: dict[tuple[str, int, int], JudgedMessage], wanted: dict[tuple[str, int, int], JudgedMessage]
) -> dict[tuple[str, int, int], JudgedMessage]:
    return {key: value for key, value in found.items() if key in wanted}


def handed_out(
    expected: dict[tuple[str, int, int], JudgedMessage], ends: dict[tuple[str, int], int], topic: str, queue_id: int
) -> list[JudgedMessage]:
    """Return a queue's messages; its last one again for each lost message after it, which its placeholder names."""
    found = [expected[key] for key in sorted(expected) if key[:2] == (topic, queue_id)]
    return found + found[-1:] * (ends[topic, queue_id] - found[-1].queue_offset - 1)


def over_the_network(one: JudgedMessage) -> tuple[str, ...]:
    """Return a message as the client prints it."""
    return (
        *(one.topic, str(one.queue_id), str(one.queue_offset), str(one.phy_offset), str(one.store_size)),
        *(one.properties.get("TAGS", "null"), one.properties.get("KEYS", "null"), base64.b64encode(one.body).decode()),
    )


@pytest.mark.slow
@pytest.mark.skipif(LEVEL == "sample", reason="test_crash_images.py judges such images: RF_FAULTS=1 boots a broker too")
@pytest.mark.parametrize("number", range(2 * len(KINDS) if FULL else 1))
def test_broker_boots_on_recovered_crash_images(tmp_path: Path, number: int) -> None:
    """The broker starts, appends messages and stops cleanly on images of every kind.

    Of a damaged log it serves the messages before the damage.
    """
    images = make_images(tmp_path / "images", SEED + number // len(KINDS))
    image = images[(SEED + number) % len(KINDS)]
    path = tmp_path / "s"
    image.path.rename(path)
    before, _ = recover_and_read(path)
    with MessageStore.open(path, CRASH_SIZES) as store:
        store.create_topic("t0", 2)
    version = VERSIONS_5[number // len(KINDS)]
    with RealBroker(version, path, CRASH_SIZES, tmp_path / "home") as broker:
        sends = [f"SEND\tt0\t1\t{base64.b64encode(b'net %d' % n).decode()}\ttn\tnet{n}" for n in range(5)]
        answers = broker.ask("t0", sends)
    assert [one[1] for one in answers if one[0] == "SENT"] == ["SEND_OK"] * 5, (SEED, image.kind, image.what)
    assert not (path / "abort").exists()
    offsets = [int(one[2]) for one in answers if one[0] == "SENT"]
    with MessageStore.open(path) as store:
        assert not store.recovery.abort_found
        for number, offset in enumerate(offsets):
            (message,) = store.get_message("t0", 1, offset, 1).messages
            assert message.body == b"net %d" % number
    after = read_skipping_losses(path)
    if image.damage < 0:
        assert in_both(after, before) == before, (SEED, image.kind, image.what)


@pytest.mark.slow
@pytest.mark.skipif(LEVEL == "sample", reason="boots a broker: RF_FAULTS=1 runs it")
@pytest.mark.parametrize("version", versions("5.3.3", of=VERSIONS_5))
def test_broker_takes_over_lmq_consumer_offsets(version: str, tmp_path: Path) -> None:
    """The broker reads `lmqConsumerOffset.json` and writes a new one when it stops."""
    path = tmp_path / "s"
    config = replace(SIZES, enable_lmq=True, enable_multi_dispatch=True)
    with MessageStore.open(path, config) as store:
        for number in range(6):
            lmq = {"INNER_MULTI_DISPATCH": "%LMQ%a"}
            assert store.put_message(Message("orders", b"%d" % number, queue_id=0, properties=lmq)).stored
        file = store.config_files.lmq_consumer_offsets
        file.commit_all({("orders", "g"): {0: 3}, ("%LMQ%a", "%LMQ%g"): {0: 5}})
        wanted = file.table()
    written = json.loads(file.path.read_text())
    assert (written["offsetTable"], written["lmqOffsetTable"]) == ({"orders@g": {"0": 3}}, {"%LMQ%a@%LMQ%g": 5})
    before = file.path.stat().st_ino, file.path.stat().st_mtime_ns
    with RealBroker(version, path, config, tmp_path / "home", "enableLmq=true\nenableMultiDispatch=true\n") as broker:
        answers = broker.ask("orders", [f"SEND\torders\t0\t{base64.b64encode(b'net').decode()}\ttn\tnet"])
    assert [one[1] for one in answers if one[0] == "SENT"] == ["SEND_OK"]
    assert (file.path.stat().st_ino, file.path.stat().st_mtime_ns) != before
    assert LmqConsumerOffsetsFile(path / "config").table() == wanted
    with MessageStore.open(path, config):
        assert LmqConsumerOffsetsFile(path / "config").table() == wanted
    assert [one for one in verify_store(path).findings if one.kind in ("offset", "config")] == []


@pytest.mark.skipif(LEVEL == "sample", reason="boots a broker: RF_FAULTS=1 runs it")
@pytest.mark.parametrize("version", versions("5.3.3"))
def test_backup_beside_apaches_broker_holds_what_it_acknowledged(version: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    fill(path)
    with RealBroker(version, path, SIZES, tmp_path / "home") as broker:
        sends = [f"SEND\torders\t0\t{base64.b64encode(b'net %d' % n).decode()}\ttn\tnet{n}" for n in range(20)]
        answers = broker.ask("orders", sends)
        assert [one[1] for one in answers if one[0] == "SENT"] == ["SEND_OK"] * 20
        expected = read_with_rocketflow(path)
        backup_store(path, tmp_path / "backup", SIZES)
    assert in_both(read_with_rocketflow(tmp_path / "backup"), expected) == expected
    with MessageStore.open(tmp_path / "backup", SIZES) as store:
        assert not store.recovery.healed
        assert [one.body for one in store.query_message("orders", "net7")] == [b"net 7"]
    assert verify_store(tmp_path / "backup", SIZES).findings == []
