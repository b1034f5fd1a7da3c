"""A saved state in the form before: a checksum of everything, the length of the head, the head, the blocks."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any


def old_state(head: dict[str, Any], blocks: Sequence[Any], form: int) -> bytes:
    """With the magic of then."""
    magic = b"PELLUCID STATE\n"
    text = json.dumps({**head, "format": form, "blocks": [len(b) for b in blocks]}).encode()
    text += b" " * (-(len(magic) + 8 + len(text)) % 64)
    body = struct.pack("<I", len(text)) + text + b"".join(bytes(b) + bytes(-len(b) % 64) for b in blocks)
    return magic + struct.pack("<I", zlib.crc32(body)) + body
