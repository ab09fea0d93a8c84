from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store.model.errors import StoreAccessError, StoreConfigError
from rocketflow_store.model.status import FlushDiskType
from rocketflow_store.settings.broker_conf import STORE_TABLE, parse_properties
from rocketflow_store.settings.loader import load_settings
from rocketflow_store.settings.store_config import StoreConfig


def parsed(text: str) -> dict[str, Any]:
    """Return the values of a properties text by key."""
    entries = ((key, value, f"line {number}") for number, key, value in parse_properties(text))
    return STORE_TABLE.typed_values(entries)


def test_values_are_typed() -> None:
    text = """
    # storage
    mappedFileSizeCommitLog=1048576
    flushDiskType = SYNC_FLUSH
    messageIndexEnable:false
    transactionTimeOut 3000
    brokerName=broker-b\\
        -east
    ! rocketflow's own
    rocketflow.storeId=x=y
    """
    assert parsed(text) == {
        "mappedFileSizeCommitLog": 1048576,
        "flushDiskType": FlushDiskType.SYNC_FLUSH,
        "messageIndexEnable": False,
        "transactionTimeOut": 3000,
        "brokerName": "broker-b-east",
        "rocketflow.storeId": "x=y",
    }


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1", [("a", "1")]),
        ("a = 1 ", [("a", "1 ")]),
        ("a : 1", [("a", "1")]),
        ("a 1", [("a", "1")]),
        ("a", [("a", "")]),
        ("a==1", [("a", "=1")]),
        (r"a\ b=1", [("a b", "1")]),
        (r"a\=b=1", [("a=b", "1")]),
        ("a=x\\\\\nb=y", [("a", "x\\"), ("b", "y")]),
        ("a=x\\\n   y", [("a", "xy")]),
        ("a=\\u00e9\\t\\q", [("a", "é\tq")]),
        ("a=x\\", [("a", "x")]),
        ("a=${user.home}/store", [("a", "${user.home}/store")]),
        ("#a=1\n!b=2\n\n", []),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
    ],
)
def test_reads_what_java_reads(text: str, entries: list[tuple[str, str]]) -> None:
    assert [(key, value) for _, key, value in parse_properties(text)] == entries


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("flushDiskTyp=SYNC_FLUSH", "flushDiskType"),
        ("mappedfilesizecommitlog=1", "mappedFileSizeCommitLog"),
        ("\n\nnonsense!!=1", "line 3"),
        ("messageIndexEnable=yes", "true or false"),
        ("maxIndexNum=1_000", "integer"),
        ("maxIndexNum=99999999999", "32 bits"),
        ("flushDiskType=SYNC", "ASYNC_FLUSH, SYNC_FLUSH"),
        ("brokerName=\\u12", "four hexadecimal"),
    ],
)
def test_errors_say_what_is_allowed(text: str, hint: str) -> None:
    with pytest.raises(StoreConfigError, match=hint):
        parsed(text)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_any_text_gives_entries_or_a_typed_error(text: str) -> None:
    try:
        entries = parse_properties(text)
    except StoreConfigError:
        return
    assert all(isinstance(key, str) and isinstance(value, str) for _, key, value in entries)


def test_environment_counts_only_known_keys() -> None:
    found = load_settings(None, {"ROCKETFLOW_maxIndexNum": "7", "ROCKETFLOW_HOME": "/x", "maxIndexNum": "8"})
    assert found == {"maxIndexNum": 7}


def test_store_config_takes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("mappedFileSizeCommitLog=65536\nflushDiskType=SYNC_FLUSH\nbrokerIP1=10.0.0.1\n")
    assert load_settings(file, {})["brokerIP1"] == "10.0.0.1"
    config = StoreConfig.from_broker_conf(file)
    assert config.mapped_file_size_commit_log == 65536
    assert config.flush_disk_type is FlushDiskType.SYNC_FLUSH
    with pytest.raises(StoreAccessError, match=r"missing\.conf"):
        load_settings(tmp_path / "missing.conf", {})


def test_every_field_has_a_row_in_the_table_of_settings_whose_default_has_the_kind_of_its_key() -> None:
    from dataclasses import fields

    from rocketflow_store.model.setting import OWN_PREFIX, Effect, Kind
    from rocketflow_store.settings.broker_conf_keys import OTHER_KEYS
    from rocketflow_store.settings.settings_table import BY_KEY, SETTINGS

    assert [one.field for one in SETTINGS] == [
        one.name for one in fields(StoreConfig) if one.name not in ("clock", "without_effect")
    ]
    others = [one.key for one in OTHER_KEYS]
    assert len(BY_KEY) == len(SETTINGS)
    assert len({*BY_KEY, *others}) == len(SETTINGS) + len(others) > 400
    for one in SETTINGS:
        one.check(one.default)
        assert one.about
        if one.default is not None:
            is_number = isinstance(one.default, int) and not isinstance(one.default, bool)
            assert (one.kind is Kind.FLAG, one.kind in (Kind.INT, Kind.LONG)) == (type(one.default) is bool, is_number)
        assert one.since is None or not one.key.startswith(OWN_PREFIX)
        assert one.effect is not Effect.FILES or one.bounds is not None, "sizes of files have bounds"


def test_every_setting_can_be_given_in_a_file_but_the_address_that_others_make_up() -> None:
    from rocketflow_store.settings.settings_table import BY_KEY

    assert set(BY_KEY) - set(STORE_TABLE) == {"storeHost"}
    config = StoreConfig.from_mapping(parsed("checkCRCOnRecover=false"))
    assert (config.check_crc_on_recover, config.without_effect) == (False, ())
