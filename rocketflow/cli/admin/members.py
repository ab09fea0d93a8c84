"""Subcommands about the clients of groups.

RocketMQ's source: tools/command/connection/**, tools/command/consumer/ConsumerStatusSubCommand.java,
tools/command/producer/ProducerSubCommand.java, remoting/protocol/body/ConsumerRunningInfo.java (formatString).
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rocketflow.cli.admin.options import TopicOption
from rocketflow.cli.admin.output import Output
from rocketflow.cli.admin.subcommand import subcommand
from rocketflow.cli.admin.targets import chosen_brokers
from rocketflow.cli.shared.parameters import QUEUE_FIELDS

if TYPE_CHECKING:
    from rocketflow.client.admin.admin_client import AdminClient
    from rocketflow.client.admin.figures import Connection, ConsumerConnection

_VERDICTS = {
    True: "Same subscription in the same group of consumer",
    False: "WARN: Different subscription in the same group of consumer!!!",
    None: "WARN: whether the clients subscribe alike is not known, as some do not report",
}


_CLIENT: Final = {
    "clientId": "id of the client",
    "clientAddr": "address of its connection",
    "language": "language of the client",
    "version": "version of RocketMQ that it announces",
}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "admin consumerConnection": {
        "group": "consumer group",
        "connections": "its clients",
        **{f"connections.{name}": about for name, about in _CLIENT.items()},
        "subscriptions": "topics that it reads",
        "subscriptions.topic": "topic",
        "subscriptions.subString": "tags or SQL that it selects",
        "consumeType": "CONSUME_PASSIVELY (push) or CONSUME_ACTIVELY (pull)",
        "messageModel": "CLUSTERING or BROADCASTING",
        "consumeFromWhere": "where a group without offsets begins",
    },
    "admin consumerStatus": {
        "group": "consumer group",
        "connections": "its clients",
        **{f"connections.{name}": text for name, text in _CLIENT.items()},
        "connections.index": "number of the client in this list",
        "sameSubscription": "whether all clients have the same topics and expressions; null if some do not report",
        "clientId": "with -i: id of the client",
        "properties": "with -i: settings of the client",
        "subscriptions": "with -i: its subscriptions",
        "subscriptions.topic": "topic",
        "subscriptions.subString": "tags, or the condition",
        "queues": "with -i: queues that it reads",
        "queues.topic": "topic",
        **{f"queues.{name}": text for name, text in QUEUE_FIELDS.items()},
        "queues.processQueue": "what waits in the client, by RocketMQ's names",
        "popQueues": "with -i: queues that it reads by POP, as `queues`",
        "rates": "with -i: rates by topic, by RocketMQ's names",
        "userConsumerInfo": "with -i: what the application adds",
        "jstack": "with -i and -s: the stacks of its threads",
    },
    "admin producer": {
        "group": "producer group",
        "clientId": "id of the client",
        "remoteIP": "address of its connection",
        "language": "language of the client",
        "version": "ordinal of RocketMQ's version that it announces",
        "lastUpdateTimestamp": "time of its last heartbeat, ms",
    },
    "admin producerConnection": _CLIENT,
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@subcommand("consumerConnection")
async def consumer_connection(
    admin: "AdminClient",
    output: Output,
    group: Annotated[str, typer.Option("-g", "--consumerGroup", metavar="GROUP", help="The consumer group.")],
) -> None:
    """Print the clients of a consumer group, and what they subscribe to.

    Example: rocketflow admin consumerConnection -n 127.0.0.1:9876 -g billing
    """
    found = await admin.consumer_connection(group)
    clients = [_client(one) for one in found.connection_set]
    topics = [{"topic": one.topic, "subString": one.sub_string} for one in found.subscription_table.values()]
    if output.as_json:
        output.pretty({"group": group, "connections": clients, "subscriptions": topics, **_ways(found)})
        return
    columns = {"#ClientId": "clientId", "#ClientAddr": "clientAddr", "#Language": "language", "#Version": "version"}
    output.table(columns, clients)
    print("\nBelow is subscription:")
    output.table({"#Topic": "topic", "#SubExpression": "subString"}, topics)
    print()
    for name, value in _ways(found).items():
        print(f"{name[0].upper()}{name[1:]}: {value}")


def _client(one: "Connection") -> dict[str, Any]:
    from rocketflow.remoting.versions import version_name

    return {
        "clientId": one.client_id,
        "clientAddr": one.client_addr,
        "language": one.language,
        "version": version_name(one.version),
    }


def _ways(found: "ConsumerConnection") -> dict[str, str]:
    return {
        "consumeType": found.consume_type,
        "messageModel": found.message_model,
        "consumeFromWhere": found.consume_from_where,
    }


@subcommand("producerConnection")
async def producer_connection(
    admin: "AdminClient",
    output: Output,
    topic: TopicOption,
    group: Annotated[str, typer.Option("-g", "--producerGroup", metavar="GROUP", help="The producer group.")],
) -> None:
    """Print the clients of a producer group.

    Example: rocketflow admin producerConnection -n 127.0.0.1:9876 -g shop -t t
    """
    found = await admin.producer_connection(group, topic)
    for number, one in enumerate(map(_client, found.connection_set), 1):
        text = f"{number:04}  {{clientId:<32}} {{clientAddr:<22}} {{language:<8}} {{version}}"
        output.lines([one], text)


@subcommand("producer")
async def producers(
    admin: "AdminClient",
    output: Output,
    broker: Annotated[str, typer.Option("-b", "--broker", metavar="HOST:PORT", help="The broker.")],
) -> None:
    """Print the producers that are connected to a broker.

    Example: rocketflow admin producer -n 127.0.0.1:9876 -b 127.0.0.1:10911
    """
    (address,) = await chosen_brokers(admin, broker, None)
    rows = [
        {
            "group": group,
            "clientId": one.client_id,
            "remoteIP": one.remote_ip,
            "language": one.language,
            "version": one.version,
            "lastUpdateTimestamp": one.last_update_timestamp,
        }
        for group, members in (await admin.producers_at(address)).items()
        for one in members
    ]
    names = ("remoteIP", " language", " version", " lastUpdateTimestamp")
    text = ",".join(f"{name}={{{name.strip()}}}" for name in ("clientId", *names))
    output.lines(rows, f"producer group ({{group}}) instance : {text}")


@subcommand("consumerStatus")
async def consumer_status(
    admin: "AdminClient",
    output: Output,
    group: Annotated[str, typer.Option("-g", "--consumerGroup", metavar="GROUP", help="The consumer group.")],
    client_id: Annotated[str | None, typer.Option("-i", "--clientId", metavar="ID", help="One client.")] = None,
    stacks: Annotated[
        bool, typer.Option("-s", "--jstack", help="Print the stacks of the clients' threads too.")
    ] = False,
) -> None:
    """Print the clients of a group and whether they subscribe alike, or what one client reports of itself.

    Example: rocketflow admin consumerStatus -n 127.0.0.1:9876 -g billing
    """
    from rocketflow.client.admin.figures import subscribe_alike
    from rocketflow.client.errors import ClientError

    if client_id is not None:
        _print_client(output, client_id, await admin.running_info(group, client_id, stacks=stacks))
        return
    reports: list[list[tuple[str, str]] | None] = []
    rows = []
    for number, one in enumerate((await admin.consumer_connection(group)).connection_set, 1):
        try:
            info = await admin.running_info(group, one.client_id, stacks=stacks)
        except ClientError as error:
            print(f"error: {one.client_id} does not report: {error}", file=sys.stderr)
            reports.append(None)
            continue
        reports.append([(sub["topic"], sub["subString"]) for sub in _subscriptions(info)])
        found = info.get("jstack") if stacks else None
        rows.append({"index": number, **_client(one), **({} if found is None else {"jstack": found})})
    is_same = subscribe_alike(reports)
    if output.as_json:
        output.pretty({"group": group, "connections": rows, "sameSubscription": is_same})
        return
    output.table({"#Index": "index", "#ClientId": "clientId", "#Version": "version"}, rows)
    print(f"\n{_VERDICTS[is_same]}")
    for row in rows:
        if "jstack" in row:
            print(f"\n\n#Consumer jstack# {row['clientId']}\n{row['jstack']}")


def _print_client(output: Output, client_id: str, info: dict[str, Any]) -> None:
    queues, pop_queues = _queues(info, "mqTable"), _queues(info, "mqPopTable")
    properties, rates = dict(info.get("properties") or {}), dict(info.get("statusTable") or {})
    own, stacks = dict(info.get("userConsumerInfo") or {}), info.get("jstack")
    subscriptions = _subscriptions(info)
    if output.as_json:
        body = {"properties": properties, "subscriptions": subscriptions, "queues": queues, "popQueues": pop_queues}
        body |= {"rates": rates, "userConsumerInfo": own, **({} if stacks is None else {"jstack": stacks})}
        output.pretty({"clientId": client_id, **body})
        return
    _print_pairs("#Consumer Properties#", properties)
    print("\n\n#Consumer Subscription#")
    for number, one in enumerate(subscriptions, 1):
        print(f"{number:03} Topic: {one['topic']:<40} ClassFilter: {'false':<8} SubExpression: {one['subString']}")
    place = {"#Topic": "topic", "#Broker Name": "brokerName", "#QID": "queueId"}
    print("\n\n#Consumer Offset#")
    offsets = [{**one, "offset": one["processQueue"].get("commitOffset")} for one in queues]
    output.table({**place, "#Consumer Offset": "offset"}, offsets)
    for head, rows in (("#Consumer MQ Detail#", queues), ("#Consumer Pop Detail#", pop_queues)):
        print(f"\n\n{head}")
        output.table({**place, "#ProcessQueueInfo": "processQueue"}, rows)
    print("\n\n#Consumer RT&TPS#")
    names = ("pullRT", "pullTPS", "consumeRT", "consumeOKTPS", "consumeFailedTPS", "consumeFailedMsgs")
    heads = ("#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS", "#ConsumeFailedMsgsInHour")
    output.table(
        {"#Topic": "topic", **dict(zip(heads, names))}, [{"topic": one, **rates[one]} for one in sorted(rates)]
    )
    _print_pairs("\n\n#User Consume Info#", own)
    if stacks is not None:
        print(f"\n\n#Consumer jstack#\n{stacks}")


def _queues(info: dict[str, Any], table: str) -> list[dict[str, Any]]:
    from rocketflow.client.admin.figures import queue_table

    return [
        {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id, "processQueue": one}
        for queue, one in queue_table(info, table, dict).items()
    ]


def _print_pairs(head: str, pairs: dict[str, str]) -> None:
    print(head)
    for name in sorted(pairs):
        print(f"{name:<40}: {pairs[name]}")


def _subscriptions(info: dict[str, Any]) -> list[dict[str, str]]:
    found = ({"topic": str(one["topic"]), "subString": str(one["subString"])} for one in info["subscriptionSet"])
    return sorted(found, key=lambda one: one["topic"])
