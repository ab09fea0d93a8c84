"""spark-submit jobs/quality.py --source PATH --subscribe T --suite FILE --quarantine-topic T --checkpoint DIR"""

import sys

from rocketflow.process.job_entry import run_job
from rocketflow.quality.jobs.quality_job import main

if __name__ == "__main__":
    sys.exit(run_job(main))
