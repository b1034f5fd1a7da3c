"""``python -m tests.conformance FILE…``"""

import sys

from tests.conformance import main

sys.exit(main(sys.argv[1:]))
