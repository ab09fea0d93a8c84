"""The fields of the JSON that jobs print as their last line, and those of `demo`, `bridge` and `quality`."""

from __future__ import annotations

from typing import Final

_TIMING: Final = {
    "seconds": "time it took",
    "rowsPerSecond": "rows a second",
}
_VERIFIED: Final = {"verified": "whether `store verify` found nothing; the demo fails otherwise"}
_DEMO: Final = {
    "job": "demo",
    "store": "directory of the store",
    "seconds": "time of the complete demo",
    "streamed": "messages that the stream job read",
}
_DELAYS: Final = {
    "events": "delay events in the store, equal to those of the csv",
    "minutes": "minutes of delay in them, equal to those of the csv",
}

DEMO_FIELDS: Final[dict[str, dict[str, str]]] = {
    "demo": {
        **_DEMO,
        "appended": "messages that were appended, one a flight",
        "appendPerSecond": "appended messages a second",
        "streamPerSecond": "messages a second that the stream job read",
        **_DELAYS,
        **_VERIFIED,
    },
    "demo --store": {**_DEMO, "topics": "topics that were copied", **_VERIFIED},
    "demo --network": {
        **_DEMO,
        "sent": "messages that the broker acknowledged or had stored",
        "foundStored": "batches that the killed broker had stored, but not answered",
        "sentAgain": "batches that were sent again",
        "streamedBeforeKill": "messages of the batches that the stream job had committed when it was killed",
        **_DELAYS,
        **_VERIFIED,
    },
}

_BRIDGE_BEGIN: Final = {
    "job": "kafka_bridge",
    "direction": "kafka-to-store or store-to-kafka",
    "bridge": "id of the bridge",
    "rows": "messages that were copied",
    "batches": "commits, or batches of the Spark query",
    **_TIMING,
}
_BRIDGE_LOSS: Final = {
    "quarantined": "messages that the target refused and that went to the quarantine topic",
    "lost": "messages that the source removed before they were copied",
    "caughtUp": "whether everything present at the start was copied; false without --until-caught-up",
}
_BRIDGE: Final = {
    **_BRIDGE_BEGIN,
    **_BRIDGE_LOSS,
    "lagMessages": "messages that exist and are not copied",
    "lagMs": "age of the newest message of the last commit, ms; 0 if there is no lag",
    "stopped": "name of the signal that stopped the bridge; null if none did",
    "progress": "next offset to copy by topic, then partition or queue",
}
_ENGINE: Final = {
    "engine": "kafka-python or spark",
    "guarantee": "exactly-once or at-least-once",
}

BRIDGE_FIELDS: Final[dict[str, dict[str, str]]] = {
    "bridge kafka-to-store": _BRIDGE,
    "bridge store-to-kafka": _BRIDGE,
    "bridge offset-map": {
        "found": "whether the store has the message, or one after it",
        "exact": "whether it is the message asked for; false for the first one after it",
        "kafkaTopic": "topic in Kafka",
        "partition": "partition in Kafka",
        "kafkaOffset": "offset in the partition",
        "topic": "topic of the store",
        "queueId": "queue of the store",
        "queueOffset": "queue offset",
        "why": "why no message was found; missing if one was",
    },
}

_CHECKED: Final = {
    "version": "version of this form of results",
    "suite": "the suite",
    "suite.name": "its name",
    "suite.version": "its version, a hash of its expectations",
    "ranges": "the messages that were checked, by queue",
    "ranges.topic": "topic",
    "ranges.queueId": "queue",
    "ranges.from": "queue offset of the first",
    "ranges.to": "queue offset after the last",
    "ranges.rows": "their number",
    "rows": "messages that were checked",
    "good": "messages without a finding that quarantines",
    "quarantined": "messages that break an expectation, or whose body cannot be read",
    "malformed": "messages whose body cannot be read",
    "malformedBy": "{reason: number of these messages}",
    "success": "whether every expectation is met",
    "outcome": "passed, warned, quarantined, or batch quarantined: a finding about all rows quarantines all",
    "validator": "pass, or gx if Great Expectations validated as well",
    "expectations": "the expectations of the suite",
    "expectations.label": "type, and the columns",
    "expectations.success": "whether it is met",
    "expectations.action": "quarantine, fail or warn",
    "expectations.unexpected": "rows that break it; null for expectations about all rows",
    "result": "Great Expectations' ExpectationSuiteValidationResult",
}

