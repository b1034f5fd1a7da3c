"""``python -m tests.judge.rich --minutes 2 --seed 1``: see `tests.judge.rich.judge`."""

import sys

from tests.judge.rich.judge import main

if __name__ == "__main__":
    sys.exit(main())
