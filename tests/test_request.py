"""One record says what a run is asked for: the flags, the signatures, the docs and the messages are held to it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from pellucid import UsageError, pipeline
from pellucid.errors import FLAGS, option, speaking_to
from pellucid.internal.cli.run import run
from pellucid.internal.pipeline import Pipeline
from pellucid.internal.request import BATCH, CALL, EPOCHS, FIELDS, FILES, SPARK, STREAM, Mode, asked, words_of

REFERENCE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"


def test_the_flags_are_those_of_messages() -> None:
    with speaking_to("command line"):
        for name, one in FIELDS.items():
            assert one.flag is None or option(name) == one.flag
    assert set(FLAGS) < set(FIELDS)


def test_the_command_line_is_the_record() -> None:
    flags = {word: option.name for option in run.params for word in option.opts if word.startswith("--")}
    assert {one.flag: name for name, one in FIELDS.items() if one.command}.items() <= flags.items()
    assert set(flags) - {one.flag for one in FIELDS.values()} == {"--on", "--json"}


def test_the_signature_of_spark_is_the_record() -> None:
    found = inspect.signature(Pipeline.spark).parameters
    words = {name for name, one in found.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}
    assert words == set(words_of(BATCH)) | set(words_of(STREAM))
    for name in words:
        assert found[name].default in (FIELDS[name].default, None)


@pytest.mark.parametrize(
    ("text", "mode"), [(Pipeline.__call__, CALL), (Pipeline.run_epochs, EPOCHS), (Pipeline.spark, SPARK)]
)
def test_a_docstring_names_each_option(text: object, mode: Mode) -> None:
    said = inspect.getdoc(text) or ""
    missing = [name for name, one in FIELDS.items() if one.python & mode and f"``{name}" not in said]
    assert missing == []


def test_the_docs_have_the_table_of_the_record() -> None:
    """Each option once, with its flag, its name in Python, what it means, and where it holds."""
    page = REFERENCE.read_text(encoding="utf-8")
    missing = [row for row in table() if row not in page]
    assert missing == [], "put these rows in docs/reference/cli.md:\n" + "\n".join(table())


def table() -> list[str]:
    """The rows of the table in the docs."""
    rows = ["| flag | in Python | meaning | holds in |", "| --- | --- | --- | --- |"]
    for name, one in FIELDS.items():
        flag = f"`{one.flag}{' ' + one.metavar if one.metavar else ''}`" if one.flag else ""
        python = f"`{name}=`" if one.python else ""
        words = f": `{'`, `'.join(one.choices)}`" if one.choices else ""
        rows.append(
            f"| {flag} | {python} | {one.help.rstrip('.')}{words} | {one.where()} |".replace("T | None", r"T \| None")
        )
    return rows


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("mode", [FILES, EPOCHS, BATCH, STREAM])
def test_what_does_not_hold_is_refused_and_says_where_it_does(name: str, mode: Mode) -> None:
    one = FIELDS[name]
    if mode in one.command or not one.flag:
        return
    value = {int: 7, bool: True}.get(type(one.default), (one.choices[-1:] and one.choices[-1]) or "word")
    with speaking_to("command line"), pytest.raises(UsageError) as caught:
        asked(mode, {name: value}, command=True)
    assert str(caught.value).startswith(str(one.flag)) and "with" in str(caught.value)


def test_in_python_an_option_of_another_mode_says_where_it_belongs() -> None:
    p = pipeline(lambda x: x.trim(1), x=int)
    with pytest.raises(UsageError, match=r"pushes= is for a run with epochs: p\.run_epochs has it"):
        p([1], pushes=3)
    with pytest.raises(UsageError, match=r"tag= goes with p\.spark"):
        p([1], tag="output")
    with pytest.raises(UsageError, match="has no source 'pusches'"):
        p([1], pusches=3)
