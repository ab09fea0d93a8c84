"""Subcommands about topics.

RocketMQ's source: tools/command/topic/**.
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rocketflow.cli.admin.options import BrokerOption, ClusterOption, OneClusterOption, TopicOption
from rocketflow.cli.admin.output import BROKER_FIELDS, Output
from rocketflow.cli.admin.subcommand import subcommand
from rocketflow.cli.admin.targets import TrueOrFalse, broker_names, chosen_brokers, parse_attributes
from rocketflow.cli.shared.parameters import QUEUE_FIELDS
from rocketflow.errors import RocketFlowError
from rocketflow.process.printable import printable
from rocketflow_store.spi.names import DLQ_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from rocketflow.client.admin.admin_client import AdminClient


FIELDS: Final[dict[str, dict[str, str]]] = {
    "admin deleteTopic": {"topic": "topic", "cluster": "name of the cluster"},
    "admin topicClusterList": {"cluster": "name of the cluster"},
    "admin topicList": {
        "topic": "topic",
        "cluster": "with -c: name of its cluster",
        "group": "with -c: a group that reads it; empty if there is none",
    },
    "admin topicRoute": {
        "brokerDatas": "brokers that have the topic",
        "brokerDatas.brokerName": "name",
        "brokerDatas.cluster": "name of its cluster",
        "brokerDatas.brokerAddrs": "addresses by broker id, 0 for the master",
        "queueDatas": "queues by broker",
        "queueDatas.brokerName": "name of the broker",
        "queueDatas.perm": "permission: 2 write, 4 read, 6 both",
        "queueDatas.readQueueNums": "queues that consumers read",
        "queueDatas.writeQueueNums": "queues that producers write",
        "queueDatas.topicSysFlag": "bits of RocketMQ",
    },
    "admin topicStatus": {
        **QUEUE_FIELDS,
        "minOffset": "first offset that can be read",
        "maxOffset": "offset that the next message gets",
        "lastUpdateTimestamp": "store time of the newest message, ms; 0 if there is none",
    },
    "admin updateTopic": {
        "topic": "topic",
        **BROKER_FIELDS,
        "readQueueNums": "queues that consumers read",
        "writeQueueNums": "queues that producers write",
        "perm": "permission: 2 write, 4 read, 6 both",
        "order": "whether it is an ordered topic",
    },
    "admin updateTopicPerm": {
        "topic": "topic",
        **BROKER_FIELDS,
        "oldPerm": "permission before",
        "perm": "permission: 2 write, 4 read, 6 both",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


class HiddenMessagesError(RocketFlowError):
    """A change of a topic would hide messages from its consumers."""


OWN_PREFIXES = (RETRY_PREFIX, DLQ_PREFIX)
_QUEUES = 8
_UNIT, _UNIT_SUB = 1, 2  # bits of topicSysFlag (common/sysflag/TopicSysFlag.java)
_PERM = Annotated[int, typer.Option("-p", "--perm", min=2, max=7, help="Permission: 2 write, 4 read, 6 both.")]


@subcommand("topicList")
async def topic_list(
    admin: "AdminClient",
    output: Output,
    with_clusters: Annotated[bool, typer.Option("-c", "--clusterModel", help="With clusters and groups.")] = False,
) -> None:
    """List all topics. Example: rocketflow admin topicList -n 127.0.0.1:9876"""
    topics = await admin.topics()
    if not with_clusters:
        output.lines([{"topic": one} for one in topics], "{topic}")
        return
    rows = []
    for topic in topics:
        if not topic.startswith(OWN_PREFIXES):
            cluster, groups = await _cluster_and_groups(admin, topic)
            rows += [{"topic": topic, "cluster": cluster, "group": group} for group in groups or [""]]
    output.rows({"#Cluster Name": "cluster", "#Topic": "topic", "#Consumer Group": "group"}, rows)


async def _cluster_and_groups(admin: "AdminClient", topic: str) -> tuple[str, list[str]]:
    """Return a topic's first cluster and its groups; a topic may have been deleted meanwhile."""
    from rocketflow.client.errors import ClientError

    try:
        clusters = await admin.topic_clusters(topic)
        return (clusters[0] if clusters else ""), await admin.groups_of_topic(topic)
    except ClientError:
        return "", []


