"""What the options of ``pellucid run`` say: which file is for which source, what is said of the rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pellucid.errors import UsageError, nearest, option
from pellucid.internal.address import Address, epochs_of, from_environment
from pellucid.internal.cli.progress import count_text
from pellucid.internal.cli.repeated import columns, once
from pellucid.internal.data.tables.bad import FAIL, BadOption, said_bad
from pellucid.internal.graph.memory import why_cut
from pellucid.sinks.address import is_folder

if TYPE_CHECKING:
    from pellucid.internal.graph.model import Graph


@dataclass(frozen=True)
class Rows:
    """What is said of the rows: their key, their order, what comes along, the column of a scalar."""

    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    late: str = "fail"
    keep: Any = ()
    value: str | None = None
    short: str = "fail"
    bad: BadOption = FAIL
    nan: str = "fail"
    formats: Mapping[str, str] = field(default_factory=dict)
    nulls: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse ``--late`` where no order says what is late."""
        if self.late == "fail":
            return
        if not self.order:
            raise UsageError(f"--late {self.late} needs --order, the columns that say which row comes first")
        from pellucid.internal.data.tables.lineup import check_late

        check_late(self.late)


def by_time(graph: Graph, rows: Rows, measure: str | None) -> Rows:
    """What is said of the rows of a pipeline by event time: there inputs meet by time, and need not be of one
    length."""
    in_order = "rows count by their times, whatever order they come in"
    if not any(node.kind == "at" for node in graph.nodes):
        in_order = "it takes rows as they come: sort the file first"
    for name, given, why in (
        ("keep_columns", rows.keep, "an answer is of many rows: put the fields that you want into the events"),
        ("order", rows.order, in_order),
        ("late", rows.late != "fail", "what is late is said at the step, with late='drop', or by taking its .late"),
        ("measure", measure, "what it would write down is of steps that no clock holds back"),
    ):
        if given:
            raise UsageError(f"{option(name)} does not go with {graph.name}, which {why_cut(graph)}: {why}")
    return replace(rows, short="silent")


def bad_given(bad: str | None, most: int | None) -> BadOption:
    """What ``--bad`` and ``--max-bad`` say."""
    if bad == "keep":
        raise UsageError("--bad keep: here rows that are set aside go to a file: give its name, as in --bad bad.csv")
    if bad in ("-", ""):
        raise UsageError(f"--bad {bad or repr(bad)}: expected the name of a file, as in --bad bad.csv")
    return said_bad(bad, most)


def refuse_bad_place(bad: BadOption, sinks: dict[str, str]) -> None:
    """Refuse to write bad rows where an output goes."""
    for name, path in sinks.items():
        if bad.address is not None and os.path.realpath(bad.address) == os.path.realpath(path):
            raise UsageError(f"--bad {bad.address}: is where the output {name!r} goes: give another file")


def files_given(graph: Graph, given: tuple[str, ...]) -> dict[str | None, str | tuple[str, ...]]:
    """The files of each source; several for one are read one after the other."""
    sources = [graph.nodes[i].id for i in graph.sources]
    parted: dict[str | None, list[str]] = {}
    for text in given:
        name, path = _split(text, sources, "source", graph.name)
        parted.setdefault(name, []).append(path)
    if len(parted) == 1 and None in parted and len(sources) == 1 and len(given) > 1:
        return {None: tuple(parted[None])}
    once = tuple(f"{name}={paths[0]}" if name is not None else paths[0] for name, paths in parted.items())
    alone = inputs_given(graph, once if None not in parted or len(parted[None]) == 1 else given)
    return {name: tuple(parted[name]) if len(parted.get(name, ())) > 1 else path for name, path in alone.items()}


def refuse_epochs(graph: Graph, given: tuple[str, ...]) -> None:
    """Refuse the rows of another run where nobody keeps what depends on them."""
    sources = [graph.nodes[i].id for i in graph.sources]
    for _, path in [_split(text, sources, "source", graph.name) for text in given]:
        if epochs_of(path) is not None:
            raise UsageError(
                f"--in {path}: the rows of another run are read by a run with epochs, which can undo what depends on "
                "them: give --pushes N (or --every SECONDS) and --state FOLDER"
            )


def inputs_given(graph: Graph, given: tuple[str, ...]) -> dict[str | None, str]:
    sources = [graph.nodes[i].id for i in graph.sources]
    pairs = [_split(text, sources, "source", graph.name) for text in given or ("-",)]
    if len(pairs) == 1:
        return dict(pairs)
    out: dict[str | None, str] = {}
    for name, path in pairs:
        if name is None:
            raise UsageError(
                f"{graph.name} has {count_text(len(sources), 'source')} ({', '.join(sources)}): with several --in say "
                f"which each is for, as in --in {sources[0]}={path}"
            )
        if name in out:
            raise UsageError(f"the source {name!r} has two inputs: {out[name]} and {path}")
        out[name] = path
    if list(out.values()).count("-") > 1:
        raise UsageError("only one source can read the standard input")
    return out


