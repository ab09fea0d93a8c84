"""`rocketflow send`: messages to the brokers of a cluster, from arguments or lines."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from rocketflow.cli.shared.client_options import (
    CredentialsOption,
    NameServersOption,
    ProfileOption,
    TlsCertOption,
    TlsKeyOption,
    TlsOption,
    TlsTrustOption,
    client_options,
)
from rocketflow.cli.shared.failures import EXIT_FINDINGS
from rocketflow.cli.shared.parameters import QUEUE_FIELDS, JsonOption, TopicOption, emit, time_argument
from rocketflow.errors import UsageError

if TYPE_CHECKING:
    from io import FileIO

    from rocketflow.client.options import ClientOptions
    from rocketflow.client.produce import Producer, SendResult
    from rocketflow_store.spi.messages import Message

_BATCH: Final = 256
"""Most messages that are sent at the same time."""

_WAITING: Final = 4
"""Most pieces of input that are read ahead."""

_FIELDS: Final = (
    "body", "bodyBase64", "tags", "keys", "properties", "shardingKey", "flag", "delayTimeLevel", "deliverTimestamp",
)  # fmt: skip

Lines = list[bytes]


FIELDS: Final[dict[str, dict[str, str]]] = {
    "send": {
        "status": "SEND_OK, or another one of a stored message; if it was refused MESSAGE_ILLEGAL or NOT_ACKNOWLEDGED",
        "topic": "topic",
        **QUEUE_FIELDS,
        "queueOffset": "queue offset",
        "msgId": "RocketMQ's offset message id",
        "uniqKey": "id that the producer made",
        "line": "of a refused message: the number of its line, from 1",
        "error": "of a refused message: why",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def send(
    topic: TopicOption,
    body: Annotated[
        str | None, typer.Argument(metavar="[BODY]", help="The body; without it, lines of --input.")
    ] = None,
    name_servers: NameServersOption = "",
    profile: ProfileOption = "",
    source: Annotated[str, typer.Option("--input", metavar="FILE|-", help="One message a line; - is stdin.")] = "-",
    form: Annotated[
        Literal["lines", "json"], typer.Option("--format", help="Lines are bodies, or JSON as in store append.")
    ] = "lines",
    tag: Annotated[str, typer.Option("--tag", help="The tag.")] = "",
    keys: Annotated[str, typer.Option("--keys", help="Keys for the index, separated by spaces.")] = "",
    sharding_key: Annotated[
        str, typer.Option("--sharding-key", help="Messages of a key go to one queue, in order.")
    ] = "",
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property; may be repeated.")
    ] = None,
    delay_level: Annotated[int, typer.Option("--delay-level", min=0, help="RocketMQ's delay level.")] = 0,
    deliver_at: Annotated[
        int, typer.Option("--deliver-at", metavar="TIME", parser=time_argument, help="Deliver then, ISO 8601 or ms.")
    ] = 0,
    count: Annotated[int, typer.Option("--count", min=1, help="Send BODY so often.")] = 1,
    group: Annotated[str, typer.Option("--group", help="The producer group.")] = "rocketflow",
    as_json: JsonOption = False,
    credentials: CredentialsOption = None,
    tls: TlsOption = False,
    tls_ca: TlsTrustOption = "",
    tls_cert: TlsCertOption = "",
    tls_key: TlsKeyOption = "",
) -> None:
    """Send messages to a topic. Example: rocketflow send -n 127.0.0.1:9876 --topic orders --tag paid "order 1"

    Lines that arrive together are sent together; no line waits for a later one. A refused line is reported with its
    number, the rest goes on, and the command ends with 1, or with 69 if no broker answered.
    """
    from rocketflow.cli.shared.client_run import run_client
    from rocketflow_store.spi.messages import Message

    options = client_options(
        name_servers, credentials, profile=profile, tls=tls, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key
    )
    template = Message(
        topic,
        b"",
        tags=tag,
        keys=keys,
        sharding_key=sharding_key,
        properties=_properties(properties or []),
        delay_level=delay_level,
        deliver_at_ms=deliver_at,
    )
    report = Report(as_json)
    if body is not None:
        messages = _repeated(replace(template, body=body.encode()), count)
    elif count != 1:
        raise UsageError("--count needs BODY: lines of --input are sent once")
    else:
        messages = _parsed(_read(_opened(source)), _parser(form, template), report)
    run_client(_send_all(options, group, messages, report))
    report.finish(template.topic)


@dataclass
class Report:
    """Prints the outcome of each message, and counts them."""

    as_json: bool
    sent: int = 0
    refused: int = 0
    exit_code: int = 0
    statuses: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def stored(self, result: SendResult) -> None:
        """Take note of a stored message."""
        self.sent += 1
        self.statuses[result.status.name] += 1
        if self.as_json:
            emit(
                {
                    "status": result.status.name,
                    "topic": result.queue.topic,
                    "brokerName": result.queue.broker_name,
                    "queueId": result.queue.queue_id,
                    "queueOffset": result.queue_offset,
                    "msgId": result.offset_message_id,
                    "uniqKey": result.message_id,
                }
            )

    def failed(self, number: int, status: str, why: str, code: int = EXIT_FINDINGS) -> None:
        """Take note of a message that was not acknowledged; `number` is that of its line."""
        self.refused += 1
        self.exit_code = max(self.exit_code, code)
        if self.as_json:
            emit({"status": status, "line": number, "error": why})
        print(f"error: line {number}: {why}", file=sys.stderr)

    def finish(self, topic: str) -> None:
        """Print the sums. Raises typer.Exit if a message was refused."""
        if not self.as_json:
            kinds = "".join(f", {count} with {name}" for name, count in self.statuses.items() if name != "SEND_OK")
            print(f"{topic}: {self.sent} messages stored{kinds}" + (f", {self.refused} not" if self.refused else ""))
        if self.exit_code:
            raise typer.Exit(self.exit_code)


Numbered = tuple[int, "Message"]


async def _send_all(
    options: ClientOptions, group: str, messages: AsyncIterator[list[Numbered]], report: Report
) -> None:
    from rocketflow.client.produce import Producer, ProducerOptions

    async with Producer(ProducerOptions(group=group, **vars(options))) as producer:
        async for some in messages:
            for begin in range(0, len(some), _BATCH):
                await _send_together(producer, some[begin : begin + _BATCH], report)
            sys.stdout.flush()


async def _send_together(producer: Producer, messages: list[Numbered], report: Report) -> None:
    """Send messages at the same time, those of a sharding key one after the other; report in the order of input."""
    from rocketflow.client.errors import ClientError
    from rocketflow.client.produce import by_sharding_key
    from rocketflow.client.produce.errors import BadMessageError, SendFailedError
    from rocketflow.remoting.codes import ResponseCode

    outcomes: dict[int, SendResult | ClientError] = {}

    async def in_turn(some: Iterable[Numbered]) -> None:
        for number, message in some:
            try:
                to = by_sharding_key if message.sharding_key else None
                outcomes[number] = await producer.send(message, to=to)
            except (BadMessageError, SendFailedError) as error:
                if isinstance(error, SendFailedError) and error.code == ResponseCode.NO_PERMISSION:
                    raise  # no other line would be accepted
                outcomes[number] = error

    by_key: dict[object, list[Numbered]] = defaultdict(list)
    for one in messages:
        by_key[one[1].sharding_key or one[0]].append(one)
    sends = [asyncio.ensure_future(in_turn(some)) for some in by_key.values()]
    try:
        await asyncio.gather(*sends)
    finally:
        for task in sends:
            task.cancel()
        await asyncio.gather(*sends, return_exceptions=True)
        for number, _ in messages:
            outcome = outcomes.get(number)
            if isinstance(outcome, ClientError):
                is_bad = isinstance(outcome, BadMessageError)
                report.failed(number, "MESSAGE_ILLEGAL" if is_bad else "NOT_ACKNOWLEDGED", str(outcome), _code(outcome))
            elif outcome is not None:
                report.stored(outcome)


def _code(error: Any) -> int:
    return EXIT_FINDINGS if error.exit_code == 2 else int(error.exit_code)


# --- input


async def _repeated(message: Message, count: int) -> AsyncIterator[list[Numbered]]:
    for begin in range(0, count, _BATCH):
        yield [(number + 1, replace(message)) for number in range(begin, min(count, begin + _BATCH))]


async def _parsed(
    pieces: AsyncIterator[Lines], parse: Callable[[bytes], Message], report: Report
) -> AsyncIterator[list[Numbered]]:
    """Yield the messages of lines with their numbers; lines without text are skipped."""
    number = 0
    async for lines in pieces:
        found = []
        for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                found.append((number, parse(line)))
            except (ValueError, RecursionError) as error:
                why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
                report.failed(number, "MESSAGE_ILLEGAL", why)
        yield found


def _opened(source: str) -> FileIO:
    """Return a file whose reads return what has arrived. Raises UsageError."""
    if source == "-":
        if sys.stdin is None:
            raise UsageError("--input -: there is no standard input")
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    try:
        return open(source, "rb", buffering=0)
    except OSError as error:
        raise UsageError(f"--input {source}: {error.strerror}") from error


async def _read(opened: FileIO) -> AsyncIterator[Lines]:
    """Yield lines as they come. A thread reads them, which does not keep the process from ending."""
    from rocketflow.cli.shared.input_lines import lines_as_they_come

    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[Lines | OSError | None] = asyncio.Queue(_WAITING)

    def put(piece: Lines | OSError | None) -> None:
        asyncio.run_coroutine_threadsafe(waiting.put(piece), loop).result()

    def work() -> None:
        with opened, contextlib.suppress(RuntimeError, CancelledError):  # the loop has ended
            try:
                for lines in lines_as_they_come(lambda size: opened.read(size) or b""):
                    put(lines)
                put(None)
            except OSError as error:
                put(error)

    threading.Thread(target=work, name="input", daemon=True).start()
    while (piece := await waiting.get()) is not None:
        if isinstance(piece, OSError):
            raise UsageError(f"--input: {piece.strerror}")
        yield piece


def _parser(form: str, template: Message) -> Callable[[bytes], Message]:
    if form == "lines":
        return lambda line: replace(template, body=line)
    return lambda line: _of_json(line, template)


def _of_json(line: bytes, template: Message) -> Message:
    """Return the message of a JSON line; options of the command hold where it has no such field. Raises ValueError."""
    from rocketflow.cli.shared.input_lines import (
        body_field,
        json_fields,
        keys_field,
        properties_field,
        time_field,
        typed,
    )

    fields = json_fields(line, _FIELDS)
    return replace(
        template,
        body=body_field(fields),
        tags=typed(fields, "tags", str) or template.tags,
        keys=keys_field(fields) or template.keys,
        properties={**template.properties, **properties_field(fields)},
        sharding_key=typed(fields, "shardingKey", str) or template.sharding_key,
        flag=typed(fields, "flag", int) or 0,
        delay_level=typed(fields, "delayTimeLevel", int) or template.delay_level,
        deliver_at_ms=time_field(fields, "deliverTimestamp") or template.deliver_at_ms,
    )


def _properties(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise UsageError(f"--property {text}: NAME=VALUE is expected")
        found[name] = value
    return found
