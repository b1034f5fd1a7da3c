"""The shortest way to every place, after each batch of GPS readings: the example of *Timely Dataflow: A Model* (Abadi
and Isard, 2015, section 1).  A reading says how long a road takes now, which may be more or less than before."""

from typing import NamedTuple

from pellucid import Stream, iterate, pipeline

HOME = "home"


class Reading(NamedTuple):
    batch: int
    start: str
    end: str
    minutes: int


class Way(NamedTuple):
    batch: int
    order: int  # 0: a reading, 1: a way; readings of a batch come first, as events of one time come in their order
    place: str
    end: str  # of a reading
    minutes: int


Known = tuple[int, int, dict[str, int]]  # the batch and the minutes of the shortest way to here; roads from here


def pass_on(known: Known, w: Way) -> tuple[Known, list[Way]]:
    batch, minutes, roads = known
    if w.order == 0:
        return (batch, minutes, {**roads, w.end: w.minutes}), []
    if (w.batch, -w.minutes) <= (batch, -minutes):  # known already, and not longer
        return known, []
    return (w.batch, w.minutes, roads), [Way(w.batch, 1, end, "", w.minutes + m) for end, m in sorted(roads.items())]


def longer(x: Stream[Way]) -> tuple[Stream[Way], Stream[Way]]:
    again = x.key_by(lambda w: w.place).task(pass_on, initial=(-1, 0, {}), to=Way, id="places")
    return again, again


def least(x: Stream[Way]) -> Stream[Way]:
    return x.cumulate(lambda a, b: b if a.minutes < 0 or b.minutes < a.minutes else a, start=Way(0, 1, "", "", -1))


@pipeline
def shortest(readings: Stream[Reading]) -> Stream[Way]:
    timed = readings.at("batch")
    ways = timed.explode(lambda r: [Way(r.batch, 0, r.start, r.end, r.minutes), Way(r.batch, 1, HOME, "", 0)])
    found = iterate(ways, longer, limit=1000, id="ways")
    return found.key_by(lambda w: w.place).tumbling(1, least).map(lambda w: w.value)


if __name__ == "__main__":
    roads = [Reading(1, HOME, "bridge", 5), Reading(1, "bridge", "work", 5), Reading(1, HOME, "work", 20)]
    for way in shortest([*roads, Reading(2, "bridge", "work", 30)]):  # a jam
        print(f"batch {way.batch}: {way.place} in {way.minutes} minutes")
