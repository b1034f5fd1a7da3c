"""The types of a stream's columns, as they were when it began.

In text files types are found by looking, and what is found can change with every file that comes: a column of numbers
becomes one of texts. A query that goes on keeps the types that it began with, so that such a row is an error with its
file, and not another question.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pellucid.errors import DataError, StateError, UsageError, option
from pellucid.internal.data.bind import key_columns, refuse_twice
from pellucid.internal.data.cells import (
    BLANKS,
    EXACT,
    FALSE,
    FLOAT_CELL,
    INT_CELL,
    NEVER,
    TRUE,
    WHOLE_CELL,
    Missing,
    check_nulls,
    inner_type,
    said_nulls,
)
from pellucid.internal.data.csv_files import CsvReader
from pellucid.internal.data.files import look_through, open_reader, refuse_no_file
from pellucid.internal.data.json_files import JsonLinesReader
from pellucid.internal.data.outputs import no_json_nan
from pellucid.internal.expr.types import BOOL, FLOAT, INT, STR, OptionalType, Type, list_in, type_of
from pellucid.internal.graph.model import Graph
from pellucid.sinks.interface import absolute, on_this_machine
from pellucid.spark.column import failure
from pellucid.spark.failure import MARK
from pellucid.spark.store import Files, open_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["read_csv", "read_json"]

_NAME = "pellucid-columns.json"


def remembered(checkpoint: str) -> dict[str | None, Any]:
    """Of each source its schema, if the query of this checkpoint has done a micro-batch."""
    from pyspark.sql.types import StructType

    files = open_files(checkpoint)
    if not any(name.isdigit() for name in files.names("commits")):
        return {}
    try:
        found = json.loads(files.read(_NAME))
    except (FileNotFoundError, ValueError):
        return {}  # begun without it
    return {name or None: StructType.fromJson(schema) for name, schema in found.items()}


def remember(checkpoint: str, schemas: Mapping[str | None, Any]) -> None:
    """Write them down, until the query begins as often as it takes."""
    data = {name or "": schema.jsonValue() for name, schema in schemas.items()}
    with contextlib.suppress(StateError):  # a checkpoint that cannot be written is Spark's to complain of
        open_files(checkpoint).write(_NAME, [json.dumps(data, indent=1).encode()])


def as_begun(schema: Any, begun: Any) -> Any:
    """A schema with the types that its columns had; columns that are new have what was found."""
    from pyspark.sql.types import StructField, StructType

    types = {} if begun is None else {field.name: field.dataType for field in begun.fields}
    return StructType([StructField(f.name, types.get(f.name, f.dataType), True) for f in schema.fields])


# CSV files on Spark, cell for cell as the local engine reads them (:mod:`data.formats.csv`).
#
# Spark's own reading of CSV differs where nobody sees it: a backslash escapes, a quoted empty text is null, a number
# with a blank before it is a text, the columns of a second file go by their place and not by their names, a row with a
# cell too many is cut.  So all cells are read as texts, whole, with the header of every file compared; then each column
# is turned into what the pipeline wants of it, or, where the pipeline does not say it (key and order), into what its
# cells look like.  A cell that does not fit is an error with its file and value.
#
# A line break in a quoted cell means that a file cannot be cut at any line.  Only then it is read in one piece: a batch
# looks first whether there is one (and whether it is strict CSV), a stream cannot know what will come, and always does
# it.

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


# JSON Lines on Spark, with the meaning that they have in the local engine (:mod:`data.formats.jsonl`).
#
# Spark's own reading takes the first value of a line and drops what comes after it, takes the last of two equal keys, a
# number where a text is, half a surrogate pair as a question mark.  So lines are read as texts; each is parsed once as
# a whole (``parse_json``, which is strict about all of that, with a number of ours behind the line's value, so that
# nothing else can stand there), and once for its columns.
#
# Its own writing makes a text of an infinity.  Here it is the number ``1e999``, and NaN is refused, as in the local
# engine.

_STRICT = {"mode": "FAILFAST", "allowNonNumericNumbers": False, "allowSingleQuotes": False}
_END = 7340915332674881  # what stands behind the value of a line
_BOM = "\ufeff"


def objects(
    spark: Any, path: str, place: str, stream: bool, wanted: Wanted, begun: Any = None, only: str | None = None
) -> Any:
    """The DataFrame of the JSON Lines files at a place; ``only`` those whose name is like this."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    def configured(read: Any) -> Any:
        return read.option("pathGlobFilter", only) if only else read

    try:
        looks = configured(spark.read.options(**_STRICT)).json(place).schema
    except AnalysisException as error:
        twice = re.search(r"COLUMN_ALREADY_EXISTS\] The column `(.*?)` already", str(error))
        if twice is None:
            raise
        raise DataError(
            f"{path}: the key {twice[1]!r} comes twice, in one object or but for upper and lower case, which Spark "
            "takes for the same: leave one out"
        ) from None
    if not looks.fields:
        raise DataError(f"{path}: holds no jsonl file with columns: put one there first")
    if stream:
        looks = as_begun(looks, begun)
    leaves = dict(_leaves(looks))
    types = wanted.by_name(list(leaves))
    refuse_lists(path, types, "JSON Lines")
    schema = _as_wanted(path, looks, types)
    source = configured(spark.readStream if stream else spark.read).option("lineSep", "\n")
    if stream:
        source = source.option("maxFilesPerTrigger", FILES_AT_ONCE)
    value = F.col("value")
    lines = source.text(place).select(
        F.when(value.startswith(_BOM), F.substring(value, 2, 1 << 30)).otherwise(value).alias("value")
    )
    lines = lines.filter(F.trim(value, F.lit(" \t\r")) != "")
    whole = F.try_parse_json(F.concat(F.lit("["), value, F.lit(f",{_END}]")))
    parsed = F.from_json(value, schema, {k: str(v).lower() if isinstance(v, bool) else v for k, v in _STRICT.items()})
    one = (
        value.rlike(r"^[ \t\r]*\{")
        & F.try_variant_get(whole, "$[1]", "bigint").eqNullSafe(F.lit(_END))
        & F.try_variant_get(whole, "$[2]", "variant").isNull()
    )
    found = F.when(
        ~one, _refused_json(value, "no JSON object, or one with a key that comes twice, or more than that on a line")
    )
    for name, steps in _texts_json(leaves, types, wanted):
        kind = F.coalesce(
            F.schema_of_variant(
                F.try_variant_get(whole, "$[0]" + "".join(f"[{_quoted(s)}]" for s in steps), "variant")
            ),
            F.lit("VOID"),
        )
        found = found.when(
            ~kind.isin("STRING", "VOID"), _refused_json(value, f"column {name!r}: expected str, found no text")
        )
    for name, t in types.items():
        if inner_type(t) == FLOAT and name in leaves:
            number = parsed
            for step in leaves[name][0]:
                number = number.getField(step)
            there = (number == 0) & value.rlike(_minus_zero(leaves[name][0][-1]))
            found = found.when(there, _refused_json(value, f"column {name!r}: -0 is 0 for Spark: write -0.0, or 0"))
    return lines.select(found.otherwise(parsed).alias("row")).select("row.*")


