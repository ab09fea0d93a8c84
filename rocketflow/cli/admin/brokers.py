"""Subcommands about clusters, brokers and NameServers.

RocketMQ's source: tools/command/cluster/**, tools/command/broker/**, tools/command/namesrv/**,
tools/command/stats/StatsAllSubCommand.java.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from rocketflow.cli.admin.options import BrokerNameOption, BrokerOption, ClusterOption
from rocketflow.cli.admin.output import BROKER_FIELDS, Output
from rocketflow.cli.admin.subcommand import subcommand
from rocketflow.cli.admin.targets import chosen_brokers
from rocketflow.cli.admin.topics import OWN_PREFIXES

if TYPE_CHECKING:
    from rocketflow.client.admin.admin_client import AdminClient

_BASE = {
    "#Cluster Name": "cluster",
    "#Broker Name": "brokerName",
    "#BID": "brokerId",
    "#Addr": "brokerAddr",
    "#Version": "version",
    "#InTPS(LOAD)": "in",
    "#OutTPS(LOAD)": "out",
    "#Timer(Progress)": "timer",
    "#PCWait(ms)": "pageCacheLockTimeMills",
    "#Hour": "hour",
    "#SPACE": "space",
    "#ACTIVATED": "brokerActive",
}
_MORE = {
    "#Cluster Name": "cluster",
    "#Broker Name": "brokerName",
    "#InTotalYest": "inTotalYest",
    "#OutTotalYest": "outTotalYest",
    "#InTotalToday": "inTotalToday",
    "#OutTotalToday": "outTotalToday",
}
_STATS = {
    "#Topic": "topic",
    "#Consumer Group": "group",
    "#Accumulation": "accumulation",
    "#InTPS": "inTps",
    "#OutTPS": "outTps",
    "#InMsg24Hour": "inMsgDay",
    "#OutMsg24Hour": "outMsgDay",
}
_HOUR_MS = 3_600_000


_WRITE_PERM: Final = {
    "brokerName": "name of the broker",
    "namesrvAddr": "address of the NameServer",
    "topics": "number of its topics",
}
FIELDS: Final[dict[str, dict[str, str]]] = {
    "admin addWritePerm": _WRITE_PERM,
    "admin brokerStatus": {**BROKER_FIELDS, "figures": "figures by name, strings as the broker sent them"},
    "admin clusterList": {
        "cluster": "name of the cluster",
        "brokerName": "name of the broker",
        "brokerId": "0 for a master",
        **BROKER_FIELDS,
        "version": "version of RocketMQ that the broker announces; this and what follows is null if it does not answer",
        "putTps": "messages that it stores a second",
        "getTransferredTps": "messages that it sends to consumers a second",
        "sendThreadPoolQueueSize": "sends that wait",
        "sendThreadPoolQueueHeadWaitTimeMills": "how long the first of them has waited, ms",
        "pullThreadPoolQueueSize": "pulls that wait",
        "pullThreadPoolQueueHeadWaitTimeMills": "how long the first of them has waited, ms",
        "ackThreadPoolQueueSize": "acknowledgements that wait; null if the broker has none",
        "ackThreadPoolQueueHeadWaitTimeMills": "how long the first of them has waited, ms",
        "timerReadBehind": "how late the timer reads, s",
        "timerOffsetBehind": "timer messages that it has still to read",
        "timerCongestNum": "timer messages that wait",
        "timerEnqueueTps": "timer messages that it reads a second",
        "timerDequeueTps": "timer messages that it delivers a second",
        "pageCacheLockTimeMills": "how long the put that holds the lock has held it, ms",
        "earliestMessageTimeStamp": "store time of the oldest message, ms; -1 if there is none",
        "commitLogDiskRatio": "used share of the disk, 0 to 1",
        "brokerActive": "whether the broker takes part in its group of brokers",
        "inTotalYest": "with -m: messages that were stored yesterday",
        "outTotalYest": "with -m: messages that consumers got yesterday",
        "inTotalToday": "with -m: messages that were stored today",
        "outTotalToday": "with -m: messages that consumers got today",
    },
    "admin deleteKvConfig": {"namespace": "namespace", "key": "key"},
    "admin getBrokerConfig": {**BROKER_FIELDS, "config": "settings by key, strings as the broker sent them"},
    "admin getNamesrvConfig": {
        "namesrvAddr": "address of the NameServer",
        "config": "settings by key, strings as the NameServer sent them",
    },
    "admin statsAll": {
        "topic": "topic",
        "group": "consumer group; empty if none reads the topic",
        "accumulation": "messages that the group has not consumed",
        "inTps": "messages that are stored a second",
        "outTps": "messages that the group gets a second",
        "inMsgDay": "messages that were stored within a day at most",
        "outMsgDay": "messages that the group got within a day at most",
    },
    "admin updateBrokerConfig": {**BROKER_FIELDS, "key": "the setting", "value": "its value"},
    "admin updateKvConfig": {"namespace": "namespace", "key": "key", "value": "text"},
    "admin wipeWritePerm": _WRITE_PERM,
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@subcommand("clusterList")
async def cluster_list(
    admin: "AdminClient",
    output: Output,
    more: Annotated[bool, typer.Option("-m", "--moreStats", help="Messages of today and yesterday.")] = False,
    cluster: Annotated[str | None, typer.Option("-c", "--clusterName", metavar="NAME", help="One cluster.")] = None,
    interval: Annotated[
        int | None, typer.Option("-i", "--interval", metavar="SECONDS", min=1, help="Print again until Ctrl-C.")
    ] = None,
) -> None:
    """List clusters and their brokers. Example: rocketflow admin clusterList -n 127.0.0.1:9876"""
    while True:
        rows = await _brokers(admin, cluster, more=more)
        if output.as_json:
            output.rows({}, rows)
        elif more:
            output.table(_MORE, rows)
        else:
            output.table(_BASE, [{**row, **_load(row)} for row in rows])
        if interval is None:
            return
        sys.stdout.flush()
        await asyncio.sleep(interval)


async def _brokers(admin: "AdminClient", cluster: str | None, *, more: bool) -> list[dict[str, Any]]:
    """Return a row for each broker of a cluster, or of all."""
    from rocketflow.client.errors import ClientError

    info = await admin.cluster_info()
    rows: list[dict[str, Any]] = []
    for name in sorted(info.cluster_addr_table):
        for broker in sorted(info.cluster_addr_table[name]) if cluster in (None, name) else ():
            addresses = info.broker_addr_table[broker].broker_addrs if broker in info.broker_addr_table else {}
            for number, address in sorted(addresses.items(), key=lambda one: int(one[0])):
                head = {"cluster": name, "brokerName": broker, "brokerId": int(number), "brokerAddr": address}
                figures: dict[str, str] = {}
                try:
                    figures = await admin.runtime_info(address)
                except ClientError as error:
                    print(f"error: {error}: its figures are missing", file=sys.stderr)
                rows.append({**head, **(_totals(figures) if more else _rates(figures))})
    return rows


def _rates(figures: Mapping[str, str]) -> dict[str, Any]:
    """Return a broker's rates and backlogs; those that it does not report are None."""
    names = ("sendThreadPoolQueueSize", "pullThreadPoolQueueSize", "ackThreadPoolQueueSize")
    waits = [name.replace("QueueSize", "QueueHeadWaitTimeMills") for name in names]
    numbers = ("timerReadBehind", "timerOffsetBehind", "timerCongestNum", "timerEnqueueTps", "timerDequeueTps")
    ages = ("pageCacheLockTimeMills", "earliestMessageTimeStamp", "commitLogDiskRatio")
    active = figures.get("brokerActive")
    return {
        "version": figures.get("brokerVersionDesc"),
        "putTps": _first_number(figures.get("putTps")),
        "getTransferredTps": _first_number(figures.get("getTransferredTps")),
        **{name: _number(figures.get(name)) for name in (*names, *waits, *numbers, *ages)},
        "brokerActive": None if active is None else active == "true",
    }


