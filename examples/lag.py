"""Each reading beside an earlier one: jumps of a sensor, and the proof that they are those of a task written by
hand."""

from typing import NamedTuple

from pellucid import Stream, check, pipeline


class Reading(NamedTuple):
    sensor: str
    value: int


@pipeline
def jumps(reading: Stream[Reading]) -> Stream[int]:
    """How much a reading of a sensor differs from the one before, where that is more than 10."""
    pairs = reading.key_by(lambda r: r.sensor).lag(1, id="pairs")
    return pairs.map(lambda pair: pair[0].value - pair[1].value).filter(lambda jump: abs(jump) > 10)


@pipeline
def difference(x: Stream[int]) -> Stream[int]:
    return x.lag(2).map(lambda pair: pair[0] - pair[1])


@pipeline
def by_hand(x: Stream[int]) -> Stream[int]:
    def step(s: tuple[int, int, int], v: int) -> tuple[tuple[int, int, int], list[int]]:
        first, second, seen = s
        return (second, v, min(seen + 1, 2)), [v - first] if seen == 2 else []

    return x.task(step, (0, 0, 0))


if __name__ == "__main__":
    events = [Reading("a", 1), Reading("b", 50), Reading("a", 3), Reading("b", 70), Reading("a", 20)]
    print("jumps:", jumps(events))
    print("differences:", difference([1, 2, 5, 9]))
    print("the same as by hand:", check.equivalent(difference, by_hand, ints=range(3)).status)
