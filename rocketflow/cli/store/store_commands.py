"""`rocketflow store ...`: read, fill, check and recover a store. Only `rebuild --engine spark` starts a JVM."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from rocketflow.cli.shared import failures
from rocketflow.cli.shared.message_rows import TABLE_COLUMNS, BodyForm, message_fields, print_bad_body, table_row
from rocketflow.cli.shared.parameters import (
    BodyOption,
    ConfigOption,
    JsonOption,
    LastOption,
    OnBadBodyOption,
    PathArgument,
    TagsOption,
    TopicOption,
    emit,
    load_config,
    open_reader,
    tags_argument,
    time_argument,
)
from rocketflow.cli.shared.tables import Table, print_table
from rocketflow.cli.store.admin_commands import groups, topics
from rocketflow.cli.store.skipped_messages import SkippedReport
from rocketflow.cli.store.store_info import lost_queues_hint
from rocketflow.errors import UsageError
from rocketflow.process.nearest import did_you_mean
from rocketflow.process.printable import printable
from rocketflow_store import OnBadBody

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketflow_store import ReceivedMessage, StoreReader

store_app = typer.Typer(help="Read, fill, check and recover a store directory.", no_args_is_help=True)
store_app.command()(topics)
store_app.command()(groups)

_MAX_INT64 = (1 << 63) - 1
_FOLLOW_S = 0.1


FIELDS: Final[dict[str, dict[str, str]]] = {
    "store dump": {
        "kind": "kind of the item: record, blank, unit, entry, slot, ... or of the file",
        "content": "of a JSON file: its content",
    },
    "store export": {
        "topic": "topic",
        "rows": "messages that were exported",
        "files": "files that were written",
        "leftOut": "messages that cannot be read; the files do not have them",
    },
    "store offset": {
        "offset": "queue offset of the message at that time; --boundary says which",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


def _check_topic(reader: StoreReader, topic: str, queue: int | None = None) -> None:
    """Raise UsageError for a topic or queue that the store lacks; hint at a rebuild if all queues are missing."""
    topics = reader.topics()
    if topic not in topics:
        if reader.log_files and not topics:
            raise UsageError(f"no topic {topic!r}: {lost_queues_hint(reader)}")
        raise UsageError(f"no topic {topic!r} in this store: {did_you_mean(topic, topics)}")
    if queue is not None and queue not in reader.queues(topic):
        existing = ", ".join(map(str, reader.queues(topic)))
        raise UsageError(f"--queue {queue}: topic {topic} has messages in these: {existing}")


def _end_with(skipped: int) -> None:
    """End a command that skipped messages with EXIT_LOST."""
    if skipped:
        print(f"error: {skipped} messages could not be read; see store verify", file=sys.stderr)
        raise typer.Exit(failures.EXIT_LOST)


@store_app.command()
def info(
    path: PathArgument,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Also print bytes and retained time span of each topic.")
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Print state, topics and bounds of a store. Example: rocketflow store info /data/store --json"""
    from rocketflow.cli.store.store_info import store_info, topic_columns, topic_rows

    with open_reader(path, config) as reader:
        found = store_info(reader, sizes=sizes)
        idle = reader.config.without_effect
    if config is not None or idle:
        found["settings"] = {"file": config, "withoutEffect": list(idle)}
    if as_json:
        emit(found)
        return
    log, index = found["commitLog"], found["index"]
    lost = found["queuesWithoutFiles"]
    queues = f"{lost} queue{'' if lost == 1 else 's'}"
    print(f"{found['path']}: {found['state']}{f', {queues} without files' if lost else ''}")
    print(f"commitLog  [{log['minOffset']}, {log['maxOffset']})  {log['files']} files of {log['fileSize']} bytes")
    for one in log["paths"] if len(log["paths"]) > 1 else []:
        print(f"           in {one}")
    print(f"index      {index['entries']} entries in {index['files']} files")
    print(f"profile    {found['profile']} (derived files as RocketMQ {found['profile']} writes them)")
    about = "" if index["tagStretchesExact"] else " (found by samples)"
    for one in index["tagStretches"]:
        having = "with" if one["tagEntries"] else "without"
        print(f"           [{one['beginOffset']}, {one['endOffset']})  {having} index entries for TAGS{about}")
    for key in idle:
        print(f"setting    {key} has no effect in RocketFlow")
    if lost:
        print(f"note: `rocketflow store verify {path} --repair` rebuilds the {queues} without files")
    if not found["topics"]:
        print(f"no topics: {lost_queues_hint(reader)}" if found["commitLog"]["files"] else "no topics")
        return
    print_table(topic_columns(sizes), topic_rows(found["topics"], sizes))


