"""Which computers can reach each other, while links are added: connected components over a growing graph, as a loop.

A node tells its neighbours the least name that it has heard of; whoever hears a smaller one tells its own."""

from typing import NamedTuple

from pellucid import Stream, iterate, pipeline


class Link(NamedTuple):
    day: int
    a: int
    b: int


class Message(NamedTuple):
    node: int  # to whom, or about whom
    kind: str  # "link": other is a neighbour from now on; "hear": other is a name; "is": the name of node's component
    other: int


class Component(NamedTuple):
    node: int
    name: int  # the least node that it can reach


Known = tuple[int | None, tuple[int, ...]]  # the least name heard of, and the neighbours


def hear(known: Known, m: Message) -> tuple[Known, list[Message]]:
    name, neighbours = known
    told = [] if name is not None else [Message(m.node, "is", m.node)]
    name = m.node if name is None else name
    if m.kind == "link":
        return (name, (*neighbours, m.other)), [*told, Message(m.other, "hear", name)]
    if m.other >= name:
        return (name, neighbours), told
    return (m.other, neighbours), [Message(m.node, "is", m.other), *(Message(n, "hear", m.other) for n in neighbours)]


def spread(x: Stream[Message]) -> tuple[Stream[Message], Stream[Component]]:
    heard = x.key_by(lambda m: m.node).task(hear, initial=(None, ()), to=Message, id="hear")
    again = heard.filter(lambda m: m.kind == "hear")
    return again, heard.filter(lambda m: m.kind == "is").map(lambda m: Component(m.node, m.other))


@pipeline
def components(links: Stream[Link]) -> Stream[Component]:
    both = links.at("day").explode(lambda e: [Message(e.a, "link", e.b), Message(e.b, "link", e.a)])
    return iterate(both, spread, id="components")


if __name__ == "__main__":
    links = [Link(1, 4, 5), Link(1, 1, 2), Link(1, 5, 6), Link(2, 2, 3), Link(3, 3, 6)]
    for day, found in enumerate(components.trace(links)):
        print(f"after link {day}:", ", ".join(f"{c.node} in {c.name}" for c in found) or "-")
