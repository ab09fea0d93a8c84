"""spark-submit jobs/quality.py --source PATH --subscribe T --suite FILE --quarantine-topic T --checkpoint DIR"""

import sys

from rocketflow.quality.quality_job import main
from rocketflow.stderr import own_stderr

if __name__ == "__main__":
    own_stderr()
    sys.exit(main())
