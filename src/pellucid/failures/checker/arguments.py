"""What `check.failures` is given: each argument is looked at before anything is built, and those that contradict each
other are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pellucid.errors import UsageError
from pellucid.failures.checker.rules import Rules
from pellucid.failures.checker.sinks import SINKS, Observation, Own
from pellucid.failures.checker.unaligned import UnalignedRules
from pellucid.failures.model import Configuration

SOURCES = ("replayable", "not-replayable")
PROTOCOLS = ("aligned", "unaligned", "microbatch")


@dataclass(frozen=True)
class GivenArguments:
    """The arguments of a question about failures."""

    p: Any
    epochs: Any
    events: Any
    crashes: Any
    sink: Any
    source: Any
    protocol: Any
    observe: Any
    inputs: Any
    variant: Any
    fuse: Any
    timeout: Any
    max_states: Any
    progress: Any

    def said(self) -> dict[str, Any]:
        """The arguments that say what is asked, where they are not the usual ones."""
        usual = {"crashes": 2, "source": "replayable", "protocol": "aligned", "fuse": False}
        names = ("epochs", "events", "crashes", "sink", "source", "protocol", "observe", "inputs", "variant", "fuse")
        values = {name: getattr(self, name) for name in names}
        return {name: v for name, v in values.items() if v is not None and v != usual.get(name)}

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("events", 0), ("crashes", 0), ("max_states", 1)):
            value = getattr(self, name)
            if value is None and name in ("epochs", "events"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(f"{name}= takes a whole number from {least} on, found {value!r}")
        if self.timeout is not None and (
            isinstance(self.timeout, bool) or not isinstance(self.timeout, int | float) or not self.timeout > 0
        ):
            raise UsageError(f"timeout= takes a number of seconds above 0, or None, found {self.timeout!r}")
        if self.progress is not None and not callable(self.progress):
            raise UsageError(f"progress= takes a function of a dict, found {self.progress!r}")
        _one_of("source", self.source, SOURCES)
        _one_of("protocol", self.protocol, PROTOCOLS)
        if self.variant is not None and not isinstance(self.variant, str | Rules):
            raise UsageError(
                f"variant= takes the name of a variant or Rules, an object of them, found {self.variant!r}"
            )
        if self.protocol == "microbatch" and isinstance(self.variant, Rules):
            raise UsageError(
                "variant= takes Rules for tasks that exchange messages; micro-batches have variants by name: leave one "
                "of them out"
            )
        self._observed()
        self._input()

    def _observed(self) -> None:
        if self.observe is not None and not callable(self.observe):
            raise UsageError(f"observe= takes a function of a configuration, found {self.observe!r}")
        if self.observe is not None and self.sink is not None:
            raise UsageError(
                f"sink={self.sink if isinstance(self.sink, str) else self.sink.__class__.__name__!r} and observe= both "
                "say what is seen: leave one of them out"
            )
        if self.observe is not None and self.protocol == "microbatch":
            raise UsageError("observe= looks at configurations of tasks, which micro-batches do not have: leave it out")
        if self.sink is not None and not isinstance(self.sink, Observation):
            _one_of("sink", self.sink, tuple(SINKS))
        if (
            isinstance(self.sink, Observation)
            and self.protocol == "microbatch"
            and type(self.sink) not in SINKS.values()
            and not self.sink.durable
        ):
            raise UsageError(
                f"the sink {self.sink.name!r} looks at configurations of tasks, which micro-batches do not have: "
                "one of your own must be durable, and hold what is written to it"
            )

    def _input(self) -> None:
        if isinstance(self.p, Configuration):
            for name in ("epochs", "events"):
                if getattr(self, name) is not None:
                    raise UsageError(f"{name}= is for made-up input: a configuration has its input already")
            if self.fuse is not False:
                raise UsageError("fuse= is for pipelines: a configuration has its tasks already")
        if not isinstance(self.inputs, list | tuple | Mapping):
            return
        lists = list(self.inputs.values()) if isinstance(self.inputs, Mapping) else [self.inputs]
        many = {len(epochs) for epochs in lists if isinstance(epochs, list | tuple)}
        if self.epochs is not None and many and many != {self.epochs}:
            raise UsageError(
                f"epochs={self.epochs} and inputs= with {', '.join(map(str, sorted(many)))} epoch(s) contradict each "
                "other: leave epochs= out"
            )
        sizes = {
            len(e)
            for epochs in lists
            if isinstance(epochs, list | tuple)
            for e in epochs
            if isinstance(e, list | tuple)
        }
        if self.events is not None and sizes and sizes != {self.events}:
            shown = ", ".join(map(str, sorted(sizes)))
            raise UsageError(
                f"events={self.events} and inputs= with epochs of {shown} event(s) contradict each other: leave "
                "events= out"
            )

    @property
    def many_epochs(self) -> int:
        """How many epochs are made up."""
        return 2 if self.epochs is None else int(self.epochs)

    @property
    def many_events(self) -> int:
        """How many events are made up for each epoch."""
        return 2 if self.events is None else int(self.events)

    def observation(self) -> Observation:
        """What is seen."""
        if self.observe is not None:
            return Own(self.observe)
        if isinstance(self.sink, Observation):
            return self.sink
        return SINKS[self.sink or "transactional"]()

    def batch_sink(self, observation: Observation) -> str | Observation:
        """The sink of a query: one that micro-batches know by name, or one of the user's own."""
        return observation.name if type(observation) in SINKS.values() else observation

    def rules(self) -> Rules:
        """The rules of the protocol."""
        return UnalignedRules() if self.protocol == "unaligned" else Rules()


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        raise UsageError(f"{name}= takes {', '.join(map(repr, known))}, found {value!r}")
