"""The clock beside timely-dataflow's, round by round: how often the frontiers of a graph can be brought up to date.

    python bench/clock.py [--seconds 1] [--no-peer] [--svg FILE] [--json FILE]

A round moves one time on at one place and asks what changed.  The peer is timely-dataflow's own tracker, from
crates.io, built in a temporary folder by cargo where that is there.  Both are measured in seconds of a processor, on
one thread.  ``--svg`` draws how the cost of a round grows with the nodes, the ports, the size of the frontier and the
history.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.progress import Builder, Integers, Product, Source, Target
from pellucid.progress.packed.tracker import Packed

TIMELY = "0.31.0"
STILL = 500  # updates each way in a round in which no frontier changes
CASES = {  # name: what a round is, how many rounds the peer does for the measurement
    "ring-3": ("a loop of three nodes, the time of one output moves on", 300_000),
    "chain-10": ("a chain of 10 nodes, the head moves on", 100_000),
    "chain-100": ("a chain of 100 nodes", 10_000),
    "chain-1000": ("a chain of 1,000 nodes", 1_000),
    f"still-{STILL}": (f"{2 * STILL:,} updates that change no frontier, counted one by one", 2_000),
    "ports-100000": ("one of 100,000 ports of a node moves on", 50_000),
}


def chain(nodes: int, ring: bool = False) -> Packed:
    graph = Builder()
    for n in range(nodes):
        graph.add_node(n, 1, 1, [[int(ring and n + 1 == nodes)]])
    for n in range(nodes if ring else nodes - 1):
        graph.add_edge(Source(n), Target((n + 1) % nodes))
    return _compiled(graph)


def _compiled(graph: Builder) -> Packed:
    clock = graph.build("compiled")
    assert isinstance(clock, Packed)
    return clock


def moving(clock: Packed) -> Callable[[int], None]:
    source = Source(0)
    clock.update_source(source, 0, 1)
    clock.propagate_all()

    def a_round(t: int) -> None:
        clock.update_source(source, t + 1, 1)
        clock.update_source(source, t, -1)
        clock.propagate_all()
        clock.pushed_rows()

    return a_round


def still() -> Callable[[int], None]:
    clock = chain(3, ring=True)
    clock.update_source(Source(0), 0, 1)
    clock.propagate_all()
    times = np.concatenate([np.arange(1, STILL + 1)] * 2)
    where = np.full(2 * STILL, clock.number(Source(0)))
    diffs = np.repeat([1, -1], STILL)
    return lambda t: clock.update_rows(where, times, diffs)


def ports(count: int) -> Callable[[int], None]:
    graph = Builder()
    graph.add_node(0, count, count, [{i: 0} for i in range(count)])
    clock = _compiled(graph)
    targets = [Target(0, port) for port in range(count)]
    clock.update_rows([clock.number(target) for target in targets], [0] * count, [1] * count)
    clock.pushed_rows()
    at = [0] * count

    def a_round(r: int) -> None:
        port = r * 7919 % count
        clock.update_target(targets[port], at[port] + 1, 1)
        clock.update_target(targets[port], at[port], -1)
        at[port] += 1
        clock.propagate_all()
        clock.pushed_rows()

    return a_round


def rounds_of(name: str) -> Callable[[int], None]:
    kind, size = name.split("-")
    if kind == "still":
        return still()
    return ports(int(size)) if kind == "ports" else moving(chain(int(size), kind == "ring"))


def measure(a_round: Callable[[int], None], seconds: float, first: int = 0) -> float:
    """Rounds for each second of the processor."""
    done, start = first, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        for _ in range(10):
            a_round(done)
            done += 1
    return (done - first) / spent


# ---------------------------------------------------------------- the peer


def build_peer(folder: Path) -> Path | None:
    """timely-dataflow's tracker as a program; None, and why, if it cannot be had."""
    if shutil.which("cargo") is None:
        print("timely-dataflow: cargo is not here")
        return None
    (folder / "src").mkdir()
    (folder / "Cargo.toml").write_text(
        '[package]\nname = "peer"\nversion = "0.1.0"\nedition = "2021"\n'
        f'[dependencies]\ntimely = {{ version = "={TIMELY}", default-features = false }}\n'
    )
    shutil.copy(Path(__file__).parent / "clock_peer.rs", folder / "src" / "main.rs")
    built = subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=folder, capture_output=True, text=True)
    if built.returncode:
        print(f"timely-dataflow {TIMELY} cannot be built: {built.stderr.strip().splitlines()[-1:]}")
        return None
    return folder / "target" / "release" / "peer"


