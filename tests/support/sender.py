"""A store with what a broker sends through, without sockets; and the frames of sends."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from rocketflow.access.served import served_by
from rocketflow.aio.channel import Channel
from rocketflow.aio.loop import new_loop
from rocketflow.aio.rpc_latency import RpcLatency
from rocketflow.aio.server import Arrived, Server
from rocketflow.broker.figures import BrokerStats, MessageCounts
from rocketflow.broker.figures.counts import Counts
from rocketflow.broker.groups.tables import Tables
from rocketflow.broker.operators import Access
from rocketflow.broker.puts.put_gatherer import PutGatherer
from rocketflow.broker.puts.sends import Sends
from rocketflow.broker.puts.sends_together import SendsTogether
from rocketflow.broker.settings import load_broker_settings
from rocketflow.broker.topics.topics import Topics
from rocketflow.broker.transactions import Transactions
from rocketflow.broker.transactions.messages import committed_message
from rocketflow.remoting.frame import TakenFrames
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.spi.broker import encode_stored, open_store
from rocketflow_store.spi.names import HALF_TOPIC
from rocketflow_store.spi.table_rows import TopicConfig

HOST: Final = "10.1.2.3:10911"
NOW_MS: Final = 1_700_000_000_000
QUEUES: Final = 4
TOPICS: Final = ("orders", "t|1")
USUAL: Final = {"UNIQ_KEY": "7F0000010000", "WAIT": "true"}
LONG_NAMES: Final = dict(
    zip(
        "abcdefghijklmn",
        [
            *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag"),
            *(
                "bornTimestamp",
                "flag",
                "properties",
                "reconsumeTimes",
                "unitMode",
                "maxReconsumeTimes",
                "batch",
                "bname",
            ),
        ],
        strict=True,
    )
)


class Wire:
    """Takes what a channel sends."""

    def __init__(self, peer: tuple[str, int]) -> None:
        self.peer, self.sent = peer, bytearray()

    def get_extra_info(self, name: str) -> Any:
        return self.peer if name == "peername" else None

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def writelines(self, parts: Sequence[bytes]) -> None:
        self.sent += b"".join(parts)

    def close(self) -> None:
        self.sent += b"closed"


class Counting(SendsTogether):
    """Counts reads that are served together, and bytes of them that are left over."""

    taken = left_over = 0

    def received(self, arrived: Arrived, taken: TakenFrames) -> bytes:
        left_over = super().received(arrived, taken)
        self.taken += left_over != taken.frames()
        self.left_over += len(left_over)
        return left_over


class Sender:
    """A store with what a broker sends through; with `together` the kernel takes what is usual.

    `rules` are the accounts of the broker, which has none without.
    """

    def __init__(self, root: Path, *, together: bool, peer: str = "10.9.8.7", rules: str = "", **options: Any) -> None:
        self.loop = new_loop()
        sizes = {
            "mappedFileSizeCommitLog": "131072",
            "mappedFileSizeConsumeQueue": "20000",
            "maxHashSlotNum": "100",
            "maxIndexNum": "4000",
        }
        address = dict(zip(("brokerIP1", "listenPort"), HOST.split(":"), strict=True))
        address["rocketflow.allowInsecure"] = "true"
        if rules:
            conf = root.with_name(f"{root.name}-home") / "conf"
            conf.mkdir(parents=True)
            (conf / "plain_acl.yml").write_text(rules)
            options |= {"aclEnable": "true", "rocketmqHome": str(conf.parent)}
        given = {"storePathRootDir": str(root), "diskMaxUsedSpaceRatio": "95", **address, **sizes, **options}
        self.settings, config, _ = load_broker_settings(None, given, {})
        self.clock = ManualClock(NOW_MS)
        self.store = open_store(root, replace(config, clock=self.clock), store_host=HOST)
        self.root = root
        self.wire = Wire((peer, 4711))
        self.loop.run_until_complete(self._build(together))

    async def _build(self, together: bool) -> None:
        async def registered() -> None:
            pass

        self.topics = Topics(self.store, self.settings, lambda: None, registered)
        self.topics.create_system_topics()
        self.store.topic_table.put(*(TopicConfig(one, QUEUES, QUEUES, 6) for one in TOPICS))
        self.stats = BrokerStats("c")
        self.exported = Counts()
        counts = MessageCounts(self.stats, self.exported)
        sync_s = 60.0 if self.store.config.sync_flush else None
        self.wait_limit_s: float | None = None  # beside a load one of two senders would refuse what has waited 200 ms
        self.gatherer = PutGatherer(self.store, sync_timeout_s=sync_s, wait_limit_s=lambda: self.wait_limit_s)
        self.tables = tables = Tables(self.store, self.settings, self.topics)
        access = Access(self.settings, self.store)
        self.transactions = Transactions(self.store, self.settings, tables, self.gatherer, counts, access)
        self.halves = self.transactions.recent
        sends = Sends(self.settings, tables, self.gatherer, counts, self.halves, None)
        together_ends = self.transactions.together
        self.both = Counting(self.store, self.topics, self.gatherer, counts, sends, together_ends, access.guard)
        assert (self.both.taker("10.0.0.1:1") is not None) is together
        self.latency = RpcLatency()
        processors = access.guard.guarded([*served_by(sends), *self.transactions.served()])
        self.server = Server(processors, latency=self.latency, together=self.both)
        self._connect()

    @property
    def taken(self) -> int:
        """Return how many reads had messages that the kernel took."""
        return self.both.taken

    def _connect(self) -> None:
        self.channel = Channel(self.server, together=self.server)
        self.channel.connection_made(cast("asyncio.Transport", self.wire))

    def feed(self, *reads: bytes, pause: bool = True) -> bytes:
        """Receive some reads, and return the answers; with `pause` an append may begin between two of them."""

        async def main() -> None:
            if b"closed" in self.wire.sent:
                self._connect()
            self.wire.sent.clear()
            for data in reads:
                self.channel.data_received(data)
                if pause:
                    await asyncio.sleep(0)
            async with asyncio.timeout(60):
                for _ in range(3):
                    await asyncio.sleep(0)
                while not self.gatherer.is_idle or self.server.task_count:
                    await asyncio.sleep(0)
            for _ in range(3):
                await asyncio.sleep(0)

        random.seed(1)
        self.loop.run_until_complete(main())
        return bytes(self.wire.sent)

    def files(self) -> dict[str, bytes]:
        """Return what the store has written: log, queues and index."""
        return {
            str(path.relative_to(self.root)): path.read_bytes().rstrip(b"\0")
            for folder in ("commitlog", "consumequeue", "index")
            for path in sorted((self.root / folder).rglob("*"))
            if path.is_file()
        }

    def figures(self) -> Any:
        list(self.stats.note(0, 10_000))
        sent = {key: (one.messages, one.bytes, one.sizes.counts) for key, one in self.exported.sent.items()}
        answered = {kind: sum(one.counts) for kind, one in self.latency.by_kind.items()}
        topics = *TOPICS, HALF_TOPIC
        views = [self.stats.view(name, topic) for name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE") for topic in topics]
        ended = self.exported.committed, self.exported.rolled_back
        # ages are whole ms; the sum of them in seconds depends on their order
        latency = {topic: (one.counts, round(one.total * 1000)) for topic, one in self.exported.commit_latency.items()}
        return views, sent, answered, self.exported.half_messages, ended, latency

    async def check_transactions(self, now_ms: int) -> None:
        """Check the half messages that are undecided."""
        await self.transactions.checks.check(now_ms)

    def take_halves(self) -> list[bytes]:
        """Return what commits of the half messages that are kept would store, in their order."""
        _, end = self.store.bounds(HALF_TOPIC, 0)
        kept = [(offset, self.halves.take(offset)) for offset in range(end)]
        return [
            encode_stored(half.stored._replace(message=committed_message(half), queue_offset=offset))
            for offset, half in kept
            if half is not None
        ]

    def close(self) -> None:
        self.loop.run_until_complete(self.gatherer.finish(1))
        self.store.close()
        self.loop.close()


def text_of(properties: dict[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


def frame(header: bytes, body: bytes, kind: int = 0) -> bytes:
    size = kind << 24 | len(header)
    return (4 + len(header) + len(body)).to_bytes(4, "big") + size.to_bytes(4, "big") + header + body


def send(opaque: int, body: bytes = b"body", properties: str | None = text_of(USUAL), **changed: Any) -> bytes:
    """Return a send as Java's client writes it, with some fields and members (`_name`) changed; None drops one."""
    fields = {
        "a": "producers",
        "b": "orders",
        "c": "TBW102",
        "d": "4",
        "e": "1",
        "f": "0",
        "g": "1699999999999",
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
    }
    members: dict[str, Any] = {"code": 310, "extFields": {}, "flag": 0, "language": "JAVA", "opaque": opaque}
    members |= {"serializeTypeCurrentRPC": "JSON", "version": 479}
    kept = changed.pop("ascii", True), changed.pop("separators", (",", ":"))
    is_binary = changed.pop("binary", False)
    fields |= {name: value for name, value in changed.items() if not name.startswith("_")}
    members |= {name[1:]: value for name, value in changed.items() if name.startswith("_")}
    if members["code"] == 10:
        fields = {LONG_NAMES.get(name, name): value for name, value in fields.items()}
    members["extFields"] = {name: value for name, value in fields.items() if value is not None}
    if is_binary:
        return frame(binary_header(members), body, 1)
    members = {name: value for name, value in members.items() if value is not None}
    header = json.dumps(members, ensure_ascii=kept[0], separators=kept[1], default=repr)
    return frame(header.encode("utf-8", "surrogatepass"), body)


