"""One directory written in turn by RocketMQ 5.3.3, 5.5.0 and RocketFlow: it is healthy after each of them.

Since 5.4.0 a broker adds an index entry for TAGS; one of 5.3.3 adds none. A short run uses Apache's stores, a longer
one real brokers as well.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest
from rocketflow_store.spi.table_rows import TopicConfig
from tests.apache.judge import ApacheStore, read_with_rocketflow
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.apache.test_broker_boots import ACCELERATED
from tests.support.real_broker import RealBroker
from tests.support.trials import FULL, LEVEL, ROOT, environment

pytestmark = [pytest.mark.apache, pytest.mark.slow]

ROCKETFLOW = "rocketflow"
EACH = 24
TURNS = (
    ("5.3.3", "5.5.0", ROCKETFLOW, "5.3.3"),
    ("5.3.3", ROCKETFLOW, "5.5.0", "5.3.3", ROCKETFLOW),
    ("5.5.0", "5.3.3", ROCKETFLOW, "5.5.0", ROCKETFLOW),
)


def append(writer: str, path: Path, first: int, *, brokers: bool) -> None:
    """Have one writer append messages with TAGS and KEYS."""
    numbers = range(first, first + EACH)
    if writer == ROCKETFLOW:
        with MessageStore.open(path, SIZES) as store:
            for n in numbers:
                assert store.put_message(Message("orders", b"%d" % n, tags=f"t{n % 3}", keys=[f"k{n}"])).stored
        return
    bodies = [base64.b64encode(b"%d" % n).decode() for n in numbers]
    words = [f"orders\t{n % 2}\t{body}\tt{n % 3}\tk{n}" for n, body in zip(numbers, bodies, strict=True)]
    conf = ACCELERATED if writer == "5.5.0" else ""
    if brokers:
        with RealBroker(writer, path, SIZES, path.parent / f"home-{first}", conf) as broker:
            answers = broker.ask("orders", [f"SEND\t{one}" for one in words])
    else:
        answers = ApacheStore(writer, conf).ask(path, SIZES, [f"PUT\t{one}" for one in words])
    assert [one[1] for one in answers if one[0] in ("SENT", "PUT")] == [("SEND_OK" if brokers else "PUT_OK")] * EACH


@pytest.mark.parametrize("brokers", [False, *([True] if FULL else [])], ids=lambda one: "brokers" if one else "stores")
@pytest.mark.parametrize("turns", [TURNS[0][:3]] if LEVEL == "sample" else TURNS, ids="-".join)
def test_store_stays_healthy_when_versions_take_turns(
    turns: tuple[str, ...], brokers: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s"
    ConfigFiles(path / "config").topics.put(TopicConfig("orders", 2, 2))
    with_tags: list[bool] = []
    profile = ""
    for number, writer in enumerate(turns):
        append(writer, path, number * EACH, brokers=brokers)
        if writer == ROCKETFLOW and not profile:  # detected at the first open, and never changed
            profile = "5.5" if with_tags[-1] else "5.3"
        with_tags.append(profile == "5.5" if writer == ROCKETFLOW else writer == "5.5.0")
        assert verify_store(path).findings == [], turns[: number + 1]
    assert sorted(one.body for one in read_with_rocketflow(path).values() if one.topic == "orders") == sorted(
        b"%d" % n for n in range(len(turns) * EACH)
    )
    assert run(["store", "info", str(path), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    stretches = [one["tagEntries"] for one in info["index"]["tagStretches"]]
    assert stretches == [one for one, _ in groupby(with_tags)]
    assert (info["profile"], info["index"]["tagStretchesExact"]) == (profile, True)
    with StoreReader(path) as reader:
        for n in range(len(turns) * EACH):
            assert [one.body for one in reader.query_message("orders", f"k{n}")] == [b"%d" % n]
    rebuild_store(path, RebuildRequest(profile="5.5"))
    with StoreReader(path) as reader:
        found = reader.query_by_tags("orders", "t1", 1000)
        assert found.complete
        assert {int(one.body) for one in found.messages} == set(range(1, len(turns) * EACH, 3))
    assert verify_store(path).findings == []


KILLED = {
    "first-record-flushed": "put(1)\nstore.flush()",
    "more-after-the-first": "put(1)\nstore.flush()\nput(5)",
    "several-files": "put(400)\nstore.flush()\nput(400)",
    "opened-again": "put(400)\nstore.close()\nstore = MessageStore.open(sys.argv[1])\nput(300)",
    "begin-removed": (
        "put(900)\nstore.flush()\nfor one in store.log_files[:-2]: os.utime(one.path, (1e6, 1e6))\n"
        "assert store.clean().log_files\nput(50)"
    ),
}
"""The calls of a writer before it is killed."""


@pytest.mark.skipif(LEVEL == "sample", reason="the crash images of a short run have one such recovery each")
def test_accelerated_recovery_continues_from_the_checkpoint_of_a_killed_writer(tmp_path: Path) -> None:
    config = replace(SIZES, mapped_file_size_commit_log=1 << 16)
    wanted = {}
    for name, code in KILLED.items():
        path = tmp_path / name
        before = (
            "import os, sys\nfrom dataclasses import replace\nfrom rocketflow_store import *\n"
            "from tests.apache.test_apache_opens_rocketflow_stores import SIZES\n"
            "store = MessageStore.open(sys.argv[1], replace(SIZES, mapped_file_size_commit_log=1 << 16))\n"
            "def put(count):\n"
            "    for n in range(count): assert store.put_message(Message('orders', b'b' * 300, tags='t')).stored\n"
        )
        command = [sys.executable, "-c", f"{before}{code}\nos._exit(9)", str(path)]
        assert subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode == 9
        wanted[path] = read_with_rocketflow(path)
    queues = sorted({place[:2] for found in wanted.values() for place in found})
    apache = ApacheStore("5.5.0", ACCELERATED)
    served = apache.read_each(list(wanted), config, queues)
    assert {path: {one.place: one for one in found or []} for path, found in served.items()} == wanted
