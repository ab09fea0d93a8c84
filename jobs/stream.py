"""spark-submit jobs/stream.py --source PATH --subscribe T --sql "SELECT ..." --sink PATH --topic T --checkpoint DIR"""

import sys

from rocketflow.spark.stream_job import main
from rocketflow.stderr import own_stderr

if __name__ == "__main__":
    own_stderr()
    sys.exit(main())
