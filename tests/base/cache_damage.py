"""What another user, or a failing disk, does to the folder of kept machine code; and what runs report afterwards.

``python -m tests.base.cache_damage --cases 500 --seed 1`` fills a cache, and for each case damages a copy of it, or
plants something in it, and starts twice there (in processes that were forked from this one, which has Numba loaded).
Both starts must give the right rows and end well, and nothing that was planted may run; the second one finds the cache
mended and says nothing.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import hmac
import os
import pickle
import random
import shutil
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pellucid import pipeline
from pellucid.internal.base import files as cache

ROWS, KEYS = 3_000, 700
p = pipeline(
    lambda x: x.key_by(lambda v: v % KEYS).map(lambda v: v * 3 - 7).cumulate(lambda t, v: t + v, start=5), x=int
)
DATA = np.random.default_rng(1).integers(-(2**40), 2**40, ROWS)


class Planted:
    """A pickle that leaves a file behind when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self.marker),)


# ---------------------------------------------------------------- what is done to a cache


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{cache.SUFFIX}"))


def one(folder: Path, r: random.Random) -> Path:
    return r.choice([*kept(folder), folder / cache.KEY])


def flip(folder: Path, r: random.Random, marker: Path) -> None:
    """One bit, most often in machine code."""
    file = max(kept(folder), key=lambda path: path.stat().st_size) if r.random() < 0.6 else one(folder, r)
    data = bytearray(file.read_bytes())
    data[r.randrange(len(data))] ^= 1 << r.randrange(8)
    file.write_bytes(data)


def cut(folder: Path, r: random.Random, marker: Path) -> None:
    file = one(folder, r)
    os.truncate(file, r.choice([0, 1, 31, 32, 33, r.randrange(file.stat().st_size)]))


def add(folder: Path, r: random.Random, marker: Path) -> None:
    with one(folder, r).open("ab") as file:
        file.write(r.randbytes(r.randrange(1, 100)))


def swap(folder: Path, r: random.Random, marker: Path) -> None:
    a, b = r.sample(kept(folder), 2)
    a.rename(folder / "aside")
    b.rename(a)
    (folder / "aside").rename(b)


def zeros(folder: Path, r: random.Random, marker: Path) -> None:
    file = one(folder, r)
    start = r.randrange(file.stat().st_size)
    with file.open("r+b") as opened:
        opened.seek(start)
        opened.write(bytes(min(4096, file.stat().st_size - start)))


def other_kind(folder: Path, r: random.Random, marker: Path) -> None:
    """Something in the place of a file that is no file of ours: also links to what is as it should be."""
    file = one(folder, r)
    aside = folder.parent / "aside"
    shutil.copy(file, aside)
    file.unlink()
    kind = r.choice(["folder", "full folder", "pipe", "link", "dangling", "socket", "hole", "itself"])
    if kind.endswith("folder"):
        file.mkdir()
        if kind == "full folder":
            (file / "x").write_text("x")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to(aside)
    elif kind == "dangling":
        file.symlink_to(folder.parent / "nowhere")
    elif kind == "itself":
        file.symlink_to(file)
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(folder)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(file.name)
        os.chdir(here)
    else:
        with file.open("wb") as opened:
            opened.truncate(1 << 40)


def mode(folder: Path, r: random.Random, marker: Path) -> None:
    one(folder, r).chmod(r.choice([0o666, 0o620, 0o602, 0o000, 0o644, 0o777]))


def planted(folder: Path, r: random.Random, marker: Path) -> None:
    """A pickle that runs something, as any user who can write there would put it: with no seal, or one by guess."""
    content = pickle.dumps(Planted(marker))
    file = r.choice(kept(folder))
    name = file.name.removesuffix(cache.SUFFIX).encode()
    said = name + b"\0" + content
    seal = r.choice([b"", bytes(32), hashlib.sha256(content).digest(), hashlib.sha256(said).digest()])
    if r.random() < 0.4:
        key = r.randbytes(32)
        seal = hmac.digest(key, said, "sha256")
        if r.random() < 0.5:  # and a key of its own, which others could read or write
            (folder / cache.KEY).write_bytes(key)
            (folder / cache.KEY).chmod(r.choice([0o644, 0o666, 0o640]))
    file.write_bytes(content + seal)


