"""Subcommands about consumer and producer groups.

RocketMQ's source: tools/command/consumer/**, tools/command/connection/**, tools/command/offset/**.
"""

import contextlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rocketflow.cli.admin.options import BrokerOption, ClusterOption, GroupOption, TopicOption
from rocketflow.cli.admin.output import Output
from rocketflow.cli.admin.subcommand import subcommand
from rocketflow.cli.admin.targets import TrueOrFalse, chosen_brokers, time_of
from rocketflow.cli.admin.topics import OWN_PREFIXES

if TYPE_CHECKING:
    from rocketflow.client.admin.admin_client import AdminClient
    from rocketflow.client.admin.figures import Connection, ConsumerConnection, ConsumeStats

_PROGRESS = {
    "#Topic": "topic",
    "#Broker Name": "brokerName",
    "#QID": "queueId",
    "#Broker Offset": "brokerOffset",
    "#Consumer Offset": "consumerOffset",
    "#Diff": "diff",
    "#Inflight": "inflight",
    "#LastTime": "lastTimestamp",
}
_GROUPS = {
    "#Group": "group",
    "#Count": "count",
    "#Version": "version",
    "#Type": "type",
    "#Model": "model",
    "#TPS": "tps",
    "#Diff Total": "diffTotal",
}


@subcommand("consumerProgress")
async def consumer_progress(
    admin: "AdminClient",
    output: Output,
    group: Annotated[str | None, typer.Option("-g", "--groupName", metavar="GROUP", help="One group.")] = None,
    topic: Annotated[str | None, typer.Option("-t", "--topicName", metavar="TOPIC", help="One topic of it.")] = None,
) -> None:
    """Print how far a group has consumed, or a line for each group.

    Example: rocketflow admin consumerProgress -n 127.0.0.1:9876 -g billing
    """
    if group is None:
        rows = [await _summary(admin, one) for one in await _groups(admin)]
        output.rows(_GROUPS, rows)
        return
    stats = await admin.consume_stats(group, topic)
    queues = _queues(stats)
    totals = {name: sum(one[name] for one in queues) for name in ("diff", "inflight")}
    if output.as_json:
        head = {"group": group, "consumeTps": stats.consume_tps, "diffTotal": totals["diff"]}
        output.pretty({**head, "inflightTotal": totals["inflight"], "queues": queues})
        return
    output.table(_PROGRESS, queues)
    print(f"\nConsume TPS: {stats.consume_tps:.2f}")
    print(f"Consume Diff Total: {totals['diff']}")
    print(f"Consume Inflight Total: {totals['inflight']}")


def _queues(stats: "ConsumeStats") -> list[dict[str, Any]]:
    return [
        {
            "topic": queue.topic,
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "brokerOffset": one.broker_offset,
            "consumerOffset": one.consumer_offset,
            "diff": one.broker_offset - one.consumer_offset,
            "inflight": one.pull_offset - one.consumer_offset,
            "lastTimestamp": one.last_timestamp,
        }
        for queue, one in stats.queues.items()
    ]


async def _groups(admin: "AdminClient") -> list[str]:
    """Return the groups that have a retry topic, as mqadmin finds them."""
    retry = OWN_PREFIXES[0]
    return [one.removeprefix(retry) for one in await admin.topics() if one.startswith(retry)]


async def _summary(admin: "AdminClient", group: str) -> dict[str, Any]:
    from rocketflow.client.errors import ClientError
    from rocketflow.remoting.versions import version_name

    row: dict[str, Any] = {"group": group, "count": 0, "version": "OFFLINE", "type": "", "model": ""}
    row |= {"tps": 0, "diffTotal": 0}
    with contextlib.suppress(ClientError):
        stats = await admin.consume_stats(group)
        row |= {"tps": int(stats.consume_tps), "diffTotal": stats.lag}
    with contextlib.suppress(ClientError):
        found = await admin.consumer_connection(group)
        pushed = found.consume_type == "CONSUME_PASSIVELY"
        row |= {
            "count": len(found.connection_set),
            "version": version_name(min(one.version for one in found.connection_set)),
            "type": "PUSH" if pushed else "PULL",
            "model": found.message_model if pushed else "",
        }
    return row


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


