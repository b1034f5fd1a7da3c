"""Places as processes with a durable log: messages in channels, transactions that commit as a set or are undone.

What it means is the extended calculus of `pellucid.atomic` (rules ``crash``): a transaction depends on those whose
messages it took, a mutually dependent set commits together or not at all, an abort puts back what was taken.

`new_network` (or ``pellucid net new``) makes the folder of a network, `start` (``pellucid net up``) starts its places;
programs `connect` to theirs.
"""

from pellucid.atomic.places.client import Aborted, InDoubt, NothingCame, NotReached, Place, Transaction, connect
from pellucid.atomic.places.network import Network, new_network
from pellucid.atomic.places.processes import end, start, up
from pellucid.atomic.places.wire import Capability, new_key, seal, unseal

__all__ = [
    "Aborted", "Capability", "InDoubt", "Network", "NotReached", "NothingCame", "Place", "Transaction", "connect",
    "end", "new_key", "new_network", "seal", "start", "unseal", "up",
]  # fmt: skip
