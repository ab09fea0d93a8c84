"""Apache RocketMQ's store module as a judge of directories, fetched and compiled once and run as a child process."""

from __future__ import annotations

import base64
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from rocketflow_store import MessageExt, StoreConfig, StoreReader
from rocketflow_store.model.message_id import decode_host, encode_host
from tests.support.java_programs import FLAGS, compiled
from tests.support.maven import JarsNotFetchedError, fetch_jars, java_and_javac
from tests.support.trials import LEVEL

HERE = Path(__file__).parent


VERSIONS: Final = ("5.5.0", "5.3.3", "4.9.7")
VERSIONS_5: Final = VERSIONS[:2]


def versions(*sample: str, of: tuple[str, ...] = VERSIONS) -> tuple[str, ...]:
    """Return the RocketMQ versions that judge: those of `sample` in a short run, all of `of` in a longer one."""
    return sample if LEVEL == "sample" else of


@dataclass(frozen=True)
class JudgedMessage:
    """A message as one side reads it: the fields of its record, and the tags code of its ConsumeQueue unit."""

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    store_size: int
    flag: int
    born_timestamp: int
    store_timestamp: int
    sys_flag: int
    body_crc: int
    tags_code: int
    msg_id: str
    born_host: str
    store_host: str
    body: bytes
    properties: dict[str, str]

    @property
    def place(self) -> tuple[str, int, int]:
        """Topic, queue and queue offset."""
        return self.topic, self.queue_id, self.queue_offset


class ApacheStore:
    """The store module of one RocketMQ version; skips the test with the reason if it is not available."""

    def __init__(self, version: str, conf: str = "") -> None:
        """Fetch and compile; `conf` holds lines of a broker.conf that are added to the store's settings."""
        self._conf = conf
        try:
            self._java = java_and_javac()[0]
            self._lib = fetch_jars(f"apache/{version}", [f"org.apache.rocketmq:rocketmq-store:{version}"])
        except JarsNotFetchedError as error:
            pytest.skip(str(error))
        self._classes = compiled("Judge", version, self._lib)

    def ask(self, store: Path, config: StoreConfig, lines: list[str]) -> list[list[str]]:
        """Open the directory, send the lines, close it; return the answers as lists of fields."""
        return self._run(str(store), store.parent, config, lines)

    def read_each(
        self, stores: list[Path], config: StoreConfig, queues: list[tuple[str, int]]
    ) -> dict[Path, list[JudgedMessage] | None]:
        """Return the messages that each directory serves of the queues, or None if Apache refuses the directory.

        One JVM opens all of them and closes none.
        """
        reads = [f"READ\t{topic}\t{queue_id}" for topic, queue_id in queues]
        lines = [line for store in stores for line in (f"OPEN\t{store}", *reads)]
        found: dict[Path, list[JudgedMessage] | None] = {}
        now: list[JudgedMessage] = []
        for one in self._run("-", stores[0].parent, config, lines, timeout_s=120 + 10 * len(stores)):
            if one[0] in ("OPENED", "REFUSED"):
                now = []
                found[Path(one[1])] = now if one[0] == "OPENED" else None
            elif one[0] == "MESSAGE":
                now.append(judged(one))
        assert sorted(found) == sorted(stores)
        return found

    def _run(
        self, store: str, room: Path, config: StoreConfig, lines: list[str], timeout_s: float = 120
    ) -> list[list[str]]:
        sizes = (
            config.mapped_file_size_commit_log,
            config.mapped_file_size_consume_queue,
            config.max_hash_slot_num,
            config.max_index_num,
        )
        return self.run("Judge", [store, *map(str, sizes)], room, lines, timeout_s)

    def run(
        self, judge: str, arguments: list[str], room: Path, lines: list[str], timeout_s: float = 120
    ) -> list[list[str]]:
        """Run a judge and return its answers to `lines`; it may write in `room`."""
        work = room / "judge-home"
        work.mkdir(exist_ok=True)
        class_path = f"{self._lib / '*'}:{self._classes}"
        done = subprocess.run(
            [self._java, *FLAGS, f"-Duser.home={work}", "-cp", class_path, judge, *arguments],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, "JUDGE_CONF": self._conf},
        )
        answers = [line.split("\t") for line in done.stdout.splitlines()]
        lagging = [one for one in answers if one[0] == "LAGGING"]
        assert not lagging, f"Apache's dispatch lags by {lagging[0][1]} bytes after {lagging[0][2]} ms"
        assert done.returncode == 0, (done.stdout[-1000:], done.stderr[-2000:])
        assert ["CLOSED"] in answers, (done.stdout[-1000:], done.stderr[-2000:])
        return answers

    def read(self, store: Path, config: StoreConfig, queues: list[tuple[str, int]]) -> list[JudgedMessage]:
        """Return every message of the queues."""
        return self.read_and_put(store, config, queues, [])[0]

    def read_and_put(
        self, store: Path, config: StoreConfig, queues: list[tuple[str, int]], puts: list[str]
    ) -> tuple[list[JudgedMessage], list[list[str]]]:
        """Return every message of the queues, and the answers to puts, and to lines after them, of the same JVM."""
        reads = [f"READ\t{topic}\t{queue_id}" for topic, queue_id in queues]
        answers = self.ask(store, config, [*reads, *puts])
        end = next((at for at, one in enumerate(answers) if one[0] == "PUT"), len(answers))
        found = answers[:end]
        assert not [one for one in found if one[0] == "STUCK"], found
        return [judged(one) for one in found if one[0] == "MESSAGE"], answers[end:]


def judged(fields: list[str]) -> JudgedMessage:
    """Return the message of an answer."""
    msg_id, born_host, store_host, body, properties = fields[12:17]
    text = base64.b64decode(properties).decode()
    values: list[Any] = [fields[1], *map(int, fields[2:12]), msg_id, normal_host(born_host), normal_host(store_host)]
    values += [base64.b64decode(body), dict(pair.split("\x01", 1) for pair in text.split("\x02") if pair)]
    return JudgedMessage(*values)


def normal_host(text: str) -> str:
    """Return a host as RocketFlow writes it: Java spells IPv6 out in full."""
    return decode_host(encode_host(text))


def read_with_rocketflow(path: Path) -> dict[tuple[str, int, int], JudgedMessage]:
    """Return every message that a StoreReader reads from a directory, by topic, queue and queue offset."""
    found: dict[tuple[str, int, int], JudgedMessage] = {}
    with StoreReader(path) as reader:
        for (topic, queue_id), (low, high) in reader.snapshot().queues.items():
            codes = reader.read_units(topic, queue_id, low, high)["tags_code"].tolist()
            offset = low
            while offset < high:
                got = reader.get_message(topic, queue_id, offset)
                assert got.messages, (topic, queue_id, offset, got.status)
                for one in got.messages:
                    message = as_judged(one, codes[one.queue_offset - low])
                    found[message.place] = message
                offset = got.next_begin_offset
    return found


def as_judged(one: MessageExt, tags_code: int) -> JudgedMessage:
    """Convert a message that RocketFlow read into the judge's form."""
    return JudgedMessage(
        *(one.topic, one.queue_id, one.queue_offset, one.phy_offset, one.store_size, one.flag),
        *(one.born_timestamp, one.store_timestamp, one.sys_flag, one.body_crc, tags_code),
        *(one.msg_id, one.born_host, one.store_host, one.stored_body, dict(one.properties)),
    )