def _refused_json(line: Any, why: str) -> Any:
    from pyspark.sql import functions as F

    return F.raise_error(
        F.concat(F.lit(f"{MARK}DataError: "), F.input_file_name(), F.lit(f": {why}: "), F.substring(line, 1, 60))
    )


def _minus_zero(key: str) -> str:
    """A line in which a key has the whole number -0: as a float that is -0.0, as in the local engine, but Spark has
    made a whole number of it, and so 0.0.  A key that is spelled with escapes may be any."""
    spelled = json.dumps(key, ensure_ascii=False)[1:-1].replace("\\E", r"\E\\E\Q")
    return rf'(?:"\Q{spelled}\E"|\\u.*)[ \t]*:[ \t]*-0[ \t\r]*[,}}\]]'


def _leaves(schema: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[tuple[str, ...], Any]]]:
    """The columns that are no structs, by their dotted paths: the names on the way, and the type."""
    for f in schema.fields:
        if f.dataType.typeName() == "struct":
            yield from _leaves(f.dataType, (*before, f.name))
        else:
            yield ".".join((*before, f.name)), ((*before, f.name), f.dataType)


def _texts_json(
    leaves: dict[str, tuple[tuple[str, ...], Any]], types: dict[str, Type], wanted: Wanted
) -> list[tuple[str, tuple[str, ...]]]:
    """The columns of texts that are read: there a number must not become one."""
    read = [*(name for name, t in types.items() if t == STR), *wanted.keys, *wanted.orders]
    return [
        (name, leaves[name][0])
        for name in dict.fromkeys(read)
        if name in leaves and leaves[name][1].typeName() == "string"
    ]