@subcommand("updateSubGroup")
async def update_group(
    admin: "AdminClient",
    output: Output,
    group: GroupOption,
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
    consume: Annotated[TrueOrFalse, typer.Option("-s", "--consumeEnable", help="Whether it may consume.")] = "true",
    from_min: Annotated[
        TrueOrFalse, typer.Option("-m", "--consumeFromMinEnable", help="Whether it may begin at the first message.")
    ] = "false",
    broadcast: Annotated[
        TrueOrFalse, typer.Option("-d", "--consumeBroadcastEnable", help="Whether it may broadcast.")
    ] = "false",
    orderly: Annotated[
        TrueOrFalse, typer.Option("-o", "--consumeMessageOrderly", help="Whether it consumes in order.")
    ] = "false",
    retry_queues: Annotated[int, typer.Option("-q", "--retryQueueNums", min=0, help="Queues of its retry topic.")] = 1,
    retries: Annotated[int, typer.Option("-r", "--retryMaxTimes", help="Retries before the dead letters.")] = 16,
) -> None:
    """Create a consumer group, or change it.

    Example: rocketflow admin updateSubGroup -n 127.0.0.1:9876 -c C -g billing
    """
    from rocketflow.remoting.bodies import SubscriptionGroupConfig

    config = SubscriptionGroupConfig(
        group_name=group,
        consume_enable=consume == "true",
        consume_from_min_enable=from_min == "true",
        consume_broadcast_enable=broadcast == "true",
        consume_message_orderly=orderly == "true",
        retry_queue_nums=retry_queues,
        retry_max_times=retries,
    )
    rows = []
    for address in await chosen_brokers(admin, broker, cluster):
        await admin.create_group(address, config)
        rows.append({"group": group, "brokerAddr": address})
    output.lines(rows, "create subscription group to {brokerAddr} success.")


@subcommand("deleteSubGroup")
async def delete_group(
    admin: "AdminClient",
    output: Output,
    group: GroupOption,
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
    offsets: Annotated[TrueOrFalse, typer.Option("-r", "--removeOffset", help="Its offsets too.")] = "false",
) -> None:
    """Delete a consumer group; with -c its retry and dead-letter topics too.

    Example: rocketflow admin deleteSubGroup -n 127.0.0.1:9876 -c DefaultCluster -g billing
    """
    rows = []
    for address in await chosen_brokers(admin, broker, cluster):
        await admin.delete_group(address, group, clean_offset=offsets == "true")
        rows.append({"group": group, "brokerAddr": address})
    if cluster is not None:
        for prefix in OWN_PREFIXES:
            await admin.delete_topic(cluster, prefix + group)
    output.lines(rows, "delete subscription group [{group}] from broker [{brokerAddr}] success.")


@subcommand("getConsumerConfig")
async def consumer_config(admin: "AdminClient", output: Output, group: GroupOption) -> None:
    """Print a consumer group's settings at each broker.

    Example: rocketflow admin getConsumerConfig -n 127.0.0.1:9876 -g billing
    """
    from rocketflow.client.routes import MASTER_ID
    from rocketflow.remoting.bodies import encode_body
    from rocketflow.remoting.fastjson import loads

    for name, one in sorted((await admin.cluster_info()).broker_addr_table.items()):
        if MASTER_ID in one.broker_addrs:
            config = await admin.group_config(one.broker_addrs[MASTER_ID], group)
            values = dict(loads(encode_body(config)))
            if output.as_json:
                output.pretty({"cluster": one.cluster, "brokerName": name, "config": values})
            else:
                output.settings(f"{one.cluster}:{name}", values)


@subcommand("resetOffsetByTime")
async def reset_offset(
    admin: "AdminClient",
    output: Output,
    group: Annotated[str, typer.Option("-g", "--group", metavar="GROUP", help="The consumer group.")],
    topic: TopicOption,
    at: Annotated[str, typer.Option("-s", "--timestamp", metavar="TIME", help="now, ms, ISO 8601; -1: the ends.")],
    force: Annotated[TrueOrFalse, typer.Option("-f", "--force", help="Also to higher offsets.")] = "true",
) -> None:
    """Set a group's offsets in a topic to the first messages stored at a time or after it.

    Example: rocketflow admin resetOffsetByTime -n 127.0.0.1:9876 -g billing -t orders -s 2026-01-31T12:00:00
    """
    found = await admin.reset_offset_by_time(group, topic, time_of(at), force=force == "true")
    rows = [
        {"brokerName": queue.broker_name, "queueId": queue.queue_id, "offset": offset}
        for queue, offset in found.items()
    ]
    output.rows({"#brokerName": "brokerName", "#queueId": "queueId", "#offset": "offset"}, rows)


@subcommand("cloneGroupOffset")
async def clone_offsets(
    admin: "AdminClient",
    output: Output,
    source: Annotated[str, typer.Option("-s", "--srcGroup", metavar="GROUP", help="The group to copy from.")],
    target: Annotated[str, typer.Option("-d", "--destGroup", metavar="GROUP", help="The group to copy to.")],
    topic: TopicOption,
    offline: Annotated[str, typer.Option("-o", "--offline", hidden=True)] = "",
) -> None:
    """Copy a group's offsets in a topic to another group.

    Example: rocketflow admin cloneGroupOffset -n 127.0.0.1:9876 -s billing -d audit -t orders
    """
    count = 0
    for queue, one in (await admin.consume_stats(source, topic)).queues.items():
        if queue.topic == topic and one.consumer_offset >= 0:
            await admin.commit_offset(await admin.address_of(queue), target, queue, one.consumer_offset)
            count += 1
    row = {"srcGroup": source, "destGroup": target, "topic": topic, "queues": count}
    output.lines([row], "clone group offset success. srcGroup[{srcGroup}], destGroup=[{destGroup}], topic[{topic}]")
