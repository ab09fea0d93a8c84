"""A NameServer and a broker as processes that enforce TLS: who is served, and starts that fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.tls import Tls, TlsFiles, client_context
from rocketflow.client import ClientOptions, Message, Producer, ProducerOptions
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.errors import NoNameServerError, UnreachableError
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.remoting.codes import RequestCode
from tests.reliability.network.test_server_start import started
from tests.support.certificates import Authority
from tests.support.servers import no_traceback, running, running_broker

pytestmark = pytest.mark.slow


def client(ca: Authority, cert: Path | None = None, key: Path | None = None) -> Tls:
    files = TlsFiles("tls.client", str(cert or ""), str(key or ""), "", str(ca.path))
    return Tls(lambda: client_context(files, verify=True))


def test_a_broker_registers_over_tls_and_serves_clients_with_certificates(tmp_path: Path) -> None:
    ca = Authority(tmp_path)
    cert, key = ca.issue("server")
    own_cert, own_key = ca.issue("client")
    file = tmp_path / "tls.properties"
    file.write_text(
        f"tls.server.need.client.auth=require\ntls.server.certPath={cert}\ntls.server.keyPath={key}\n"
        f"tls.server.trustCertPath={ca.path}\ntls.client.certPath={own_cert}\ntls.client.keyPath={own_key}\n"
        f"tls.client.trustCertPath={ca.path}\n"
    )
    tls = ("tls.server.mode=enforcing", f"tls.config.file={file}")
    options = [part for one in (f"kvConfigPath={tmp_path}/kv.json", *tls) for part in ("--set", one)]
    with (
        running("namesrv", tmp_path, *options) as names,
        running_broker(tmp_path, f"namesrvAddr={names.address}", *tls) as broker,
    ):

        async def main() -> None:
            tls = client(ca, own_cert, own_key)
            async with AdminClient(ClientOptions(name_servers=names.address, tls=tls)) as admin:
                assert await admin.masters("TBW102") == [broker.address]
            async with Producer(ProducerOptions(group="g", name_servers=names.address, tls=tls)) as producer:
                messages = [Message("t", b"%d" % number) for number in range(50)]
                queue = MessageQueue("t", "broker-a", 0)
                assert (await producer.send_batch(messages, to=queue)).queue_offset == 0
                assert (await producer.send_batch(messages, to=queue)).queue_offset == 50
            for refused in (None, client(ca)):
                async with AdminClient(ClientOptions(name_servers=names.address, tls=refused)) as admin:
                    with pytest.raises(NoNameServerError):
                        await admin.route("TBW102")
                    with pytest.raises(UnreachableError):
                        await admin.cluster.ask(broker.address, RequestCode.GET_BROKER_RUNTIME_INFO)

        run(main())
        for server in (broker, names):
            assert server.stop() == 0
            no_traceback(server)


@pytest.mark.parametrize("command", ["broker", "namesrv"])
def test_a_start_with_a_wrong_key_ends_with_2_and_names_it(command: str, tmp_path: Path) -> None:
    cert, _ = Authority(tmp_path).issue("server")
    keys = [f"tls.server.certPath={cert}", "tls.server.keyPath=/nowhere/server.key"]
    code, said = started(command, tmp_path, *[part for one in keys for part in ("--set", one)])
    assert code == 2, said
    assert "tls.server.keyPath=/nowhere/server.key" in said.replace("\n", "")
    assert "Traceback" not in said
    assert not (tmp_path / "store").exists()
