"""spark-submit jobs/kafka_bridge.py --direction kafka-to-store --bootstrap ADDR --store PATH --topics a,b"""

import sys

from rocketflow.kafka.bridge_job import main
from rocketflow.process.job_entry import run_job

if __name__ == "__main__":
    sys.exit(run_job(main))
