"""What may be told by the names of folders (``user=ada/``) and come back exactly, and what may not.

A folder's name is text.  Texts, whole numbers, booleans and dates come back from it; a timestamp does not, because Spark writes
it in the session's time zone and a reader may have another, nor a float, a decimal or bytes, on which Spark and Arrow do not
agree.  The empty text and the null have one name in Spark, so the empty text is refused.

Delta keeps a partition's value in its log, so that timestamps and floats come back; but it, too, takes the empty text for null,
and the package ``deltalake`` (1.6) spoils bytes and negative decimals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pellucid.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NULL", "check", "check_counted", "check_delta", "checked_rows", "metrics", "spark_name"]

NULL = "__HIVE_DEFAULT_PARTITION__"  # what Spark and Arrow call the folder of the nulls
_SPECIAL = '/\\=%"#:*?\'{}[]^'  # some writers escape these in a name, and some readers do not know that


def check(where: object, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """Refuse a column that is not there, or that cannot be a folder's name.

    >>> import pyarrow as pa
    >>> check("out", ("day",), pa.schema({"day": pa.date32(), "sum": pa.int64()}))
    >>> check("out", ("at",), pa.schema({"at": pa.timestamp("us", "UTC"), "sum": pa.int64()}))
    Traceback (most recent call last):
    ...
    pellucid.errors.DataError: out: partition_by='at': a timestamp[us, tz=UTC] would not come back exactly from the name of a
    partition; partition by a text, a whole number, a boolean or a date made from it, such as CAST(at AS DATE)
    """
    _check_kinds(where, columns, schema, _comes_back, "a text, a whole number, a boolean or a date")
    for name in columns:
        if name.startswith(("_", ".")) or any(char in _SPECIAL or not char.isprintable() for char in name):
            raise DataError(f"{where}: partition_by={name!r}: this name cannot be a folder's that all readers find; rename the column before the sink")


def check_delta(where: object, columns: tuple[str, ...], schema: pa.Schema) -> None:
    """The same for a Delta table."""
    import pyarrow as pa

    t = pa.types
    _check_kinds(where, columns, schema, lambda kind: _comes_back(kind) or t.is_floating(kind) or t.is_timestamp(kind),
                 "a text, a number that is no decimal, a boolean, a date or a time")


def _check_kinds(where: object, columns: tuple[str, ...], schema: pa.Schema, comes_back: Callable[[pa.DataType], bool], instead: str) -> None:
    if columns and set(columns) == set(schema.names):
        raise DataError(f"{where}: partition_by={list(columns)}: no column is left for the files; leave one out")
    for name in columns:
        if name not in schema.names:
            raise DataError(f"{where}: partition_by={name!r}: there is no such column; there are {', '.join(schema.names)}")
        kind = schema.field(name).type
        if not comes_back(kind):
            made = "DATE" if str(kind).startswith("timestamp") else "STRING"
            raise DataError(f"{where}: partition_by={name!r}: a {kind} would not come back exactly from the name of a partition; partition by {instead} "
                            f"made from it, such as CAST({name} AS {made})")


def metrics(columns: tuple[str, ...]) -> list[Any]:
    """For Spark's ``observe``: how many values of each column (``lost0``, …) have the name of the nulls."""
    from pyspark.sql import functions as F

    return [F.count_if(F.col(spark_name(name)).cast("string").isin("", NULL)).alias(f"lost{place}") for place, name in enumerate(columns)]


def check_counted(where: object, columns: tuple[str, ...], counted: dict[str, Any]) -> None:
    """Refuse the batch if such values were counted."""
    for place, name in enumerate(columns):
        if counted[f"lost{place}"]:
            _refuse(where, name)


def checked_rows(where: object, columns: tuple[str, ...], rows: Any, nulls: tuple[str, ...] = ("", NULL)) -> Iterator[pa.RecordBatch]:
    """The same for batches of Arrow, as they pass."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in rows:
        for name in columns:
            column = batch.column(name)
            texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            if texts and pc.any(pc.is_in(column, pa.array(nulls, column.type))).as_py():
                _refuse(where, name)
        yield batch


def spark_name(name: str) -> str:
    """A column's name as Spark's expressions take it: a dot is no field of a record, a backtick is no end.

    >>> spark_name("user.id"), spark_name("a`b")
    ('`user.id`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"


def _comes_back(kind: pa.DataType) -> bool:
    import pyarrow as pa

    t = pa.types
    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_integer(kind) or t.is_boolean(kind) or t.is_date32(kind))


def _refuse(where: object, name: str) -> None:
    raise DataError(f"{where}: partition_by={name!r}: a row has the empty text there (or the text {NULL}), which would come back as null; "
                    f"replace it before the sink, for instance by nullif({name}, '') or by a word of your own")
