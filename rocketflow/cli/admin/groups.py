"""Subcommands about consumer groups: settings, progress, offsets.

RocketMQ's source: tools/command/consumer/**, tools/command/offset/**,
tools/command/broker/BrokerConsumeStatsSubCommad.java.
"""

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rocketflow.cli.admin.options import BrokerOption, ClusterOption, GroupOption, TopicOption
from rocketflow.cli.admin.output import BROKER_FIELDS, Output
from rocketflow.cli.admin.subcommand import subcommand
from rocketflow.cli.admin.targets import TrueOrFalse, broker_names, chosen_brokers, parse_attributes, time_of
from rocketflow.cli.admin.topics import OWN_PREFIXES
from rocketflow.cli.shared.parameters import QUEUE_FIELDS
from rocketflow.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketflow.client.admin.admin_client import AdminClient
    from rocketflow.client.admin.figures import ConsumeStats
    from rocketflow.client.admin.group_requests import OffsetChange
    from rocketflow.remoting.bodies import MessageQueue

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
_PROGRESS_WITH_CLIENTS = {
    **{name: _PROGRESS[name] for name in list(_PROGRESS)[:5]},
    "#Client IP": "clientIp",
    **{name: _PROGRESS[name] for name in list(_PROGRESS)[5:]},
}
_ALL_PROGRESS = {
    "#Topic": "topic",
    "#Group": "group",
    **{name: _PROGRESS[name] for name in list(_PROGRESS)[1:6]},
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


FIELDS: Final[dict[str, dict[str, str]]] = {
    "admin cloneGroupOffset": {
        "srcGroup": "group that was copied from",
        "destGroup": "group that was copied to",
        "topic": "topic",
        "queues": "number of queues whose offsets were copied",
    },
    "admin consumerProgress": {
        "group": "consumer group; without -g there is a line for each group",
        "consumeTps": "with -g: messages that it consumes a second",
        "diffTotal": "messages that it has not consumed",
        "inflightTotal": "with -g: messages that its clients have, and have not consumed",
        "queues": "with -g: the queues that it reads",
        "queues.topic": "topic",
        **{f"queues.{name}": about for name, about in QUEUE_FIELDS.items()},
        "queues.brokerOffset": "offset that the next message gets",
        "queues.consumerOffset": "next offset of the group",
        "queues.diff": "messages that it has not consumed",
        "queues.inflight": "messages that its clients have, and have not consumed",
        "queues.lastTimestamp": "store time of the last consumed message, ms; 0 if unknown",
        "queues.clientIp": "with -s true: host of the client that reads the queue, or N/A",
        "count": "without -g: number of its clients",
        "version": "without -g: oldest version of its clients, or OFFLINE",
        "type": "without -g: PUSH or PULL; empty without clients",
        "model": "without -g: CLUSTERING or BROADCASTING of push consumers",
        "tps": "without -g: messages that it consumes a second",
    },
    "admin brokerConsumeStats": {
        "topic": "topic",
        **QUEUE_FIELDS,
        "group": "consumer group",
        "brokerOffset": "offset that the next message gets",
        "consumerOffset": "next offset of the group",
        "diff": "messages that it has not consumed",
        "inflight": "messages that its clients have, and have not consumed",
        "lastTimestamp": "store time of the last consumed message, ms; 0 if unknown",
    },
    "admin deleteSubGroup": {"group": "consumer group", **BROKER_FIELDS},
    "admin getConsumerConfig": {
        "cluster": "name of the cluster",
        "brokerName": "name of the broker",
        "config": "settings of the group by RocketMQ's names",
    },
    "admin resetOffsetByTime": {**QUEUE_FIELDS, "offset": "new offset of the group"},
    "admin updateSubGroup": {"group": "consumer group", **BROKER_FIELDS},
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@subcommand("consumerProgress")
async def consumer_progress(
    admin: "AdminClient",
    output: Output,
    group: Annotated[str | None, typer.Option("-g", "--groupName", metavar="GROUP", help="One group.")] = None,
    topic: Annotated[str | None, typer.Option("-t", "--topicName", metavar="TOPIC", help="One topic of it.")] = None,
    with_clients: Annotated[
        TrueOrFalse, typer.Option("-s", "--showClientIP", help="The host of the client that reads each queue.")
    ] = "false",
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
    if with_clients == "true":
        owners = await _owners(admin, group)
        queues = [{**one, "clientIp": owners.get(queue, "N/A")} for queue, one in zip(stats.queues, queues)]
    totals = {name: sum(one[name] for one in queues) for name in ("diff", "inflight")}
    if output.as_json:
        head = {"group": group, "consumeTps": stats.consume_tps, "diffTotal": totals["diff"]}
        output.pretty({**head, "inflightTotal": totals["inflight"], "queues": queues})
        return
    output.table(_PROGRESS_WITH_CLIENTS if with_clients == "true" else _PROGRESS, queues)
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


async def _owners(admin: "AdminClient", group: str) -> "dict[MessageQueue, str]":
    """Return the hosts of clients by queue, as their ids begin with them; none where no client is connected."""
    from rocketflow.client.errors import ClientError

    try:
        found = await admin.queue_owners(group)
    except ClientError as error:
        print(f"error: {error}: no client is shown", file=sys.stderr)
        return {}
    return {queue: client_id.partition("@")[0] for queue, client_id in found.items()}


@subcommand("brokerConsumeStats")
async def broker_consume_stats(
    admin: "AdminClient",
    output: Output,
    broker: Annotated[str, typer.Option("-b", "--brokerAddr", metavar="HOST:PORT", help="The broker.")],
    timeout_ms: Annotated[int, typer.Option("-t", "--timeoutMillis", min=1, help="Wait at most so long.")] = 50_000,
    least: Annotated[int, typer.Option("-l", "--level", min=0, help="Only queues with so much to consume.")] = 0,
    orderly: Annotated[TrueOrFalse, typer.Option("-o", "--order", help="Only topics read in order.")] = "false",
) -> None:
    """Print how far all groups have consumed at a broker.

    Example: rocketflow admin brokerConsumeStats -n 127.0.0.1:9876 -b 127.0.0.1:10911
    """
    (address,) = await chosen_brokers(admin, broker, None)
    found = await admin.consume_stats_at(address, orderly=orderly == "true", timeout_s=timeout_ms / 1000)
    rows = [{**row, "group": group} for group, parts in found.items() for part in parts for row in _queues(part)]
    shown = [row for row in rows if row["diff"] >= least and row["lastTimestamp"] > 0]  # as mqadmin
    if output.as_json:
        output.rows({}, shown)
        return
    output.table(_ALL_PROGRESS, shown)
    print(f"\nDiff Total: {sum(part.lag for parts in found.values() for part in parts)}")


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
    policy: Annotated[
        str | None, typer.Option("-p", "--groupRetryPolicy", metavar="JSON", help="When to retry, in RocketMQ's JSON.")
    ] = None,
    broker_id: Annotated[int, typer.Option("-i", "--brokerId", min=0, help="The broker to read from.")] = 0,
    slow_broker_id: Annotated[
        int, typer.Option("-w", "--whichBrokerWhenConsumeSlowly", min=0, help="The broker to read an old backlog from.")
    ] = 1,
    notify: Annotated[
        TrueOrFalse, typer.Option("-a", "--notifyConsumerIdsChanged", help="Notify clients of changes of the group.")
    ] = "true",
    attributes: Annotated[str, typer.Option("--attributes", help="Attributes: +name=value,-name.")] = "",
) -> None:
    """Create a consumer group, or change it.

    Example: rocketflow admin updateSubGroup -n 127.0.0.1:9876 -c C -g billing
    """
    from rocketflow_store.spi.table_rows import SubscriptionGroupConfig

    set_to, removed = parse_attributes(attributes)
    config = SubscriptionGroupConfig(
        group_name=group,
        consume_enable=consume == "true",
        consume_from_min_enable=from_min == "true",
        consume_broadcast_enable=broadcast == "true",
        consume_message_orderly=orderly == "true",
        retry_queue_nums=retry_queues,
        retry_max_times=retries,
        broker_id=broker_id,
        which_broker_when_consume_slowly=slow_broker_id,
        notify_consumer_ids_changed_enable=notify == "true",
        attributes=set_to,
        group_retry_policy={"type": "CUSTOMIZED"} if policy is None else _policy(policy),
    )
    rows = []
    for address in await chosen_brokers(admin, broker, cluster):
        await admin.create_group(address, config, removed=removed)
        rows.append({"group": group, "brokerAddr": address})
    output.lines(rows, "create subscription group to {brokerAddr} success.")


def _policy(text: str) -> dict[str, Any]:
    """Return the object that a text of JSON is. Raises UsageError."""
    import msgspec

    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"-p {text}: JSON is expected: {error}") from None
    if not isinstance(found, dict) or found.get("type") not in ("EXPONENTIAL", "CUSTOMIZED"):
        raise UsageError(f'-p {text}: an object with "type":"EXPONENTIAL" or "CUSTOMIZED" is expected')
    return found


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
    force: Annotated[
        TrueOrFalse, typer.Option("-f", "--force", help="Also to higher offsets: skips messages.")
    ] = "false",
    broker: Annotated[
        str | None, typer.Option("-b", "--broker", metavar="HOST:PORT", help="With -q: the broker of one queue.")
    ] = None,
    queue_id: Annotated[int | None, typer.Option("-q", "--queue", min=0, help="With -b: one queue.")] = None,
    offset: Annotated[
        int | None, typer.Option("-o", "--offset", min=0, help="With -b and -q: this offset, not that of -s.")
    ] = None,
) -> None:
    """Set a group's offsets in a topic, or in one queue of it, to the first messages stored at a time or after it.

    Offsets only move back, so that no message is skipped, unless -f true is given (mqadmin's default).

    Example: rocketflow admin resetOffsetByTime -n 127.0.0.1:9876 -g billing -t orders -s 2026-01-31T12:00:00
    """
    from rocketflow.client.admin.group_requests import OffsetChange
    from rocketflow.remoting.bodies import MessageQueue

    if (broker is None) != (queue_id is None) or (offset is not None and queue_id is None):
        raise UsageError("-b HOST:PORT and -q NUMBER name one queue, and -o its offset: give both, or neither")
    if broker is not None and queue_id is not None:
        (address,) = await chosen_brokers(admin, broker, None)
        to = offset if offset is not None else await admin.search_offset_at(address, topic, queue_id, time_of(at))
        change = OffsetChange(await admin.committed_offset(address, group, MessageQueue(topic, "", queue_id)), to)
        if force == "true" or change.target <= change.committed:
            await admin.reset_queue_offset(address, group, topic, queue_id, to)
        else:
            _report_kept([change])
            to = change.committed
        name = (await broker_names(admin)).get(address, address)
        row = {"brokerName": name, "queueId": queue_id, "offset": to}
        output.lines([row], "reset consumer offset to {offset}")
        return
    timestamp_ms = time_of(at)
    if force == "false":
        _report_kept((await admin.offset_changes(group, topic, timestamp_ms)).values())
    found = await admin.reset_offset_by_time(group, topic, timestamp_ms, force=force == "true")
    rows = [
        {"brokerName": queue.broker_name, "queueId": queue.queue_id, "offset": offset}
        for queue, offset in found.items()
    ]
    output.rows({"#brokerName": "brokerName", "#queueId": "queueId", "#offset": "offset"}, rows)


def _report_kept(changes: "Iterable[OffsetChange]") -> None:
    """Print how many queues keep their offsets, and how many messages a reset of these would skip."""
    kept = [target - committed for committed, target in changes if target > committed]
    if kept:
        print(
            f"{len(kept)} queues keep their lower offsets: {sum(kept)} messages are not skipped; -f true skips them",
            file=sys.stderr,
        )


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
