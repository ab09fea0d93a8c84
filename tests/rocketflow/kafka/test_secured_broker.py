"""A broker with SASL over TLS: both directions, and errors that name the reason but no password."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import pytest

from rocketflow.errors import UsageError
from rocketflow.kafka.errors import BridgeError, KafkaUnreachableError
from tests.rocketflow.kafka.bridging import Sent, Topics, bridge, bridge_process, finished, stored
from tests.support.kafka_broker import SecuredListener
from tests.support.trials import LEVEL

pytestmark = pytest.mark.kafka
WRONG = [(mechanism, way) for mechanism in ("PLAIN", "SCRAM-SHA-256") for way in ("kafka-to-store", "store-to-kafka")]
"""Logins with a wrong password."""


def asked(listener: SecuredListener, mechanism: str, **other: str) -> list[str]:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": listener.user,
        "sasl.password": listener.password,
        "ssl.ca.location": str(listener.certificate),
        **other,
    }
    return [part for name, value in given.items() for part in ("--kafka-option", f"{name}={value}")]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_both_directions_with_a_login(secured: tuple[SecuredListener, Topics], store: str, mechanism: str) -> None:
    listener, topics = secured
    source, copy = f"in-{mechanism}", f"out-{mechanism}"
    topics.create(source, copy)
    topics.send(source, [Sent(b"k%d" % number, b"v%d" % number) for number in range(50)])
    options = asked(listener, mechanism)
    address = listener.bootstrap_servers
    assert bridge("kafka-to-store", address, store, "--topics", source, *options).rows == 50
    bodies = [body for rows in stored(store, source).values() for body, _ in rows]
    assert sorted(bodies) == sorted(b"v%d" % number for number in range(50))
    done = bridge("store-to-kafka", address, store, "--topics", source, "--map", f"{copy}={source}", *options)
    assert (done.rows, done.exit_code) == (50, 0)
    assert topics.read(copy) == topics.read(source)


@pytest.mark.parametrize(("mechanism", "direction"), WRONG[-1:] if LEVEL == "sample" else WRONG)
def test_wrong_password_is_reported_without_showing_it(
    secured: tuple[SecuredListener, Topics], store: str, mechanism: str, direction: str
) -> None:
    listener, topics = secured
    source = f"kept-{mechanism}-{direction}"
    topics.create(source)
    topics.send(source, [Sent(b"k", b"v")] * 4)
    bridge("kafka-to-store", topics.address, store, "--topics", source, "--id", "before")
    options = asked(listener, mechanism, **{"sasl.password": "not-the-pass-word"})
    options += ["--kafka-option", "bootstrap_timeout_ms=8000"]  # for attempts whose answer kafka-python drops
    process = bridge_process(
        direction, listener.bootstrap_servers, store, "--topics", source, "--until-caught-up", "--debug", *options
    )
    code, _, error = finished(process)
    assert code == 1, error
    assert "check the SASL options" in error
    assert "not-the-pass-word" not in error


def test_timeout_after_a_closed_login_reports_both(store: str) -> None:
    """The error names the closed connection too, not only the timeout of the last attempt."""
    seen: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                server.accept()[0].close()
                while True:
                    seen.append(server.accept()[0])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "bootstrap_timeout_ms": "1500"}
        options |= {"sasl.username": "me", "sasl.password": "h1dden"}
        given = [part for name, value in options.items() for part in ("--kafka-option", f"{name}={value}")]
        with pytest.raises(KafkaUnreachableError, match=r"timed out.*check the SASL options") as refused:
            bridge("kafka-to-store", address, store, "--topics", "t", *given)
        server.shutdown(socket.SHUT_RDWR)  # ends the pending accept
        thread.join()
    assert seen
    for one in seen:
        one.close()
    assert "h1dden" not in str(refused.value)


def test_untrusted_certificate_and_missing_file_are_reported(
    secured: tuple[SecuredListener, Topics], store: str, tmp_path: Path
) -> None:
    listener, topics = secured
    other = SecuredListener(tmp_path / "other")
    other.make()
    topics.create("unseen")
    options = asked(listener, "PLAIN", **{"ssl.ca.location": str(other.certificate)})
    options += ["--kafka-option", "bootstrap_timeout_ms=3600000"]  # the first attempt is the last one
    with pytest.raises(BridgeError) as refused:
        bridge("kafka-to-store", listener.bootstrap_servers, store, "--topics", "unseen", *options)
    assert listener.password not in str(refused.value)
    assert "the TLS handshake failed" in str(refused.value)
    assert "certificate verify failed" in str(refused.value)
    missing = asked(listener, "PLAIN", **{"ssl.ca.location": str(tmp_path / "no.pem")})
    with pytest.raises(UsageError, match=r"ssl_cafile=.*no\.pem: cannot be read"):
        bridge("kafka-to-store", listener.bootstrap_servers, store, "--topics", "unseen", *missing)
