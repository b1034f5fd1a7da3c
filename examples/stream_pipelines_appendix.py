"""The pipelines of the paper's appendix (Bédard and Hallé, TIME 2021); its comparisons are in
stream_pipelines_compare.py."""

from pellucid import Pipeline, Stream, apply, pipeline


@pipeline
def passthrough(x: Stream[int]) -> Stream[int]:
    return x


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda so_far, v: so_far + v, start=0)


@pipeline
def window_sum(x: Stream[int]) -> Stream[int]:
    return x.window(3, total)


def sum_of_ones(k: int) -> Pipeline:
    """Every event into a 1, then the sum on a window of width k: always k."""
    return pipeline(lambda x: x.map(lambda v: 1).window(k, total), x=int)


def smaller_than(k: int) -> Pipeline:
    """Every event into a 1, these summed; an event passes while the sum is not above k: the first k events."""
    return pipeline(lambda x: x.filter(total(x.map(lambda v: 1)) <= k), x=int)


def product_of_first_and_kth(k: int) -> Pipeline:
    """Figure 2a with a product: the events at positions k·i and i."""
    return pipeline(lambda x: x.decimate(k) * x, x=int)


sum_of_ones_3, smaller_than_3, product_of_first_and_kth_3 = sum_of_ones(3), smaller_than(3), product_of_first_and_kth(3)


@pipeline
def sum_of_doubles(x: Stream[int]) -> Stream[int]:
    return total(x * 2)


@pipeline
def sum_of_odds(x: Stream[int]) -> Stream[int]:  # Figure 5a: see stream_pipelines_figures.py
    count = total(x.map(lambda v: 1))
    return total(count.filter(count.trim(1).map(lambda n: n % 2 == 0)))


@pipeline
def delayed(x: Stream[int]) -> Stream[int]:  # passthrough delayed by one
    return apply(lambda last, now: last, x, x.trim(1))


if __name__ == "__main__":
    for name, p in [(name, p) for name, p in globals().items() if isinstance(p, Pipeline)]:
        pushes = p.trace(range(1, 9))
        print(f"{name:>28}", *(f"{str(out[0]) if out else '-':>5}" for out in pushes))
