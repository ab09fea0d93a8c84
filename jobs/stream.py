"""spark-submit jobs/stream.py --source PATH --subscribe T --sql "SELECT ..." --sink PATH --topic T --checkpoint DIR"""

import sys

from rocketflow.process.job_entry import run_job
from rocketflow.spark.stream.stream_job import main

if __name__ == "__main__":
    sys.exit(run_job(main))