def _quoted(name: str) -> str:
    if '"' not in name:
        return f'"{name}"'
    if "'" not in name:
        return f"'{name}'"
    raise DataError(f"the JSON key {name!r} holds both kinds of quotes: rename it, for Spark cannot address it")


def _as_wanted(path: str, schema: Any, types: dict[str, Type], before: str = "") -> Any:
    """The schema that was found, with the numbers that the pipeline wants."""
    from pyspark.sql.types import DoubleType, LongType, StructField, StructType

    fields = []
    for f in schema.fields:
        name, kind = before + f.name, f.dataType.typeName()
        t, made = types.get(name), f.dataType
        if kind == "struct":
            made = _as_wanted(path, made, types, f"{name}.")
        elif t in (INT, FLOAT) and kind == "boolean":
            raise DataError(
                f"{path}: column {name!r} holds bool: expected {t}; correct the values, or change the source's type"
            )
        elif t == FLOAT and kind in ("long", "decimal"):
            made = DoubleType()
        elif t == INT and kind == "decimal":
            made = LongType()
        fields.append(StructField(f.name, made, True))
    return StructType(fields)


# ------------------------------------------------------------------ out


def json_text(schema: Any) -> Any:
    """A row as one JSON object; columns that are null are left out."""
    from pyspark.sql import functions as F

    return _object(schema, lambda name: F.col("`" + name.replace("`", "``") + "`"))


def _object(schema: Any, column: Any) -> Any:
    from pyspark.sql import functions as F

    parts: list[Any] = []
    plain: list[Any] = []

    def flush() -> None:
        if plain:
            text = F.to_json(F.struct(*plain))
            parts.append(F.when(text != "{}", F.substring(text, F.lit(2), F.length(text) - 2)))
            plain.clear()

    for f in schema.fields:
        x = column(f.name)
        if not _has_floats(f.dataType):
            plain.append(x.alias(f.name))
            continue
        flush()
        text = _value(f.dataType, x, f.name)
        parts.append(F.when(x.isNotNull(), F.concat(F.lit(json.dumps(f.name, ensure_ascii=False) + ":"), text)))
    flush()
    return F.concat(F.lit("{"), F.concat_ws(",", *parts), F.lit("}"))


def _value(kind: Any, x: Any, name: str) -> Any:
    """A value with floats in it as JSON: an infinity is 1e999, which readers take as one."""
    from pyspark.sql import functions as F

    if kind.typeName() == "struct":
        return _object(kind, x.getField)
    if kind.typeName() == "array":
        parts = F.transform(
            x, lambda item: F.when(item.isNull(), "null").otherwise(_value(kind.elementType, item, name))
        )
        return F.concat(F.lit("["), F.array_join(parts, ","), F.lit("]"))
    infinite = F.lit(float("inf"))
    return (
        F.when(F.isnan(x), failure(no_json_nan(name), STR))
        .when(x == infinite, "1e999")
        .when(x == -infinite, "-1e999")
        .otherwise(x.cast("string"))
    )


def _has_floats(kind: Any) -> bool:
    name = kind.typeName()
    if name == "array":
        return _has_floats(kind.elementType)
    if name == "struct":
        return any(_has_floats(f.dataType) for f in kind.fields)
    return name in ("double", "float")


# The row and line of a cell that Spark refused.
#
# Spark reads many pieces of a file at once and counts no lines; its errors name a file and a column, only one of them,
# or none.  The local reader counts, so for files of this machine it is asked, once something is wrong.

