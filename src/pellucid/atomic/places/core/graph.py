"""Who waits for whom: finds sets of transactions that can commit together, without going over everything each time.

``t`` needs ``u`` if it took a message of it or is its child.  A pending transaction's needs do not change any more, so
a strongly connected component of pending ones stays as it is.  It can commit if whatever it needs outside of itself is
committed: such a component is *ready*.

A search begins at the transaction about which there is something new, and follows what is not committed yet.  It ends
at the first one that is neither pending nor decided (or whose status nobody has told yet), or that waits in a ready
component: everything on the way there is blocked by it and remembers so.  A later search that comes to one of these
does not go further as long as that is still true.  A new ready component is always found from the last of its members
(or of its needs) that changed: nothing else has to be looked at again.
"""

from __future__ import annotations


class Node:
    """A transaction, of here or elsewhere, that is not decided as far as is known here."""

    __slots__ = ("asked", "blocker", "needs", "readers", "ready", "state", "told")

    def __init__(self, state: str) -> None:
        self.state = state  # unknown, active, pending
        self.needs: set[str] = set()  # that are not committed as far as is known
        self.readers: set[str] = set()
        self.told: tuple[str, ...] = ()  # what its place told that it needs
        self.ready = False
        self.blocker: str | None = None
        self.asked = False  # its place is asked about it


class Graph:
    """Transactions and what they need.

    >>> graph = Graph()
    >>> graph.need("b", "a"), graph.need("a", "b")
    (None, None)
    >>> graph.pending("a"), graph.search("a")
    (None, None)
    >>> graph.pending("b"), sorted(graph.search("b"))
    (None, ['a', 'b'])
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.looked = 0  # how many were visited: what searches cost

    def node(self, t: str, state: str = "unknown") -> Node:
        """The node of a transaction; ``state`` if it is new."""
        found = self.nodes.get(t)
        if found is None:
            found = self.nodes[t] = Node(state)
        return found

    def need(self, t: str, u: str) -> None:
        """t needs u, which is not decided as far as is known."""
        if t != u:
            self.node(t).needs.add(u)
            self.node(u).readers.add(t)

    def pending(self, t: str) -> None:
        """t needs nothing more than it does now."""
        node = self.node(t)
        if node.state != "pending":
            node.state, node.blocker = "pending", None  # who blocked it when it was pending before may wait for it now

    def remove(self, t: str) -> set[str]:
        """t is decided; these needed it, and are freed of it."""
        node = self.nodes.pop(t, None)
        if node is None:
            return set()
        for u in node.needs:
            found = self.nodes.get(u)
            if found is not None:
                found.readers.discard(t)
                if found.state == "unknown" and not (found.readers or found.needs or found.asked):
                    del self.nodes[u]  # of elsewhere, and nobody here needs it any more
        for r in node.readers:
            self.nodes[r].needs.discard(t)
        return node.readers

    def blocked(self, t: str) -> str | None:
        """By whom t is known to be blocked: one that is neither pending nor decided, or ready; None if not known."""
        nodes, way = self.nodes, dict[str, None]()
        at = t
        while True:
            node = nodes.get(at)
            if node is None:  # decided meanwhile: whoever needed it is looked at, but not all on the way
                end = None
                break
            if node.state != "pending" or node.ready:
                end = at
                break
            if node.blocker is None or at in way:  # they point at each other: each was something else then
                end = None
                break
            way[at] = None
            at = node.blocker
        for passed in way:
            nodes[passed].blocker = end
        return end

    def search(self, root: str) -> list[str] | None:
        """A ready component that t is in or waits for, unless t is blocked by something else; it is marked ready."""
        nodes = self.nodes
        if root not in nodes or nodes[root].state != "pending" or nodes[root].ready:
            return None
        nodes[root].blocker = None
        index: dict[str, int] = {root: 0}
        low: dict[str, int] = {root: 0}
        stack, work = [root], [(root, iter(nodes[root].needs))]
        while work:
            at, more = work[-1]
            self.looked += 1
            following = next(more, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:  # the first component that is whole: below it is nothing
                    part = stack[stack.index(at) :] if at != root else stack
                    self._block(stack[: len(stack) - len(part)], at)
                    for member in part:
                        nodes[member].ready, nodes[member].blocker = True, None
                    return part
            elif following in index:
                low[at] = min(low[at], index[following])
            else:
                block = self.blocked(following)
                if block is not None:
                    self._block(stack, block)
                    return None
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(nodes[following].needs)))
        return None

    def _block(self, which: list[str], blocker: str) -> None:
        for t in which:
            self.nodes[t].blocker = blocker
