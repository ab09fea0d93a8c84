"""`rocketflow consume`: messages of a topic from the brokers of a cluster, with a group's progress or without."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

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
from rocketflow.cli.shared.failures import EXIT_LOST, ends_at_interrupt
from rocketflow.cli.shared.message_rows import (
    RECEIVED_FIELDS,
    TABLE_COLUMNS,
    BodyForm,
    print_bad_body,
    received_fields,
    table_row,
)
from rocketflow.cli.shared.parameters import (
    BodyOption,
    JsonOption,
    LastOption,
    OnBadBodyOption,
    TagsOption,
    TopicOption,
    emit,
    time_argument,
)
from rocketflow.cli.shared.tables import Table
from rocketflow.errors import UsageError
from rocketflow_store import DamagedBodyError, OnBadBody

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.client.options import ClientOptions
    from rocketflow.client.pull.consumer import PullConsumer
    from rocketflow.client.pull.options import PullOptions
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow_store.spi.messages import ReceivedMessage

_FIRST: Final = "first"
_LAST: Final = "last"
_POLL_SECONDS: Final = 0.2
_POLL_MESSAGES: Final = 1_000
_SHARE_SECONDS: Final = 10.0
"""How long a client waits for a share of the topic that other clients of its group read."""


FIELDS: Final[dict[str, dict[str, str]]] = {
    "consume": RECEIVED_FIELDS,
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def consume(
    topic: TopicOption,
    name_servers: NameServersOption = "",
    profile: ProfileOption = "",
    group: Annotated[
        str | None, typer.Option("-g", "--group", help="Share the topic with this group, and commit its progress.")
    ] = None,
    tags: TagsOption = None,
    sql: Annotated[str | None, typer.Option("--sql", help="SQL92 condition on properties.")] = None,
    start: Annotated[
        str, typer.Option("--from", metavar="first|last", help="Begin here; a group only where it has no offset.")
    ] = _FIRST,
    begin: Annotated[
        int | None,
        typer.Option("--begin", metavar="TIME", parser=time_argument, help="Begin at this time, ISO 8601 or ms."),
    ] = None,
    last: LastOption = None,
    most: Annotated[int | None, typer.Option("--max", min=0, help="At most N messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Print messages as they arrive, without end.")] = False,
    body: BodyOption = BodyForm.TEXT,
    on_bad_body: OnBadBodyOption = OnBadBody.FAIL,
    as_json: JsonOption = False,
    credentials: CredentialsOption = None,
    tls: TlsOption = False,
    tls_ca: TlsTrustOption = "",
    tls_cert: TlsCertOption = "",
    tls_key: TlsKeyOption = "",
) -> None:
    """Print messages of a topic. Example: rocketflow consume -n 127.0.0.1:9876 --topic orders -g billing --follow

    Without --follow it ends at the end that the topic had at the start. Messages that were printed are committed; with
    --max no others are. --last shows the newest messages of all queues by store time, without a group. Messages that a
    broker cannot return, because they are damaged or missing, are reported on stderr; the exit code is then 3.
    """
    from rocketflow.cli.shared.client_run import run_client

    if tags is not None and sql is not None:
        raise UsageError("--tags and --sql exclude each other")
    if last is not None and (group is not None or most is not None or begin is not None or start != _FIRST):
        raise UsageError("--last excludes -g, --max, --begin and --from: it reads the newest messages, for no group")
    if begin is not None and start != _FIRST:
        raise UsageError("--begin and --from exclude each other: both say where to begin")
    options = client_options(
        name_servers, credentials, profile=profile, tls=tls, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key
    )
    selection = Selection(topic, group, tags, sql, start if begin is None else begin)
    printer = Printer(body, on_bad_body, as_json=as_json)
    with ends_at_interrupt(expected=follow):
        skipped = run_client(Reader(options, selection, printer, most=most, last=last, follow=follow).run())
    if skipped:
        print(f"error: {skipped} messages could not be read; see store verify at their broker", file=sys.stderr)
    if skipped or printer.skipped:
        raise typer.Exit(EXIT_LOST)


class Selection:
    """The messages to read."""

    def __init__(self, topic: str, group: str | None, tags: str | None, sql: str | None, start: str | int) -> None:
        """Raise BadParameter for a start that is neither `first`, `last` nor a time."""
        self.topic = topic
        self.group = group
        self.expression = (sql or tags or "*", "TAG" if sql is None else "SQL92")
        self.start = start
        self.start_ms = None if start in (_FIRST, _LAST) else time_argument(start)


class Printer:
    """Prints messages as JSON lines, or as the table of `store cat`."""

    def __init__(self, body: BodyForm, on_bad_body: OnBadBody, *, as_json: bool) -> None:
        self._body = body
        self._on_bad_body = on_bad_body
        self.skipped = 0
        self._as_json = as_json
        self._table = Table([name for name in TABLE_COLUMNS if name != "body" or body is not BodyForm.NONE])

    def show(self, messages: Sequence[ReceivedMessage]) -> None:
        """Print messages and flush stdout, so that a commit follows the output."""
        for one in messages:
            if one.body_error and self._body is not BodyForm.NONE:
                print_bad_body((one.topic, one.queue_id, one.queue_offset), one.body_error, self._on_bad_body)
                if self._on_bad_body is OnBadBody.QUARANTINE:
                    self.skipped += 1
                    continue
            fields = received_fields(one, self._body)
            if self._as_json:
                emit(fields)
            else:
                self._table.add(table_row(fields))
        if not self._as_json:
            self._table.flush()
        sys.stdout.flush()

    def stops_at(self, messages: Sequence[ReceivedMessage]) -> ReceivedMessage | None:
        """Return the first message whose body cannot be decoded, if that ends the output."""
        if self._on_bad_body is not OnBadBody.FAIL or self._body is BodyForm.NONE:
            return None
        return next((one for one in messages if one.body_error), None)


class Reader:
    """Reads a selection, or its `last` messages, until its end, `most` messages, or a signal."""

    def __init__(
        self,
        options: ClientOptions,
        selection: Selection,
        printer: Printer,
        *,
        most: int | None,
        last: int | None,
        follow: bool,
    ) -> None:
        self._options = options
        self._selection = selection
        self._printer = printer
        self._left = most
        self._last = last
        self._follow = follow

    async def run(self) -> int:
        """Read and print; return the number of messages that brokers did not return, each reported on stderr.

        A signal ends it after a commit of what was printed.
        """
        from rocketflow.client.pull.consumer import PullConsumer

        bounds = {} if self._follow and self._last is None else await self._bounds()
        consumer = PullConsumer(self._pull_options())
        await consumer.start()
        try:
            await self._subscribe(consumer)
            bad = await self._read_all(consumer, bounds)
        except BaseException:  # a signal, too: what was printed counts as consumed since the next poll
            await consumer.abort()
            raise
        await consumer.close()
        if bad is not None:
            place = bad.topic, bad.queue_id, bad.queue_offset
            raise DamagedBodyError(f"broker {bad.broker_name}", bad.physical_offset, place, bad.body_error)
        return consumer.skipped

    async def _bounds(self) -> dict[MessageQueue, tuple[int, int]]:
        from rocketflow.client.admin.admin_client import AdminClient

        async with AdminClient(self._options) as admin:
            status = await admin.topic_status(self._selection.topic)
            return {queue: (one.min_offset, one.max_offset) for queue, one in status.items()}

    def _pull_options(self) -> PullOptions:
        """Return the options of the consumer; without a group it commits nothing."""
        from rocketflow.client.admin.message_requests import TOOLS_GROUP
        from rocketflow.client.consume.start_positions import ConsumeFrom
        from rocketflow.client.pull.options import PullOptions

        starts = {_FIRST: ConsumeFrom.FIRST, _LAST: ConsumeFrom.LAST}
        chosen = self._selection
        return PullOptions(
            group=chosen.group or TOOLS_GROUP,
            start=starts.get(str(chosen.start), ConsumeFrom.TIMESTAMP),
            start_ms=chosen.start_ms,
            auto_commit=chosen.group is not None,
            **vars(self._options),
        )

    async def _subscribe(self, consumer: PullConsumer) -> None:
        chosen = self._selection
        if chosen.group is not None:
            await consumer.subscribe(chosen.topic, *chosen.expression)
            return
        queues = await consumer.queues(chosen.topic)
        await consumer.assign(queues, *chosen.expression)
        for queue in queues if self._last is None else ():
            if chosen.start_ms is not None:
                await consumer.seek_to_time(queue, chosen.start_ms)
            else:
                await (consumer.seek_to_begin(queue) if chosen.start == _FIRST else consumer.seek_to_end(queue))

    async def _read_all(
        self, consumer: PullConsumer, bounds: dict[MessageQueue, tuple[int, int]]
    ) -> ReceivedMessage | None:
        """Read the newest messages first if they are asked for; return the message before which it ended earlier."""
        ends = {queue: end for queue, (_, end) in bounds.items()}
        if self._last is not None:
            newest = await self._newest(consumer, bounds, self._last)
            bad = self._printer.stops_at(newest)
            if bad is not None:
                newest = newest[: next(at for at, one in enumerate(newest) if one is bad)]
            self._printer.show(newest)
            if bad is not None or not self._follow:
                return bad
        return await self._read(consumer, ends)

    async def _newest(
        self, consumer: PullConsumer, bounds: dict[MessageQueue, tuple[int, int]], count: int
    ) -> list[ReceivedMessage]:
        """Return the `count` messages that were stored last before the ends; the positions are the ends then.

        Each queue is read from so far back on that it has as many messages, or is read completely.
        """
        queues = {one: bounds.get(one, (0, 0)) for one in consumer.assignment()}
        found: dict[tuple[str, int], list[ReceivedMessage]] = {}
        for queue, (begin, end) in queues.items():
            reach, start = count, end
            some: list[ReceivedMessage] = []
            while len(some) < count and start > begin:
                start, stop = max(begin, end - reach), start
                some = await self._between(consumer, queue, start, stop) + some
                reach *= 4
            found[queue.broker_name, queue.queue_id] = some
            consumer.seek(queue, end)
        consumer.resume(*queues)
        everything = [one for some in found.values() for one in some]
        return sorted(everything, key=lambda one: (one.store_timestamp, one.physical_offset))[-count:]

    async def _between(
        self, consumer: PullConsumer, queue: MessageQueue, start: int, stop: int
    ) -> list[ReceivedMessage]:
        """Return the selected messages of a queue at offsets [start, stop)."""
        consumer.pause(*consumer.assignment())
        consumer.resume(queue)
        consumer.seek(queue, start)
        found: list[ReceivedMessage] = []
        while consumer.position(queue) < stop:
            found += await consumer.poll(_POLL_SECONDS, _POLL_MESSAGES)
        return [one for one in found if one.queue_offset < stop]

    async def _read(self, consumer: PullConsumer, ends: dict[MessageQueue, int]) -> ReceivedMessage | None:
        """Read until the end; return the message before which it ended earlier, because its body cannot be decoded."""
        latest = time.monotonic() + _SHARE_SECONDS
        while self._left != 0 and (self._follow or self._has_more(consumer, ends, latest)):
            most = _POLL_MESSAGES if self._left is None else min(self._left, _POLL_MESSAGES)
            found = await consumer.poll(_POLL_SECONDS, most)
            bad = self._printer.stops_at(found)
            if bad is not None:
                self._printer.show(_before(consumer, found, bad))
                return bad
            self._printer.show(found)
            if self._left is not None:
                self._left -= len(found)
        return None

    def _has_more(self, consumer: PullConsumer, ends: dict[MessageQueue, int], latest: float) -> bool:
        queues = consumer.assignment()
        if queues:
            return any(consumer.position(one) < ends.get(one, 0) for one in queues)
        return time.monotonic() < latest


def _before(consumer: PullConsumer, messages: Sequence[ReceivedMessage], bad: ReceivedMessage) -> list[ReceivedMessage]:
    """Return the messages before `bad`; the queues of the others go on where they are cut off."""
    count = next(at for at, one in enumerate(messages) if one is bad)
    queues = {(one.broker_name, one.topic, one.queue_id): one for one in consumer.assignment()}
    for one in reversed(messages[count:]):
        queue = queues.get((one.broker_name, one.topic, one.queue_id))
        if queue is not None:
            consumer.seek(queue, one.queue_offset)
    return list(messages[:count])
