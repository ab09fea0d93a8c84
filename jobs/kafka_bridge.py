"""spark-submit jobs/kafka_bridge.py --direction kafka-to-store --bootstrap ADDR --store PATH --topics a,b"""

import sys

from rocketflow.job_entry import run_job
from rocketflow.kafka.bridge_job import main

if __name__ == "__main__":
    sys.exit(run_job(main))
