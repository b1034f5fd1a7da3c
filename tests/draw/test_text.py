"""Drawings for the terminal, letter by letter."""

from __future__ import annotations

from typing import Any

from pellucid import apply, merge, pipeline
from pellucid.internal.draw.text import draw_text

total = pipeline(lambda x: x.cumulate(lambda t, v: t + v, start=0), x=int)


def drawn(fn: Any, width: int = 100, **types: Any) -> list[str]:
    return draw_text(pipeline(fn, **types).graph, width).splitlines()


def test_a_chain_is_a_line() -> None:
    assert drawn(lambda x: x.filter(lambda v: v < 9).cumulate(lambda t, v: t + v, start=0), x=int) == [
        "x ─▶ filter v < 9 ─▶ cumulate t + v ─▶ out"
    ]


def test_a_source_alone() -> None:
    assert drawn(lambda x: x, x=int) == ["x ─▶ out"]


def test_a_long_chain_goes_on_in_the_next_line() -> None:
    assert drawn(lambda x: x.trim(1).trim(2).trim(3).trim(4), width=34, x=int) == [
        "x ─▶ trim 1 ─▶ trim 2 ─▶ trim 3",
        "  ─▶ trim 4 ─▶ out",
    ]


def test_figure_2a() -> None:
    assert drawn(lambda x: x.decimate(3) + x, x=int) == [
        "   ╭─▶ decimate 3 ──▶┐",
        "x ─┤                 ├ apply + ─▶ out",
        "   ╰────────────────▶┘",
    ]


def test_two_sources_merge() -> None:
    def average(numbers: Any, resets: Any) -> Any:
        return merge(numbers, resets.map(lambda r: -1)).trim(1)

    assert drawn(average, numbers=int, resets=int) == [
        "numbers ────────────▶┐",
        "                     ├ merge ─▶ trim 1 ─▶ out",
        " resets ─▶ map -1 ──▶┘",
    ]


def test_two_outputs_and_an_output_that_is_a_source() -> None:
    assert drawn(lambda x: {"late": x.trim(1), "all": x}, x=int) == [
        "   ╭─▶ trim 1 ─▶ late",
        "x ─┤",
        "   ╰───────────▶ all",
    ]


def test_three_inputs_and_pipes_that_cross() -> None:
    def cross(x: Any, y: Any) -> Any:
        return {"d": x - y, "e": y - x, "f": apply(lambda a, b, c: a + b, y.trim(1), x.trim(2), x)}

    assert drawn(cross, x=int, y=int) == [
        "   ╭────▶┐",
        "   │     ├ apply - ──────────────────▶ d",
        "   │ ╭──▶┘",
        "   │ │",
        "   │ ├──▶┐",
        "y ─│─┤   ├ apply - ──────────────────▶ e",
        "   ├─│──▶┘",
        "   │ │",
        "x ─┤ ╰─▶ trim 1 ─────▶┐",
        "   │                  │",
        "   ├───▶ trim 2 ─────▶┼ apply a + b ─▶ f",
        "   │                  │",
        "   ╰─────────────────▶┘",
    ]


def test_a_window_shows_its_sub_pipeline() -> None:
    assert drawn(lambda x: x.window(5, lambda s: s.window(3, total)), x=int) == [
        "x ─▶ window 5 [window 3 [cumulate t + v]] ─▶ out"
    ]


def test_a_window_over_a_fork_is_drawn_below() -> None:
    lines = drawn(lambda x: x.window(4, lambda s: s.trim(1) + s, id="steps"), x=int)
    assert lines == [
        "x ─▶ window 4 sub ─▶ out",
        "",
        "inside window 4 sub (steps):",
        "      ╭─▶ trim 1 ──▶┐",
        "  in ─┤             ├ apply + ─▶ out",
        "      ╰────────────▶┘",
    ]


def test_what_does_not_fit_is_listed() -> None:
    assert drawn(lambda x: x.trim(1, id="late") + x.trim(2, id="later"), width=20, x=int)[:3] == [
        "x             source   :: int",
        "late          trim 1   ◀─ x",
        "later         trim 2   ◀─ x",
    ]


def test_start_values_are_named_where_they_are_not_nothing() -> None:
    assert drawn(lambda x: x.cumulate(lambda t, v: t * v, start=1), x=int) == ["x ─▶ cumulate t * v from 1 ─▶ out"]


def test_wide_and_unprintable_characters() -> None:
    assert drawn(lambda x: (x + "流\n").trim(1), x=str) == ["x ─▶ map + 流\\n ─▶ trim 1 ─▶ out"]
