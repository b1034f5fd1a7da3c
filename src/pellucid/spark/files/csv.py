"""CSV files on Spark, cell for cell as the local engine reads them (:mod:`data.formats.csv`).

Spark's own reading of CSV differs where nobody sees it: a backslash escapes, a quoted empty text is null, a number with
a blank before it is a text, the columns of a second file go by their place and not by their names, a row with a cell
too many is cut.  So all cells are read as texts, whole, with the header of every file compared; then each column is
turned into what the pipeline wants of it, or, where the pipeline does not say it (key and order), into what its cells
look like.  A cell that does not fit is an error with its file and value.

A line break in a quoted cell means that a file cannot be cut at any line.  Only then it is read in one piece: a batch
looks first whether there is one (and whether it is strict CSV), a stream cannot know what will come, and always does
it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pellucid.errors import DataError, UsageError, option
from pellucid.internal.data.bind import refuse_twice
from pellucid.internal.data.files import look_through
from pellucid.internal.data.numbers import BLANKS, EXACT, FALSE, FLOAT_CELL, INT_CELL, TRUE, WHOLE_CELL
from pellucid.internal.data.spelled import inner_type
from pellucid.internal.data.tables.folders import refuse_no_file
from pellucid.internal.expr.types import BOOL, FLOAT, INT, OptionalType, Type, list_in
from pellucid.internal.graph.model import Graph
from pellucid.sinks.address import absolute, on_this_machine
from pellucid.spark.failure import MARK
from pellucid.spark.files.columns import as_begun

_CELLS = {"long": INT_CELL, "double": FLOAT_CELL}
FILES_AT_ONCE = 1000  # new files that one micro-batch reads
_NULL = "\x01no cell\x01"  # what an unquoted empty cell is for Spark, so that "" is another
_QUOTES = {"quote": '"', "escape": '"', "charToEscapeQuoteEscaping": '"'}
_READ = _QUOTES | {
    "mode": "FAILFAST",
    "nullValue": _NULL,
    "emptyValue": "",
    "columnPruning": False,
    "enforceSchema": False,
    "unescapedQuoteHandling": "RAISE_ERROR",
}
_TRIMMED = {"ignoreLeadingWhiteSpace": True, "ignoreTrailingWhiteSpace": True}
WRITTEN = _QUOTES | {
    "header": True,
    "emptyValue": '""',
    "nullValue": "",
    "ignoreLeadingWhiteSpace": False,
    "ignoreTrailingWhiteSpace": False,
}
_LOOKED_AT_HERE = 64 << 20  # bytes of files that are looked through in this process; more of them by Spark


@dataclass(frozen=True)
class Wanted:
    """What is known of the columns before a file is opened: types by name, which are keys and orders, the only other
    one."""

    types: Mapping[str, Type] = field(default_factory=dict)
    only: Type | None = None  # of the one column that is neither key nor order
    keys: Collection[str] = ()
    orders: Collection[str] = ()
    silent: bool = False  # an empty cell is no event
    keep: Any = ()  # columns that come along as texts: names, or True for all that nobody reads
    nulls: tuple[str, ...] = ()  # words for nothing, where T | None is declared

    def by_name(self, names: list[str]) -> dict[str, Type]:
        """The types of these columns, as far as the pipeline says them.

        >>> Wanted({"x": INT}, only=INT, keys=["user"]).by_name(["user", "amount"])
        {'amount': int}
        """
        others = [n for n in names if n not in self.keys and n not in self.orders]
        if self.only is not None and len(others) == 1 and not any(n in self.types for n in names):
            return {others[0]: self.only}
        return {n: self.types[n] for n in names if n in self.types}


def wanted_of(
    graph: Graph,
    source: str | None,
    value: str | None,
    keys: Collection[str],
    orders: Collection[str],
    keep: Any = (),
    nulls: tuple[str, ...] = (),
) -> Wanted:
    """What a pipeline wants of the columns of a source, or (None) of one file that holds all of them.

    >>> from pellucid import pipeline
    >>> wanted_of(pipeline(lambda w: w.trim(1), w=str).graph, None, "word", ["user"], []).types
    {'word': str}
    """
    nodes = [graph.nodes[i] for i in graph.sources if source is None or graph.nodes[i].id == source]
    wide = source is None and len(nodes) > 1
    types: dict[str, Type] = {}
    only: Type | None = None
    for node in nodes:
        for path, t in node.type.columns():
            name = (f"{node.id}.{path}" if wide else path) if path else (value or node.id)
            types[name] = t
            if not path and not wide and value is None:
                only = t
    return Wanted(types, only, keys, orders, silent=wide, keep=keep, nulls=nulls)


def refuse_lists(path: str, types: Mapping[str, Type], form: str) -> None:
    """Refuse a list in a file of text: Spark guesses what is in it, and takes a number for a text.

    >>> from pellucid.internal.expr.types import ListType
    >>> refuse_lists("orders.jsonl", {"items": ListType(INT)}, "JSON Lines")
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: orders.jsonl: column 'items': list[int] is not read from JSON Lines on Spark: give the
    table as Parquet, or run it here
    """
    for name, t in types.items():
        if list_in(t) is not None:
            raise DataError(
                f"{path}: column {name!r}: {t} is not read from {form} on Spark: give the table as Parquet, or run it "
                "here"
            )


def files_in(path: str) -> list[str]:
    """The files of a folder of this machine, also in folders in it, as Spark finds them; a file by itself."""
    if not os.path.isdir(path):
        return [path]
    out = []
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "_")) or "=" in f)
        out += [os.path.join(folder, f) for f in sorted(files) if not f.startswith((".", "_"))]
    for file in out:
        refuse_no_file(file)
    return out


def cells(
    spark: Any, path: str, sep: str, stream: bool, wanted: Wanted, begun: Any = None, only: str | None = None
) -> Any:
    """The DataFrame of the CSV files at a place; ``only`` those whose name is like this."""
    from pyspark.sql import functions as F

    place = absolute(path)
    if wanted.nulls:
        _refuse_quoted_words(spark, path, sep, stream, wanted.nulls, place, only)
    breaks, looked = (True, False) if stream else _has_line_break(spark, path, sep, place, only)
    whole = stream or breaks

    def configured(read: Any, **more: Any) -> Any:
        for name, setting in (_READ | {"sep": sep, "multiLine": whole} | more).items():
            read = read.option(name, setting)
        return (read.option("pathGlobFilter", only) if only else read).format("csv")

    head = configured(spark.read, header=False).load(place).head(1)
    if not head:
        raise DataError(f"{path}: holds no {'tsv' if sep == chr(9) else 'csv'} file with columns: put one there first")
    raw = [_NULL if cell is None else cell for cell in head[0]]
    names = _checked_names(path, raw)
    looks = configured(spark.read, header=True, inferSchema=True, **_TRIMMED).load(place).schema
    types = wanted.by_name(names)
    refuse_lists(path, types, "CSV")
    found = _as_local(looks, names, types, wanted)
    if stream:
        _refuse_no_rows(
            path, looks, lambda: configured(spark.read.schema(_texts(raw)), header=True).load(place), names, wanted
        )
        found = _with_types(as_begun(found, begun), types)
    reads = configured((spark.readStream if stream else spark.read).schema(_texts(raw)), header=True)
    if stream:
        reads = reads.option("maxFilesPerTrigger", FILES_AT_ONCE)
    texts = reads.load(place).toDF(*(f"c{i}" for i in range(len(raw))))
    columns = []
    for i, f in enumerate(found.fields):
        declared = types.get(f.name)
        filled = declared is not None and not wanted.silent and f.name not in wanted.keys
        filled = filled and not isinstance(declared, OptionalType)  # there an empty cell is None
        cell = _uncut(F.col(f"c{i}"), f.name) if whole and i == len(raw) - 1 else F.col(f"c{i}")
        cell = cell if looked else _encoded(cell, f.name)
        if wanted.nulls and isinstance(declared, OptionalType):
            cell = F.when(~cell.isin(*wanted.nulls), cell)
        columns.append(_converted(cell, f.dataType, f.name, filled, types.get(f.name)).alias(f.name))
    return texts.select(*columns)


def _texts(names: list[str]) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(name, StringType(), True) for name in names])


def _checked_names(path: str, raw: list[str]) -> list[str]:
    """The names in a header; refused as the local reader refuses them."""
    names = [f"_c{i}" if cell == _NULL else cell.strip() for i, cell in enumerate(raw)]
    refuse_twice(path, names)
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise DataError(
                f"{path}: two columns are called {name!r} but for upper and lower case, which Spark takes for the "
                "same: rename one"
            )
        seen.add(name.lower())
    if len(names) == 1 and any(c in names[0] for c in ";\t"):
        raise DataError(
            f"{path}: its header is one column {names[0]!r}: its fields must be parted by commas (or by tabs, with "
            f"{option('in_format', 'tsv')})"
        )
    return names


def _as_local(looks: Any, names: list[str], types: Mapping[str, Type], wanted: Wanted) -> Any:
    """The types of columns: what the pipeline wants, else what Spark found, with 64 bits; a key is int, bool or str,
    and what only comes along is a text, as it is in the local engine."""
    from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

    fields = []
    for name, f in zip(names, looks.fields, strict=True):
        t = LongType() if isinstance(f.dataType, IntegerType) else f.dataType
        along = wanted.keep is True or name in wanted.keep
        if name in wanted.keys:
            along = not isinstance(t, (BooleanType, LongType))
        if along and name not in wanted.orders:
            t = StringType()
        fields.append(StructField(name, t, True))
    return _with_types(StructType(fields), types)


def _with_types(schema: Any, types: Mapping[str, Type]) -> Any:
    from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType

    own: dict[Type, Any] = {INT: LongType(), FLOAT: DoubleType(), BOOL: BooleanType()}
    wanted = {name: own.get(inner_type(t), StringType()) for name, t in types.items()}
    return StructType([StructField(f.name, wanted.get(f.name, f.dataType), True) for f in schema.fields])


def _refuse_no_rows(path: str, looks: Any, read: Any, names: list[str], wanted: Wanted) -> None:
    """A stream keeps the types that it began with: it cannot begin where no cell shows them."""
    unknown = [n for n in (*wanted.keys, *wanted.orders) if n in names and n not in wanted.types]
    if unknown and all(f.dataType.typeName() == "string" for f in looks.fields) and not read().head(1):
        raise DataError(
            f"{path}: its files hold no rows yet, and nothing shows what is in {', '.join(unknown)}: put a file with a "
            "row there first"
        )


def _converted(cell: Any, t: Any, name: str, filled: bool, wanted: Type | None) -> Any:
    """A text as a value of this type; null for an empty cell (or the empty text), an error for what it cannot be."""
    from pyspark.sql import functions as F

    kind = t.typeName()
    if kind == "string":
        return F.coalesce(cell, F.lit("")) if filled else cell
    word = {"long": "int", "double": "float", "boolean": "bool (true or false)"}.get(kind, kind)
    if kind == "boolean":
        bare = F.trim(cell, F.lit(BLANKS))
        value = F.when(bare.isin(*TRUE), F.lit(True)).when(bare.isin(*FALSE), F.lit(False))
    else:
        value = cell.try_cast(t)
        if kind in _CELLS:  # Spark's own grammar also has digits of other scripts, and 1d
            value = F.when(cell.rlike(rf"^(?:{_CELLS[kind]})\z"), value)
        if wanted == OptionalType(INT):
            whole = F.regexp_replace(cell, r"\..*$", "").try_cast(t)
            word = "int | None"
            value = value.when(cell.rlike(rf"^(?:{WHOLE_CELL})\z") & (F.abs(whole) <= EXACT), whole)
    return F.when(
        cell.isNotNull() & (cell != ""), F.coalesce(value, _refused(cell, name, f"expected {word}, found '").cast(t))
    )


def _refused(cell: Any, name: str, why: str) -> Any:
    from pyspark.sql import functions as F

    begin = F.concat(F.lit(f"{MARK}DataError: "), F.input_file_name(), F.lit(f": column {name!r}: {why}"))
    return F.raise_error(F.concat(begin, F.substring(cell, 1, 60), F.lit("'; correct the value or remove the row")))


def _encoded(cell: Any, name: str) -> Any:
    """A cell of a file that nobody has looked through: what is no UTF-8 has become the sign for that, without a
    word."""
    from pyspark.sql import functions as F

    why = (
        "a byte that is not UTF-8, or the sign U+FFFD, which Spark puts in its place: convert the file, for example "
        "with iconv -t UTF-8; found '"
    )
    return F.when(cell.contains("\ufffd"), _refused(cell, name, why).cast("string")).otherwise(cell)


def _uncut(cell: Any, name: str) -> Any:
    r"""The last cell of a row in a file that is read in one piece: a carriage return at its end is none of its text.

    Spark takes the end of the first line for that of all lines, and leaves the ``\r`` of a later ``\r\n`` in the cell.
    """
    from pyspark.sql import functions as F

    why = (
        "a carriage return is at the end of the line, but not of the first line: give all lines the same end, for "
        "example with dos2unix; found '"
    )
    return F.when(cell.endswith("\r"), _refused(cell, name, why).cast("string")).otherwise(cell)


def as_cells(df: Any) -> Any:
    """A DataFrame as CSV has it: no structs, and infinities and NaN spelled as the local engine spells them."""
    from pyspark.sql import functions as F

    columns = []
    for f, x, path in _flat(df.schema, lambda name: F.col("`" + name.replace("`", "``") + "`"), ""):
        if f.dataType.typeName() in ("double", "float"):
            infinite = F.lit(float("inf"))
            words = F.when(F.isnan(x), "nan").when(x == infinite, "inf").when(x == -infinite, "-inf")
            x = words.otherwise(x.cast("string"))
        columns.append(x.alias(path))
    return df.select(*columns)


def _flat(schema: Any, column: Any, prefix: str) -> Iterator[tuple[Any, Any, str]]:
    """The columns that are no structs, by their dotted paths: a cell of CSV holds no more than a scalar."""
    for f in schema.fields:
        x = column(f.name)
        if f.dataType.typeName() == "struct":
            yield from _flat(f.dataType, x.getField, f"{prefix}{f.name}.")
        else:
            yield f, x, f"{prefix}{f.name}"


# ------------------------------------------------------------------ what is seen before a batch is read


def _has_line_break(spark: Any, path: str, sep: str, place: str, only: str | None) -> tuple[bool, bool]:
    """Whether a quoted cell goes over several lines; and whether all files were looked through here, and are strict CSV
    in UTF-8.

    What is on this machine is looked through by the local engine's own eyes; if it is much, only if Spark has seen a
    line that looks like it.
    """
    files = [f for f in files_in(path) if only is None or _is_like(f, only)] if on_this_machine(path) else None
    if files is not None and sum(os.path.getsize(f) for f in files) <= _LOOKED_AT_HERE:
        return _looked_through(files, sep), True
    from pyspark.sql import functions as F

    read = spark.read.option("pathGlobFilter", only) if only else spark.read
    value = F.col("value")
    odd = (F.length(value) - F.length(F.replace(value, F.lit('"'), F.lit("")))) % 2 == 1
    if not read.option("lineSep", "\n").text(place).filter(odd | value.rlike(r"\r(?!\z)")).head(1):
        return False, False
    return (True, False) if files is None else (_looked_through(files, sep), True)


def refuse_streamed_words(words: Sequence[str]) -> None:
    """Refuse words for nothing where files come later: one of them may stand in quotes there.

    >>> refuse_streamed_words(["NA"])
    Traceback (most recent call last):
    ...
    pellucid.errors.UsageError: nulls=['NA']: does not go with a stream of CSV files on Spark, which does not tell NA
    from "NA", a text: run it as a batch, or here in epochs
    """
    raise UsageError(
        f"{option('null', list(words))}: does not go with a stream of CSV files on Spark, which does not tell "
        f'{words[0]} from "{words[0]}", a text: run it as a batch, or here in epochs'
    )


def _refuse_quoted_words(
    spark: Any, path: str, sep: str, stream: bool, words: tuple[str, ...], place: str, only: str | None
) -> None:
    """Refuse files in which a word for nothing stands in quotes: Spark does not tell the two apart, and in quotes it is
    a text.  Of a stream nobody knows what will come."""
    from pyspark.sql import functions as F

    said = option("null", list(words))
    if stream:
        refuse_streamed_words(words)
    cell, part = "|".join(re.escape(word) for word in words), re.escape(sep)
    read = spark.read.option("pathGlobFilter", only) if only else spark.read
    lines = read.option("lineSep", "\n").text(place)
    found = lines.filter(F.col("value").rlike(rf'(^|{part})"({cell})"({part}|\r?$)')).head(1)
    if found:
        raise DataError(
            f"{path}: a word of {said} stands in quotes ({found[0].value.strip()[:60]!r}), which is a text, and Spark "
            "does not tell the two apart: run it here, without --on spark, or empty the cells that say nothing first"
        )


def _looked_through(files: list[str], sep: str) -> bool:
    breaks = False
    for file in files:
        breaks = (os.path.getsize(file) > 0 and look_through(file, sep)) or breaks
    return breaks


def _is_like(file: str, only: str) -> bool:
    return file.endswith(tuple(only[2:-1].split(",")))
