from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.files.fastjson import format_json, parse_json_object
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.metadata.config_files import (
    ConfigFileError,
    ConfigFiles,
    ConsumerOffsetsFile,
    DelayOffsetsFile,
    LmqConsumerOffsetsFile,
    SubscriptionGroupsFile,
    TopicsFile,
    is_system_topic,
    validate_group,
    validate_topic,
)
from rocketflow_store.model.clock import ManualClock
from rocketflow_store.model.errors import StoreAccessError, StoreConfigError
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig, TopicConfig
from tests.support.golden import GOLDEN, extract
from tests.support.trials import some

SCENARIOS = sorted(path.parent.name for path in GOLDEN.glob("*/queries.json"))
CLOCK = ManualClock(1_700_000_000_000)

CONSUMER_OFFSETS = """{
	"dataVersion":{
		"counter":0,
		"stateVersion":0,
		"timestamp":1795225719610
	},
	"groupTopicMap":{
		"cg-main":["f-normal","%RETRY%cg-main"]
	},
	"offsetTable":{
		"f-normal@cg-main":{0:102,1:98
		},
		"f-bc@cg-broadcast@broadcast":{0:27,1:23
		},
		"%RETRY%cg-main@cg-main":{0:0
		}
	},
	"later":[1,{"2":3}]
}"""


