"""The appendix of Model Checking of Stream Processing Pipelines (2021): two implementations of the sum over a sliding
window, compared event by event."""

from pellucid import Stream, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda so_far, v: so_far + v, start=0)


@pipeline
def window_sum_2(x: Stream[int]) -> Stream[int]:
    return x.window(2, total)


@pipeline
def trimmed_sum_2(x: Stream[int]) -> Stream[int]:
    return x + x.trim(1)


@pipeline
def window_sum_3(x: Stream[int]) -> Stream[int]:
    return x.window(3, total)


@pipeline
def trimmed_sum_3(x: Stream[int]) -> Stream[int]:
    return x + x.trim(1) + x.trim(2)


@pipeline
def compare_window_sums_2(x: Stream[int]) -> Stream[bool]:
    return window_sum_2(x) == trimmed_sum_2(x)


@pipeline
def compare_window_sums_3(x: Stream[int]) -> Stream[bool]:
    return window_sum_3(x) == trimmed_sum_3(x)


if __name__ == "__main__":
    events = [3, 1, 4, 1, 5, 9]
    for p in (window_sum_2, trimmed_sum_2, compare_window_sums_2, window_sum_3, trimmed_sum_3, compare_window_sums_3):
        print(f"{p.name:>22}", *(f"{str(out[0]) if out else '-':>5}" for out in p.trace(events)))
