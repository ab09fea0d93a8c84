"""spark-submit jobs/requeue.py --store PATH [--kinds delay,timer,retry] | --from-topic T --to-topic T --where SQL"""

import sys

from rocketflow.spark.requeue_job import main
from rocketflow.stderr import own_stderr

if __name__ == "__main__":
    own_stderr()
    sys.exit(main())
