"""Wrong settings, ports in use, locked stores and full disks: the exit code and the remedy, or the answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.settings import load_broker_settings
from rocketflow.errors import UsageError
from rocketflow.namesrv.settings import load_namesrv_settings
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store import StoreError
from tests.reliability.network.wire import CODE, asked
from tests.support.ports import free_port
from tests.support.request_headers import pull_header, send_header
from tests.support.servers import no_traceback, running, running_broker
from tests.support.trials import environment

pytestmark = pytest.mark.slow


def started(command: str, home: Path, *arguments: str) -> tuple[int, str]:
    """Return exit code and output of a server that should not start."""
    done = subprocess.run(
        [sys.executable, "-c", "from rocketflow.cli import main; main()", command, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(HOME=str(home)),
        cwd=home,
    )
    return done.returncode, done.stdout + done.stderr


WRONG = {
    "key": ("broker", ["--set", "listenPrt=1"], "listenPort"),
    "own key": ("broker", ["--set", "rocketflow.allowInsecur=true"], "rocketflow.allowInsecure"),
    "no number": ("broker", ["--set", "listenPort=x"], "listenPort"),
    "port too high": ("broker", ["--set", "listenPort=99999"], "listenPort"),
    "port too low": ("broker", ["--set", "listenPort=1"], "listenPort"),
    "no connections": ("broker", ["--set", "rocketflow.maxConnections=0"], "maxConnections"),
    "open address": ("broker", ["--set", "bindAddress=0.0.0.0"], "rocketflow.allowInsecure"),
    "open IPv6 address": ("broker", ["--set", "bindAddress=::"], "rocketflow.allowInsecure"),
    "public address": ("broker", ["--set", "brokerIP1=10.1.2.3"], "rocketflow.allowInsecure"),
    "no address": ("broker", ["--set", "bindAddress=foo"], "bindAddress"),
    "role": ("broker", ["--set", "brokerRole=SLAVE"], "brokerRole"),
    "controller": ("namesrv", ["--set", "enableControllerInNamesrv=true"], "set enableControllerInNamesrv=false"),
    "no file": ("broker", ["-c", "/nowhere/broker.conf"], "broker.conf"),
    "no home of accounts": ("broker", ["--set", "aclEnable=true"], "rocketmqHome"),
    "no accounts": ("broker", ["--set", "aclEnable=true", "--set", "rocketmqHome=/nowhere"], "plain_acl.yml"),
    "NameServer's accounts": ("namesrv", ["--set", "aclEnable=true"], "rocketmqHome"),
    "policies without users": ("broker", ["--set", "authorizationEnabled=true"], "authenticationEnabled=true too"),
    "first user": (
        "broker",
        ["--set", "authenticationEnabled=true", "--set", "initAuthenticationUser={x"],
        '{"username":"...","password":"..."}',
    ),
    "inner client": ("broker", ["--set", "innerClientAuthenticationCredentials={}"], '{"accessKey":"...",'),
    "list of codes": (
        "broker",
        ["--set", "authenticationEnabled=true", "--set", "authenticationWhitelist=10;11"],
        "authenticationWhitelist",
    ),
    "class of users": ("broker", ["--set", "authenticationProvider=my.Provider"], "DefaultAuthenticationProvider"),
    "import of accounts": ("broker", ["--set", "migrateAuthFromV1Enabled=true"], "migrateAuthFromV1Enabled"),
    "address of a NameServer": ("broker", ["--set", "namesrvAddr=127.0.0.1:9876;127.0.0.1:99999"], "host:port"),
    "NameServer's key": ("namesrv", ["--set", "listenPrt=1"], "listenPort"),
    "NameServer's port": ("namesrv", ["--set", "listenPort=99999"], "listenPort"),
    "NameServer's address": ("namesrv", ["--set", "bindAddress=0.0.0.0"], "rocketflow.allowInsecure"),
    "NameServer's interval": ("namesrv", ["--set", "scanNotActiveBrokerInterval=-1"], "scanNotActiveBrokerInterval"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_end_the_start_and_name_the_remedy(case: str, tmp_path: Path) -> None:
    command, arguments, named = WRONG[case]
    if case in ("key", "NameServer's address", "controller"):
        code, said = started(command, tmp_path, *arguments)
    else:
        code, said = _in_process(command, tmp_path, arguments)
    assert code == 2, said
    assert named in said
    assert "Traceback" not in said
    assert not (tmp_path / "store").exists()


def _in_process(command: str, home: Path, arguments: list[str]) -> tuple[int, str]:
    """Return what the command would end with, without a process of its own."""
    options = dict(one.split("=", 1) for one in arguments if "=" in one)
    file = Path(arguments[1]) if arguments[0] == "-c" else None
    try:
        if command == "namesrv":
            load_namesrv_settings(file, options)
        else:
            load_broker_settings(file, options, {"HOME": str(home)})
    except (UsageError, StoreError) as error:
        return 2, str(error)
    return 0, ""


def test_a_port_in_use_and_a_locked_store_are_named(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        arguments = ["--set", f"storePathRootDir={tmp_path}/store", "--set", f"listenPort={free_port((-2, 1))}"]
        code, said = started("broker", tmp_path, *arguments)
        assert code == 75, said
        assert str(broker.process.pid) in said
        arguments = ["--set", f"storePathRootDir={tmp_path}/other", "--set", f"listenPort={broker.port}"]
        code, said = started("broker", tmp_path, *arguments)
        assert code == 75, said
        assert f"process {broker.process.pid} (" in said
        assert f"listens at port {broker.port}" in said
        assert f"listens at port {broker.port - 2}" in said
        code, said = started("namesrv", tmp_path, "--set", f"listenPort={broker.port}")
        assert code == 75, said
        assert f"process {broker.process.pid} (" in said
        assert f"listens at port {broker.port}" in said
        assert "Traceback" not in said


WITHOUT_SERVER = f"nowhere.invalid:1;{'x' * 80}.a:9"


def test_a_broker_serves_without_its_name_server_and_registers_when_it_comes(tmp_path: Path) -> None:
    port = free_port()
    with running_broker(tmp_path, f"namesrvAddr=127.0.0.1:{port};{WITHOUT_SERVER}") as broker:

        async def check() -> None:
            peers = Peers()
            sent = await asked(await peers.channel(broker.address), CODE.SEND_MESSAGE, send_header(), b"x")
            assert sent.code == ResponseCode.SUCCESS
            await peers.close()

        run(check())
        assert f"127.0.0.1:{port}" in broker.log.read_text()
        with running("namesrv", tmp_path / "n", "--set", f"kvConfigPath={tmp_path}/kv.json", port=port) as names:

            async def registered() -> None:
                peers = Peers()
                await asked(await peers.channel(broker.address), CODE.SEND_MESSAGE, send_header("new"), b"x")
                for _ in range(200):
                    info = await asked(await peers.channel(names.address), CODE.GET_BROKER_CLUSTER_INFO)
                    if b"broker-a" in info.body:
                        break
                    await asyncio.sleep(0.05)
                else:
                    pytest.fail("the broker does not register")
                await peers.close()

            run(registered())
            assert broker.stop() == 0
            no_traceback(broker)
            no_traceback(names)


def test_a_full_disk_refuses_sends_and_serves_pulls_until_there_is_room(tmp_path: Path) -> None:
    mounted = tmp_path / "small"
    mounted.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(mounted)], check=False).returncode:
        pytest.skip("cannot mount a file system here")
    try:
        ballast = mounted / "ballast"
        ballast.write_bytes(bytes(12 << 20))
        sizes = ("mappedFileSizeCommitLog=2097152", "mappedFileSizeConsumeQueue=20000", "diskMaxUsedSpaceRatio=95")
        with running_broker(mounted, *sizes) as broker:

            async def check() -> None:
                peers = Peers()
                channel = await peers.channel(broker.address)
                answers = []
                for _ in range(100):
                    answers.append((await asked(channel, CODE.SEND_MESSAGE, send_header(), bytes(200_000))).code)
                    if answers[-1] != ResponseCode.SUCCESS:
                        break
                assert answers[0] == ResponseCode.SUCCESS
                assert answers[-1] == ResponseCode.SERVICE_NOT_AVAILABLE, answers[-1]
                for number in range(len(answers) - 1):
                    found = await asked(channel, CODE.PULL_MESSAGE, pull_header(offset=number))
                    assert found.code == ResponseCode.SUCCESS, (number, found.remark)
                ballast.unlink()
                for _ in range(300):
                    last = await asked(channel, CODE.SEND_MESSAGE, send_header(), b"again")
                    if last.code == ResponseCode.SUCCESS:
                        break
                    assert last.code == ResponseCode.SERVICE_NOT_AVAILABLE, (last.code, last.remark)
                    await asyncio.sleep(0.1)
                else:
                    pytest.fail(f"sends are refused although there is room: {last.remark}")
                await peers.close()

            run(check())
            assert broker.stop() == 0
            no_traceback(broker)
    finally:
        subprocess.run(["umount", str(mounted)], check=True)