_CELL = re.compile(r"(file:/.+?): column '(.*?)': expected (\w+(?: \| None)?)")
_FILE = re.compile(r"(file:/.+?)(?=: |$)", re.MULTILINE)
_COLUMN = re.compile(r"^the DataFrame: column '(.*?)' holds \w+: expected (\w+)")
_NOTHING = re.compile("^Spark cannot read a value: (Malformed records|a CSV cell)")
_TYPES: dict[str, Type] = {"int": INT, "float": FLOAT, "bool": BOOL, "str": STR, "int | None": OptionalType(INT)}
_LONGEST = 1 << 30  # bytes of files that are read for the sake of a message


def blamed(message: str, inputs: Collection[str], given: str | None = None, missing: Missing = NEVER) -> str:
    """A message of Spark about what it read, with the row and the line if the local reader finds them."""
    named = _CELL.search(message) or _FILE.search(message)
    if named is not None:
        file = re.sub(r"^file:/+", "/", unquote(named[1]))
        shown = as_given(file, inputs)
        wanted = _wanted(named[2], named[3]) if named.re is _CELL else None
        return _found_here([file], inputs, wanted, given, missing) or message.replace(named[1], shown)
    column = _COLUMN.search(message)
    if column is None and _NOTHING.search(message) is None:
        return message
    files = [file for place in inputs if on_this_machine(place) and os.path.exists(place) for file in files_in(place)]
    return _found_here(files, inputs, _wanted(column[1], column[2]) if column else None, given, missing) or message


def _wanted(column: str, word: str) -> dict[str, Type] | None:
    return {column: _TYPES[word]} if word in _TYPES else None


def as_given(file: str, inputs: Collection[str]) -> str:
    """A file in the words of the command line.

    >>> as_given("/data/in/2.csv", ["/data/in"])
    '/data/in/2.csv'
    """
    for place in inputs:
        with contextlib.suppress(OSError, ValueError):
            whole = os.path.realpath(place)
            if os.path.realpath(file) == whole:
                return place
            if os.path.commonpath([whole, os.path.realpath(file)]) == whole:
                return os.path.join(place, os.path.relpath(os.path.realpath(file), whole))
    return file


def _found_here(
    files: list[str], inputs: Collection[str], wanted: dict[str, Type] | None, given: str | None, missing: Missing
) -> str | None:
    file = ""
    try:
        if sum(os.path.getsize(f) for f in files) > _LONGEST:
            return None
        for file in files:
            if not os.path.getsize(file):
                continue  # for Spark it is a file without rows
            with contextlib.closing(open_reader(file, given)) as reader:
                if not isinstance(reader, (CsvReader, JsonLinesReader)):
                    continue
                reader.missing = missing
                # Every cell of CSV is a text; what an object of JSON holds is not: there only lines that are none
                # count.
                some = wanted or (dict.fromkeys(reader.names, STR) if isinstance(reader, CsvReader) else {})
                for _ in reader.chunks(some, rows=1 << 16):
                    pass
    except DataError as error:
        return str(error).replace(file, as_given(file, inputs))
    except (OSError, KeyError):
        return None
    return None


# The files that a micro-batch reads, looked through before it is written.
#
# Spark does not mind a CSV file whose last quote is not closed: all that follows is one cell.  A batch is looked
# through before it is read (:mod:`pellucid.spark.files`); of a stream only its checkpoint knows which files belong to
# which micro-batch: the offsets of the micro-batch and of the one before it say between which entries of a source's log
# they are.


def look_at(checkpoint: str, batch: int, inputs: Collection[str], delimiter: str) -> None:
    """Refuse a micro-batch if a file of these inputs on this machine is not strict CSV."""
    places = [os.path.realpath(place) + os.sep for place in inputs]
    for file in files_of(open_files(checkpoint), batch):
        if os.path.realpath(file).startswith(tuple(places)) and os.path.isfile(file) and os.path.getsize(file):
            try:
                look_through(file, delimiter)
            except DataError as error:
                raise DataError(str(error).replace(file, as_given(file, inputs), 1)) from None


