"""Hostile input to places: ``python -m tests.judge.fuzz_places --frames 1000000 --seed 1``.

Bytes that are no frames, lengths that lie; messages that make no sense, or make sense and ask for what they must not.
Every one of them has to be refused, by `BadFrame` or by the core, which writes down that it refused and nothing else;
what was there before is there after.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pellucid.atomic.places.core import Asked, Core, Heard, Tick, Tree
from pellucid.atomic.places.core.events import MESSAGES, OPERATIONS, SHOWN
from pellucid.atomic.places.core.state import fits
from pellucid.atomic.places.wire import MOST, BadFrame, Frames, pack, unpack

TOKEN = b"t" * 32


class Wrong(AssertionError):  # noqa: N818 - an answer
    """What was found."""


class Fuzz:
    """A place without a socket, and hostile input for it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        tokens = {("in", "c"): TOKEN, ("in", "q"): TOKEN, ("out", "q"): TOKEN}
        self.core = Core("q", Tree({"p": None, "q": None, "r": "q"}, {"q": ["c"], "p": ["d"]}, tokens), [])
        self.core.start(mark=None)
        for op, args in (
            ("begin", {"parent": None}),
            ("send", {"t": "q:1:1", "path": [["in", "c", TOKEN]], "value": b"kept"}),
            ("commit", {"t": "q:1:1", "timeout": None}),
            ("begin", {"parent": None}),
            ("receive", {"t": "q:1:2", "channel": "c", "timeout": 0}),
        ):
            self.core.handle(Asked(1, "honest", op, args))
        self.before = self.seen()

    def seen(self) -> Any:
        """What lasts of the place, and the client's transaction."""
        state = self.core.state
        channels = {
            name: [(mid, m.value) for mid, m in lying.items()] for name, lying in state.channels.items() if lying
        }
        takes = {t: list(own.takes) for t, own in state.live.items()}
        return channels, takes, dict(state.outcomes), dict(state.prepared), set(state.decided)

    # ------------------------------------------------------------ one hostile thing at a time

    def one(self) -> None:
        """A frame, or a message, drawn by chance."""
        kinds = [self.raw, self.message, self.request, self.stood]
        kind = self.rng.choices(kinds, [30, 48, 20, 2])[0]
        name = kind.__name__
        try:
            refused = kind()
        except BadFrame:
            refused = True
        except Exception as error:
            raise Wrong(f"{name}: {type(error).__name__}: {error}") from error
        self.counts[f"{name}: {'refused' if refused else 'no more than noise'}"] += 1

    def raw(self) -> bool:
        """Bytes, and lengths, by chance; frames that are whole are read as messages."""
        rng = self.rng
        length = rng.choice([0, 1, 5, 40, MOST, MOST + 1, 2**32 - 1])
        body = rng.randbytes(rng.randrange(60))
        data = rng.choice([body, struct.pack(">I", length) + body, struct.pack(">I", len(body)) + body])
        frames = Frames(rng.choice([512, MOST]))
        for piece in (data[:3], data[3:]):
            for one in frames.feed(piece):
                unpack(one)
        return False

    def value(self, what: str) -> Any:
        """Something for a field: often of the right kind, never one that is allowed."""
        rng = self.rng
        if rng.random() < 0.35:
            return rng.choice([None, -1, 2**70, "", "x" * 3000, b"", [], {}, [[[]]], True, 1.5, float("nan"), {"a": 1}])
        ids = ["p:1:1", "q:1:9", "q:9:1", "p:7:7", "r:1:1", "nobody:1:1"]
        path = [["in", "q", rng.randbytes(32)], ["in", "c", rng.randbytes(32)]]
        made: dict[str, Any] = {
            "id": rng.choice(ids), "ids": rng.sample(ids, 2), "mid": f"{rng.choice(ids)}/1", "mids": ["p:1:1/1"],
            "attempt": rng.choice(["q:1:a9", "p:1:a1", "r:2:a2"]), "text": rng.choice(["commit", "given up", "dance"]),
            "flag": rng.random() < 0.5, "any": b"v",
            "path": rng.choice([path, path[1:], path * 20, [["out", "q", TOKEN]]]),
            "statuses": [[rng.choice(ids), rng.choice(["committed", "aborted", "pending"]), []]],
            "start": rng.choice(["1", "1-k7q2mx", "7-zz", "999999999999999999"]), "stand": self.stand(),
            "stands": [self.stand() for _ in range(rng.randrange(4))],
        }  # fmt: skip
        return made.get(what, rng.choice(ids))

    def stand(self) -> str:
        """How far a log is: of starts that there were, that there will be, and that cannot be; and what is none."""
        rng = self.rng
        if rng.random() < 0.3:
            return rng.choice(["0/1", "1/0", "1", "/", "1-/3", "1-K/3", "1/-3", "1/9" * 9, "1/" + "9" * 40, "1 /3", ""])
        return f"{rng.choice(['1', '1-k7q2mx', '2', '7-zz'])}/{rng.choice([1, 2, 5, 999, 10**17])}"

    def shown(self) -> dict[str, Any]:
        """Stands beside a message.  None that is a stand of this place: who has its key is believed that it has heard
        of it, and the place would stop for good reason (`stood`)."""
        rng = self.rng
        found = {name: self.value(kind) for name, kind in SHOWN.items() if rng.random() < 0.5}
        if fits("stand", found.get("saw")) and not self.core.state.has(found["saw"]):
            found["saw"] = rng.choice(["1/1", "0/1", "1-K/3"])
        return found

    def stood(self) -> bool:
        """Of a place that has its key: stands that this log lacks.  It is written down that they were shown; from then
        on nothing is done, and nothing else is written, until that is accepted."""
        rng, state = self.rng, self.core.state
        start = f"{rng.randrange(2, 9)}-{rng.choice('abc')}"
        stand = f"{start}/{max(1, state.accepted.get(start, 0) + rng.randrange(-2, 4))}"
        kind, known = rng.choice(list(MESSAGES)), state.has(stand)  # its loss was accepted before
        fields = {name: self.right(what) for name, what in MESSAGES[kind].items()}
        effects = self.core.handle(Heard("p", {"kind": kind, **fields, "saw": stand}))
        if [r.kind for r in effects.writes if r.kind != "refused"] != ([] if known else ["behind"]):
            raise Wrong(f"{kind} with {stand}: written is {effects.writes!r}")
        if known:
            return False
        for _ in range(rng.randrange(4)):
            self.message()
            begun = self.core.handle(Asked((3, 1), "honest", "begin", {"parent": None}))
            if begun.writes or begun.replies[0][1].get("error") != "copy":
                raise Wrong(f"a transaction begins in an older copy: {begun}")
        accepted = self.core.handle(Asked((3, 2), "honest", "accept", {"who": "ada", "when": 0.0}))
        if [r.kind for r in accepted.writes if r.kind != "met"] != ["accepted"] or state.behind:
            raise Wrong(f"it was accepted, and the place is still held: {accepted}, {state.behind}")
        return True

    def right(self, what: str) -> Any:
        """A value that has the right form."""
        while not fits(what, found := self.value(what)):
            pass
        return found

    def message(self) -> bool:
        """Of a place that has its key, and asks for what makes no sense or is not its to ask."""
        rng = self.rng
        kind = rng.choice(list(MESSAGES))
        message: Any = {"kind": kind, **{name: self.value(what) for name, what in MESSAGES[kind].items()}}
        if rng.random() < 0.25:
            message |= self.shown()
        match rng.randrange(8):
            case 0:
                message = rng.choice([[], 7, None, "deposit", {}, {"kind": None}, {"kind": ["deposit"]}])
            case 1:
                message["more"] = 1
            case 2:
                message.pop(rng.choice(list(message)))
            case _:
                pass
        with suppress(BadFrame, ValueError, OverflowError):
            message = unpack(pack(message))
        return self.handled(lambda: self.core.handle(Heard(rng.choice(["p", "p", "r", "nobody", "q"]), message)))

    def request(self) -> bool:
        """Of a client, about what is not its own."""
        rng = self.rng
        op = rng.choice([*OPERATIONS, "dance"])
        args: dict[str, Any] = {
            "t": rng.choice(["q:1:1", "q:1:2", "q:1:9", "p:1:1", 7, None, "x" * 300]),
            "timeout": rng.choice([0, -1, "x", None]),
            "channel": rng.choice(["c", "d", 7, None, "x" * 300]), "path": self.value("path"), "value": b"v",
            "parent": rng.choice(["q:1:2", "p:1:1", 7]), "what": rng.choice(["q:1:9", "p:1:a1", "", 7]),
            "outcome": rng.choice(["commit", "abort", "dance", 7]), "who": "mallory", "when": 0.0,
        }  # fmt: skip
        for name in rng.sample(list(args), rng.randrange(3)):
            args.pop(name)
        if op == "begin" and args.get("parent") is None:
            return False
        return self.handled(lambda: self.core.handle(Asked((2, 1), "mallory", op, args)))

    def handled(self, do: Callable[[], Any]) -> bool:
        before = self.core.refusals
        effects = do()
        for record in effects.writes:
            if record.kind not in ("refused",):
                raise Wrong(f"something was written: {record!r}")
        return self.core.refusals > before or any("error" in reply for _, reply in effects.replies)

    def go(self, frames: int) -> None:
        """So many; now and then it is looked whether anything has changed."""
        for n in range(frames):
            self.one()
            if n % 997 == 0:
                self.core.handle(Tick(float(n)))
                if self.seen() != self.before:
                    raise Wrong(f"after {n} frames the place is another: {self.seen()} instead of {self.before}")
        if self.seen() != self.before:
            raise Wrong(f"the place is another: {self.seen()} instead of {self.before}")


def fuzz(frames: int, seed: int) -> Counter[str]:
    """So many frames."""
    found = Fuzz(seed)
    found.go(frames)
    return found.counts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.judge.fuzz_places", description="Hostile input to places.")
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    try:
        counts = fuzz(given.frames, given.seed)
    except Wrong as error:
        print(f"wrong: {error}")
        return 1
    for name, count in sorted(counts.items()):
        print(f"{count:9,}  {name}")
    print(f"seed {given.seed}: {given.frames:,} frames in {time.monotonic() - began:.0f} s, nothing disturbed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