def targets_given(graph: Graph, given: tuple[str, ...], extra: list[str] | None = None) -> dict[str, str]:
    names = [*[name for name, _ in graph.outputs], *(extra or [])]
    pairs = [_split(text, names, "output", graph.name) for text in given or ("-",)]
    pairs = [(name, from_environment(path)) for name, path in pairs]
    if len(pairs) == 1 and pairs[0][0] is None:
        path = pairs[0][1]
        if len(names) == 1 or path == "-":
            return dict.fromkeys(names, path)
        raise UsageError(
            f"{graph.name} has {count_text(len(names), 'output')} ({', '.join(names)}): give a file for each, as in "
            f"--out {names[0]}={path}"
        )
    out: dict[str, str] = {}
    for name, path in pairs:
        if name is None:
            raise UsageError(_which_each(names, path))
        if name in out or (path in out.values() and path != "-"):
            raise UsageError(f"--out {name}={path}: an output and a file go together only once")
        out[name] = path
    return out


def _which_each(names: list[str], path: str) -> str:
    """What to do about several ``--out`` that do not say whose rows they get."""
    if len(names) > 1:
        return f"with several --out say which each is for, as in --out {names[0]}={path}"
    return (
        f"--out {path}: there is one output ({names[0]}), and several targets are given: a run with epochs writes it "
        "to all of them (--pushes N --state FOLDER), and so does a query (--on spark --stream); else give one --out"
    )


def refuse_no_file(out_format: str | None, places: Mapping[str, str], *, folders: bool = False) -> None:
    """``--out-format`` is of files: refused where there is none, since nobody would look at it (``folders``: a folder
    can be written to).

    >>> refuse_no_file("csv", {"hot": "sqlite:shop.db#hot", "cold": "cold.csv"})
    >>> refuse_no_file("csv", {"out": "archive/"}, folders=True)
    Traceback (most recent call last):
    pellucid.errors.UsageError: --out-format csv: no output is a file: a table has no format, and a folder is Parquet
    """
    if out_format is not None and all(_is_table(place, folders) for place in places.values()):
        raise UsageError(
            f"--out-format {out_format}: no output is a file: a table has no format, and a folder is Parquet"
        )


def _is_table(place: str, folders: bool) -> bool:
    return bool(Address.of(place).kind) or (folders and is_folder(place))


def members_given(
    graph: Graph, given: tuple[str, ...], extra: list[str] | None = None, *, folders: bool = False
) -> tuple[dict[str, str], dict[str, str] | None]:
    """The targets of a run with epochs or of a query, and if they are several of which one is a table (or a folder, if
    ``folders``), whose rows each gets: then an epoch is in all of them, or in none.

    >>> from pellucid import pipeline
    >>> members_given(pipeline(lambda x: x.trim(1), x=int).graph, ("a.csv", "sqlite:b.db#t"))
    ({'out-1': 'a.csv', 'out-2': 'sqlite:b.db#t'}, {'out-1': 'out', 'out-2': 'out'})
    """
    names = [*[name for name, _ in graph.outputs], *(extra or [])]
    pairs = [_split(text, names, "output", graph.name) for text in given]
    if len(pairs) > 1 and len(names) == 1 and all(name is None for name, _ in pairs):
        places = [from_environment(path) for _, path in pairs]
        for place in places:
            if places.count(place) > 1:
                raise UsageError(f"--out {place}: is given twice: an output and a target go together only once")
        found = {f"{names[0]}-{i}": place for i, place in enumerate(places, 1)}
        return found, dict.fromkeys(found, names[0])
    found = targets_given(graph, given, extra)
    several = len(found) > 1 and any(_is_table(place, folders) for place in found.values())
    return found, {name: name for name in found} if several else None


def _split(text: str, known: list[str], what: str, graph: str) -> tuple[str | None, str]:
    """``NAME=FILE`` or just ``FILE``."""
    name, equals, path = text.partition("=")
    if equals and name in known:
        return name, path
    if equals and name.isidentifier():
        raise UsageError(f"{graph} has no {what} {name!r}: it has {', '.join(known)}{nearest(name, known)}")
    return None, text


def kept_given(graph: Graph, given: tuple[str, ...]) -> Any:
    """What ``--keep-columns`` says: names, all, or either for each source."""
    from pellucid.internal.data.tables.keep import said_keep

    sources = [graph.nodes[i].id for i in graph.sources]
    parted: dict[str | None, list[str]] = {}
    for text in given:
        name, equals, rest = text.partition("=")
        mine, rest = (name, rest) if equals and name in sources else (None, text)
        parted.setdefault(mine, []).append(rest)
    said = {mine: True if texts == ["all"] else columns(texts, "--keep-columns") for mine, texts in parted.items()}
    if None in said and len(said) > 1:
        raise UsageError(
            f"--keep-columns: say of which source each is ({', '.join(sources)}), as in --keep-columns {sources[0]}=all"
        )
    return said_keep(said.get(None, said), who="--keep-columns")


def formats_given(given: tuple[str, ...]) -> dict[str, str]:
    """What ``--time-format`` says: the form of each column."""
    pairs = []
    for text in given:
        column, equals, form = text.partition("=")
        if not equals or not column.strip():
            raise UsageError(f"--time-format {text}: expected COLUMN=FORM, as in --time-format 'when=%d/%m/%Y %H:%M'")
        pairs.append((column.strip(), form))
    return once(pairs, "--time-format")
