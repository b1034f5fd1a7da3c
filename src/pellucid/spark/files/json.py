"""JSON Lines on Spark, with the meaning that they have in the local engine (:mod:`data.formats.jsonl`).

Spark's own reading takes the first value of a line and drops what comes after it, takes the last of two equal keys, a
number where a text is, half a surrogate pair as a question mark.  So lines are read as texts; each is parsed once as a
whole (``parse_json``, which is strict about all of that, with a number of ours behind the line's value, so that nothing
else can stand there), and once for its columns.

Its own writing makes a text of an infinity.  Here it is the number ``1e999``, and NaN is refused, as in the local
engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pellucid.errors import DataError
from pellucid.internal.data.spelled import inner_type
from pellucid.internal.data.writers import no_json_nan
from pellucid.internal.expr.types import FLOAT, INT, STR, Type
from pellucid.spark.failure import MARK
from pellucid.spark.files.columns import as_begun
from pellucid.spark.files.csv import FILES_AT_ONCE, Wanted, refuse_lists
from pellucid.spark.native.column import failure

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
        ~one, _refused(value, "no JSON object, or one with a key that comes twice, or more than that on a line")
    )
    for name, steps in _texts(leaves, types, wanted):
        kind = F.coalesce(
            F.schema_of_variant(
                F.try_variant_get(whole, "$[0]" + "".join(f"[{_quoted(s)}]" for s in steps), "variant")
            ),
            F.lit("VOID"),
        )
        found = found.when(
            ~kind.isin("STRING", "VOID"), _refused(value, f"column {name!r}: expected str, found no text")
        )
    for name, t in types.items():
        if inner_type(t) == FLOAT and name in leaves:
            number = parsed
            for step in leaves[name][0]:
                number = number.getField(step)
            there = (number == 0) & value.rlike(_minus_zero(leaves[name][0][-1]))
            found = found.when(there, _refused(value, f"column {name!r}: -0 is 0 for Spark: write -0.0, or 0"))
    return lines.select(found.otherwise(parsed).alias("row")).select("row.*")


def _refused(line: Any, why: str) -> Any:
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


def _texts(
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
