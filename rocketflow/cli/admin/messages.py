"""Subcommands about messages: by id, key, place and queue.

RocketMQ's source: tools/command/message/**.
"""

from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rocketflow.cli.admin.one_message import consume_at, known_charset, print_message, send_again, shown_fields
from rocketflow.cli.admin.options import TopicOption
from rocketflow.cli.admin.output import Output
from rocketflow.cli.admin.subcommand import subcommand
from rocketflow.cli.admin.targets import TrueOrFalse, time_of
from rocketflow.cli.shared.message_rows import RECEIVED_FIELDS, TABLE_COLUMNS, BodyForm, received_fields
from rocketflow.cli.shared.parameters import QUEUE_FIELDS, BodyOption
from rocketflow.errors import UsageError

if TYPE_CHECKING:
    from rocketflow.client.admin.admin_client import AdminClient
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow_store.spi.messages import ReceivedMessage

_BATCH = 32

ConsumerGroupOption = Annotated[
    str | None, typer.Option("-g", "--consumerGroup", metavar="GROUP", help="With -d: let a client of it consume.")
]
ClientIdOption = Annotated[
    str | None, typer.Option("-d", "--clientId", metavar="ID", help="With -g: the client that consumes it now.")
]
CharsetOption = Annotated[
    str | None, typer.Option("-c", "--charsetName", metavar="CHARSET", help="Character set of bodies.")
]
ExpressionOption = Annotated[str, typer.Option("-s", "--subExpression", help="Tags: a || b.")]
BeginOption = Annotated[str | None, typer.Option("-b", "--beginTimestamp", metavar="TIME", help="Stored since.")]
EndOption = Annotated[str | None, typer.Option("-e", "--endTimestamp", metavar="TIME", help="Stored until.")]


