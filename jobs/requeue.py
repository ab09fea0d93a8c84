"""spark-submit jobs/requeue.py --store PATH [--kinds delay,timer,retry] | --from-topic T --to-topic T --where SQL"""

import sys

from rocketflow.process.job_entry import run_job
from rocketflow.spark.requeue.requeue_job import main

if __name__ == "__main__":
    sys.exit(run_job(main))
