"""What an audit can say no to, in words: one entry for each way in which a recorded run can be wrong.

The audit finds rows: a *kind* from the table here, the step (task, generation, index), the message (stream, number)
where there is one, and up to two numbers and a name that belong to the kind.  The sentence is made here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# The checks, in the order in which they are reported, with the argument that each of them carries.
CHECKS = {
    "well-formed": "every step is on record, once, in order, and has the shape of its rule",
    "streams": "each stream has one producer, and no task depends on itself",
    "fifo": "every stream is numbered and taken 0, 1, 2, …; after a recovery as Definition 4.5 says",
    "messages": "what was consumed had been produced, and is the same message",
    "alignment": "a border is taken on all inputs at once, and separates the epochs everywhere",
    "snapshot": "each snapshot is causally consistent and complete: nothing received but not sent, nothing in flight "
    "(Figure 3)",
    "replay": "what was done again after a recovery is what was done before",
    "recovery": "every recovery goes to the greatest common epoch (Definition 4.2)",
    "commit": "an epoch becomes visible once, in order, after every task has its snapshot, and is never taken back",
    "explanation": "the kept steps alone are a failure-free run (Theorem 6.9)",
    "output": "the output is the one of the failure-free run",
}

# kind: (check, what is wrong).  In the words: {rule}? no: {task} {generation} {index} {stream} {n} {a} {b} {other}.
KINDS: dict[str, tuple[str, str]] = {
    "unknown-rule": ("well-formed", "its rule is {other!r}, which is none of the model's"),
    "index": ("well-formed", "its index should be {a}: a step is missing, or is there twice"),
    "generation-back": (
        "well-formed",
        "it is of generation {generation}, but the step before it of generation {a}: generations only go up",
    ),
    "generation-unknown": ("well-formed", "it is of generation {generation}, but no F-RECOVER begins that one"),
    "event-shape": ("well-formed", "an I-EVENT takes events and no border: this one takes {a} events and {b} borders"),
    "border-shape": ("well-formed", "an I-BORDER moves borders only: this one takes {a} events and produces {b}"),
    "source-shape": (
        "well-formed",
        "a SOURCE takes nothing, and sends events or a border: this one takes {a} messages and sends {b} borders "
        "beside events",
    ),
    "quiet-shape": ("well-formed", "a {other} moves no messages: this one moves {a}"),
    "after-fail": ("well-formed", "the task has failed (F-FAIL) in this generation and must wait for the F-RECOVER"),
    "two-producers": ("streams", "stream {stream!r} is also produced by {other}: a stream has one producer"),
    "cycle": ("streams", "the task depends on its own output, through {other}"),
    "fifo-consumed": ("fifo", "it takes message {n} of {stream!r}, but the next one is {a}"),
    "fifo-consumed-start": (
        "fifo",
        "the first message that it takes of {stream!r} in generation {generation} is {n}, but that must be {a}",
    ),
    "fifo-produced": ("fifo", "it numbers its message on {stream!r} {n}, but the next number is {a}"),
    "fifo-produced-start": (
        "fifo",
        "its first message on {stream!r} in generation {generation} has the number {n}, but that must be {a}",
    ),
    "never-sent": ("messages", "it takes message {n} of {stream!r}, which was not sent in generation {generation}"),
    "altered": ("messages", "message {n} of {stream!r} was sent by {other} with the digest {a}, and received with {b}"),
    "kind-changed": (
        "messages",
        "message {n} of {stream!r} was sent by {other} as {a:border}, and received as {b:border}",
    ),
    "epoch": ("alignment", "it is of epoch {b}, but the task is in epoch {a}"),
    "epoch-start": ("alignment", "it is of epoch {b}, but generation {generation} begins with epoch {a}"),
    "border-inputs": ("alignment", "it takes borders on {a} of {b} inputs: a border is taken on all of them at once"),
    "border-outputs": ("alignment", "it produces borders on {a} of {b} outputs"),
    "epoch-crossed": ("alignment", "in epoch {b} it takes message {n} of {stream!r}, which {other} sent in epoch {a}"),
    "border-early": (
        "snapshot",
        "the border {n} on {stream!r} goes out before the snapshot: only an I-BORDER may send it",
    ),
    "no-snapshot": ("snapshot", "an I-BORDER stores a snapshot, but none is on record here"),
    "snapshot-early": ("snapshot", "it stores the snapshot of epoch {a} before the border of that epoch"),
    "snapshot-twice": ("snapshot", "it stores the snapshot of epoch {a} again in generation {generation}"),
    "orphan": (
        "snapshot",
        "the snapshot of epoch {a} has message {n} of {stream!r} as received, but {other} has not sent it in the same "
        "snapshot",
    ),
    "in-flight": (
        "snapshot",
        "the snapshot of epoch {a} has message {n} of {stream!r} as sent, but {other} has not received it: it is in "
        "flight, and lost after a recovery",
    ),
    "source-differs": (
        "replay",
        "it produced another message in generation {a} at the same place of epoch {b}: the source cannot be replayed, "
        "or cuts its batches otherwise (another size of chunks)",
    ),
    "task-differs": (
        "replay",
        "it produced something else in generation {a} from the same messages in epoch {b}: the task is not "
        "deterministic",
    ),
    "state-differs": (
        "replay",
        "it stored another state in generation {a} after the same messages in epoch {b}: the task is not deterministic",
    ),
    "recovery-high": (
        "recovery",
        "the recovery goes to epoch {a}, but {other} has only come to the border of epoch {b}",
    ),
    "recovery-low": ("recovery", "the recovery goes to epoch {a}, but all tasks have the snapshot of epoch {b}"),
    "recovery-twice": ("recovery", "generation {generation} ends with more than one recovery"),
    "recovery-idle": ("recovery", "no task has failed in generation {generation}: an F-RECOVER needs an F-FAIL"),
    "commit-before-own": ("commit", "it makes epoch {a} visible before its own snapshot of that epoch is on record"),
    "commit-early": (
        "commit",
        "it makes epoch {a} visible, but at the end of generation {generation} not every task has a snapshot of it: "
        "the greatest common epoch is {b}",
    ),
    "commit-deaf": ("commit", "it makes epoch {a} visible without having heard of the snapshot of {other}"),
    "commit-unfounded": (
        "commit",
        "it makes epoch {a} visible because of the snapshot {n} on {stream!r}, which is not on record until then",
    ),
    "commit-twice": ("commit", "it makes epoch {a} visible again"),
    "commit-order": ("commit", "it makes epoch {a} visible after epoch {b}: epochs become visible in order"),
    "commit-back": ("commit", "epoch {a} was visible, and a later recovery to epoch {b} took it back"),
    "output-differs": ("output", "{other}"),
}


def _word(border: int | None) -> str:
    return "a border" if border else "an event"


@dataclass(frozen=True, order=True)
class Violation:
    """One thing that is wrong in a trace, and where.

    >>> print(Violation("fifo-consumed", "b", 0, 7, "s", 4, a=3))
    b, step 7: it takes message 4 of 's', but the next one is 3
    """

    kind: str
    task: str
    generation: int
    index: int
    stream: str | None = None
    n: int | None = None
    a: int | None = None
    b: int | None = None
    other: str | None = None
    kept: bool = False  # seen in the failure-free trace (Theorem 6.9) and not in the recorded one

    @property
    def check(self) -> str:
        """The check that it breaks."""
        return "explanation" if self.kept else KINDS[self.kind][0]

    @property
    def place(self) -> tuple[Any, ...]:
        """Where it is in the order of the trace."""
        return (
            self.task,
            self.generation,
            self.index,
            self.stream or "",
            self.n or 0,
            self.a or 0,
            self.b or 0,
            self.other or "",
        )

    @property
    def why(self) -> str:
        """The reason, in words."""
        text = KINDS[self.kind][1].replace("{a:border}", _word(self.a)).replace("{b:border}", _word(self.b))
        said = text.format(
            generation=self.generation, stream=self.stream, n=self.n, a=self.a, b=self.b, other=self.other
        )
        return f"in the failure-free trace {said}" if self.kept else said

    def __str__(self) -> str:
        place = f"{self.task}, step {self.index}" if self.index >= 0 else self.task
        return f"{place}: {self.why}"

    def document(self) -> dict[str, Any]:
        """The same for a program."""
        out = {"check": self.check, "kind": self.kind, "task": self.task, "generation": self.generation,
               "index": self.index, "stream": self.stream, "n": self.n, "why": self.why}  # fmt: skip
        return {name: value for name, value in out.items() if value is not None}