_TRACKS: Final = {
    "tracks": "what the groups that read the topic did with it",
    "tracks.consumerGroup": "consumer group",
    "tracks.trackType": "CONSUMED, NOT_CONSUME_YET, NOT_ONLINE, PULL and the other names of RocketMQ's TrackType",
    "tracks.exceptionDesc": "why it is not known; null",
}
_CONSUMED: Final = {
    "order": "with -g and -d: whether the client consumes in order",
    "autoCommit": "with -g and -d: whether it commits",
    "consumeResult": "with -g and -d: CR_SUCCESS, CR_LATER, CR_THROW_EXCEPTION and others",
    "remark": "with -g and -d: the exception of the listener; null",
    "spentTimeMills": "with -g and -d: time that the listener took, ms",
}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "admin consumeMessage": RECEIVED_FIELDS,
    "admin printMsg": RECEIVED_FIELDS,
    "admin printMsgByQueue": {
        **RECEIVED_FIELDS,
        "tag": "with -f true: a tag",
        "count": "with -f true: number of its messages",
    },
    "admin queryMsgById": {**RECEIVED_FIELDS, **_TRACKS, **_CONSUMED, "status": "with -s true: result of the send"},
    "admin queryMsgByKey": RECEIVED_FIELDS,
    "admin queryMsgByOffset": {**RECEIVED_FIELDS, **_TRACKS},
    "admin queryMsgByUniqueKey": {**RECEIVED_FIELDS, **_TRACKS, **_CONSUMED},
    "admin sendMessage": {
        **QUEUE_FIELDS,
        "status": "SEND_OK, or why the message is stored less safely",
        "uniqKey": "unique key of the message",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@subcommand("queryMsgByKey")
async def query_by_key(
    admin: "AdminClient",
    output: Output,
    topic: TopicOption,
    key: Annotated[str, typer.Option("-k", "--msgKey", metavar="KEY", help="The key.")],
    begin: Annotated[str, typer.Option("-b", "--beginTimestamp", metavar="TIME", help="Stored since.")] = "0",
    end: Annotated[str | None, typer.Option("-e", "--endTimestamp", metavar="TIME", help="Stored until.")] = None,
    count: Annotated[int, typer.Option("-m", "--maxNum", min=1, help="Most messages of each broker.")] = 64,
    body: BodyOption = BodyForm.TEXT,
) -> None:
    """Find messages by key. Example: rocketflow admin queryMsgByKey -n 127.0.0.1:9876 -t orders -k o-1"""
    until = {} if end is None else {"end_ms": time_of(end)}
    found = await admin.query_by_key(topic, key, max_count=count, begin_ms=time_of(begin), **until)
    columns = {"#Message ID": "id", "#QID": "queueId", "#Offset": "queueOffset"}
    if output.as_json:
        output.rows(columns, [received_fields(one, body) for one in found])
    else:
        rows = ({"id": one.message_id, "queueId": one.queue_id, "queueOffset": one.queue_offset} for one in found)
        output.table(columns, rows)


@subcommand("queryMsgById")
async def query_by_id(
    admin: "AdminClient",
    output: Output,
    message_id: Annotated[str, typer.Option("-i", "--msgId", metavar="ID", help="Offset message ids, by commas.")],
    topic: Annotated[str, typer.Option("-t", "--topic", help="The topic; not needed.")] = "",
    group: ConsumerGroupOption = None,
    client_id: ClientIdOption = None,
    resend: Annotated[TrueOrFalse, typer.Option("-s", "--sendMessage", help="Send it to its topic again.")] = "false",
    unit: Annotated[str, typer.Option("-u", "--unitName", metavar="UNIT", help="With -s: the producer's unit.")] = "",
    charset: Annotated[
        str | None, typer.Option("-f", "--bodyFormat", metavar="CHARSET", help="Character set of the body.")
    ] = None,
    body: BodyOption = BodyForm.TEXT,
) -> None:
    """Print the message with an offset message id, and what each group did with it.

    Example: rocketflow admin queryMsgById -n 127.0.0.1:9876 -i 7F00000100002A9F0000000000000000
    """
    known_charset(charset)
    for one in filter(None, (part.strip() for part in message_id.split(","))):
        message = await admin.message_at(one)
        if group is not None or client_id is not None:
            await consume_at(admin, output, message, group, client_id)
        elif resend == "true":
            await send_again(admin, output, message, unit)
        else:
            await print_message(admin, output, message, body, charset)


@subcommand("queryMsgByUniqueKey")
async def query_by_unique_key(
    admin: "AdminClient",
    output: Output,
    message_id: Annotated[str, typer.Option("-i", "--msgId", metavar="ID", help="The id that the producer made.")],
    topic: TopicOption,
    show_all: Annotated[bool, typer.Option("-a", "--showAll", help="All messages with this id.")] = False,
    group: ConsumerGroupOption = None,
    client_id: ClientIdOption = None,
    body: BodyOption = BodyForm.TEXT,
) -> None:
    """Print the message with an id that its producer made, and what each group did with it.

    Example: rocketflow admin queryMsgByUniqueKey -n 127.0.0.1:9876 -t orders -i 7F0000010A2B3C4D00001F2E3D4C0001
    """
    from rocketflow.client.admin.message_requests import NoMessageError

    found = await admin.query_by_unique_key(topic, message_id)
    if not found:
        raise NoMessageError(f"topic {topic!r} has no message with the id {message_id!r} in an index")
    if group is not None or client_id is not None:
        await consume_at(admin, output, found[0], group, client_id)
        return
    for one in found if show_all else found[:1]:
        await print_message(admin, output, one, body)


@subcommand("queryMsgByOffset")
async def query_by_offset(
    admin: "AdminClient",
    output: Output,
    topic: TopicOption,
    broker_name: Annotated[str, typer.Option("-b", "--brokerName", metavar="NAME", help="The broker's name.")],
    queue_id: Annotated[int, typer.Option("-i", "--queueId", min=0, help="The queue.")],
    offset: Annotated[int, typer.Option("-o", "--offset", min=0, help="The queue offset.")],
    body: BodyOption = BodyForm.TEXT,
) -> None:
    """Print the message at a queue offset.

    Example: rocketflow admin queryMsgByOffset -n 127.0.0.1:9876 -t orders -b broker-a -i 0 -o 12
    """
    from rocketflow.client.admin.message_requests import NoMessageError
    from rocketflow.remoting.bodies import MessageQueue

    found = await admin.pull(MessageQueue(topic, broker_name, queue_id), offset, max_count=1)
    if not found.messages or found.messages[0].queue_offset != offset:
        raise NoMessageError(
            f"queue {queue_id} of topic {topic!r} at {broker_name} has no message at {offset}: it has "
            f"[{found.min_offset}, {found.max_offset})"
        )
    await print_message(admin, output, found.messages[0], body)


@subcommand("printMsg")
async def print_messages(
    admin: "AdminClient",
    output: Output,
    topic: TopicOption,
    expression: ExpressionOption = "*",
    begin: BeginOption = None,
    end: EndOption = None,
    print_body: Annotated[TrueOrFalse, typer.Option("-d", "--printBody", help="Bodies too.")] = "true",
    charset: CharsetOption = None,
    body: BodyOption = BodyForm.TEXT,
) -> None:
    """Print a topic's messages; no group's progress changes.

    Example: rocketflow admin printMsg -n 127.0.0.1:9876 -t orders
    """
    known_charset(charset)
    form = body if print_body == "true" else BodyForm.NONE
    for queue in await _queues(admin, topic):
        first, last = await _bounds(admin, queue, begin, end)
        if not output.as_json:
            print(f"minOffset={first}, maxOffset={last}, {queue.broker_name} queue {queue.queue_id}")
        rows = [shown_fields(one, form, charset) async for one in _read(admin, queue, first, last, expression)]
        _print_rows(output, form, rows)


@subcommand("printMsgByQueue")
async def print_messages_of_a_queue(
    admin: "AdminClient",
    output: Output,
    topic: TopicOption,
    broker_name: Annotated[str, typer.Option("-a", "--brokerName", metavar="NAME", help="The broker's name.")],
    queue_id: Annotated[int, typer.Option("-i", "--queueId", min=0, help="The queue.")],
    expression: ExpressionOption = "*",
    begin: BeginOption = None,
    end: EndOption = None,
    print_rows: Annotated[TrueOrFalse, typer.Option("-p", "--print", help="Print the messages.")] = "false",
    print_body: Annotated[TrueOrFalse, typer.Option("-d", "--printBody", help="Bodies too.")] = "false",
    by_tag: Annotated[TrueOrFalse, typer.Option("-f", "--calculate", help="Count messages by tag.")] = "false",
    charset: CharsetOption = None,
) -> None:
    """Print the messages of a queue, or how many have each tag; no group's progress changes.

    Example: rocketflow admin printMsgByQueue -n 127.0.0.1:9876 -t orders -a broker-a -i 0 -p true -f true
    """
    from rocketflow.remoting.bodies import MessageQueue

    known_charset(charset)
    form = BodyForm.TEXT if print_body == "true" else BodyForm.NONE
    queue = MessageQueue(topic, broker_name, queue_id)
    messages = [one async for one in _read(admin, queue, *await _bounds(admin, queue, begin, end), expression)]
    if print_rows == "true":
        _print_rows(output, form, [shown_fields(one, form, charset) for one in messages])
    if by_tag == "true":
        counts = Counter(one.tags for one in messages if one.tags and one.tags.strip())
        rows = [{"tag": tag, "count": count} for tag, count in counts.most_common()]
        output.lines(rows, "Tag: {tag:<30} Count: {count}")


@subcommand("consumeMessage")
async def consume_message(
    admin: "AdminClient",
    output: Output,
    topic: TopicOption,
    broker_name: Annotated[str | None, typer.Option("-b", "--brokerName", metavar="NAME", help="One broker.")] = None,
    queue_id: Annotated[int | None, typer.Option("-i", "--queueId", min=0, help="One queue of it.")] = None,
    offset: Annotated[int | None, typer.Option("-o", "--offset", min=0, help="Queue offset to begin at.")] = None,
    begin: Annotated[str | None, typer.Option("-s", "--beginTimestamp", metavar="TIME", help="Stored since.")] = None,
    end: EndOption = None,
    count: Annotated[int, typer.Option("-c", "--messageNumber", min=1, help="Most messages.")] = 128,
    body: BodyOption = BodyForm.TEXT,
) -> None:
    """Print messages of a topic or of a queue; no group's progress changes.

    Example: rocketflow admin consumeMessage -n 127.0.0.1:9876 -t orders -b broker-a -i 0 -o 12 -c 10
    """
    if (queue_id is not None and broker_name is None) or (offset is not None and queue_id is None):
        raise UsageError("a queue needs its broker, and an offset its queue: give -b NAME -i QUEUE -o OFFSET")
    left = count
    for queue in await _queues(admin, topic):
        if broker_name not in (None, queue.broker_name) or queue_id not in (None, queue.queue_id):
            continue
        first, last = await _bounds(admin, queue, begin, end)
        first = first if offset is None else max(first, offset)
        found = _read(admin, queue, first, min(last, first + left), "*")
        rows = [received_fields(one, body) async for one in found]
        _print_rows(output, body, rows)
        left -= len(rows)


async def _queues(admin: "AdminClient", topic: str) -> "list[MessageQueue]":
    from rocketflow.client.routes import subscribe_queues

    return subscribe_queues(topic, await admin.route(topic))


async def _read(
    admin: "AdminClient", queue: "MessageQueue", first: int, last: int, expression: str
) -> "AsyncIterator[ReceivedMessage]":
    """Yield the messages of a queue within [first, last)."""
    at = first
    while at < last:
        found = await admin.pull(queue, at, max_count=min(_BATCH, last - at), expression=expression)
        for one in found.messages:
            if one.queue_offset < last:
                yield one
        if found.next_offset <= at:
            return
        at = found.next_offset


async def _bounds(admin: "AdminClient", queue: "MessageQueue", begin: str | None, end: str | None) -> tuple[int, int]:
    """Return the offsets of a queue from one time to another, of all its messages without them."""
    first = await (admin.min_offset(queue) if begin is None else admin.search_offset(queue, time_of(begin)))
    last = await (admin.max_offset(queue) if end is None else admin.search_offset(queue, time_of(end)))
    return first, last


def _print_rows(output: Output, form: BodyForm, rows: list[dict[str, Any]]) -> None:
    if rows or output.as_json:
        output.rows({name: name for name in TABLE_COLUMNS if name != "body" or form is not BodyForm.NONE}, rows)


@subcommand("sendMessage")
async def send_message(
    admin: "AdminClient",
    output: Output,
    topic: TopicOption,
    body: Annotated[str, typer.Option("-p", "--body", metavar="TEXT", help="The body.")],
    keys: Annotated[str, typer.Option("-k", "--key", metavar="KEYS", help="Keys, separated by spaces.")] = "",
    tags: Annotated[str, typer.Option("-c", "--tags", metavar="TAG", help="The tag.")] = "",
    broker: Annotated[str | None, typer.Option("-b", "--broker", metavar="NAME", help="With -i: the broker.")] = None,
    queue_id: Annotated[int | None, typer.Option("-i", "--qid", min=0, help="With -b: the queue.")] = None,
    trace: Annotated[TrueOrFalse, typer.Option("-m", "--msgTraceEnable", help="Write a trace.")] = "false",
) -> None:
    """Send a message. Example: rocketflow admin sendMessage -n 127.0.0.1:9876 -t orders -p "order 1"

    `rocketflow send` sends many, from lines or JSON.
    """
    from dataclasses import fields

    from rocketflow.client.options import ClientOptions
    from rocketflow.client.produce import Producer, ProducerOptions
    from rocketflow.client.produce.trace import TRACE_TOPIC
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow_store.spi.messages import Message

    if (broker is None) != (queue_id is None):
        raise UsageError("-b NAME and -i NUMBER name one queue: give both, or neither")
    to = MessageQueue(topic, broker, queue_id) if broker is not None and queue_id is not None else None
    shared = {one.name: getattr(admin.cluster.options, one.name) for one in fields(ClientOptions)}
    options = ProducerOptions(group="rocketflow", trace_topic=TRACE_TOPIC if trace == "true" else "", **shared)
    async with Producer(options) as producer:
        result = await producer.send(Message(topic, body.encode(), tags=tags, keys=keys), to=to)
    row = {
        "brokerName": result.queue.broker_name,
        "queueId": result.queue.queue_id,
        "status": result.status.name,
        "uniqKey": result.message_id,
    }
    columns = {"#Broker Name": "brokerName", "#QID": "queueId", "#Send Result": "status", "#MsgId": "uniqKey"}
    output.rows(columns, [row])
