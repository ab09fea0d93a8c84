"""Settings that are changed while a server runs: what is refused, what is written, and what a text then says."""

from __future__ import annotations

import logging
import random
import stat
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.server import RefusedError
from rocketflow.broker.settings import BrokerSettings, load_broker_settings
from rocketflow.errors import UsageError
from rocketflow.namesrv.settings import NamesrvSettings, load_namesrv_settings
from rocketflow.process.live_settings import LiveSettings
from rocketflow.process.properties import with_value
from rocketflow.process.server_settings import ADMIN_KEYS
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store.spi.settings import parse_properties
from tests.support.trials import LEVEL


def change(settings: BrokerSettings | NamesrvSettings, body: bytes, file: Path | None = None) -> int:
    """Return 0 if the settings were changed as a body says, else the code of the refusal."""

    async def main() -> int:
        try:
            await LiveSettings(settings, file).change(body, "127.0.0.1:1")
        except RefusedError as error:
            return error.code
        return 0

    return run(main())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "brokerPermission=4\n"),
        ("# mine\nbrokerName=a\n", "# mine\nbrokerName=a\nbrokerPermission=4\n"),
        ("brokerName=a", "brokerName=a\nbrokerPermission=4\n"),
        ("brokerName=a\r\nx=1", "brokerName=a\r\nx=1\r\nbrokerPermission=4\r\n"),
        ("a=1\n  brokerPermission : 6\n# b\n", "a=1\nbrokerPermission=4\n# b\n"),
        ("brokerPermission=\\\n  6\nb=2\n", "brokerPermission=4\nb=2\n"),
        ("brokerPermission=2\nbrokerPermission=6\n", "brokerPermission=2\nbrokerPermission=4\n"),
        (
            "#brokerPermission=6\nbrokerPermissions=6\n",
            "#brokerPermission=6\nbrokerPermissions=6\nbrokerPermission=4\n",
        ),
        ("a=x\\", "a=x\\\n\nbrokerPermission=4\n"),
    ],
)
def test_one_entry_of_a_properties_text_is_replaced(before: str, after: str) -> None:
    assert with_value(before, "brokerPermission", 4) == after


def test_all_other_entries_of_a_text_stay() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chosen = random.Random(seed)
    parts = [*"a=: \\\n\r#!1\x0bé", "key", "\\\n", "\r\n", "\\u0041", "key=2\n"]
    for _ in range(300 if LEVEL == "sample" else 20_000):
        text = "".join(chosen.choices(parts, k=chosen.randrange(25)))
        wanted = [(key, value) for _, key, value in parse_properties(text)]
        at = max((place for place, (key, _) in enumerate(wanted) if key == "key"), default=len(wanted))
        wanted[at : at + 1] = [("key", "true")]
        changed = with_value(text, "key", True)
        assert [(key, value) for _, key, value in parse_properties(changed)] == wanted, (text, changed)


def test_only_listed_keys_are_changed_and_all_or_none(caplog: pytest.LogCaptureFixture) -> None:
    listed = "brokerPermission, longPollingEnable"
    settings = BrokerSettings(admin_config_keys=listed)
    with caplog.at_level(logging.WARNING):
        assert change(settings, b"brokerPermission=4\nlongPollingEnable=false\n") == 0
    assert (settings.broker_permission, settings.long_polling_enable) == (4, False)
    assert "brokerPermission=4: changed over the network by 127.0.0.1:1, until the server stops" in caplog.text
    for body, code in (
        (b"brokerPermission=6\nbrokerName=x", ResponseCode.NO_PERMISSION),
        (b"longPollingEnable=true\nbrokerPermission=9", ResponseCode.INVALID_PARAMETER),
        (b"brokerPermission=4x", ResponseCode.INVALID_PARAMETER),
        (b"longPollingEnable=yes", ResponseCode.INVALID_PARAMETER),
        (b"longPollingEnable=", ResponseCode.INVALID_PARAMETER),
        (b"brokerPermission=\\u00", ResponseCode.INVALID_PARAMETER),
        (b"shortPollingTimeMills=1", ResponseCode.NO_PERMISSION),
        (f"{ADMIN_KEYS}=brokerName".encode(), ResponseCode.NO_PERMISSION),
        (b"\xff\xfe=1", ResponseCode.NO_PERMISSION),
    ):
        assert change(settings, body) == code, body
    assert settings == BrokerSettings(admin_config_keys=listed, broker_permission=4, long_polling_enable=False)
    assert change(BrokerSettings(), b"") == ResponseCode.NO_PERMISSION, "by default nothing is changed"