@store_app.command()
def cat(
    path: PathArgument,
    topic: TopicOption,
    queue: Annotated[int | None, typer.Option("--queue", help="Only this queue.")] = None,
    start: Annotated[int | None, typer.Option("--from", min=0, help="First queue offset.")] = None,
    end: Annotated[int | None, typer.Option("--to", min=0, help="Queue offset after the last.")] = None,
    most: Annotated[int | None, typer.Option("--max", min=0, max=_MAX_INT64, help="At most N messages.")] = None,
    last: LastOption = None,
    since: Annotated[
        int | None,
        typer.Option(
            "--begin",
            "--since",
            metavar="TIME",
            parser=time_argument,
            help="Stored at or after this time, ISO 8601 or ms (--since is the old name).",
        ),
    ] = None,
    tags: TagsOption = None,
    follow: Annotated[bool, typer.Option("--follow", help="Print messages as they arrive, without end.")] = False,
    body: BodyOption = BodyForm.TEXT,
    on_bad_body: OnBadBodyOption = OnBadBody.FAIL,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Print messages of a topic. Example: rocketflow store cat /data/store --topic orders --json --max 10"""
    from rocketflow.cli.store.cat_messages import Selection, TopicMessages

    if last is not None and most is not None:
        raise typer.BadParameter("--last and --max exclude each other: --last sets the number")
    if since is not None and start is not None:
        raise typer.BadParameter("--begin and --from exclude each other: both set the first message")
    with failures.ends_at_interrupt(expected=follow), open_reader(path, config) as reader:
        if not follow:
            _check_topic(reader, topic, queue)
        skipped = SkippedReport()
        chosen = TopicMessages(reader, Selection(topic, queue, start, end, since, tags), skipped)
        messages = iter(chosen.newest(last)) if last is not None else chosen.oldest_first()
        without_body = _show(chosen.arriving(messages) if follow else messages, body, on_bad_body, as_json, most)
    _end_with(skipped.count + without_body)


def _show(
    messages: Iterable[ReceivedMessage | None], body: BodyForm, on_bad_body: OnBadBody, as_json: bool, most: int | None
) -> int:
    """Print messages, `most` of them; None is a pause.

    Return the number of messages without their body: the body cannot be decoded, and is not to be shown as stored.
    """
    shown = without_body = 0
    table = Table([name for name in TABLE_COLUMNS if name != "body" or body is not BodyForm.NONE])
    for message in messages if most != 0 else ():
        if message is None:
            if not as_json:
                table.flush()
            sys.stdout.flush()
            time.sleep(_FOLLOW_S)
            continue
        fields = message_fields(message, body, raw=on_bad_body is OnBadBody.RAW)
        if why := fields.get("bodyError"):
            print_bad_body((message.topic, message.queue_id, message.queue_offset), why, on_bad_body)
            without_body += on_bad_body is not OnBadBody.RAW
            if on_bad_body is OnBadBody.QUARANTINE:
                continue
        if as_json:
            emit(fields)
        else:
            table.add(table_row(fields))
        shown += 1
        if shown == most:
            break
    if not as_json:
        table.flush()
    return without_body


@store_app.command()
def find(
    path: PathArgument,
    topic: Annotated[str | None, typer.Option("--topic", help="Topic, with --key or --tags.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="One of KEYS, or a UNIQ_KEY.")] = None,
    tags: Annotated[
        str | None,
        typer.Option("--tags", callback=tags_argument, help="Tag expression, e.g. 'a || b': the newest messages."),
    ] = None,
    begin: Annotated[
        int | None,
        typer.Option(
            "--begin", metavar="TIME", parser=time_argument, help="Stored at or after this time, ISO 8601 or ms."
        ),
    ] = None,
    end: Annotated[
        int | None,
        typer.Option(
            "--end", metavar="TIME", parser=time_argument, help="Stored at or before this time, ISO 8601 or ms."
        ),
    ] = None,
    most: Annotated[int, typer.Option("--max", min=1, help="At most N messages.")] = 32,
    msg_id: Annotated[str | None, typer.Option("--msg-id", help="Offset message id.")] = None,
    uniq_key: Annotated[str | None, typer.Option("--uniq-key", help="UNIQ_KEY, in any topic or in --topic.")] = None,
    physical_offset: Annotated[
        int | None, typer.Option("--physical-offset", help="Offset of the record in the log.")
    ] = None,
    body: BodyOption = BodyForm.TEXT,
    on_bad_body: OnBadBodyOption = OnBadBody.FAIL,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Find messages by key, TAGS, id or physical offset.

    Example: rocketflow store find /data/store --topic orders --key o-1

    By TAGS: rocketflow store find /data/store --topic orders --tags 'paid || shipped' --begin 2026-01-31T12:00
    """
    given = [one is not None for one in (key, tags, msg_id, uniq_key, physical_offset)]
    if sum(given) != 1:
        raise typer.BadParameter("give one of --key or --tags (with --topic), --msg-id, --uniq-key, --physical-offset")
    if topic is None and (key is not None or tags is not None):
        raise typer.BadParameter("--key needs --topic" if tags is None else "--tags needs --topic")
    by_name = key is not None or tags is not None or uniq_key is not None
    times = 0 if begin is None else begin, _MAX_INT64 if end is None else end
    with open_reader(path, config) as reader:
        found: list[ReceivedMessage] = []
        skipped = SkippedReport()
        if key is not None and topic is not None:
            found = reader.query_message(topic, key, most, *times, skipped.faults())
        elif tags is not None and topic is not None:
            by_tags = reader.query_by_tags(topic, tags, most, *times)
            found = by_tags.messages
            if not by_tags.complete:
                _warn_of_tags(reader, as_json)
        elif uniq_key is not None:
            for one in [topic] if topic is not None else reader.topics():
                some = reader.query_message(one, uniq_key, most, *times, skipped.faults())
                found += [message for message in some if message.uniq_key == uniq_key]
        else:
            offset = physical_offset if physical_offset is not None else _offset_of(msg_id or "")
            message = reader.look_message_by_offset(offset)
            if message is not None and _is_asked_for(message, topic, msg_id):
                found = [message]
        if key is not None or uniq_key is not None:
            _warn_of_index(reader, as_json)
        without_body = _show(iter(found[:most]), body, on_bad_body, as_json, None)
        if not found and not skipped.count:
            if by_name and topic is not None and topic not in _listed_topics(reader):
                _check_topic(reader, topic)
            print("error: no such message", file=sys.stderr)
            raise typer.Exit(failures.EXIT_FINDINGS)
    _end_with(skipped.count + without_body)


def _listed_topics(reader: StoreReader) -> set[str]:
    """Return the topics of `topics.json`; none if it is damaged, which `store verify` reports."""
    from rocketflow_store import StoreError

    try:
        return reader.listed_topics()
    except StoreError:
        return set()


def _warn_of_index(reader: StoreReader, as_json: bool) -> None:
    """Print a note on stderr if the index does not cover the keys of the complete log."""
    covered = reader.index_coverage()
    if covered.complete:
        return
    begin, end = covered.begin_phy_offset, covered.end_phy_offset
    if as_json:
        print(json.dumps({"indexComplete": False, "indexedFrom": begin, "indexedTo": end}), file=sys.stderr)
        return
    what = f"only records at physical offsets {begin} to {end}" if begin < end else "no record"
    log = f"{reader.min_phy_offset} to {reader.max_phy_offset}"
    print(f"note: the index is sure to cover {what} of {log}; messages may be missing", file=sys.stderr)


def _warn_of_tags(reader: StoreReader, as_json: bool) -> None:
    """Print a note on stderr that index and queues may not name every message with the tags."""
    covered = reader.tag_coverage()
    if as_json:
        fields = {"indexComplete": False, "indexedFrom": covered.begin_phy_offset, "indexedTo": covered.end_phy_offset}
        print(json.dumps(fields), file=sys.stderr)
        return
    why = "the last writer was killed" if reader.state == "unclean" else "records or queue units cannot be read"
    print(f"note: messages may be missing: {why}; see `rocketflow store verify`", file=sys.stderr)


def _is_asked_for(message: ReceivedMessage, topic: str | None, msg_id: str | None) -> bool:
    """Return True if the message found by its position is the requested one; else print what it is."""
    if msg_id is not None and message.offset_message_id.upper() != msg_id.upper():
        print(f"note: the message at that offset has the id {message.offset_message_id}", file=sys.stderr)
        return False
    if topic is not None and message.topic != topic:
        print(f"note: the message at that offset is of topic {printable(message.topic)}", file=sys.stderr)
        return False
    return True


def _offset_of(msg_id: str) -> int:
    from rocketflow_store.spi.ids import decode_offset_msg_id

    try:
        return decode_offset_msg_id(msg_id)[1]
    except ValueError as error:
        raise typer.BadParameter(f"--msg-id {error}") from error


@store_app.command()
def offset(
    path: PathArgument,
    topic: TopicOption,
    queue: Annotated[int, typer.Option("--queue", help="Queue id.")],
    timestamp: Annotated[
        int, typer.Option("--timestamp", metavar="TIME", parser=time_argument, help="Store time, ISO 8601 or ms.")
    ],
    boundary: Annotated[
        Literal["lower", "upper", "nearest"],
        typer.Option(
            "--boundary",
            case_sensitive=False,
            help="The first or last of equal times; nearest is that of RocketMQ 4.9.",
        ),
    ] = "lower",
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Find the queue offset of a store time.

    Example: rocketflow store offset /data/store --topic t --queue 0 --timestamp 0
    """
    with open_reader(path, config) as reader:
        _check_topic(reader, topic, queue)
        found = reader.search_by_time(topic, queue, timestamp, boundary)
    if as_json:
        emit({"offset": found.offset})
    else:
        print(found.offset)
    start, stop = found.unreadable
    if start < stop:
        which = f"topic {topic} queue {queue}, offsets {start} to {stop - 1}"
        print(f"error: {which}: cannot be read, one of them may be the answer; see store verify", file=sys.stderr)
        raise typer.Exit(failures.EXIT_LOST)


@store_app.command()
def append(
    path: PathArgument,
    topic: TopicOption,
    file: Annotated[str, typer.Argument(metavar="[FILE|-]", help="JSON lines; - is stdin.")] = "",
    queue: Annotated[
        int | None, typer.Option("--queue", min=0, max=65_535, help="Queue for lines without queueId.")
    ] = None,
    source: Annotated[str, typer.Option("--input", metavar="FILE|-", help="The same as FILE.")] = "",
    flush: Annotated[
        Literal["sync", "async"], typer.Option("--flush", help="Whether a line is stored after a sync or before.")
    ] = "sync",
    create: Annotated[bool, typer.Option("--create", help="Create the store if it does not exist.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Append JSON lines to a topic. Example: rocketflow store append /data/store lines.json --topic t

    Without FILE they come from stdin: echo '{"body":"hi"}' | rocketflow store append /data/store --topic t

    An object a line says what became of each; on a terminal one line does so for all, unless --json is given.
    """
    from rocketflow.cli.store.append_lines import append_lines

    if file and source:
        raise typer.BadParameter(f"{file} and --input {source}: give one of them")
    in_sum = not as_json and sys.stdout is not None and sys.stdout.isatty()
    settings = load_config(config)
    refused = append_lines(
        path, topic, queue, file or source or "-", flush == "sync", settings, create=create, in_sum=in_sum
    )
    if refused:
        raise typer.Exit(failures.EXIT_FINDINGS)


@store_app.command()
def recover(
    path: PathArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print the steps that an open would take.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Recover a store as a broker does at its start. Example: rocketflow store recover /data/store --dry-run"""
    from rocketflow.cli.store.recover_store import explain_store, lines_of_plan, recover_store

    if explain:
        plan = explain_store(path, load_config(config))
        if as_json:
            emit(plan)
        else:
            for line in lines_of_plan(plan):
                print(line)
        return
    result = recover_store(path, load_config(config), dry_run=dry_run)
    if as_json:
        emit(result)
    else:
        for name, value in result.items():
            print(f"{name:<14} {value}")
    if result["quarantined"]:
        raise typer.Exit(3)


@store_app.command()
def clean(
    path: PathArgument,
    reserved_hours: Annotated[
        int | None,
        typer.Option(
            "--reserved-hours", metavar="H", min=0, help="Age at which files expire, instead of fileReservedTime."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be deleted.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Delete expired files as a broker does. Example: rocketflow store clean /data/store --dry-run"""
    from rocketflow.cli.store.clean_store import clean_store

    result = clean_store(path, load_config(config), reserved_hours, dry_run=dry_run)
    if as_json:
        emit(result)
        return
    kinds = ("commitLogFiles", "consumeQueueFiles", "indexFiles")
    for kind in kinds:
        for name in result[kind]:
            print(name)
    count, verb = sum(len(result[kind]) for kind in kinds), "would be deleted" if dry_run else "deleted"
    offsets = result["minOffset"]
    print(f"{count} files of {result['bytes']} bytes {verb}; the log begins at {offsets['after']}")


@store_app.command()
def backup(
    path: PathArgument,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The backup's directory, which must not exist.")],
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes; all processors by default.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Copy a store, also while a broker serves it. Example: rocketflow store backup /data/store /backup/monday

    The backup has every message that was acknowledged before. It opens like any store: queues and index are rebuilt
    from the copied log. Until it is complete, its name ends with .partial.
    """
    from rocketflow.cli.store.backup_store import back_up, backup_lines

    with contextlib.ExitStack() as bar:
        result = back_up(path, target, load_config(config), workers, lambda: bar.enter_context(_progress("backup")))
    if as_json:
        emit(result)
    else:
        for line in backup_lines(result):
            print(printable(line))
    if result["damaged"]:
        raise typer.Exit(failures.EXIT_LOST)


@store_app.command()
def restore(
    source: Annotated[str, typer.Argument(metavar="BACKUP", help="A backup, or the store of a replica; only read.")],
    path: PathArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be restored.")] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes; all processors by default.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Restore a store from a backup. Example: rocketflow store restore /backup/monday /data/store --dry-run

    If PATH does not exist, it becomes a complete store. If it is a store, which no process may have open, its damaged
    records and missing CommitLog files are put back: only those that prove to be the ones that were there, by their
    bytes, the bytes around them and their queues. The old bytes are kept in quarantine/; nothing else changes.
    """
    from rocketflow.cli.store.restore_store import Restore

    with contextlib.ExitStack() as bar:
        run = Restore(source, path, load_config(config), dry_run=dry_run)
        fields = run.run(workers, lambda: bar.enter_context(_progress("restore")))
    with failures.exits_with(run.exit_code):
        if as_json:
            emit(fields)
        else:
            run.print(fields)
    if run.exit_code:
        raise typer.Exit(run.exit_code)


@store_app.command()
def verify(
    path: PathArgument,
    repair: Annotated[bool, typer.Option("--repair", help="Rebuild derived files, quarantine damage.")] = False,
    accept: Annotated[
        str | None, typer.Option("--accept", metavar="FILE", help="File of accepted findings: see above.")
    ] = None,
    accept_new: Annotated[bool, typer.Option("--accept-new", help="Add new findings to the file of --accept.")] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, help="CommitLog files checked at a time.")] = 2,
    rate: Annotated[
        int | None,
        typer.Option("--bytes-per-second", min=1, metavar="N", help="Read the CommitLog no faster, beside a broker."),
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Check every record, queue unit and index entry. Example: rocketflow store verify /data/store

    Without --repair no byte is changed. With it derived files are rebuilt from the log; damaged records stay where
    they are, a copy of them is kept in quarantine/, and all other messages are served. The exit code is that of what
    is left: 0 if everything is repaired, 1 for findings that lost no message, 3 for lost messages.

    --accept FILE: the first run writes the present findings to FILE, with a digest of their bytes. Later runs print
    those as accepted, and end with 0 if there is no other; --accept-new adds the others.
    """
    from rocketflow.cli.store.read_rate import ReadRate
    from rocketflow.cli.store.verify_report import VerifyReport
    from rocketflow_store.spi.maintenance import next_steps, repair_store, verify_store

    if accept_new and accept is None:
        raise typer.BadParameter("--accept-new needs --accept FILE")
    report = VerifyReport(path, accept, accept_new=accept_new)
    with _progress("verify") as step:
        progress = step if rate is None else ReadRate(rate, step)
        if repair:
            repaired = repair_store(path, load_config(config), workers=workers, progress=progress)
        else:
            found = verify_store(path, load_config(config), workers=workers, progress=progress)
    if repair:
        code = report.take_repair(repaired)
    else:
        code = report.take(found, bool(next_steps(path, found, load_config(config))))
    with failures.exits_with(code):
        if as_json:
            emit(report.as_dict())
        else:
            report.print()
    if code:
        raise typer.Exit(code)


@store_app.command()
def rebuild(
    path: PathArgument,
    only: Annotated[
        Literal["consumequeue", "index"] | None, typer.Option("--only", help="Queues alone, or the index alone.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only queues of this topic; may be repeated.")
    ] = None,
    queue: Annotated[int | None, typer.Option("--queue", min=0, help="Only this queue of the topics.")] = None,
    engine: Annotated[
        Literal["local", "spark"], typer.Option("--engine", help="Processes of this machine, or Spark.")
    ] = "local",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes; all processors by default.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be rebuilt.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Go on if CommitLog files are missing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the process that has locked the store.")] = False,
    log: Annotated[
        str | None, typer.Option("--log", metavar="URI", help="Read the CommitLog from here (s3://bucket/store).")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="DIR|URI", help="Write consumequeue/ and index/ here.")
    ] = None,
    scratch: Annotated[
        str | None, typer.Option("--scratch", metavar="DIR", help="Directory to build a remote target's files in.")
    ] = None,
    profile: Annotated[
        Literal["5.3", "5.5"] | None,
        typer.Option("--profile", help="Convert to the derived files of this RocketMQ version."),
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Rebuild queues and index from the log, in parallel. Example: rocketflow store rebuild /data/store

    They are built beside the store and compared with the log; then those files that differ are swapped in at once.
    Until then nothing changes, and a job that is killed leaves the old files.

    PATH may be a backup: rocketflow store rebuild "s3://bucket/store?region=eu-west-1" --target /data/restored. Give
    credentials by the environment (AWS_ACCESS_KEY_ID and so on): other users may see a command line.
    """
    from rocketflow.cli.store.rebuild_store import rebuild_locally, rebuild_on_spark, request_of, summary
    from rocketflow_store import UnknownTopicError

    request = request_of(
        only, topic or [], queue, (log, target, scratch), profile, dry_run=dry_run, force=force, wait=wait
    )
    with contextlib.ExitStack() as bar:

        def begin() -> Any:
            return bar.enter_context(_progress("rebuild"))

        try:
            if engine == "spark":
                result = rebuild_on_spark(path, request, config, workers, begin)
            else:
                result = rebuild_locally(path, request, load_config(config), workers, begin)
        except UnknownTopicError as error:
            hint = _nearest_topic(path, config, error.topic) if error.queue_id is None else ""
            raise UsageError(f"{error}{hint}") from error
    if as_json:
        emit(result.as_dict())
    else:
        for line in summary(result):
            print(printable(line))
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _nearest_topic(path: str, config: str | None, topic: str) -> str:
    """Return a hint at the nearest topic, or "" if the store cannot be read (a remote backup)."""
    from rocketflow_store import StoreError

    try:
        with open_reader(path, config) as reader:
            return f": {did_you_mean(topic, {*reader.topics(), *_listed_topics(reader)})}"
    except StoreError:
        return ""


@store_app.command()
def ledger(
    path: PathArgument,
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="Only commits of this run.")] = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", metavar="KIND", help="Only commits of this kind: requeue, delay, timer, ... or sink."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also commits that moved no row.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """List the commits that moved messages. Example: rocketflow store ledger /data/store --run-id fix-7 --json"""
    from rocketflow.cli.store.ledger_lines import LEDGER_COLUMNS, ledger_lines, ledger_row

    table, skipped = Table(LEDGER_COLUMNS), SkippedReport()
    with open_reader(path, config) as reader:
        for fields in ledger_lines(reader, run_id, kind, skipped, empty=everything):
            if as_json:
                emit(fields)
            else:
                table.add(ledger_row(fields))
    if not as_json:
        table.flush()
        if table.is_empty and not skipped.count:
            print("no commits" if everything else "no commits that moved messages (--all shows the others)")
    _end_with(skipped.count)


@store_app.command()
def export(
    path: PathArgument,
    topic: TopicOption,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Directory for the Parquet files.")],
    force: Annotated[bool, typer.Option("--force", help="Replace files of an earlier export.")] = False,
    on_bad_body: OnBadBodyOption = OnBadBody.FAIL,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Export a topic as Parquet, one file a queue.

    Example: rocketflow store export /data/store --topic orders --to /tmp/o
    """
    from rocketflow_store.spi.reads import export_topic

    if to == "-":
        raise UsageError("--to -: Parquet is a file a queue; give a directory (store cat --json writes to stdout)")
    with open_reader(path, config) as reader:
        _check_topic(reader, topic)
        with _progress("export", of_bytes=False) as step:
            result = export_topic(reader, topic, to, step, overwrite=force, on_bad_body=on_bad_body)
    if as_json:
        emit(result)
    else:
        print(f"{result['rows']} rows, {len(result['files'])} files in {to}")
    _end_with(result["leftOut"])


@store_app.command()
def dump(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Any single file of a store.")],
    as_json: JsonOption = False,
) -> None:
    """Print any single file of a store as JSON lines. Example: rocketflow store dump /data/store/checkpoint

    Ends with 3 if a part of it is damaged: the line of that part has the reason.
    """
    from rocketflow_store.spi.maintenance import dump_file

    damaged = False
    for fields in dump_file(file):
        damaged |= fields.get("kind") == "damaged"
        emit(fields)
    if damaged:
        raise typer.Exit(failures.EXIT_LOST)


class _progress:  # noqa: N801
    """A progress bar on stderr if it is a terminal: `with _progress("verify") as step: step(done, total)`."""

    def __init__(self, what: str, *, of_bytes: bool = True) -> None:
        self._what, self._of_bytes = what, of_bytes
        self._bar: Any = None

    def __enter__(self) -> Any:
        if not sys.stderr.isatty():
            return None
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Left
        from rich.progress import TransferSpeedColumn as Speed

        amount = (DownloadColumn(), Speed()) if self._of_bytes else (MofNCompleteColumn(),)
        self._bar = Progress(
            TextColumn(self._what),
            BarColumn(),
            *amount,
            Left(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        task = self._bar.add_task(self._what, total=None)

        def step(done: int, total: int) -> None:
            self._bar.update(task, completed=done, total=total)

        return step

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
