"""The process that is killed while it requeues: `python -m tests.reliability.requeue_worker STORE RUN BATCH_ROWS`.

It runs the job's own run loop; every third dead letter is chosen, which needs no Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from rocketflow.spark.requeue import manual_requeue
from rocketflow.spark.requeue.manual_requeue import ManualRequeue, StageTask, stage_rows
from rocketflow.spark.requeue.requeue_arguments import RequeueJob
from rocketflow_store import StoreReader
from rocketflow_store.commits.staged_part import StagedPart
from rocketflow_store.delivery.requeue.requeue_choice import Choice
from rocketflow_store.delivery.requeue.requeue_run import Queues, RequeueRequest

SOURCE, TARGET = "%DLQ%billing", "orders"


class EveryThird:
    """Rows whose queue offset is a multiple of 3."""

    def __init__(self, store: str) -> None:
        self._store = store

    def choose(self, window: Queues) -> Choice:
        ids, offsets, sizes = [], [], []
        with StoreReader(self._store) as reader:
            for queue_id, (begin, end) in sorted(window.items()):
                found = np.arange(begin, end)[np.arange(begin, end) % 3 == 0]
                ids.append(np.full(len(found), queue_id, np.int32))
                offsets.append(found)
                sizes.append(reader.read_units(SOURCE, queue_id, begin, end)["msg_size"][found - begin])
        count = sum(map(len, ids))
        topic_of = np.zeros(count, np.int32)
        sizes_of = np.concatenate(sizes).astype(np.int64)
        return Choice(np.concatenate(ids), np.concatenate(offsets), sizes_of, (TARGET,), topic_of)

    def rows_without_origin(self, left: Queues) -> int:
        return 0


class Here:
    """Runs tasks one after another, in this process."""

    parallel = 2

    def __call__(self, tasks: Sequence[StageTask]) -> list[StagedPart]:
        return [part for task in tasks for part in stage_rows(task)]


def main() -> None:
    store, run_id, batch_rows = sys.argv[1:]
    manual_requeue.BATCH_ROWS, manual_requeue.TASK_BYTES = int(batch_rows), 2048
    job = RequeueJob(store, frozenset(), 0, None, wait=True)
    result = ManualRequeue(job, RequeueRequest(run_id, SOURCE, TARGET), EveryThird(store), Here()).run()
    print(f"done {result.rows} {result.total_rows}", flush=True)


if __name__ == "__main__":
    main()