def files_of(checkpoint: Files, batch: int) -> Iterator[str]:
    """The files of this machine that a micro-batch reads, of all its sources."""
    before, until = (_offsets(checkpoint, number) for number in (batch - 1, batch))
    for source, end in until.items():
        begin = before.get(source, -1)
        if end <= begin:
            continue
        names = set(checkpoint.names(f"sources/{source}"))
        wanted = [name for k in range(begin + 1, end + 1) for name in (str(k), f"{k}.compact") if name in names]
        for entry in (e for name in wanted for e in _entries(checkpoint.read(f"sources/{source}/{name}"))):
            if begin < entry.get("batchId", -1) <= end and str(entry.get("path", "")).startswith("file:"):
                yield unquote(re.sub(r"^file:/+", "/", entry["path"]))


def _offsets(checkpoint: Files, batch: int) -> dict[int, int]:
    """Of each source that reads files, by its number, how far its log goes in a micro-batch."""
    try:
        lines = checkpoint.read(f"offsets/{batch}").decode().split("\n")[2:]
    except FileNotFoundError:
        return {}
    found = [json.loads(line) if line.startswith("{") else None for line in lines]
    return {i: int(offset["logOffset"]) for i, offset in enumerate(found) if offset and "logOffset" in offset}


def _entries(log: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.decode().split("\n") if line.startswith("{")]


# Text files on Spark, read cell for cell as the local engine reads them.


def read_csv(
    spark: Any,
    path: str | os.PathLike[str],
    wanted: Any,
    *,
    source: str | None = None,
    value: str | None = None,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    sep: str = ",",
    stream: bool = False,
    nulls: str | Sequence[str] | None = None,
) -> DataFrame:
    """The CSV files at a place (a file or a folder) as a DataFrame, each cell as the local engine reads it.

    ``wanted`` is the pipeline that the rows are for, or a dict from columns to types (``{"x": int}``).  ``source`` is
    the pipeline's source that the files are of, if it has several and each has files of its own; ``value``, ``key`` and
    ``order`` are what `Pipeline.spark` will be told.  Columns that nobody says the type of have what their cells look
    like.  With ``stream``, files that come later are read as they come.  ``nulls`` are words such as ``NA`` that are
    None where ``T | None`` is declared; not of a stream, as Spark does not tell them from the same word in quotes.

    .. code-block:: python

        totals.spark(read_csv(spark, "events.csv", totals, key="user", order="seq"), key="user", order="seq")
    """

    place = _place(path, stream)
    found = _wanted_files(wanted, source, value, key, order)
    check_nulls(words := said_nulls(nulls), found.types.items(), place, text=True)
    return cells(spark, place, sep, stream, replace(found, nulls=words))


def read_json(
    spark: Any,
    path: str | os.PathLike[str],
    wanted: Any,
    *,
    source: str | None = None,
    value: str | None = None,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    stream: bool = False,
) -> DataFrame:
    """The same for JSON Lines: each line an object, with the meaning that it has in the local engine."""

    place = _place(path, stream)
    return objects(spark, place, absolute(place), stream, _wanted_files(wanted, source, value, key, order))


def _place(path: str | os.PathLike[str], stream: bool) -> str:
    place = os.fspath(path)
    if on_this_machine(place) and not os.path.exists(place):
        raise DataError(f"{place}: no such file or folder")
    if stream and on_this_machine(place) and not os.path.isdir(place):
        raise UsageError(f"{place}: a stream reads a folder, to which files are added: give the folder")
    return place


def _wanted_files(
    given: Any,
    source: str | None,
    value: str | None,
    key: str | Sequence[str] | None,
    order: str | Sequence[str] | None,
) -> Wanted:

    keys, orders = key_columns(key, who=option("key")), key_columns(order, who=option("order"))
    if isinstance(given, Mapping):
        return Wanted({name: type_of(t) for name, t in given.items()}, keys=keys, orders=orders)
    graph = getattr(given, "graph", None)
    if graph is None:
        raise UsageError(
            f"expected the pipeline that the rows are for, or a dict from columns to types, found {given!r}"
        )
    sources = [graph.nodes[i].id for i in graph.sources]
    if source is not None and source not in sources:
        raise UsageError(f"{graph.name} has no source {source!r}: its sources are {', '.join(sources)}")
    return wanted_of(graph, source, value, keys, orders)
