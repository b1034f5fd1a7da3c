"""PageRank to a bound: twenty rounds, in each of which every page shares its rank among the pages that it links to."""

from typing import NamedTuple

from pellucid import Stream, iterate, pipeline

DAMPING = 0.85


class Page(NamedTuple):
    name: str
    links: list[str]
    rank: float


def shares(p: Page) -> list[Page]:
    """What a page gives away in a round: a share to each page that it links to, and its links to itself."""
    return [Page(p.name, p.links, 0.0), *(Page(to, [], p.rank / len(p.links)) for to in p.links)]


def total(x: Stream[Page]) -> Stream[Page]:
    return x.cumulate(lambda t, p: Page(p.name, t.links or p.links, t.rank + p.rank), Page("", [], 0.0), to=Page)


def ranked(pages: int, rounds: int = 20) -> pipeline:
    def share(x: Stream[Page]) -> Stream[Page]:
        sums = x.explode(shares, to=Page).key_by(lambda p: p.name).each_round(total)
        return sums.map(lambda p: Page(p.name, p.links, (1 - DAMPING) / pages + DAMPING * p.rank), to=Page)

    def rank(x: Stream[Page]) -> Stream[Page]:
        return iterate(x.at(lambda p: 0), share, rounds=rounds, id="rank")  # all pages at one time

    return pipeline(rank, x=Page)


if __name__ == "__main__":
    web = {"a": ["b", "c"], "b": ["c"], "c": ["a"], "d": ["c"]}
    pages = [Page(name, links, 1 / len(web)) for name, links in web.items()]
    for page in sorted(ranked(len(web))(pages), key=lambda p: -p.rank):
        print(f"{page.name} {page.rank:.4f}")
