"""Listing 1 of Failure Transparency in Stateful Dataflow Systems (2024): the running average of integers, with a reset;
two merged inputs and one stateful task."""

from typing import NamedTuple

from pellucid import Stream, merge, pipeline, silent


class Event(NamedTuple):
    """``E⟨value⟩``, or ``Reset``."""

    value: int
    reset: bool


class Sums(NamedTuple):
    """The task's state."""

    sum: int
    count: int


def average(state: Sums, event: Event) -> tuple[Sums, list[float]]:
    match event:
        case Event(reset=True):
            return Sums(0, 0), []
        case Event(value=value):
            new = Sums(state.sum + value, state.count + 1)
            return new, [new.sum / new.count]


@pipeline
def averages(ints: Stream[int], reset: Stream[bool]) -> Stream[float]:
    events = merge(
        ints.map(lambda value: Event(value, False)),
        reset.map(lambda _: Event(0, True)),
        id="events",
    )
    return events.task(average, initial=Sums(0, 0), id="average")


if __name__ == "__main__":
    ints = [10, 20, silent, 5, 7]
    reset = [silent, silent, True, silent, silent]
    for i, r, out in zip(ints, reset, averages.trace(ints, reset), strict=True):
        print(f"{'Reset' if r is True else f'E({i})':>6} -> {out[0] if out else 'nothing'}")
