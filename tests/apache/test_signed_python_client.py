"""RocketFlow's client, whose signatures cover a mark, at Apache's brokers with accounts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.aio.signing_hook import signing_hooks
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.signature import Credentials
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.request_headers import send_header
from tests.support.signed import ADMIN, PLAIN_RULES
from tests.support.trials import LEVEL

pytestmark = [
    pytest.mark.apache,
    pytest.mark.slow,
    pytest.mark.skipif(LEVEL == "sample", reason="starts brokers of Apache's: RF_FAULTS=1 runs it"),
]

USERS: Final = (
    "authenticationEnabled=true\nauthorizationEnabled=true\n"
    "authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider\n"
    "authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider\n"
    "authorizationProvider=org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider\n"
    "authorizationMetadataProvider=org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider\n"
    f'initAuthenticationUser={{"username":"{ADMIN.access_key}","password":"{ADMIN.secret_key}"}}\n'
)


@pytest.mark.parametrize(("version", "conf"), [("4.9.7", "aclEnable=true\n"), ("5.5.0", USERS)])
def test_apaches_brokers_take_marked_requests_and_refuse_other_secrets(version: str, conf: str, tmp_path: Path) -> None:
    (tmp_path / "home" / "conf").mkdir(parents=True)
    (tmp_path / "home" / "conf" / "plain_acl.yml").write_text(PLAIN_RULES)
    with RealBroker(version, tmp_path / "s", SIZES, tmp_path / "home", conf, last=True) as broker:

        async def send(by: Credentials) -> int:
            peers = Peers(hooks=signing_hooks(by))
            try:
                channel = await peers.channel(f"127.0.0.1:{broker.port}")
                code, header = RequestCode.SEND_MESSAGE, send_header("t")
                return (await channel.request(code, header, body=b"x", timeout_s=30)).code
            finally:
                await peers.close()

        assert run(send(ADMIN)) == ResponseCode.SUCCESS
        assert run(send(Credentials(ADMIN.access_key, "another-secret"))) != ResponseCode.SUCCESS
