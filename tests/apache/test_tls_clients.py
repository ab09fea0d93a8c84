"""Unmodified Java clients reach NameServer and broker over TLS, and only those that the authority knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apache.clients import all_ok, java_families, own_broker
from tests.apache.judge import versions
from tests.support.certificates import Authority
from tests.support.servers import running

pytestmark = [pytest.mark.apache, pytest.mark.slow, pytest.mark.timeout(900)]

FAMILIES = ["sync", "batch", "push"]


@pytest.mark.parametrize("version", versions("5.3.3", of=("5.3.3", "4.9.7")))
def test_java_clients_send_and_consume_with_certificates_on_both_sides(version: str, tmp_path: Path) -> None:
    ca = Authority(tmp_path)
    server_cert, server_key = ca.issue("server")
    cert, key = ca.issue("client")
    tls = [
        *("tls.server.mode=enforcing", "tls.server.need.client.auth=require"),
        *(f"tls.server.certPath={server_cert}", f"tls.server.keyPath={server_key}"),
        f"tls.server.trustCertPath={ca.path}",
        *(f"tls.client.certPath={cert}", f"tls.client.keyPath={key}", f"tls.client.trustCertPath={ca.path}"),
    ]
    options = [part for one in (f"kvConfigPath={tmp_path}/kv.json", *tls) for part in ("--set", one)]
    with running("namesrv", tmp_path, *options) as names, own_broker(tmp_path, names.address, *tls) as broker:
        properties = {
            "tls.enable": "true",
            "tls.test.mode.enable": "false",
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": str(ca.path),
            "tls.client.certPath": str(cert),
            "tls.client.keyPath": str(key),
        }
        found = java_families(
            "QuickStart", version, names.address, FAMILIES, tmp_path, f"Java {version}, TLS", properties
        )
        assert found == all_ok(FAMILIES), broker.log.read_text()[-3000:]
        assert broker.stop() == 0
        assert names.stop() == 0
