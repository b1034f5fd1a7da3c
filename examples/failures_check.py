"""May the user forget that this pipeline can crash?  Asked for several sinks and ways to run it, before production."""

from pellucid import Stream, check, merge, pipeline


@pipeline
def total(x: Stream[int]) -> Stream[int]:
    return x.cumulate(lambda t, v: t + v, start=0, id="sum")


@pipeline
def ranked(web: Stream[int], shop: Stream[int]) -> Stream[int]:
    return merge(web, shop, id="orders").cumulate(lambda t, v: 2 * t + v, start=0, id="rank")  # the order matters


def ask(p, **how):  # type: ignore[no-untyped-def]
    verdict = check.failures(p, events=1, crashes=1, **how)
    print(f"{p.name:7} {how.get('protocol', 'aligned'):11} {how.get('sink', 'transactional'):14} {verdict.status}")
    return verdict


for sink in ("transactional", "idempotent", "append"):
    ask(total, sink=sink)
    ask(ranked, sink=sink)

print("\nWhy an append sink does not do:")
print(ask(total, sink="append").counterexample)

print("\nWhy Spark, which runs a batch again, wants an order that does not change:")
print(ask(ranked, protocol="microbatch").counterexample)