def open_folder(folder: Path, r: random.Random, marker: Path) -> None:
    """A folder in which others could write: all that is there is theirs, however well it is sealed."""
    content = pickle.dumps(Planted(marker))
    key = (folder / cache.KEY).read_bytes()
    for file in kept(folder):
        name = file.name.removesuffix(cache.SUFFIX).encode()
        file.write_bytes(content + hmac.digest(key, name + b"\0" + content, "sha256"))
    folder.chmod(r.choice([0o777, 0o770, 0o707, 0o1777, 0o2775]))


def old_form(folder: Path, r: random.Random, marker: Path) -> None:
    """What older versions kept, and ran: Python text, compiled text, Numba's index and data."""
    inner = folder / "__pycache__"
    inner.mkdir()
    stem = f"k_{r.randbytes(12).hex()}"
    text = f"import os\nos.mkdir({str(marker)!r})\n"
    (folder / f"{stem}.py").write_text(text)
    for name in (f"{stem}.cpython-{sys.version_info[0]}{sys.version_info[1]}.pyc", f"{stem}.kernel-1.py311.nbi"):
        (inner / name).write_bytes(pickle.dumps(Planted(marker)))
    for file in kept(folder):
        (inner / file.name).write_bytes(pickle.dumps(Planted(marker)))
        (folder / f"{file.stem}.py").write_text(text)
    if r.random() < 0.5:
        (folder / cache.KEY).unlink()


def whole(folder: Path, r: random.Random, marker: Path) -> None:
    """The folder itself is something else."""
    aside = folder.parent / "aside"
    folder.rename(aside)
    kind = r.choice(["file", "link", "dangling", "gone"])
    if kind == "file":
        folder.write_text("no folder")
    elif kind != "gone":
        folder.symlink_to(aside if kind == "link" else "nowhere")


def no_key(folder: Path, r: random.Random, marker: Path) -> None:
    (folder / cache.KEY).unlink()


HARM = (flip, flip, flip, flip, cut, add, swap, zeros, other_kind, mode, planted, planted, open_folder, old_form)
RARE = (whole, no_key)


# ---------------------------------------------------------------- starts


def start(folder: Path, said: Path) -> int:
    """A start in a process of its own with this cache: its exit code, or less than 0 for a signal; 77 for wrong
    rows.  What it says on stderr goes to a file."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
            os.environ["PELLUCID_CACHE"] = str(folder)
            code = 0 if p.engine(mode="numba").push(DATA).tolist() == RIGHT else 77
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


RIGHT = p.engine(mode="python").push(DATA.tolist())


def main(arguments: list[str] | None = None) -> int:
    import numba  # noqa: F401 - loaded once, and not in each start

    from pellucid.internal.base import kept as _  # noqa: F401

    options = argparse.ArgumentParser()
    options.add_argument("--cases", type=int, default=500)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args(arguments)
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as place:
        good, said = Path(place) / "good", Path(place) / "said"
        assert start(good, said) == 0 and said.read_text() == "", said.read_text()
        assert len(kept(good)) >= 2, "the loop itself, and what makes room for keys"
        for case in range(given.cases):
            r = random.Random(given.seed * 1_000_003 + case)
            harm = r.choice(RARE if case % 25 == 24 else HARM)
            world = Path(place) / str(case)
            world.mkdir()
            folder, marker = world / "cache", world / "planted"
            shutil.copytree(good, folder)
            harm(folder, r, marker)
            for nth in ("first", "second"):
                code, lines = start(folder, said), said.read_text().splitlines()
                wrong = (
                    "wrong rows" if code == 77 else "a signal" if code < 0 else "a dead end" if code
                    else "planted code ran" if marker.exists() else "more than a line is reported" if len(lines) > 1
                    else "it is reported again" if lines and nth == "second" else ""
                )  # fmt: skip
                found[wrong or "right"] += 1
                if wrong:
                    print(f"case {case} ({harm.__name__}), the {nth} start: {wrong}", *lines, sep="\n  ")
            shutil.rmtree(world, ignore_errors=True)
    print(f"{given.cases} cases, {2 * given.cases} starts:", ", ".join(f"{n} {what}" for what, n in found.items()))
    return int(set(found) != {"right"})


if __name__ == "__main__":
    sys.exit(main())
