"""spark-submit jobs/rebuild_index.py --store PATH [--only consumequeue|index] [--topic T]... [--dry-run]"""

import sys

from rocketflow.spark.rebuild_job import main
from rocketflow.stderr import own_stderr

if __name__ == "__main__":
    own_stderr()
    sys.exit(main())
