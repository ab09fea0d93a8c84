"""A quality job as a process of its own, to be killed: `python -m tests.rocketflow.quality.killed_job ARGUMENTS`."""

from __future__ import annotations

import sys

from rocketflow.quality.jobs.quality_job import QualityQuery, parse_arguments, preflight
from rocketflow.quality.jobs.session import quality_session

if __name__ == "__main__":
    job = parse_arguments(sys.argv[1:])
    checked = preflight(job)
    query = QualityQuery(quality_session("killed", "local[2]", fast_start=True), job, *checked)
    print("planned", file=sys.stderr, flush=True)
    print(query.run().as_json(), flush=True)