def refusal(settings: BrokerSettings | NamesrvSettings, body: bytes) -> str:
    """Return why a change is refused."""
    with pytest.raises(RefusedError) as error:
        run(LiveSettings(settings, None).change(body, "127.0.0.1:1"))
    return error.value.remark


def test_a_refusal_says_what_to_do() -> None:
    settings = BrokerSettings(admin_config_keys="brokerPermission")
    assert "did you mean brokerPermission?" in refusal(settings, b"brokerPermision=4")
    assert f"list the key in {ADMIN_KEYS}" in refusal(settings, b"longPollingEnable=false")
    assert "read at the start only" in refusal(settings, b"fileReservedTime=48")
    assert "brokerPermission" in refusal(settings, b"brokerPermission=9")
    assert "start it again" in refusal(BrokerSettings(), b"brokerPermission=4")


def test_a_change_is_written_before_it_counts(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_bytes(f"# caf\xe9\nbrokerPermission=6\n{ADMIN_KEYS}=brokerPermission\n".encode("latin-1"))
    file.chmod(0o600)
    link = tmp_path / "link.conf"
    link.symlink_to(file)
    settings = load_broker_settings(link, {}, {})[0]
    assert change(settings, b"brokerPermission=4", link) == 0
    assert file.read_bytes() == f"# caf\xe9\nbrokerPermission=4\n{ADMIN_KEYS}=brokerPermission\n".encode("latin-1")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert link.is_symlink()
    assert load_broker_settings(link, {}, {})[0] == settings
    file.unlink()
    assert change(settings, b"brokerPermission=2", link) == ResponseCode.SYSTEM_ERROR
    assert settings.broker_permission == 4, "what cannot be kept does not count"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link.conf"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("brokerPermision", "unknown key brokerPermision: did you mean brokerPermission?"),
        ("brokerPermission,storePathRootDir", "storePathRootDir is read at the start only"),
        ("fileReservedTime", "fileReservedTime is read at the start only"),
        (ADMIN_KEYS, f"{ADMIN_KEYS} is read at the start only"),
        ("bindAddress", "the keys that may be listed are allowRecallWhenBrokerNotWriteable, "),
    ],
)
def test_a_broker_does_not_start_with_keys_that_cannot_be_listed(keys: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_broker_settings(None, {ADMIN_KEYS: keys}, {})


def test_a_name_server_has_its_own_keys() -> None:
    settings = load_namesrv_settings(None, {ADMIN_KEYS: "orderMessageEnable,waitSecondsForService"})
    assert change(settings, b"orderMessageEnable=true\nwaitSecondsForService=3") == 0
    assert (settings.order_message_enable, settings.wait_seconds_for_service) == (True, 3)
    assert change(settings, b"listenPort=1") == ResponseCode.NO_PERMISSION
    for key in ("listenPort", "clusterTest", "brokerPermission"):
        with pytest.raises(UsageError, match=ADMIN_KEYS):
            load_namesrv_settings(None, {ADMIN_KEYS: key})


@pytest.mark.parametrize("kind", [BrokerSettings, NamesrvSettings])
def test_keys_that_may_be_listed_are_numbers_and_booleans(kind: type[BrokerSettings] | type[NamesrvSettings]) -> None:
    settings = kind()
    values = {key: settings.shown()[key] for key in settings.live_keys}
    assert {key for key, value in values.items() if not isinstance(value, bool | int)} == set()
    assert all(settings.value_of(key, str(value).lower()) == value for key, value in values.items())
