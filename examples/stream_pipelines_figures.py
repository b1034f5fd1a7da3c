"""Figures 2a, 2b, 5a, 5b and 5c of Model Checking of Stream Processing Pipelines (2021).

The text of the paper and its drawing of Figure 5a do not fit together, so both are here.

``figure_5a`` is what the **text** says:

* the events do not matter, so every event becomes a 1, and a running sum counts 1, 2, 3, …;
* the last processor sums what passes a filter with the condition *even*, yet it is given the odd numbers: so the
  condition looks one number ahead (a trim), and n passes iff n + 1 is even;
* it puts out 1, 4, 9, …, the first with the second push, and a queue of length 1 is needed and enough: n waits for
  n + 1; its sequence is that of Figure 5b;
* with *odd* in place of *even* it sums 2, 4, 6, …, as 5c does, though at other times.

``figure_5a_drawn`` is what the authors **draw**, and code in their published experiments: 8 processors and 12 pipes
beside the fork, as the paper counts, because each n has a 1 added before the filter.  So the even numbers are summed:
2, 6, 12, …, which is the sequence of 5c and not that of 5b; with *odd* it puts out 3, 8, 15, …, which is neither.
"""

from pellucid import Pipeline, Stream, apply, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda so_far, v: so_far + v, start=0)


@pipeline
def figure_2a(x: Stream[int]) -> Stream[int]:
    return x.decimate(3) + x  # the i-th output: events 3i and i; the second queue grows for ever


def figure_2b(k: int) -> Pipeline:
    """A monitor: is b the number of times that a was true in the k previous states?"""
    return pipeline(lambda a, b: apply(lambda n, b: n == b, a.map(int).window(k, total), b.trim(k)), a=bool, b=int)


def odds_or_evens(remainder: int, drawn: bool = False) -> Pipeline:
    def figure(x: Stream[int]) -> Stream[int]:
        count = total(x.map(lambda v: 1))
        summed = count + count.map(lambda n: 1) if drawn else count
        return total(summed.filter(count.trim(1).map(lambda n: n % 2 == remainder)))

    return pipeline(figure)


figure_2b_3 = figure_2b(3)
figure_5a, figure_5a_flipped = odds_or_evens(0), odds_or_evens(1)  # the condition is "even", and "odd"
figure_5a_drawn, figure_5a_drawn_flipped = odds_or_evens(0, drawn=True), odds_or_evens(1, drawn=True)


@pipeline
def figure_5b(x: Stream[int]) -> Stream[int]:
    count = total(x.map(lambda v: 1))
    return count * count


@pipeline
def figure_5c(x: Stream[int]) -> Stream[int]:
    return total(total(x.map(lambda v: 2)))


if __name__ == "__main__":
    print("2a on 0, 1, 2, …   ", *figure_2a(range(10)))
    for name in ("figure_5a", "figure_5b", "figure_5c", "figure_5a_flipped", "figure_5a_drawn"):
        print(f"{name:<19}", *(out[0] if out else "-" for out in globals()[name].trace(range(1, 9))))
    print("2b, b right at first", figure_2b_3([True, True, False, True, True, True], [0, 0, 0, 2, 2, 9]))