def _load(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells in which mqadmin combines several figures."""
    queues = {
        name: f"{_shown(row[f'{name}ThreadPoolQueueSize'])},{_shown(row[f'{name}ThreadPoolQueueHeadWaitTimeMills'])}ms"
        for name in ("send", "pull", "ack")
    }
    oldest, congested = row["earliestMessageTimeStamp"], (row["timerCongestNum"] or 0) / 10_000
    rates = f"{congested:.1f}w, {row['timerEnqueueTps'] or 0:.1f}, {row['timerDequeueTps'] or 0:.1f}"
    return {
        "in": f"{row['putTps'] or 0:.2f}({queues['send']})",
        "out": f"{row['getTransferredTps'] or 0:.2f}({queues['pull']}|{queues['ack']})",
        "timer": f"{row['timerReadBehind'] or 0}-{row['timerOffsetBehind'] or 0}({rates})",
        "hour": "0.00" if oldest is None else f"{(time.time() * 1000 - oldest) / _HOUR_MS:.2f}",
        "space": f"{row['commitLogDiskRatio'] or 0:.4f}",
        "brokerActive": str(row["brokerActive"]).lower(),
    }


def _totals(figures: Mapping[str, str]) -> dict[str, int]:
    """Return the messages of yesterday and today."""
    at = {name: int(figures.get(name) or 0) for name in figures if name.startswith(("msgPutTotal", "msgGetTotal"))}
    days = {"Yest": ("TodayMorning", "YesterdayMorning"), "Today": ("TodayNow", "TodayMorning")}
    return {
        f"{way}Total{day}": at.get(f"msg{verb}Total{end}", 0) - at.get(f"msg{verb}Total{begin}", 0)
        for day, (end, begin) in days.items()
        for way, verb in (("in", "Put"), ("out", "Get"))
    }


def _number(text: str | None) -> int | float | None:
    for kind in (int, float):
        with contextlib.suppress(TypeError, ValueError):
            return kind(text)  # type: ignore[arg-type]
    return None


def _first_number(text: str | None) -> int | float | None:
    return _number((text or "").partition(" ")[0])


def _shown(value: Any) -> str:
    return "N" if value is None else str(value)


@subcommand("brokerStatus")
async def broker_status(
    admin: "AdminClient", output: Output, broker: BrokerOption = None, cluster: ClusterOption = None
) -> None:
    """Print a broker's figures. Example: rocketflow admin brokerStatus -n 127.0.0.1:9876 -b 127.0.0.1:10911"""
    for address in await chosen_brokers(admin, broker, cluster):
        figures = dict(sorted((await admin.runtime_info(address)).items()))
        if output.as_json:
            output.pretty({"brokerAddr": address, "figures": figures})
            continue
        head = f"{address:<24} " if cluster is not None else ""
        for name, value in figures.items():
            print(f"{head}{name:<32}: {value}")


@subcommand("getBrokerConfig")
async def broker_config(
    admin: "AdminClient", output: Output, broker: BrokerOption = None, cluster: ClusterOption = None
) -> None:
    """Print a broker's settings. Example: rocketflow admin getBrokerConfig -n 127.0.0.1:9876 -b 127.0.0.1:10911"""
    for address in await chosen_brokers(admin, broker, cluster):
        values = await admin.broker_config(address)
        if output.as_json:
            output.pretty({"brokerAddr": address, "config": values})
        else:
            output.settings(address if cluster is None else f"Master: {address}", values)


@subcommand("updateBrokerConfig")
async def update_broker_config(
    admin: "AdminClient",
    output: Output,
    key: Annotated[str, typer.Option("-k", "--key", help="The setting.")],
    value: Annotated[str, typer.Option("-v", "--value", help="Its value.")],
    broker: BrokerOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Change a setting of a running broker; RocketFlow's broker has to list it in rocketflow.adminConfigKeys.

    Example: rocketflow admin updateBrokerConfig -n 127.0.0.1:9876 -c DefaultCluster -k brokerPermission -v 4
    """
    rows = []
    for address in await chosen_brokers(admin, broker, cluster):
        await admin.update_broker_config(address, {key: value})
        rows.append({"brokerAddr": address, "key": key, "value": value})
    output.lines(rows, "update broker config success, {brokerAddr}")


@subcommand("wipeWritePerm")
async def wipe_write_perm(admin: "AdminClient", output: Output, name: BrokerNameOption) -> None:
    """Let no client send to a broker. Example: rocketflow admin wipeWritePerm -n 127.0.0.1:9876 -b broker-a"""
    found = await admin.wipe_write_perm(name)
    rows = [{"brokerName": name, "namesrvAddr": address, "topics": count} for address, count in found.items()]
    output.lines(rows, "wipe write perm of broker[{brokerName}] in name server[{namesrvAddr}] OK, {topics}")


@subcommand("addWritePerm")
async def add_write_perm(admin: "AdminClient", output: Output, name: BrokerNameOption) -> None:
    """Let clients send to a broker again. Example: rocketflow admin addWritePerm -n 127.0.0.1:9876 -b broker-a"""
    found = await admin.add_write_perm(name)
    rows = [{"brokerName": name, "namesrvAddr": address, "topics": count} for address, count in found.items()]
    output.lines(rows, "add write perm of broker[{brokerName}] in name server[{namesrvAddr}] OK, {topics}")


@subcommand("getNamesrvConfig")
async def name_server_config(admin: "AdminClient", output: Output) -> None:
    """Print the settings of the NameServers. Example: rocketflow admin getNamesrvConfig -n 127.0.0.1:9876"""
    for address, values in (await admin.name_server_configs()).items():
        if output.as_json:
            output.pretty({"namesrvAddr": address, "config": values})
        else:
            output.settings(address, values)


@subcommand("updateKvConfig")
async def update_kv_config(
    admin: "AdminClient",
    output: Output,
    namespace: Annotated[str, typer.Option("-s", "--namespace", help="The namespace.")],
    key: Annotated[str, typer.Option("-k", "--key", help="The key.")],
    value: Annotated[str, typer.Option("-v", "--value", help="The text.")],
) -> None:
    """Set a text at the NameServers.

    Example: rocketflow admin updateKvConfig -n 127.0.0.1:9876 -s NS -k key -v text
    """
    await admin.put_kv_config(namespace, key, value)
    row = {"namespace": namespace, "key": key, "value": value}
    output.lines([row], "create or update kv config to namespace success.")


@subcommand("deleteKvConfig")
async def delete_kv_config(
    admin: "AdminClient",
    output: Output,
    namespace: Annotated[str, typer.Option("-s", "--namespace", help="The namespace.")],
    key: Annotated[str, typer.Option("-k", "--key", help="The key.")],
) -> None:
    """Delete a text at the NameServers. Example: rocketflow admin deleteKvConfig -n 127.0.0.1:9876 -s NS -k key"""
    await admin.delete_kv_config(namespace, key)
    output.lines([{"namespace": namespace, "key": key}], "delete kv config from namespace success.")


@subcommand("statsAll")
async def stats_all(
    admin: "AdminClient",
    output: Output,
    active: Annotated[bool, typer.Option("-a", "--activeTopic", help="Only topics with messages.")] = False,
    topic: Annotated[str | None, typer.Option("-t", "--topic", metavar="TOPIC", help="One topic.")] = None,
) -> None:
    """Print rates and backlogs by topic and group. Example: rocketflow admin statsAll -n 127.0.0.1:9876 -a"""
    rows = []
    for one in await admin.topics():
        if not one.startswith(OWN_PREFIXES) and topic in (None, one):
            rows += [row for row in await _stats_of(admin, one) if not active or _has_messages(row)]
    if output.as_json:
        output.rows({}, rows)
    else:
        output.table(_STATS, [row if row["group"] else {**row, **_WITHOUT_GROUP} for row in rows])


_WITHOUT_GROUP = {"outTps": "", "outMsgDay": "NO_CONSUMER"}


def _has_messages(row: Mapping[str, Any]) -> bool:
    return bool(row["inMsgDay"] or row["outMsgDay"])


async def _stats_of(admin: "AdminClient", topic: str) -> list[dict[str, Any]]:
    """Return a row for each group of a topic, one without a group if it has none; none of a topic without a route."""
    from rocketflow.client.errors import ClientError, NoRouteError

    try:
        addresses = await admin.masters(topic)
        groups = await admin.groups_of_topic(topic)
    except NoRouteError:
        return []
    sent = await admin.message_rate(addresses, "TOPIC_PUT_NUMS", topic)
    rows = []
    for group in groups or [""]:
        row = {"topic": topic, "group": group, "accumulation": 0, "inTps": sent.tps, "outTps": 0.0}
        row |= {"inMsgDay": sent.day_sum, "outMsgDay": 0}
        if group:
            got = await admin.message_rate(addresses, "GROUP_GET_NUMS", f"{topic}@{group}")
            row |= {"outTps": got.tps, "outMsgDay": got.day_sum}
            with contextlib.suppress(ClientError):
                row["accumulation"] = max(0, (await admin.consume_stats(group, topic)).lag)
        rows.append(row)
    return rows
