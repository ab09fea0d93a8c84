"""spark-submit jobs/rebuild_index.py --store PATH [--only consumequeue|index] [--topic T]... [--dry-run]"""

import sys

from rocketflow.process.job_entry import run_job
from rocketflow.spark.rebuild.rebuild_job import main

if __name__ == "__main__":
    sys.exit(run_job(main))