@subcommand("topicStatus")
async def topic_status(admin: "AdminClient", output: Output, topic: TopicOption) -> None:
    """Print the offsets of a topic's queues. Example: rocketflow admin topicStatus -n 127.0.0.1:9876 -t orders"""
    columns = {
        "#Broker Name": "brokerName",
        "#QID": "queueId",
        "#Min Offset": "minOffset",
        "#Max Offset": "maxOffset",
        "#Last Updated": "lastUpdateTimestamp",
    }
    rows = [
        {
            "brokerName": queue.broker_name,
            "queueId": queue.queue_id,
            "minOffset": bounds.min_offset,
            "maxOffset": bounds.max_offset,
            "lastUpdateTimestamp": bounds.last_update_timestamp,
        }
        for queue, bounds in (await admin.topic_status(topic)).items()
    ]
    output.rows(columns, rows)


@subcommand("topicRoute")
async def topic_route(
    admin: "AdminClient",
    output: Output,
    topic: TopicOption,
    as_list: Annotated[bool, typer.Option("-l", "--list", help="A table.")] = False,
) -> None:
    """Print which brokers have a topic's queues. Example: rocketflow admin topicRoute -n 127.0.0.1:9876 -t orders"""
    route = await admin.route(topic)
    brokers = sorted(route.broker_datas, key=lambda one: one.broker_name)
    queues = sorted(route.queue_datas, key=lambda one: one.broker_name)
    if as_list and not output.as_json:
        by_name = {one.broker_name: one for one in queues}
        rows = [
            {
                "cluster": one.cluster,
                "name": one.broker_name,
                "addrs": _java_map(one.broker_addrs),
                "read": by_name[one.broker_name].read_queue_nums,
                "write": by_name[one.broker_name].write_queue_nums,
                "perm": by_name[one.broker_name].perm,
            }
            for one in brokers
            if one.broker_name in by_name
        ]
        headings = ("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
        output.table(dict(zip(headings, ("cluster", "name", "addrs", "read", "write", "perm"))), rows)
        return
    output.pretty(
        {
            "brokerDatas": [
                {"brokerName": one.broker_name, "cluster": one.cluster, "brokerAddrs": one.broker_addrs}
                for one in brokers
            ],
            "queueDatas": [
                {
                    "brokerName": one.broker_name,
                    "perm": one.perm,
                    "readQueueNums": one.read_queue_nums,
                    "writeQueueNums": one.write_queue_nums,
                    "topicSysFlag": one.topic_sys_flag,
                }
                for one in queues
            ],
        }
    )


@subcommand("topicClusterList")
async def topic_cluster_list(admin: "AdminClient", output: Output, topic: TopicOption) -> None:
    """List the clusters that have a topic. Example: rocketflow admin topicClusterList -n 127.0.0.1:9876 -t orders"""
    output.lines([{"cluster": one} for one in await admin.topic_clusters(topic)], "{cluster}")


@subcommand("updateTopic")
async def update_topic(
    admin: "AdminClient",
    output: Output,
    topic: TopicOption,
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
    read_queues: Annotated[int, typer.Option("-r", "--readQueueNums", min=1, help="Queues to read.")] = _QUEUES,
    write_queues: Annotated[int, typer.Option("-w", "--writeQueueNums", min=1, help="Queues to send to.")] = _QUEUES,
    perm: _PERM = 6,
    order: Annotated[TrueOrFalse, typer.Option("-o", "--order", help="Whether it is an ordered topic.")] = "false",
    unit: Annotated[TrueOrFalse, typer.Option("-u", "--unit", help="Whether it is a topic of a unit.")] = "false",
    unit_sub: Annotated[
        TrueOrFalse, typer.Option("-s", "--hasUnitSub", help="Whether units subscribe to it.")
    ] = "false",
    attributes: Annotated[str, typer.Option("-a", "--attributes", help="Attributes: +name=value,-name.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Also if it hides messages of queues from -r on.")] = False,
) -> None:
    """Create a topic, or change it.

    Consumers read the first -r queues. A change that hides messages of the others from them is refused without
    --force: let fewer queues take messages first (-w), and -r follow once those of the others are consumed.

    Example: rocketflow admin updateTopic -n 127.0.0.1:9876 -c DefaultCluster -t orders
    """
    from rocketflow.client.admin.name_server_requests import ORDER_NAMESPACE
    from rocketflow_store.spi.table_rows import TopicConfig

    set_to, removed = parse_attributes(attributes)
    addresses = await chosen_brokers(admin, broker, cluster)
    if not force:
        for address in addresses:
            await _refuse_hiding(admin, address, topic, read_queues)
    config = TopicConfig(
        topic_name=topic,
        read_queue_nums=read_queues,
        write_queue_nums=write_queues,
        perm=perm,
        order=order == "true",
        topic_sys_flag=(_UNIT if unit == "true" else 0) | (_UNIT_SUB if unit_sub == "true" else 0),
        attributes=set_to,
    )
    rows = []
    for address in addresses:
        await admin.create_topic(address, config, removed=removed)
        rows.append({"topic": topic, "brokerAddr": address, "readQueueNums": read_queues})
        rows[-1] |= {"writeQueueNums": write_queues, "perm": perm, "order": config.order}
    if config.order:
        names = await broker_names(admin)
        text = ";".join(f"{names.get(one, one)}:{write_queues}" for one in addresses)
        await admin.put_kv_config(ORDER_NAMESPACE, topic, text)
    output.lines(rows, "create topic to {brokerAddr} success.")
    if write_queues > read_queues:
        unread = f"{read_queues}" if write_queues == read_queues + 1 else f"{read_queues} to {write_queues - 1}"
        print(
            f"note: topic {printable(topic)}: -w {write_queues} is above -r {read_queues}: what producers send to "
            f"queue {unread} is not read until -r follows",
            file=sys.stderr,
        )


async def _refuse_hiding(admin: "AdminClient", address: str, topic: str, read_queues: int) -> None:
    """Raise HiddenMessagesError if queues that have messages would be read no more."""
    found = await admin.messages_by_queue(address, topic) or {}
    hidden = {queue: count for queue, count in sorted(found.items()) if queue >= read_queues and count}
    if hidden:
        queues = ", ".join(map(str, hidden))
        raise HiddenMessagesError(
            f"topic {topic} at {address}: {sum(hidden.values()):,} messages in queue {queues} would be hidden from "
            f"consumers by -r {read_queues}: set only -w, and -r once they are consumed, or add --force"
        )


@subcommand("updateTopicPerm")
async def update_topic_perm(
    admin: "AdminClient",
    output: Output,
    topic: TopicOption,
    perm: _PERM,
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Change a topic's permission. Example: rocketflow admin updateTopicPerm -n 127.0.0.1:9876 -c C -t orders -p 4"""
    from rocketflow.client.errors import NoRouteError
    from rocketflow_store.spi.table_rows import TopicConfig

    names = await broker_names(admin)
    queues = {one.broker_name: one for one in (await admin.route(topic)).queue_datas}
    rows: list[dict[str, Any]] = []
    for address in await chosen_brokers(admin, broker, cluster):
        data = queues.get(names.get(address, ""))
        if data is None:
            raise NoRouteError(f"broker {address} does not have the topic {topic!r}: see topicRoute -t {topic}")
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=data.read_queue_nums,
            write_queue_nums=data.write_queue_nums,
            perm=perm,
            topic_sys_flag=data.topic_sys_flag,
        )
        await admin.create_topic(address, config)
        rows.append({"topic": topic, "brokerAddr": address, "oldPerm": data.perm, "perm": perm})
    output.lines(rows, "update topic perm from {oldPerm} to {perm} in {brokerAddr} success.")


@subcommand("deleteTopic")
async def delete_topic(admin: "AdminClient", output: Output, topic: TopicOption, cluster: OneClusterOption) -> None:
    """Delete a topic at all brokers of a cluster; a topic that no broker has is an error.

    Example: rocketflow admin deleteTopic -n 127.0.0.1:9876 -c C -t orders
    """
    known = [await admin.messages_by_queue(one, topic) for one in await admin.brokers_of(cluster)]
    if all(one is None for one in known):
        await admin.route(topic)  # what a NameServer alone knows is deleted there
    await admin.delete_topic(cluster, topic)
    output.lines(
        [{"topic": topic, "cluster": cluster}],
        "delete topic [{topic}] from cluster [{cluster}] success.\ndelete topic [{topic}] from NameServer success.",
    )


def _java_map(values: dict[str, str]) -> str:
    """Return a map as Java prints it."""
    return "{" + ", ".join(f"{key}={values[key]}" for key in sorted(values, key=int)) + "}"
