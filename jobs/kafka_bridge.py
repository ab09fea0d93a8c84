"""spark-submit jobs/kafka_bridge.py --direction kafka-to-store --bootstrap ADDR --store PATH --topics a,b"""

import sys

from rocketflow.kafka.bridge_job import main
from rocketflow.stderr import own_stderr

if __name__ == "__main__":
    own_stderr()
    sys.exit(main())
