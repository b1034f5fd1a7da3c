"""Rows that are packed by gzip on their way into a file.

``gzip.GzipFile`` does more than is wanted here: it writes the (temporary) name of its file into the header, so that the
same rows are not the same bytes; and one that is given up finishes itself when it is collected, so that whoever reads a
pipe takes half of the rows for all of them (and Python 3.13 complains, if the file is closed by then).  This one ends
when it is told to, or not at all.
"""

from __future__ import annotations

import zlib
from typing import Any

_LEVEL = 5
_GZIP = 31  # zlib's word for "with gzip's header and checksum"


class Packer:
    """Packs what is written to it into ``stream``; :meth:`close` writes the end, and leaves ``stream`` open.

    >>> import gzip, io
    >>> file = io.BytesIO()
    >>> packer = Packer(file)
    >>> packer.write(b"x\\n1\\n")
    >>> packer.close()
    >>> gzip.decompress(file.getvalue())
    b'x\\n1\\n'
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)

    def write(self, data: Any) -> None:
        """Pack bytes (anything with a buffer)."""
        self._stream.write(self._packing.compress(data))

    def flush(self) -> None:
        """Let a reader of the stream have all that was written so far."""
        self._stream.write(self._packing.flush(zlib.Z_SYNC_FLUSH))
        self._stream.flush()

    def close(self) -> None:
        """Write gzip's end: without it a reader knows that something is missing."""
        self._stream.write(self._packing.flush())
