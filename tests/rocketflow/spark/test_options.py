"""Every option: the values that it accepts, and the errors of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketflow.environment import TLS, tls_variable
from rocketflow.process.tag_hints import likely_tags
from rocketflow.spark.shared.network_options import Network
from rocketflow.spark.shared.option_values import OptionError, OptionValues
from rocketflow.spark.shared.store_locations import StoreLocation
from rocketflow.spark.shared.tls_options import ClientTls
from rocketflow.spark.source.source_options import PositionKind, SourceOptions
from rocketflow_store.spi.setting_rows import Kind, Setting
from tests.support.certificates import Authority

BASE = {"path": "/data/a", "subscribe": "orders"}
TWO = {"path": "a=/data/a,b=/data/b", "subscribe": "orders"}


def parse(streaming: bool = True, base: dict[str, str] | None = None, **options: str) -> SourceOptions:
    return SourceOptions.parse({**(BASE if base is None else base), **options}, streaming=streaming)


def test_defaults_of_the_source_options() -> None:
    options = parse()
    assert options.stores == (StoreLocation("", "/data/a"),)
    assert options.topics.topics == ("orders",)
    assert options.starting.kind is PositionKind.LATEST
    assert parse(streaming=False).starting.kind is PositionKind.EARLIEST
    assert options.ending.kind is PositionKind.LATEST
    assert options.max_trigger_delay_ms == 900_000
    assert options.fail_on_data_loss
    assert not options.include_properties
    assert not options.include_system_topics
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (None, None)
    assert (options.max_bytes_per_trigger, options.min_partitions) == (None, None)
    assert (options.max_records_per_partition, options.consumer_group) == (None, None)
    assert (options.tags, options.sql) == (None, None)


def test_names_are_case_insensitive_and_sparks_own_options_pass() -> None:
    options = parse(STARTINGOFFSETS="Earliest", MaxOffsetsPerTrigger="10", checkpointLocation="/c", queryName="q")
    assert options.starting.kind is PositionKind.EARLIEST
    assert options.max_offsets_per_trigger == 10


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("subcribe", "subscribe"), ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"), ("tag", "tags"), ("fail", "Data")],
)
def test_an_unknown_option_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{name}'.*{nearest}") as caught:
        parse(**{name: "1"})
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("maxOffsetsPerTrigger", "0", "whole number of at least 1"),
        ("maxOffsetsPerTrigger", "1e3", "whole number"),
        ("minOffsetsPerTrigger", "-5", "whole number"),
        ("maxTriggerDelay", "soon", "duration"),
        ("maxBytesPerTrigger", "0", "bytes"),
        ("maxBytesPerTrigger", "10 parsecs", "bytes"),
        ("minPartitions", "two", "whole number"),
        ("maxRecordsPerPartition", "", "whole number"),
        ("failOnDataLoss", "maybe", "true or false"),
        ("includeProperties", "1", "true or false"),
        ("includeSystemTopics", "yes", "true or false"),
        ("startingOffsets", "beginning", "earliest, latest, or JSON"),
        ("startingOffsets", '{"orders": {"0": -3}}', "earliest, latest, or JSON"),
        ("startingOffsets", '{"orders": {"zero": 1}}', "earliest, latest, or JSON"),
        ("startingOffsets", '{"orders": {"0": 1, "0": 2}}', "earliest, latest, or JSON"),
        ("startingOffsets", "{}", "earliest, latest, or JSON"),
        ("startingTimestamp", "yesterday", "ISO 8601"),
        ("startingOffsetsByTimestamp", "17", "JSON"),
        ("startingOffsetsByTimestampStrategy", "nearest", "error or latest"),
        ("subscribe", ",", "topic names"),
        ("subscribe", "../x", "no topic name"),
        ("subscribe", "x" * 128, "1 to 127"),
        ("consumerGroup", "a b", "letters"),
        ("path", "s3://bucket/x", "local file system"),
        ("path", "a=/x,a=/y", "different name"),
        ("path", "a=/x,b=/x", "different directory"),
    ],
)
def test_error_of_a_wrong_value_names_option_value_and_allowed_values(option: str, value: str, allowed: str) -> None:
    with pytest.raises(OptionError, match=allowed) as caught:
        parse(**{option: value})
    assert option in str(caught.value)
    assert repr(value) in str(caught.value) or value[1:6] in str(caught.value)
    assert caught.value.option == option


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("web,shop", "web || shop"),
        ("web, shop ,app", "web || shop || app"),
        ("web|shop", "web || shop"),
        ("web || shop;app", "web || shop || app"),
        ("web OR shop", "web || shop"),
        ("'web' || \"shop\"", "web || shop"),
        ("web || shop", None),
        ("web", None),
        ("orders", None),
        ("band or", None),
        ("||web||", None),
        ("a b", None),
        ("*", None),
        (" ", None),
    ],
)
def test_tags_that_are_joined_otherwise_are_refused_with_what_was_meant(given: str, meant: str | None) -> None:
    assert likely_tags(given) == meant
    if meant is not None:
        with pytest.raises(OptionError, match="did you mean") as caught:
            parse(tags=given)
        assert repr(meant) in str(caught.value)
        assert caught.value.option == "tags"


def test_group_of_a_batch_read_is_refused() -> None:
    given = {"path": "/x", "subscribe": "a", "consumerGroup": "g"}
    assert SourceOptions.parse(given, streaming=True).consumer_group == "g"
    with pytest.raises(OptionError, match=r"consumerGroup='g': a batch read neither .* availableNow"):
        SourceOptions.parse(given, streaming=False)


def test_topics_are_chosen_in_exactly_one_way() -> None:
    with pytest.raises(OptionError, match="none is given"):
        SourceOptions.parse({"path": "/x"}, streaming=True)
    with pytest.raises(OptionError, match="subscribe and assign are given"):
        parse(assign='{"orders": [0]}')
    with pytest.raises(OptionError, match=r"subscribePattern.*regular expression"):
        parse(base={"path": "/x"}, subscribePattern="(")
    for wrong in ('{"orders": 0}', '{"orders": []}', "orders", '{"orders": [-1]}', "{}"):
        with pytest.raises(OptionError, match="assign"):
            parse(base={"path": "/x"}, assign=wrong)
    assert parse(base={"path": "/x"}, assign='{"b": [2, 0, 2], "a": [1]}').topics.queues == (("a", (1,)), ("b", (0, 2)))


def test_path_or_namesrv_addr_is_required() -> None:
    with pytest.raises(OptionError, match="path is missing"):
        SourceOptions.parse({"subscribe": "a"}, streaming=True)
    for wrong in ("h", "h:port", ";", "h:1 g:2"):
        with pytest.raises(OptionError, match=r"namesrvAddr.*host:port"):
            SourceOptions.parse({"namesrvAddr": wrong, "subscribe": "a"}, streaming=True)
    with pytest.raises(OptionError, match="exclude"):
        parse(namesrvAddr="h:9876")


def network(**options: str) -> Network:
    found = parse(base={"namesrvAddr": "h:9876, [::1]:9876", "subscribe": "a"}, **options).network
    assert found is not None
    return found


def test_credentials_come_from_options_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROCKETFLOW_ACCESS_KEY", raising=False)
    file = tmp_path / "tools.yml"
    file.write_text("# account\naccessKey: rocketmq\nsecretKey: 12345678\n")
    assert network() == Network("h:9876;[::1]:9876")
    by_options = network(accessKey="rocketmq", secretKey="12345678", networkTimeout="5s")
    assert by_options == Network("h:9876;[::1]:9876", 5000, "rocketmq", "12345678")
    assert "12345678" not in repr(by_options)
    assert network(credentialsFile=str(file)).secret_key == "12345678"
    monkeypatch.setenv("ROCKETFLOW_ACCESS_KEY", "mine")
    monkeypatch.setenv("ROCKETFLOW_SECRET_KEY", "other")
    assert (network().access_key, network().secret_key) == ("mine", "other")
    assert network(credentialsFile=str(file)).access_key == "rocketmq"
    with pytest.raises(OptionError, match="secretKey is missing"):
        network(accessKey="a")
    with pytest.raises(OptionError, match="excludes"):
        network(accessKey="a", secretKey="b", credentialsFile=str(file))
    file.write_text("accessKey: a\n")
    with pytest.raises(OptionError, match="needs the lines"):
        network(credentialsFile=str(file))
    with pytest.raises(OptionError, match="not by path"):
        parse(accessKey="a", secretKey="b")


def test_tls_comes_from_options_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ca = Authority(tmp_path)
    cert, key = ca.issue("query", password="hidden")
    paths = {"tls.client.certPath": str(cert), "tls.client.keyPath": str(key), "tls.client.trustCertPath": str(ca.path)}
    given = {**paths, "tls.client.keyPassword": "hidden"}
    assert network().tls is None
    found = network(**given)
    expected = ClientTls(str(cert), str(key), "hidden", str(ca.path))
    assert found.tls == expected
    assert "hidden" not in repr(found)
    file = tmp_path / "tls.properties"
    file.write_text("# of a client\ntls.server.keyPath=\n" + "".join(f"{one}={text}\n" for one, text in given.items()))
    assert network(**{"tls.config.file": str(file)}).tls == expected
    assert network(**{"tls.config.file": str(file), "tls.enable": "false"}).tls is None
    for one, text in given.items():
        monkeypatch.setenv(TLS[one].key, text)
    assert tls_variable("tls.client.trustCertPath") == "ROCKETFLOW_TLS_CLIENT_TRUST_CERT_PATH"
    assert network().tls == expected
    assert network(**{"tls.enable": "true", "tls.client.authServer": "false"}).tls == ClientTls(verify=False)
    for options, message in (
        ({"tls.client.certPath": str(cert)}, r"option tls\.client\.keyPath is missing"),
        ({"tls.client.trustCertPath": "/nowhere"}, r"option tls\.client\.trustCertPath=/nowhere cannot be read"),
        ({"tls.client.authServer": "maybe"}, r"option tls\.client\.authServer='maybe': allowed is true or false"),
        ({"tls.config.file": str(file), **paths}, r"option tls\.config\.file excludes .*tls\.client\.certPath"),
        ({"tls.config.file": "/nowhere"}, r"option tls\.config\.file=/nowhere cannot be read"),
    ):
        with pytest.raises(OptionError, match=message):
            network(**options)
    with pytest.raises(OptionError, match="not by path"):
        parse(**paths)


def test_offsets_of_several_stores_need_the_store_name(tmp_path: Path) -> None:
    options = parse(base=TWO, startingOffsets='{"a/orders": {"0": 3}, "b/orders": {"1": -2}}')
    assert [store.name for store in options.stores] == ["a", "b"]
    assert options.starting.by_topic() == {"a/orders": {0: 3}, "b/orders": {1: -2}}
    with pytest.raises(OptionError, match="store/topic instead of 'orders'"):
        parse(base=TWO, startingOffsets='{"orders": {"0": 3}}')
    with pytest.raises(OptionError, match="names store 'c'; known: a, b"):
        parse(base=TWO, startingOffsets='{"c/orders": {"0": 3}}')
    odd = tmp_path / "dt=1,x=2"
    odd.mkdir()
    assert parse(base={"path": str(odd), "subscribe": "t"}).stores == (StoreLocation("", str(odd)),)
    assert parse(base={"path": "file:///data/a%20b", "subscribe": "t"}).stores[0].path == "/data/a b"


def test_precedence_of_starts_and_ends() -> None:
    numbers = '{"orders": {"0": 5}}'
    both = parse(startingOffsets=numbers, startingOffsetsByTimestamp=numbers)
    assert both.starting.kind is PositionKind.TIMESTAMPS
    every = parse(startingOffsets=numbers, startingOffsetsByTimestamp=numbers, startingTimestamp="9")
    assert (every.starting.kind, every.starting.timestamp_ms) == (PositionKind.TIMESTAMP, 9)
    batch = parse(streaming=False, endingOffsets=numbers, endingOffsetsByTimestamp=numbers, endingTimestamp="9")
    assert batch.ending.kind is PositionKind.TIMESTAMP
    assert parse(startingTimestamp="1", startingOffsetsByTimestampStrategy="LATEST").starting.latest_if_unmatched


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(option: str) -> None:
    with pytest.raises(OptionError, match=f"{option}.*a stream has no end"):
        parse(**{option: "latest"})


def test_a_batch_neither_starts_at_the_end_nor_ends_at_the_start() -> None:
    for wrong in ({"startingOffsets": "latest"}, {"startingOffsets": '{"orders": {"0": -1}}'}):
        with pytest.raises(OptionError, match="batch read"):
            parse(streaming=False, **wrong)
    for wrong in ({"endingOffsets": "earliest"}, {"endingOffsets": '{"orders": {"0": -2}}'}):
        with pytest.raises(OptionError, match="endingOffsets"):
            parse(streaming=False, **wrong)


def test_filters_are_parsed_at_once() -> None:
    with pytest.raises(OptionError, match=r"option tags='\|\|': .* names no tag"):
        parse(tags="||")
    with pytest.raises(OptionError, match=r"option sql='a >': .* position 3"):
        parse(sql="a >")
    assert parse(sql="a > 1 AND b IS NOT NULL").sql == "a > 1 AND b IS NOT NULL"


@pytest.mark.parametrize("path", ["127.0.0.1:9876", "a-b:9876;[c]:10911"])
def test_path_that_is_an_address_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="give namesrvAddr"):
        parse(path=path)
    (tmp_path / path).mkdir()
    assert parse(path=path).stores[0].path == str(tmp_path / path)


def test_minimum_above_maximum_is_refused() -> None:
    with pytest.raises(OptionError, match="at most maxOffsetsPerTrigger=5"):
        parse(minOffsetsPerTrigger="6", maxOffsetsPerTrigger="5")


@pytest.mark.parametrize(
    ("text", "expected"), [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("2 h", 7_200_000), ("70", 70)]
)
def test_duration_is_converted_to_ms(text: str, expected: int) -> None:
    assert OptionValues({"d": text}, [Setting("D", kind=Kind.DURATION)]).value("D") == expected


@pytest.mark.parametrize(("text", "expected"), [("1", 1), ("64k", 65536), ("10MB", 10 << 20), ("1g", 1 << 30)])
def test_size_is_converted_to_bytes(text: str, expected: int) -> None:
    assert OptionValues({"s": text}, [Setting("S", kind=Kind.SIZE)]).value("S") == expected
