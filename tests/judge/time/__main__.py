"""``python -m tests.judge.time --minutes 5 --seed 1``: see `tests.judge.time.judge`."""

import sys

from tests.judge.time.judge import main

if __name__ == "__main__":
    sys.exit(main())