def binary_header(members: dict[str, Any]) -> bytes:
    """Return a header in ROCKETMQ's own form; `more` follows its fields, whose size is said to be `size`."""
    language = members.get("language")
    numbers = (
        *((members["code"], 2), (language if isinstance(language, int) else 0, 1), (members["version"] or 0, 2)),
        *((members["opaque"], 4), (members["flag"] or 0, 4)),
    )
    head = b"".join((number & ((1 << 8 * width) - 1)).to_bytes(width, "big") for number, width in numbers)
    texts = [
        (name.encode(), str(value).encode("utf-8", "surrogatepass")) for name, value in members["extFields"].items()
    ]
    fields = b"".join(len(name).to_bytes(2, "big") + name + _sized(value) for name, value in texts)
    fields += bytes(members.get("more", b""))
    size = members.get("size", len(fields))
    return head + _sized((members.get("remark") or "").encode()) + size.to_bytes(4, "big") + fields


def _sized(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


def end(half: tuple[int, int], *, commits: bool = True, **changed: Any) -> bytes:
    """Return the end of a transaction, as Java's client writes it, by half offset and log offset; changed as `send`."""
    fields = {
        "commitLogOffset": str(half[1]),
        "commitOrRollback": "8" if commits else "12",
        "fromTransactionCheck": "false",
        "msgId": "7F0000010000",
        "producerGroup": "producers",
        "topic": "orders",
        "tranStateTableOffset": str(half[0]),
        "transactionId": "7F0000010000",
        "bname": "broker-a",
    }
    members: dict[str, Any] = {"code": 37, "extFields": {}, "flag": 2, "language": "JAVA", "opaque": 9}
    members |= {"serializeTypeCurrentRPC": "JSON", "version": 479}
    separators = changed.pop("separators", (",", ":"))
    body = changed.pop("body", b"")
    is_binary = changed.pop("binary", False)
    fields |= {name: value for name, value in changed.items() if not name.startswith("_")}
    members |= {name[1:]: value for name, value in changed.items() if name.startswith("_")}
    members["extFields"] = {name: value for name, value in fields.items() if value is not None}
    if is_binary:
        return frame(binary_header(members), body, 1)
    members = {name: value for name, value in members.items() if value is not None}
    return frame(json.dumps(members, separators=separators, ensure_ascii=False).encode(), body)