@pytest.fixture(params=SCENARIOS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Extract the config directory that a broker wrote; return it with the content that RocketMQ's own code reads in
    it.
    """
    folder = GOLDEN / request.param
    extract(folder / "store.tar.xz", tmp_path, lambda path: "config" in path.parts[:-1])
    (directory,) = tmp_path.rglob("config")
    return directory, json.loads((folder / "queries.json").read_text())["config"]


def _as_queries(files: ConfigFiles) -> dict[str, Any]:
    topics = {}
    for name, config in files.topics.topics().items():
        topics[name] = {
            "readQueueNums": config.read_queue_nums,
            "writeQueueNums": config.write_queue_nums,
            "perm": config.perm,
            "attributes": dict(config.attributes),
        }
    offsets = [
        {"topic": topic, "group": group, "queueId": queue_id, "offset": offset}
        for (topic, group), queues in sorted(files.consumer_offsets.table().items())
        for queue_id, offset in sorted(queues.items())
    ]
    delays = {f"{level:02d}": offset for level, offset in files.delay_offsets.offsets().items()}
    return {"topics": topics, "consumerOffsets": offsets, "delayOffsets": delays}


def _expected(queries: dict[str, Any]) -> dict[str, Any]:
    topics = {name: {"attributes": {}, **entry} for name, entry in queries["topics"].items()}
    return {**queries, "topics": topics}


def test_golden_directories_read_as_rocketmq_reads_them(golden: tuple[Path, dict[str, Any]]) -> None:
    directory, queries = golden
    assert _as_queries(ConfigFiles(directory)) == _expected(queries)


def test_golden_directories_survive_a_rewrite_by_rocketflow(golden: tuple[Path, dict[str, Any]]) -> None:
    directory, queries = golden
    files = ConfigFiles(directory, CLOCK)
    groups = files.subscription_groups.groups()
    before = files.topics.data_version.counter
    files.topics.set_queue_nums("new", 3)
    files.subscription_groups.put(SubscriptionGroupConfig("new"))
    files.consumer_offsets.commit("new", "new", {1: 5})
    files.delay_offsets.commit({99: 7})
    again = ConfigFiles(directory)
    assert again.topics.data_version.counter == before + 1
    assert again.subscription_groups.groups() == {**groups, "new": SubscriptionGroupConfig("new")}
    found = _as_queries(again)
    assert found["topics"].pop("new")["writeQueueNums"] == 3
    assert found["delayOffsets"].pop("99") == 7
    new = {"topic": "new", "group": "new", "queueId": 1, "offset": 5}
    found["consumerOffsets"].remove(new)
    assert found == _expected(queries)


def test_three_part_keys_split_at_the_first_at(tmp_path: Path) -> None:
    (tmp_path / "consumerOffset.json").write_text(CONSUMER_OFFSETS)
    file = ConsumerOffsetsFile(tmp_path, CLOCK)
    assert file.offsets("cg-broadcast@broadcast", "f-bc") == {0: 27, 1: 23}
    assert file.get("cg-main", "f-normal", 1) == 98
    assert file.get("cg-main", "f-normal", 7) is None
    file.commit("cg-main", "f-normal", {1: 99, 3: 4})
    written = json.loads((tmp_path / "consumerOffset.json").read_text())
    assert written == {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": CLOCK.now_ms()},
        "groupTopicMap": {"cg-main": ["f-normal", "%RETRY%cg-main"]},
        "offsetTable": {
            "f-normal@cg-main": {"0": 102, "1": 99, "3": 4},
            "f-bc@cg-broadcast@broadcast": {"0": 27, "1": 23},
            "%RETRY%cg-main@cg-main": {"0": 0},
        },
        "later": [1, {"2": 3}],
    }
    assert (tmp_path / "consumerOffset.json.bak").read_text() == CONSUMER_OFFSETS
    assert sorted(os.listdir(tmp_path)) == ["consumerOffset.json", "consumerOffset.json.bak"]


def test_absent_files_are_empty_and_reading_creates_none(tmp_path: Path) -> None:
    files = ConfigFiles(tmp_path / "config")
    assert files.topics.topics() == {}
    assert files.subscription_groups.groups() == {}
    assert files.consumer_offsets.table() == {}
    assert files.delay_offsets.offsets() == {}
    assert not (tmp_path / "config").exists()


@pytest.mark.parametrize(
    "damage", [None, b"", b"  \n", b"{", b"garbage", b"[1]", b"\xff\xfe", b'{"topicConfigTable":[]}', b"[" * 100_000]
)
def test_the_backup_takes_over_and_is_not_overwritten_by_damage(tmp_path: Path, damage: bytes | None) -> None:
    TopicsFile(tmp_path, CLOCK).set_queue_nums("orders", 4)
    path, backup = tmp_path / "topics.json", tmp_path / "topics.json.bak"
    good = path.read_bytes()
    backup.write_bytes(good)
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    file = TopicsFile(tmp_path, CLOCK)
    assert list(file.topics()) == ["orders"]
    file.set_queue_nums("bills", 2)
    assert backup.read_bytes() == good
    assert sorted(TopicsFile(tmp_path).topics()) == ["bills", "orders"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"{,}", "cannot be understood"),
        (b'{"topicConfigTable":{"t":{"perm":"rw"}}}', "perm"),
        (b'{"topicConfigTable":{"t":{"writeQueueNums":-1}}}', "writeQueueNums"),
        (b'{"topicConfigTable":{"t":{"writeQueueNums":99999999999}}}', "writeQueueNums"),
        (b'{"topicConfigTable":{"t":{"order":3}}}', "order"),
        (b'{"dataVersion":{"counter":1.5}}', "counter"),
        (b'{"dataVersion":{"counter":NaN}}', "NaN"),
        (b'{"dataVersion":{"counter":' + b"9" * 5000 + b"}}", "cannot be understood"),
    ],
)
@pytest.mark.parametrize("backup", [None, b"", b"no"])
def test_damage_without_a_good_backup_is_refused_and_kept(
    tmp_path: Path, content: bytes, why: str, backup: bytes | None
) -> None:
    path = tmp_path / "topics.json"
    path.write_bytes(content)
    if backup is not None:
        (tmp_path / "topics.json.bak").write_bytes(backup)
    file = TopicsFile(tmp_path, CLOCK)
    for action in (file.topics, lambda: file.set_queue_nums("orders", 4)):
        with pytest.raises(ConfigFileError, match=why) as caught:
            action()
        assert str(path) in str(caught.value)
        assert caught.value.exit_code == 3
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "table", ["[]", '{"noSeparator":{0:1}}', '{"t@g":{"x":1}}', '{"t@g":{0:-1}}', '{"t@g":{-1:1}}']
)
def test_invalid_consumer_offsets_are_refused(tmp_path: Path, table: str) -> None:
    (tmp_path / "consumerOffset.json").write_text(f'{{"offsetTable":{table}}}')
    with pytest.raises(ConfigFileError):
        ConsumerOffsetsFile(tmp_path).table()


def test_a_directory_in_the_place_of_a_file_is_an_access_error(tmp_path: Path) -> None:
    (tmp_path / "topics.json").mkdir()
    with pytest.raises(StoreAccessError):
        TopicsFile(tmp_path).topics()


def test_unknown_members_survive_a_rewrite(tmp_path: Path) -> None:
    document = {
        "dataVersion": {"counter": 4, "timestamp": 9},
        "future": {"a": [1, None]},
        "topicConfigTable": {
            "host.with.dots": {"perm": 7, "shiny": {"x": 1}},
            "t": {"readQueueNums": "4", "writeQueueNums": 4, "perm": 6, "attributes": {"queue.type": "SimpleCQ"}},
        },
    }
    path = tmp_path / "topics.json"
    path.write_text(json.dumps(document))
    file = TopicsFile(tmp_path, CLOCK)
    file.set_queue_nums("t", 2)
    written = json.loads(path.read_text())
    assert written["future"] == {"a": [1, None]}
    assert written["topicConfigTable"]["host.with.dots"]["shiny"] == {"x": 1}
    assert written["topicConfigTable"]["t"]["attributes"] == {"queue.type": "SimpleCQ"}
    assert written["dataVersion"]["counter"] == 5
    config = file.get("t")
    assert config is not None
    assert (config.read_queue_nums, config.write_queue_nums) == (4, 2)


def test_an_unchanged_value_writes_nothing(tmp_path: Path) -> None:
    file = ConsumerOffsetsFile(tmp_path, CLOCK)
    file.commit("g", "t", {0: 3})
    stamp = file.path.stat()
    file.commit("g", "t", {0: 3})
    assert (file.path.stat().st_ino, file.data_version.counter) == (stamp.st_ino, 1)


def test_another_writers_changes_are_seen_and_kept(tmp_path: Path) -> None:
    one, two = TopicsFile(tmp_path, CLOCK), TopicsFile(tmp_path, CLOCK)
    assert one.topics() == two.topics() == {}
    one.set_queue_nums("a", 1)
    two.set_queue_nums("b", 2)
    assert sorted(one.topics()) == ["a", "b"]
    assert one.remove("a")
    assert not one.remove("a")
    assert two.get("a") is None


def test_removing_a_group_removes_its_forbidden_topics(tmp_path: Path) -> None:
    (tmp_path / "subscriptionGroup.json").write_text(
        '{"forbiddenTable":{"g":{"t":1},"h":{"t":2}},"subscriptionGroupTable":{"g":{"groupName":"g","retryMaxTimes":3}}}'
    )
    file = SubscriptionGroupsFile(tmp_path, CLOCK)
    known = file.get("g")
    assert known is not None
    assert known.retry_max_times == 3
    assert file.remove("g")
    assert json.loads(file.path.read_text())["forbiddenTable"] == {"h": {"t": 2}}


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "a.b", "é", "t" * 128, "%RETRY%" + "g" * 249, "a\n", "\0"])
def test_names_that_rocketmq_refuses_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreConfigError):
        validate_topic(name)
    with pytest.raises(StoreConfigError):
        validate_group(name)
    with pytest.raises(StoreConfigError):
        TopicsFile(tmp_path).set_queue_nums(name, 1)
    with pytest.raises(StoreConfigError):
        ConsumerOffsetsFile(tmp_path).commit("g", name, {0: 1})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["t", "t" * 127, "%RETRY%" + "g" * 248, "%DLQ%g", "a|b-c_D9%"])
def test_names_that_rocketmq_accepts_are_accepted(name: str) -> None:
    assert validate_topic(name) == name


def test_values_outside_their_range_are_refused(tmp_path: Path) -> None:
    files = ConfigFiles(tmp_path)
    for config in (TopicConfig("t", write_queue_nums=-1), TopicConfig("t", read_queue_nums=1 << 20)):
        with pytest.raises(StoreConfigError, match="QueueNums"):
            files.topics.put(config)
    with pytest.raises(StoreConfigError, match="perm"):
        files.topics.put(TopicConfig("t", perm=16))
    with pytest.raises(StoreConfigError):
        files.consumer_offsets.commit("g", "t", {0: -1})
    with pytest.raises(StoreConfigError):
        files.delay_offsets.commit({0: 1})
    with pytest.raises(StoreConfigError):
        validate_group("g" * 121)


def test_system_topics_are_recognised_by_name() -> None:
    assert is_system_topic("SCHEDULE_TOPIC_XXXX")
    assert is_system_topic("rmq_sys_wheel_timer")
    assert not is_system_topic("orders")
    assert not is_system_topic("%RETRY%g")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":{0:1,1:2}}', {"a": {"0": 1, "1": 2}}),
        ("{ -1 : 5}", {"-1": 5}),
        ("{bare:1,$x_9:2}", {"bare": 1, "$x_9": 2}),
        ('{"{0:1,1:2}":{0:"{3:4}"}}', {"{0:1,1:2}": {"0": "{3:4}"}}),
        ('{"a\\"{0:":{0:1}}', {'a"{0:': {"0": 1}}),
        ('{"a":[{0:1},{2:3}]}', {"a": [{"0": 1}, {"2": 3}]}),
        ("{0:true,1:null}", {"0": True, "1": None}),
    ],
)
def test_fastjson_dialect_is_parsed(text: str, value: dict[str, Any]) -> None:
    assert parse_json_object(text) == value


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=some(100))
@given(st.dictionaries(st.text(), _JSON, max_size=4))
def test_what_is_written_is_read_back(document: dict[str, Any]) -> None:
    assert parse_json_object(format_json(document).decode()) == document


@settings(max_examples=some(100))
@given(st.text(alphabet="{}[]\":,0123456789-ab\\ \n\t'", max_size=60) | st.text(max_size=60))
def test_any_text_is_an_object_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse_json_object(text), dict)


_OFFSETS = st.dictionaries(st.integers(0, 1000), st.integers(0, (1 << 63) - 1), min_size=1, max_size=4)


@settings(max_examples=some(100))
@given(st.dictionaries(st.tuples(st.sampled_from("abc"), st.sampled_from(["g", "h", "g@broadcast"])), _OFFSETS))
def test_offsets_round_trip(
    tmp_path_factory: pytest.TempPathFactory, table: dict[tuple[str, str], dict[int, int]]
) -> None:
    directory = tmp_path_factory.mktemp("config")
    ConsumerOffsetsFile(directory, CLOCK).commit_all(table)
    assert ConsumerOffsetsFile(directory).table() == table


LMQ_CONSUMER_OFFSETS = """{
	"dataVersion":{
		"counter":1,
		"stateVersion":0,
		"timestamp":1700000000000
	},
	"groupTopicMap":{
		"g":["orders"]
	},
	"lmqOffsetTable":{
		"%LMQ%a@%LMQ%g":5
	},
	"offsetTable":{
		"orders@g":{0:3
		}
	}
}"""
"""Written by a 5.3.3 broker with enableLmq (without its dataVersion)."""


def test_positions_in_lmqs_are_written_as_a_broker_writes_them(tmp_path: Path) -> None:
    file = LmqConsumerOffsetsFile(tmp_path, CLOCK)
    table = {("orders", "g"): {0: 3}, ("%LMQ%a", "%LMQ%g"): {0: 5}}
    file.commit_all(table)
    brokers = parse_json_object(LMQ_CONSUMER_OFFSETS)
    assert json.loads(file.path.read_text()) == brokers
    assert list(json.loads(file.path.read_text())) == list(brokers)
    file.path.write_text(LMQ_CONSUMER_OFFSETS)
    assert LmqConsumerOffsetsFile(tmp_path).table() == file.table() == table
    file.remove_topic("%LMQ%a")
    assert json.loads(file.path.read_text())["lmqOffsetTable"] == {}


@pytest.mark.parametrize("table", ["[]", '{"nothing":1}', '{"t@g":-1}', '{"t@g":{"0":1}}', '{"t@g":"x"}'])
def test_invalid_positions_in_lmqs_are_refused(tmp_path: Path, table: str) -> None:
    (tmp_path / "lmqConsumerOffset.json").write_text(f'{{"lmqOffsetTable":{table}}}')
    with pytest.raises(ConfigFileError):
        LmqConsumerOffsetsFile(tmp_path).table()


def test_positions_of_a_broker_with_lmqs_are_moved_back(tmp_path: Path) -> None:
    """C2, for the file such a broker keeps in place of consumerOffset.json; unknown LMQs are unchanged."""
    path = tmp_path / "s"
    config = StoreConfig(enable_lmq=True, enable_multi_dispatch=True)
    with MessageStore.open(path, config) as store:
        for _ in range(4):
            properties = {"INNER_MULTI_DISPATCH": "%LMQ%a"}
            store.put_message(Message("orders", b"x", queue_id=0, properties=properties))
        names = {("orders", "g"), ("%LMQ%a", "%LMQ%g"), ("%LMQ%a", "g"), ("%LMQ%unknown", "%LMQ%g")}
        store.config_files.lmq_consumer_offsets.commit_all({name: {0: 99} for name in names})
    beyond = [one for one in verify_store(path).findings if one.kind == "offset"]
    assert sorted(one.detail.split(" is at")[0] for one in beyond) == [
        "%LMQ%a@%LMQ%g queue 0",
        "%LMQ%a@g queue 0",
        "orders@g queue 0",
    ]
    assert {Path(one.file).name for one in beyond} == {"lmqConsumerOffset.json"}
    with MessageStore.open(path, config) as store:
        moved = {name: {0: 4} for name in names} | {("%LMQ%unknown", "%LMQ%g"): {0: 99}}
        assert store.config_files.lmq_consumer_offsets.table() == moved
    assert [one for one in verify_store(path).findings if one.kind == "offset"] == []


def test_committed_delay_offsets_are_merged_with_stored_ones(tmp_path: Path) -> None:
    (tmp_path / "delayOffset.json").write_text('{"offsetTable":{1:43,2:40\n\t}\n}')
    file = DelayOffsetsFile(tmp_path, CLOCK)
    file.commit({2: 41, 3: 1})
    assert DelayOffsetsFile(tmp_path).offsets() == {1: 43, 2: 41, 3: 1}
    assert file.get(9) is None


@pytest.mark.parametrize("name", ["a@g.1", "a@my group", "a@", "%LMQ%x/y@g", "a@g@broadcast"])
def test_a_position_after_the_end_is_moved_back_for_any_name(tmp_path: Path, name: str) -> None:
    """RocketMQ stores any name it is given: no name in the file may keep the store from opening."""
    path = tmp_path / "s"
    with MessageStore.open(path) as store:
        store.put_message(Message("a", b"x", queue_id=0))
    file = path / "config" / "consumerOffset.json"
    file.write_text(json.dumps({"offsetTable": {name: {"0": 5}}}))
    with MessageStore.open(path) as store:
        assert store.put_message(Message("a", b"x", queue_id=0)).queue_offset == 1
    expected = 5 if name.startswith("%LMQ%") else 1
    assert json.loads(file.read_text())["offsetTable"] == {name: {"0": expected}}
