"""`rocketflow store topics` and `rocketflow store groups`."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

import typer

from rocketflow.cli.shared.parameters import ConfigOption, JsonOption, PathArgument, emit, load_config, open_reader
from rocketflow.cli.shared.tables import print_table
from rocketflow.process.times import iso_time

_TIMES = ("beginTimestamp", "endTimestamp")


def topics(
    path: PathArgument,
    action: Annotated[
        Literal["list", "describe", "create", "queues", "delete"], typer.Argument(metavar="ACTION", help="What to do.")
    ] = "list",
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="The topic; not for list.")] = None,
    count: Annotated[int | None, typer.Argument(metavar="N", help="Number of queues, for create and queues.")] = None,
    queue_type: Annotated[
        Literal["SimpleCQ", "BatchCQ"] | None,
        typer.Option("--queue-type", help="Queue type of a topic that is created."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm the deletion.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """List, describe, create, resize or delete topics. Example: rocketflow store topics /data/store

    rocketflow store topics /data/store create orders 4

    rocketflow store topics /data/store queues orders 8

    rocketflow store topics /data/store delete orders --yes

    list and describe work beside a running broker; the others need the store's lock (else exit 75), and write the same
    files as a broker: topics.json, the queues, the offsets of groups. Messages of a deleted topic stay in the
    CommitLog until retention removes them.
    """
    from rocketflow.cli.store import topic_admin

    _check_arguments(action, topic, count, queue_type)
    if action == "list" or topic is None:
        _list(path, as_json, config)
        return
    if action == "create":
        topic_admin.create_topic(path, load_config(config), topic, 8 if count is None else count, queue_type)
    elif action == "queues" and count is not None:
        topic_admin.set_queues(path, load_config(config), topic, count)
    elif action == "delete":
        topic_admin.delete_topic(path, load_config(config), topic, confirmed=yes)
        if as_json:
            emit({"topic": topic, "deleted": True})
        else:
            print(f"{topic}: deleted")
        return
    with open_reader(path, config) as reader:
        found = topic_admin.describe_topic(reader, topic)
    if as_json:
        emit(found)
    else:
        _print_topic(found)


def _check_arguments(action: str, topic: str | None, count: int | None, queue_type: str | None) -> None:
    if (action == "list") != (topic is None):
        raise typer.BadParameter("list takes no topic" if action == "list" else f"{action} needs a topic")
    if action == "queues" and count is None:
        raise typer.BadParameter("queues needs a number: rocketflow store topics PATH queues TOPIC N")
    if count is not None and action not in ("create", "queues"):
        raise typer.BadParameter(f"{action} takes no number of queues")
    if queue_type is not None and action != "create":
        raise typer.BadParameter(f"--queue-type: {action} does not change it")


def _list(path: str, as_json: bool, config: str | None) -> None:
    from rocketflow.cli.store.topic_admin import TOPIC_COLUMNS, list_topics

    with open_reader(path, config) as reader:
        found = list_topics(reader)
    if as_json:
        for one in found:
            emit(one)
    elif found:
        print_table(TOPIC_COLUMNS, ([one[name] for name in TOPIC_COLUMNS] for one in found))
    else:
        print("no topics")


def _print_topic(found: dict[str, Any]) -> None:
    from rocketflow.cli.store.topic_admin import QUEUE_COLUMNS

    for name in ("topic", "writeQueueNums", "readQueueNums", "perm", "order", "queueType", "messages"):
        print(f"{name:<16} {'-' if found[name] is None else found[name]}")
    for name, value in found["attributes"].items():
        print(f"{name:<16} {value}")
    print(f"{'groups':<16} {', '.join(found['groups']) or '-'}")
    if found["queues"]:
        print_table(QUEUE_COLUMNS, ([_cell(name, one[name]) for name in QUEUE_COLUMNS] for one in found["queues"]))


def _cell(name: str, value: Any) -> Any:
    return iso_time(value) if name in _TIMES and value is not None else value


def groups(
    path: PathArgument,
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="Only this group.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Print offset, end and lag of each queue of consumer groups. Example: rocketflow store groups /data/store billing

    The lag counts messages, bytes of their records, and the age (ms) of the oldest of them. Unknown values print as a
    dash, and are null in JSON: of a queue that the group never read, or one that lacks units.
    """
    from rocketflow.cli.store.group_lag import GROUP_COLUMNS, group_lags

    with open_reader(path, config) as reader:
        found = list(group_lags(reader, group, topic, time.time_ns() // 1_000_000))
    if as_json:
        for one in found:
            emit(one)
    elif found:
        print_table(GROUP_COLUMNS, ([one[name] for name in GROUP_COLUMNS] for one in found))
    else:
        print("no offsets of groups")
