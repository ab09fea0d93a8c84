"""spark-submit jobs/kafka_bridge.py --direction kafka-to-store --bootstrap ADDR --store PATH --topics a,b"""

import sys

from rocketflow.kafka.bridge_job import main

if __name__ == "__main__":
    sys.exit(main())
