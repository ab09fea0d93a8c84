from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow_store.model.errors import StoreAccessError, StoreConfigError
from rocketflow_store.model.status import FlushDiskType
from rocketflow_store.settings.broker_conf import (
    KNOWN_KEYS,
    environment_settings,
    load_broker_conf,
    parse_broker_conf,
    parse_properties,
)
from rocketflow_store.settings.store_config import StoreConfig


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
    assert parse_broker_conf(text) == {
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
        parse_broker_conf(text)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=80))
def test_any_text_gives_entries_or_a_typed_error(text: str) -> None:
    try:
        entries = parse_properties(text)
    except StoreConfigError:
        return
    assert all(isinstance(key, str) and isinstance(value, str) for _, key, value in entries)


def test_environment_counts_only_known_keys() -> None:
    found = environment_settings({"ROCKETFLOW_maxIndexNum": "7", "ROCKETFLOW_HOME": "/x", "maxIndexNum": "8"})
    assert found == {"maxIndexNum": 7}


def test_store_config_takes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("mappedFileSizeCommitLog=65536\nflushDiskType=SYNC_FLUSH\nbrokerIP1=10.0.0.1\n")
    assert load_broker_conf(file)["brokerIP1"] == "10.0.0.1"
    config = StoreConfig.from_broker_conf(file)
    assert config.mapped_file_size_commit_log == 65536
    assert config.flush_disk_type is FlushDiskType.SYNC_FLUSH
    with pytest.raises(StoreAccessError, match=r"missing\.conf"):
        load_broker_conf(tmp_path / "missing.conf")


def test_every_known_key_has_one_type() -> None:
    from rocketflow_store.settings import broker_conf_keys as keys

    kinds = [keys.BOOLEAN_KEYS, keys.INT_KEYS, keys.LONG_KEYS, keys.FLOAT_KEYS, keys.TEXT_KEYS, set(keys.CHOICE_KEYS)]
    assert sum(len(kind) for kind in kinds) == len(KNOWN_KEYS) > 400


def test_every_field_has_a_row_in_the_table_of_settings_whose_default_has_the_type_of_its_key() -> None:
    from dataclasses import fields

    from rocketflow_store.settings import broker_conf_keys as keys
    from rocketflow_store.settings.settings_table import BY_KEY, OWN_PREFIX, SETTINGS, Effect

    assert [one.field for one in SETTINGS] == [
        one.name for one in fields(StoreConfig) if one.name not in ("clock", "without_effect")
    ]
    assert len(BY_KEY) == len(SETTINGS)
    numbers = keys.INT_KEYS | keys.LONG_KEYS
    for one in SETTINGS:
        one.check(one.default)
        if one.since is not None and one.default is not None:
            is_number = isinstance(one.default, int) and not isinstance(one.default, bool)
            assert (one.key in keys.BOOLEAN_KEYS, one.key in numbers) == (isinstance(one.default, bool), is_number)
        assert one.since is None or not one.key.startswith(OWN_PREFIX)
        assert one.effect is not Effect.FILES or one.bounds is not None, "sizes of files have bounds"


def test_every_setting_can_be_given_in_a_file_but_the_address_that_others_make_up() -> None:
    from rocketflow_store.settings.broker_conf import OWN_KEYS
    from rocketflow_store.settings.settings_table import BY_KEY

    assert set(BY_KEY) - KNOWN_KEYS - OWN_KEYS == {"storeHost"}
    config = StoreConfig.from_mapping(parse_broker_conf("checkCRCOnRecover=false"))
    assert (config.check_crc_on_recover, config.without_effect) == (False, ())
