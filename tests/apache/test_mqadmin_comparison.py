"""The comparison of what mqadmin prints: a key that vanishes or changes is a difference, whichever side lacks it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.apache.mqadmin import Place, compared, entries, lines_of
from tests.apache.mqadmin_differences import differences

STATUS = {"putTps": "1.0 2.0 3.0", "sendThreadPoolQueueSize": "0", "brokerActive": "true", "runtime": "[ 0 days ]"}
BROKER = {"brokerPermission": "6", "listenPort": "10911", "maxMessageSize": "4194304", "brokerName": "broker-a"}
NAMES = {"listenPort": "9876", "orderMessageEnable": "false", "kvConfigPath": "/x/kv.json"}
EXPORTED = {"topicConfigTable": {"made": {"perm": 6, "attributes": {}}}, "clientInfo": [], "exportTime": 1700000000000}


def left(command: str, own: str, apache: str, version: str = "5.3.3") -> tuple[str, ...]:
    """Return the differences between two outputs that nothing explains."""
    place = Place("127.0.0.1:1", "127.0.0.1:2", Path("/x"), version)
    return compared(command, lines_of(own, place), lines_of(apache, place), differences(version)).left


def figures(values: dict[str, str]) -> str:
    return "".join(f"{key:<32}: {value}\n" for key, value in values.items())


def settings(values: dict[str, str]) -> str:
    return "".join(f"{key:<50}=  {value}\n" for key, value in values.items())


@pytest.mark.parametrize("version", ["5.3.3", "4.9.7"])
@pytest.mark.parametrize("key", [*STATUS, *(f"{key}=" for key in BROKER), *(f"{key}==" for key in NAMES)])
def test_a_line_that_vanishes_is_a_difference(key: str, version: str) -> None:
    command, values = {0: ("brokerStatus", STATUS), 1: ("getBrokerConfig", BROKER), 2: ("getNamesrvConfig", NAMES)}[
        key.count("=")
    ]
    key = key.rstrip("=")
    shown = figures if command == "brokerStatus" else settings
    whole = shown(values)
    assert left(command, whole, whole, version) == ()
    lacking = shown({one: value for one, value in values.items() if one != key})
    assert len(left(command, lacking, whole, version)) == (0 if (key, version) == ("brokerActive", "4.9.7") else 1)


def test_values_of_a_run_may_differ_and_others_may_not() -> None:
    assert left("brokerStatus", figures(STATUS), figures({**STATUS, "putTps": "9.0", "runtime": "[ 1 days ]"})) == ()
    assert len(left("brokerStatus", figures(STATUS), figures({**STATUS, "sendThreadPoolQueueSize": "7"}))) == 2
    assert left("getBrokerConfig", settings(BROKER), settings({**BROKER, "listenPort": "1"})) == ()
    assert len(left("getBrokerConfig", settings(BROKER), settings({**BROKER, "brokerPermission": "4"}))) == 2
    assert left("getBrokerConfig", settings(BROKER), settings({**BROKER, "serverSocketBacklog": "1"})) == ()


def test_each_entry_of_an_exported_file_is_compared() -> None:
    found = Counter(entries(EXPORTED))
    assert found == Counter(
        [
            "topicConfigTable.made.perm: 6",
            "topicConfigTable.made.attributes: {}",
            "clientInfo: []",
            "exportTime: 1700000000000",
        ]
    )
    text = "\n".join(found)
    assert left("exportMetadata", text, text.replace("1700000000000", "1700000000001")) == ()
    assert len(left("exportMetadata", text, text.replace("perm: 6", "perm: 4"))) == 2
    assert len(left("exportMetadata", text.replace("clientInfo: []\n", ""), text)) == 1
    assert list(entries(json.loads('{"a": [1, {"b": []}]}'))) == ["a[]: 1", "a[].b: []"]
