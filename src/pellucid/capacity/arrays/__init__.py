"""Array-based systems: any number of processes, decided backwards from what must not happen.

`read` a file in Cubicle's language (or `read_text`), `decide` it: *proved* with formulas that an independent checker
accepts (`check_certificate`), *refuted* with a run that the literal interpreter makes, or *unknown*.  `write_text` is
the way back.
"""

from pellucid.capacity.arrays.certificate import check_certificate
from pellucid.capacity.arrays.decide import decide, explain, read
from pellucid.capacity.arrays.system import System
from pellucid.capacity.arrays.text import read_text, write_text

__all__ = ["System", "check_certificate", "decide", "explain", "read", "read_text", "write_text"]
