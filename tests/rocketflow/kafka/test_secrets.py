"""Passwords never appear in output, log lines, errors or stores, whether a run succeeds or fails."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from rocketflow.errors import UsageError
from rocketflow.kafka.bridge_job import main as job
from rocketflow.kafka.errors import KafkaRefusedError, TopicMissingError
from rocketflow.kafka.into_kafka import spark_export
from rocketflow.kafka.options.client_options import parse_options
from rocketflow.kafka.options.secrets import HIDDEN, Secrets, hidden_in_errors, hide_in_logs
from rocketflow.process.job_entry import run_job
from rocketflow_store import Message, MessageStore
from tests.rocketflow.kafka.bridging import SMALL, Sent, Topics, options, small_store
from tests.rocketflow.kafka.test_secured_broker import asked
from tests.support.kafka_broker import SecuredListener, connector_jars
from tests.support.maven import JarsNotFetchedError
from tests.support.trials import COMMAND_LINE, FULL, LEVEL, environment

pytestmark = pytest.mark.kafka
WRONG = "wr0ng-pass'word\"ü"


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """Write a file for `rocketflow --logging` that sets every logger to DEBUG."""
    file = tmp_path / "logging.json"
    file.write_text(
        json.dumps(
            {
                "version": 1,
                "disable_existing_loggers": False,
                "formatters": {"line": {"format": "%(levelname)s %(name)s: %(message)s"}},
                "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
                "root": {"level": "DEBUG", "handlers": ["stderr"]},
                "loggers": {"kafka": {"level": "DEBUG"}},
            }
        )
    )
    return file


def run(logging_file: Path, *arguments: str) -> tuple[int, str]:
    """Run `rocketflow --logging FILE ...`; return (exit code, stdout and stderr)."""
    command = [sys.executable, "-c", COMMAND_LINE, "--logging", str(logging_file), *arguments]
    done = subprocess.run(command, capture_output=True, env=environment(), timeout=120, check=False)
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


def assert_hidden(secret: str, text: str) -> None:
    for form in (secret, repr(secret.encode())[2:-1], repr(secret)[1:-1], json.dumps(secret)[1:-1]):
        assert form not in text, text[max(text.find(form) - 300, 0) : text.find(form) + 100]


def stored_bytes(directory: str) -> bytes:
    return b"".join(one.read_bytes() for one in Path(directory).rglob("*") if one.is_file())


@pytest.mark.skipif(
    LEVEL == "sample", reason="test_password_is_not_printed_with_debug runs a bridge too: RF_FAULTS=1 runs it"
)
@pytest.mark.parametrize("direction", ["kafka-to-store", "store-to-kafka"])
def test_bridge_at_debug_hides_the_password(
    secured: tuple[SecuredListener, Topics], store: str, logged: Path, direction: str
) -> None:
    """The login succeeds, is rejected, or gets no answer."""
    listener, topics = secured
    source = f"secrets-{direction}"
    topics.create(source)
    topics.send(source, [Sent(b"k", b"v")] * 4)
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(source, 2)
        opened.put_message(Message(source, b"x", queue_id=0))
    config = Path(store).parent / "small.conf"
    config.write_text(SMALL)
    common = ["bridge", direction, "--store", store, "--config", str(config), "--topics", source, "--json"]
    common += ["--until-caught-up", "--debug"]
    given = asked(listener, "PLAIN")
    code, text = run(logged, *common, "--bootstrap", listener.bootstrap_servers, *given)
    assert code == 0, text
    assert "SaslAuthenticateRequest" in text  # kafka-python does log what it sends
    assert f"{listener.user}\\x00{HIDDEN}" in text
    assert_hidden(listener.password, text)
    given = asked(listener, "PLAIN", **{"sasl.password": WRONG, "bootstrap_timeout_ms": "8000"})
    code, text = run(logged, *common, "--bootstrap", listener.bootstrap_servers, *given)
    assert (code, "check the SASL options" in text) == (1, True), text
    assert_hidden(WRONG, text)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        given = asked(listener, "PLAIN", **{"sasl.password": WRONG, "bootstrap_timeout_ms": "500"})
        code, text = run(logged, *common, "--bootstrap", f"127.0.0.1:{silent.getsockname()[1]}", *given)
    assert (code, "does not answer" in text) == (1, True), text
    assert_hidden(WRONG, text)
    assert listener.password.encode() not in stored_bytes(store)


def test_bootstrap_address_with_a_password_is_refused(store: str, logged: Path) -> None:
    for address in ("me:h1dden@localhost:9092", "a:1,me:h1d,den@b:2", "SASL_SSL://me:h1dden@b:2", "me:h1@dden@b:x"):
        with pytest.raises(UsageError, match="an address must not contain a name or password") as error:
            options("kafka-to-store", address, store, "--topics", "t")
        assert "h1" not in str(error.value)
    arguments = [
        "bridge",
        "kafka-to-store",
        "--bootstrap",
        "me:h1dden@localhost:9092",
        "--store",
        store,
        "--topics",
        "t",
    ]
    code, text = run(logged, *arguments)
    assert code == 2
    assert_hidden("h1dden", text)


WRONG_LINES = [
    ["--kafka-options", "sasl.password=h1dden"],
    ["--kafka=sasl.password=h1dden"],
    ["--kafka-optoin=sasl.password=h1dden"],
    ["--share=h1dden"],
    ["--kafka-option", "sasl.password:h1dden"],
    ["--kafka-option", "sasl.password h1dden=="],
    ["--kafka-option", "sasl.password: h1d=h1dden"],
    ["--kafka-option", "sasl.jaas.config=x password='h1dden';"],
    ["--kafka-option", "transactional_id=h1dden"],
    ["--kafka-option", "sasl.pasword=h1dden"],
    ["--kafka-config", "{file}"],
    ["h1dden"],
]


@pytest.mark.parametrize("line", WRONG_LINES, ids=[" ".join(one) for one in WRONG_LINES])
def test_errors_for_invalid_options_hide_their_values(
    line: list[str], store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# \nsasl.password: h1dden\n")
    line = [one.format(file=file) for one in line]
    common = ["--direction", "kafka-to-store", "--bootstrap", "127.0.0.1:1", "--store", store, "--topics", "t"]
    try:
        code: object = run_job(partial(job, [*common, *line]))
    except SystemExit as ended:
        code = ended.code
    out, error = capsys.readouterr()
    assert code == 2, error
    assert error.startswith("error: ")
    assert_hidden("h1dden", out + error)


def test_secrets_in_a_login_module_option_are_hidden() -> None:
    module = 'org.apache.X required username="me" password="h1d;\\"den" client.secret=s3cret;'
    secrets = Secrets.of_options({"kafka.sasl.jaas.config": module, "kafka.ssl.keystore.key": "k3y", "linger": "me"})
    for text in (module, repr(module), json.dumps(module), "got s3cret", 'got h1d;\\"den', "k3y"):
        hidden = secrets.hide(text)
        assert not [one for one in ("h1d", "s3cret", "k3y") if one in hidden], hidden
    assert secrets.hide("me, the user") == "me, the user"
    assert parse_options(["sasl.password=pa55"], ()).hide("pa55") == HIDDEN


def test_secrets_are_hidden_in_errors_and_log_lines() -> None:
    secrets = Secrets(["h1dden-line"])
    with pytest.raises(TopicMissingError, match=r"no \*\*\*") as typed, hidden_in_errors(secrets):
        raise TopicMissingError("no h1dden-line")
    assert typed.value.__cause__ is None
    with pytest.raises(KafkaRefusedError, match=r"bad \*\*\*"), hidden_in_errors(secrets):
        raise ValueError("bad h1dden-line")
    with pytest.raises(TopicMissingError) as chained, hidden_in_errors(secrets):
        raise TopicMissingError("clean") from ValueError("h1dden-line")
    assert chained.value.__suppress_context__
    hide_in_logs(secrets)
    hide_in_logs(secrets)
    log, lines = logging.Logger("py4j.any"), io.StringIO()
    log.addHandler(logging.StreamHandler(lines))  # PySpark changes the format of pytest's handler once it has logged
    log.debug("Command to send: %s", "c\nsh1dden-line\n")
    try:
        raise ValueError("h1dden-line")
    except ValueError:
        log.exception("failed")
    assert "h1dden-line" not in lines.getvalue()
    assert "Command to send: c\ns***" in lines.getvalue()
    assert "ValueError: ***" in lines.getvalue()


def test_connector_option_without_a_value_is_refused_without_showing_it(store: str) -> None:
    asked = options("store-to-kafka", "127.0.0.1:1", store, "--topics", "t")
    with pytest.raises(UsageError, match="--connector-option number 2: give it as key=value") as error:
        spark_export.run(asked, "checkpoint", ["a=b", "kafka.sasl.jaas.config: h1dden"], required=True)
    assert "h1dden" not in str(error.value)


@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="starts a Spark of its own (RF_FULL=1)")
@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_spark_connector_at_debug_hides_the_password(
    secured: tuple[SecuredListener, Topics], store: str, logged: Path, tmp_path: Path, right: bool
) -> None:
    try:
        jars = ",".join(map(str, connector_jars()))
    except JarsNotFetchedError as error:
        pytest.skip(str(error))
    listener, topics = secured
    source = f"spark-{right}"
    topics.create(source)
    with MessageStore.open(store, small_store(Path(store))) as opened:
        opened.create_topic(source, 2)
        opened.put_message(Message(source, b"x", queue_id=0))
    password = listener.password if right else "wr0ng-pass-word"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required "
    given = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module}username="{listener.user}" password="{password}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(listener.certificate),
        "kafka.max.block.ms": "8000",
    }
    command = ["submit", "kafka_bridge", "--direction", "store-to-kafka", "--store", store, "--topics", source]
    command += ["--bootstrap", listener.bootstrap_servers, "--until-caught-up", "--engine", "spark"]
    command += ["--checkpoint", str(tmp_path / "checkpoint")]
    command += [part for name, value in given.items() for part in ("--connector-option", f"{name}={value}")]
    variables = {"ROCKETFLOW_LOGGING": str(logged)}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND_LINE, *command, "--", "--jars", jars],
        capture_output=True, text=True, env=dict(os.environ) | environment() | variables, timeout=280, check=False,
    )  # fmt: skip
    text = done.stdout + done.stderr
    assert done.returncode == (0 if right else 1), text
    assert "py4j" in text
    assert_hidden(password, text)
    assert password.encode() not in stored_bytes(str(tmp_path / "checkpoint")) + stored_bytes(store)
