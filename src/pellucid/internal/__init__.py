"""What users do not import: it may change in any version. What they may import is one level up."""

import os

#: The folder of this package, with a separator at the end: a frame whose file begins so is ours, not the user's.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