QUALITY_FIELDS: Final[dict[str, dict[str, str]]] = {
    "quality init": {
        "suite": "file that was written",
        "expectations": "number of drafted expectations",
        "sampled": "messages that were read",
        "unreadable": "further messages of the sample, whose body could not be read",
        "bodySchema": "schema of the bodies in Spark's DDL",
        "leftOut": "fields that the draft omits: they hold lists, or a suite cannot name them",
    },
    "quality check": {**_CHECKED, "failed": "reasons why the check fails; empty if it passes"},
    "quality results": {
        "storeTimestamp": "time of the commit, ms",
        "query": "the query's name in its commits",
        "batchId": "batch of the query",
        **_CHECKED,
    },
    "quality docs": {
        "index": "first page of the site",
        "pages": "pages of results",
        "passRate": "share of good messages in all results, 0 to 1",
    },
}

_REQUEUE_END: Final = {**_TIMING, "dryRun": "whether nothing was written"}
_SAMPLE: Final = {"sample": "with --dry-run: some of the messages"}
_TIMERS: Final = {
    "rows": "messages that were delivered",
    "batches": "commits",
    "rolled": "messages that were copied into the timer topic, because they are due later than the wheel reaches",
    "deleted": "messages that were recalled",
    "alreadyDelivered": "messages that a broker had delivered",
    "skipped": "messages that cannot be delivered",
    "bytes": "bytes of the delivered records",
    "pending": "messages that wait",
    "nextDueMs": "about when the first of them is due, ms; null if none waits",
    **_SAMPLE,
    "sample.toTopic": "topic it goes to",
    "sample.queueOffset": "queue offset in the timer topic",
    "sample.dueMs": "time at which it is due, ms",
    "sample.uniqKey": "id that the producer gave (UNIQ_KEY)",
}

JOB_FIELDS: Final[dict[str, dict[str, str]]] = {
    "submit stream": {
        "job": "stream",
        "rows": "messages that were read",
        "batches": "batches of the query",
        **_TIMING,
    },
    "submit quality": {
        "job": "quality",
        "rows": "messages that were checked",
        "batches": "batches of the query that were checked",
        **_TIMING,
        "good": "messages without a finding that quarantines",
        "quarantined": "messages that went to the quarantine topic",
        "malformed": "messages whose body could not be read",
        "quarantinedBy": "{reason: messages}: expectations and kinds of unreadable bodies; a message may have several",
        "failedBatches": "batches in which an expectation is not met",
        "replayedBatches": "batches that Spark repeated and that were in the log already",
    },
    "submit requeue": {
        "job": "requeue",
        "kind": "due",
        "kinds": "the kinds asked for: delay, retry, timer",
        "rows": "messages that were (with --dry-run: would be) delivered",
        "batches": "commits",
        "byKind": "messages by kind",
        "byKind.delay": "delayed messages",
        "byKind.retry": "retries, which wait in the queues of delayed messages",
        "byKind.timer": "timer messages",
        "skipped": "messages that cannot be delivered",
        "untilMs": "time up to which messages count as due, ms",
        "nextDueMs": "when the next message is due, ms; null if none waits",
        "engine": "local (this process), spark, broker, or none: nothing was due, or a dry run",
        **_REQUEUE_END,
        "levels": "delay levels with due messages; missing if there are none",
        "levels.*.delivered": "messages of the level",
        "levels.*.retries": "those of them that are retries",
        "levels.*.skipped": "messages that cannot be delivered, by reason",
        "timers": "the timer messages; missing if none wait or they are not asked for",
        **{f"timers.{name}": about for name, about in _TIMERS.items()},
    },
    "submit requeue --from-topic": {
        "job": "requeue",
        "kind": "requeue",
        "runId": "id of the run, to repeat it",
        "from": "topic that the messages come from",
        "to": "moved messages by topic",
        "rows": "messages that this job moved (with --dry-run: would move)",
        "batches": "commits of this job that moved messages",
        "totalRows": "messages that the complete run moved",
        "alreadyRequeued": "messages that other runs had moved, whether moved again or skipped",
        "skipped": "messages that were not moved, because other runs had moved them (--skip-requeued)",
        "missing": "queue offsets that retention removed before the run reached them",
        "finished": "whether the run is complete",
        **_REQUEUE_END,
        **_SAMPLE,
        "sample.queueId": "queue of the message",
        "sample.queueOffset": "its queue offset",
        "sample.msgId": "its offset message id",
        "sample.keys": "its keys; null if there are none",
        "sample.tags": "its tags; null if there are none",
        "sample.reconsumeTimes": "how often a consumer sent it back",
        "sample.storeTimestamp": "time at which it was stored, ms",
        "sample.toTopic": "topic that it would go to",
    },
    "submit kafka_bridge": {**_BRIDGE, **_ENGINE},
    "submit kafka_bridge --engine spark": {**_BRIDGE_BEGIN, **_BRIDGE_LOSS, **_ENGINE},
}
