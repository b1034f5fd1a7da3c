"""Capabilities as values: the way to a channel, which can be sent in a message and used by whoever has it.

Nobody can make one up, because its tokens cannot be guessed, and whoever gives one away gives no more than that way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CODE = 1  # of the extension type in msgpack
MOST_TOKENS = 64


@dataclass(frozen=True)
class Capability:
    """The way to a channel of a place: the tokens for ``in`` on that way, as many as the giver had.

    >>> Capability("agent", "answers", {"agent.answers": b"token"})
    Capability(to='agent', channel='answers')
    """

    to: str
    channel: str
    tokens: dict[str, bytes] = field(repr=False, hash=False)

    def packed(self) -> bytes:
        """As bytes, to be sent."""
        import msgpack

        return msgpack.packb([self.to, self.channel, self.tokens])  # type: ignore[no-any-return]

    @staticmethod
    def unpacked(data: bytes) -> Capability:
        """From bytes; `ValueError` for what is none.

        >>> one = Capability("agent", "answers", {"agent.answers": b"token"})
        >>> Capability.unpacked(one.packed()) == one
        True
        """
        import msgpack

        found = msgpack.unpackb(data, raw=False, strict_map_key=True)
        if type(found) is not list or len(found) != 3 or not fits(found[2]):
            raise ValueError("no capability")
        if type(found[0]) is not str or type(found[1]) is not str:
            raise ValueError("no capability")
        return Capability(*found)


def fits(tokens: Any) -> bool:
    """Whether these can be the tokens of a capability.

    >>> fits({"in corp": b"token"}), fits({"in corp": "token"}), fits([])
    (True, False, False)
    """
    if type(tokens) is not dict or len(tokens) > MOST_TOKENS:
        return False
    return all(
        type(what) is str and len(what) <= 200 and type(token) is bytes and len(token) <= 64
        for what, token in tokens.items()
    )