def peer_rounds(program: Path, name: str, rounds: int) -> float:
    def seconds(count: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([program, name, str(count)], check=True)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    return rounds / max(seconds(rounds) - seconds(0), 1e-6)


# ---------------------------------------------------------------- growth


def growth(seconds: float) -> dict[str, list[tuple[int, float]]]:
    """Microseconds for a round: with more of something that changes, and of things that do not."""

    def cost(a_round: Callable[[int], None], first: int = 0) -> float:
        return 1e6 / measure(a_round, seconds, first)

    def later(rounds: int) -> Callable[[int], None]:
        a_round = moving(chain(3, ring=True))
        for t in range(rounds):
            a_round(t)
        return a_round

    return {
        "nodes that change": [(n, cost(moving(chain(n)))) for n in (3, 10, 30, 100, 300, 1000)],
        "nodes that do not": [(n, cost(beside(n))) for n in (3, 10, 30, 100, 300, 1000)],
        "ports": [(n, cost(ports(n))) for n in (10, 100, 1000, 10_000)],
        "elements of the frontier": [(n, cost(wide(n))) for n in (1, 3, 10, 30, 100, 300, 1000)],
        "times that wait": [(n, cost(waiting(n))) for n in (10, 100, 1000, 10_000, 100_000)],
        "rounds before": [(n, cost(later(n), n)) for n in (100, 1000, 10_000, 100_000)],
    }


def beside(nodes: int) -> Callable[[int], None]:
    """A ring of three nodes that moves, and others that do not."""
    graph = Builder()
    for n in range(nodes + 3):
        graph.add_node(n, 1, 1, [[int(n == 2)]])
    for n in range(3):
        graph.add_edge(Source(n), Target((n + 1) % 3))
    for n in range(3, nodes + 2):
        graph.add_edge(Source(n), Target(n + 1))
    clock = _compiled(graph)
    clock.update_source(Source(3), 0, 1)
    return moving(clock)


def wide(size: int) -> Callable[[int], None]:
    """Pairs of which none is before another; one of them goes and comes back."""
    graph = Builder(Product(Integers(), Integers()))
    graph.add_node(0, 0, 1, [])
    graph.add_node(1, 1, 0, [{}])
    graph.add_edge(Source(0), Target(1))
    clock = _compiled(graph)
    for k in range(size):
        clock.update_source(Source(0), (k, size - k), 1)
    clock.propagate_all()

    def a_round(t: int) -> None:
        k = t // 2 * 7919 % size
        clock.update_source(Source(0), (k, size - k), 1 if t % 2 else -1)
        clock.propagate_all()
        clock.pushed_rows()

    return a_round


def waiting(size: int) -> Callable[[int], None]:
    """The first of many times goes, and one is added at the end."""
    clock = chain(3, ring=True)
    clock.update_rows([clock.number(Source(0))] * size, list(range(size)), [1] * size)

    def a_round(t: int) -> None:
        clock.update_source(Source(0), t, -1)
        clock.update_source(Source(0), t + size, 1)
        clock.propagate_all()
        clock.pushed_rows()

    return a_round


def plots(found: dict[str, list[tuple[int, float]]]) -> str:
    """One beside the other, as SVG."""
    parts = [plot(title, points, 400 * (n % 3), 240 * (n // 3)) for n, (title, points) in enumerate(found.items())]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 480" font-family="sans-serif" font-size="10">\n'
        '<rect width="1200" height="480" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def plot(title: str, points: list[tuple[int, float]], x0: int, y0: int) -> str:
    """A line on logarithmic scales."""
    low, high = math.log10(points[0][0]), math.log10(points[-1][0])
    top = max(math.ceil(max(math.log10(y) for _, y in points)), 2)
    spots = [
        (60 + 320 * (math.log10(x) - low) / (high - low or 1), 200 - 170 * max(math.log10(y), 0) / top)
        for x, y in points
    ]
    marks = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in spots)
    names = "".join(
        f'<text x="{x:.1f}" y="218" text-anchor="middle">{n:,}</text>'
        for (x, _), (n, _) in zip(spots, points, strict=True)
    )
    scale = "".join(
        f'<text x="52" y="{204 - 170 * k / top:.1f}" text-anchor="end">{10**k:,} µs</text>' for k in range(top + 1)
    )
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    return (
        f'<g transform="translate({x0},{y0})">'
        f'<text x="200" y="16" text-anchor="middle" font-size="12">a round, by {title}</text>'
        f'<polyline points="60,20 60,200 385,200" fill="none" stroke="#888"/>{scale}{names}'
        f'<g fill="#1b6ca8"><polyline points="{line}" fill="none" stroke="#1b6ca8"/>{marks}</g></g>'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        program = None if given.no_peer else build_peer(Path(folder))
        for name, (what, rounds) in CASES.items():
            per = 2 * STILL if name.startswith("still") else 1
            a_round = rounds_of(name)
            a_round(0)
            ours = measure(a_round, given.seconds, 1) * per
            theirs = None if program is None else peer_rounds(program, name, rounds) * per
            rows[name] = {"ours": ours, "timely-dataflow": theirs}
            beside_it = "" if theirs is None else f"{theirs:14,.0f}   {theirs / ours:5.1f} ×"
            print(f"{what:62} {ours:12,.0f}{beside_it}", flush=True)
    grown = growth(given.seconds / 5) if given.svg or given.json else {}
    if given.svg:
        given.svg.write_text(plots(grown), encoding="utf-8")
    for title, points in grown.items():
        print(f"a round, by {title}: " + ", ".join(f"{n:,}: {cost:.1f} µs" for n, cost in points))
    if given.json:
        given.json.write_text(json.dumps({"rounds": rows, "growth": grown}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
