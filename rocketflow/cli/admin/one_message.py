"""One message as mqadmin prints it, with its tracks; sent again, or given to a consumer at once.

RocketMQ's source: tools/command/message/QueryMsgByIdSubCommand.java (printMsg, pushMsg, sendMsg),
tools/admin/api/MessageTrack.java, remoting/protocol/body/ConsumeMessageDirectlyResult.java.
"""

from __future__ import annotations

import codecs
from dataclasses import fields as fields_of_class
from typing import TYPE_CHECKING, Any

from rocketflow.cli.admin.output import described
from rocketflow.cli.shared.message_rows import BodyForm, received_fields
from rocketflow.cli.shared.parameters import emit
from rocketflow.errors import UsageError
from rocketflow.process.times import iso_time

if TYPE_CHECKING:
    from rocketflow.cli.admin.output import Output
    from rocketflow.client.admin.admin_client import AdminClient
    from rocketflow_store.spi.messages import ReceivedMessage

_TRACK = "MessageTrack [consumerGroup={consumerGroup}, trackType={trackType}, exceptionDesc={exceptionDesc}]"
_RESULT = "ConsumeMessageDirectlyResult [order={order}, autoCommit={autoCommit}, consumeResult={consumeResult}, "
_RESULT += "remark={remark}, spentTimeMills={spentTimeMills}]"
_RESENT = "prepare resend msg. originalMsgId={msgId}; {status}: {uniqKey} in {brokerName} queue {queueId}"


def known_charset(name: str | None) -> str | None:
    """Return the name of a character set. Raises UsageError for one that is not known."""
    if name is not None:
        try:
            codecs.lookup(name)
        except LookupError:
            raise UsageError(f"{name!r} is no character set: UTF-8 or GBK for example") from None
    return name


def shown_fields(message: ReceivedMessage, form: BodyForm, charset: str | None) -> dict[str, Any]:
    """Return all fields of a message; a body that is shown as text is read by the character set."""
    fields = received_fields(message, form)
    if charset is not None and form is BodyForm.TEXT:
        body = message.stored_body if message.body_error else message.body
        fields["body"] = body.decode(charset, "replace")
    return fields


async def print_message(
    admin: AdminClient, output: Output, message: ReceivedMessage, form: BodyForm, charset: str | None = None
) -> None:
    """Print one message and what each group did with it: a JSON line, or mqadmin's names and values."""
    from rocketflow.client.admin.tracks import tracks

    fields = shown_fields(message, form, charset)
    found = [
        {"consumerGroup": one.consumer_group, "trackType": one.track_type, "exceptionDesc": one.exception_desc}
        for one in await tracks(admin, message)
    ]
    if output.as_json:
        emit({**fields, "tracks": found})
        return
    described(
        [
            ("OffsetID:", fields["msgId"]),
            ("Topic:", fields["topic"]),
            ("Tags:", f"[{fields['tags']}]"),
            ("Keys:", f"[{fields['keys']}]"),
            ("Queue ID:", fields["queueId"]),
            ("Queue Offset:", fields["queueOffset"]),
            ("CommitLog Offset:", fields["physicalOffset"]),
            ("Reconsume Times:", fields["reconsumeTimes"]),
            ("Born Timestamp:", iso_time(fields["bornTimestamp"])),
            ("Store Timestamp:", iso_time(fields["storeTimestamp"])),
            ("Born Host:", fields["bornHost"]),
            ("Store Host:", fields["storeHost"]),
            ("System Flag:", fields["sysFlag"]),
            ("Properties:", fields["properties"]),
            *((("Message Body:", fields["body"]),) if "body" in fields else ()),
        ]
    )
    print("\n")
    output.lines(({name: _java(value) for name, value in one.items()} for one in found), _TRACK)
    if not found:
        print("WARN: No Consumer")


async def consume_at(
    admin: AdminClient, output: Output, message: ReceivedMessage, group: str | None, client_id: str | None
) -> None:
    """Let a client of a group consume a message, and print the result. Raises UsageError without one of the two."""
    if group is None or client_id is None:
        raise UsageError("-g GROUP and -d CLIENT name one client of a group: give both, or neither")
    names = ("order", "autoCommit", "consumeResult", "remark", "spentTimeMills")
    result = await admin.consume_directly(group, client_id, message)
    row = {name: result.get(name) for name in names}
    output.lines([row if output.as_json else {name: _java(value) for name, value in row.items()}], _RESULT)


def _java(value: object) -> object:
    """Return a value as Java prints it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else value


async def send_again(admin: AdminClient, output: Output, message: ReceivedMessage, unit: str) -> None:
    """Send a message with its properties and unique key to its topic once more, and print the result."""
    from rocketflow.client.options import ClientOptions
    from rocketflow.client.produce import Producer, ProducerOptions
    from rocketflow_store.spi.messages import Message

    shared = {one.name: getattr(admin.cluster.options, one.name) for one in fields_of_class(ClientOptions)}
    fields = received_fields(message, BodyForm.NONE)
    copy = Message(
        message.topic,
        message.body,
        properties=fields["properties"],
        flag=message.flag,
        uniq_key=fields["uniqKey"] or "",
    )
    async with Producer(ProducerOptions(group="ReSendMsgById", **{**shared, "unit_name": unit})) as producer:
        result = await producer.send(copy)
    place = {"brokerName": result.queue.broker_name, "queueId": result.queue.queue_id}
    row = {"msgId": fields["msgId"], "status": result.status.name, "uniqKey": result.message_id, **place}
    output.lines([row], _RESENT)
