"""Addresses of targets.

An `Address` keeps two things apart: the ``connection`` string, used to connect and for nothing else, and what may be
seen: ``shown`` (for messages and documents), ``stored`` (to find the target again, without any secret) and
``identity`` (which target it is: the same for every user name and password).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import NamedTuple

from pellucid.errors import UsageError, option
from pellucid.internal.secrets import HIDDEN, in_text, is_secret, redact, without

_KIND = re.compile(r"(postgres)(?:ql)?://|(kafka)://|(sqlite|delta):")
_PAIRS = re.compile(r"(?:\s*\w+\s*=\s*(?:'(?:\\.|[^'\\])*'|[^\s'=]*))*\s*")  # keyword=value, as libpq has it
_PAIR = re.compile(r"(\w+)\s*=\s*('(?:\\.|[^'\\])*'|(?!')(?:\\.|[^\s\\])*)", re.DOTALL)
_KEYWORDS = frozenset((
    "host", "hostaddr", "port", "dbname", "user", "password", "passfile", "require_auth", "channel_binding",
    "connect_timeout", "client_encoding", "options", "application_name", "fallback_application_name", "keepalives",
    "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "replication", "gssencmode",
    "sslmode", "requiressl", "sslnegotiation", "sslcompression", "sslcert", "sslkey", "sslkeylogfile", "sslpassword",
    "sslcertmode", "sslrootcert", "sslcrl", "sslcrldir", "sslsni", "requirepeer", "ssl_min_protocol_version",
    "ssl_max_protocol_version", "min_protocol_version", "max_protocol_version", "krbsrvname", "gsslib",
    "gssdelegation", "service", "servicefile", "target_session_attrs", "load_balance_hosts",
))  # fmt: skip


def from_environment(place: str, asked: str = "out") -> str:
    """The address in an environment variable, for ``env:NAME`` or ``env:NAME#TABLE``; any other as it is.

    Only the user sees a process's environment; its arguments are visible to all users of the machine.

    >>> os.environ["SHOP"] = "postgresql://me:S3cret@db/shop"
    >>> from_environment("env:SHOP#totals"), from_environment("out.csv")
    ('postgresql://me:S3cret@db/shop#totals', 'out.csv')
    """
    if not place.startswith("env:"):
        return place
    name, hash_, table = place[4:].partition("#")
    found = os.environ.get(name)
    if not found:
        raise UsageError(
            f"{option(asked, place)}: there is no environment variable {name!r}: set it to the address, as in "
            f"{name}=postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    return found + hash_ + table


@dataclass(frozen=True)
class Address:
    """Where a target is.  As text it has no secret; ``connection`` has.

    >>> a = Address("postgresql://me:S3cret@db/shop", "totals")
    >>> a, a.shown, a.identity
    (Address('postgresql://me:***@db/shop#totals'), 'postgresql://me:***@db/shop#totals', 'postgresql://db:5432/shop#totals')
    >>> a.identity == Address("postgres://you:Rotated@db:5432/shop?sslmode=require", "totals").identity
    True
    """

    connection: str
    table: str = ""

    @staticmethod
    def of(place: str) -> Address:
        """From ``postgresql://…#TABLE`` (or ``postgres://``), ``sqlite:FILE#TABLE`` (or ``sqlite:///FILE#TABLE``, from
        the root on), ``delta:FOLDER``, ``kafka://HOST:PORT/TOPIC``, or a path.

        >>> Address.of("sqlite:///data/shop.db#totals").file, Address.of("sqlite:shop.db#totals").file
        ('/data/shop.db', 'shop.db')
        """
        place = re.sub("^sqlite:/{2,}", "sqlite:/", place)
        if place.startswith("postgres"):
            connection, _, table = place.rpartition("#") if "#" in place else (place, "", "")
            return Address(connection, table)
        connection, _, table = place.partition("#")
        return Address(connection, table)

    @property
    def kind(self) -> str:
        """``postgres``, ``sqlite``, ``delta`` or ``kafka``; empty for a path.

        >>> Address.of("postgres://db/shop#t").kind, Address.of("out/delta.csv").kind
        ('postgres', '')
        """
        found = _KIND.match(self.connection)
        return next(filter(None, found.groups())) if found else ""

    @property
    def is_table(self) -> bool:
        """Whether it is a table of a database."""
        return self.kind in ("postgres", "sqlite")

    @property
    def file(self) -> str:
        """The file of a SQLite database."""
        return self.connection.removeprefix("sqlite:")

    @property
    def _hash(self) -> str:
        return f"#{self.table}" if self.table else ""

    @property
    def shown(self) -> str:
        """For messages and documents; of what cannot be taken apart, nothing."""
        if self.misspelt() is not None:
            return f"{self.connection.partition('://')[0]}://{HIDDEN}{self._hash}"
        if (
            ":" not in self.connection.partition("=")[0]
            and "=" in self.connection
            and _PAIRS.fullmatch(self.connection) is None
        ):
            return HIDDEN + self._hash
        return redact(self.connection) + self._hash

    @property
    def stored(self) -> str:
        """To be kept in a file: enough to find the target again, with the user's name and without any secret."""
        return as_user(self.identity, self.user)

    @property
    def user(self) -> str:
        """The user of a PostgreSQL, where it is given here or by the environment; else nothing.

        >>> Address("host=db dbname=shop user=me password=S3cret").user, Address("out.csv").user
        ('me', '')
        """
        found = _server(self.connection)
        return "" if found is None else _with_environment(found)["user"]

    @property
    def identity(self) -> str:
        """Which target it is.  Who logs in, and how, is no part of it; the server, the database, the table and the
        session's options are; not whether they are written as a URL or as ``keyword=value`` pairs.

        >>> Address("dbname=shop host=db", "t").identity == Address("postgresql://db:5432/shop", "t").identity
        True
        """
        found = _server(self.connection)
        if found is not None:
            return f"postgresql://{_place(_with_environment(found))}{self._hash}"
        if self.kind == "sqlite":
            return f"sqlite:{os.path.realpath(self.file)}{self._hash}"
        return redact(self.connection) + self._hash

    def same_login(self, other: Address) -> bool:
        """Whether both are on one PostgreSQL server and log in as one user, so that one password is right for both.

        >>> Address("postgresql://me@db:5432/shop").same_login(Address("postgres://me:S3cret@db/other"))
        True
        """
        mine, yours = (_server(a.connection) for a in (self, other))
        if mine is None or yours is None:
            return False
        mine, yours = _with_environment(mine), _with_environment(yours)
        return (mine["user"], _hosts(mine)) == (yours["user"], _hosts(yours))

    def without_secrets(self) -> str | None:
        """Of ``keyword=value`` pairs, as libpq has them, those that are no secrets; None of any other address.

        >>> Address("host=db dbname=shop password='S3 cret'").without_secrets(), Address("out.csv").without_secrets()
        ('host=db dbname=shop', None)
        """
        if self.kind or "=" not in self.connection or _PAIRS.fullmatch(self.connection) is None:
            return None
        pairs = re.findall(r"(\w+)\s*=\s*('(?:\\.|[^'\\])*'|[^\s'=]*)", self.connection)
        return " ".join(f"{name}={value}" for name, value in pairs if not is_secret(name))

    def secrets(self) -> set[str]:
        """The secrets in the connection string, as they are written and as they are meant."""
        from urllib.parse import unquote

        found = in_text(self.connection)
        return {s for secret in found for s in (secret, unquote(secret)) if s}

    def clean(self, text: object) -> str:
        """What a library says about a connection, on one line, without the secrets of this one, wherever and however
        it repeats them."""
        return " ".join(without(str(text), self.secrets()).split())

    def misspelt(self) -> str | None:
        """What is wrong with a URL that can be read in two ways: a password has characters that mean something else
        there."""
        if self.kind != "postgres":
            return None
        head = self.connection.partition("://")[2].rpartition("@")[0]
        if re.search(r"[/?#@\s]", head) is None:
            return None
        return ("one of / ? # @ or a blank comes before an @: in a password, or wherever it stands for itself, write "
                "those as %2F %3F %23 %40 %20; "
                "or leave the password out, and set PGPASSWORD")  # fmt: skip

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def _server(connection: str) -> dict[str, str] | None:
    """The parameters of a PostgreSQL, by a URL or by pairs, that are no secrets; None if it is none."""
    if _KIND.match(connection) is None:
        return _pairs(connection)
    return _parameters(connection) if connection.startswith("postgres") else None


def _pairs(text: str) -> dict[str, str] | None:
    r"""``keyword=value`` pairs as libpq reads them; None where one is no keyword of its own.

    >>> _pairs(r"dbname='it\'s' user = me port=5433"), _pairs("host=db topic=a"), _pairs("a=b.csv")
    ({'host': '', 'port': '5433', 'dbname': "it's", 'user': 'me'}, None, None)
    """
    found: dict[str, str] = {}
    rest = text.strip()
    while rest:
        pair = _PAIR.match(rest)
        if pair is None or pair[1] not in _KEYWORDS:
            return None
        value = pair[2][1:-1] if pair[2].startswith("'") else pair[2]
        if not is_secret(pair[1]):
            found[pair[1]] = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
        rest = rest[pair.end() :].lstrip()
    if not found:
        return None
    hosts = found.get("host", "").split(",")
    found["host"] = ",".join(f"[{host}]" if ":" in host and not host.startswith("/") else host for host in hosts)
    return {"host": "", "port": "", "dbname": "", "user": "", **found}


def _parameters(url: str) -> dict[str, str]:
    """The parameters of a PostgreSQL URL."""
    from urllib.parse import parse_qsl, unquote

    rest = url.partition("://")[2].partition("#")[0]
    userinfo, _, rest = rest.rpartition("@")
    authority, _, tail = rest.partition("/")
    database, _, query = tail.partition("?") if "?" not in authority else ("", "", authority.partition("?")[2])
    authority = authority.partition("?")[0]
    found = {"user": unquote(userinfo.partition(":")[0]), "dbname": unquote(database)}
    hosts = [re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d*))?", one) for one in authority.split(",")]
    found["host"] = ",".join(unquote(m[1]) if m else "" for m in hosts)
    found["port"] = ",".join((m[2] or "") if m else "" for m in hosts)
    return found | {key: value for key, value in parse_qsl(query) if not is_secret(key)}


def _with_environment(found: dict[str, str]) -> dict[str, str]:
    """What is not given is what the environment says, as libpq has it."""
    said = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER", "options": "PGOPTIONS"}
    away = [name for name in said if not found.get(name, "").strip(",")]
    return found | {name: os.environ.get(said[name], "") for name in away}


def _hosts(found: dict[str, str]) -> str:
    """The servers, each with its port."""
    from urllib.parse import quote

    hosts = [host if host.startswith(("/", "@")) else host.lower() for host in found["host"].split(",")]
    ports = found["port"].split(",")
    ports = ports if len(ports) == len(hosts) else [ports[0]] * len(hosts)
    return ",".join(f"{quote(host, safe='[]:')}:{port or '5432'}" for host, port in zip(hosts, ports, strict=True))


def _place(found: dict[str, str]) -> str:
    """Server, database and what decides which table a name means."""
    from urllib.parse import quote

    more = "&".join(
        f"{key}={quote(found[key], safe='')}" for key in ("hostaddr", "options", "service") if found.get(key)
    )
    return f"{_hosts(found)}/{quote(found['dbname'] or found['user'])}" + (f"?{more}" if more else "")


class EpochsOf(NamedTuple):
    """The rows of another run with epochs as an input: its state folder, the output, and whether rows are read that are
    not committed yet."""

    folder: str
    output: str
    ahead: bool

    @property
    def identity(self) -> str:
        """Which rows they are."""
        return f"epochs:{os.path.realpath(self.folder)}#{self.output}"


def epochs_of(place: str) -> EpochsOf | None:
    """From ``epochs:STATE#OUTPUT`` (as soon as they are durable) or ``committed:STATE#OUTPUT`` (each epoch when it is
    committed); the output may be left out.  None for any other place.

    >>> epochs_of("epochs:state/a#totals"), epochs_of("committed:a").output, epochs_of("epochs.csv")
    (EpochsOf(folder='state/a', output='totals', ahead=True), '', None)
    """
    kind, colon, rest = place.partition(":")
    if not colon or kind not in ("epochs", "committed"):
        return None
    folder, _, output = rest.rpartition("#") if "#" in rest else (rest, "", "")
    if "?after=" in rest:
        raise UsageError(
            f"{option('in', place)}: ?after= (rows that are taken some pushes later) is not supported any more: delay "
            "the stream in its pipeline, with .lag(K).map(lambda pair: pair[1])"
        )
    if not folder:
        raise UsageError(f"{option('in', place)}: expected {kind}:STATE#OUTPUT, the state folder of another run")
    return EpochsOf(folder, output, kind == "epochs")


def as_user(identity: str, user: str) -> str:
    """The identity of a target in PostgreSQL, with the name of who logs in; any other as it is.

    >>> as_user("postgresql://db:5432/shop#t", "me"), as_user("sqlite:/data/shop.db#t", "me")
    ('postgresql://me@db:5432/shop#t', 'sqlite:/data/shop.db#t')
    """
    from urllib.parse import quote

    head = "postgresql://"
    if not user or not identity.startswith(head):
        return identity
    return f"{head}{quote(user, safe='')}@{identity.removeprefix(head)}"


def alike(identity: str) -> str:
    """What the identities of one target have in common: for SQLite, ``T`` and ``t`` are one table; see `in_one_form`.

    >>> alike("sqlite:/data/A.db#T"), alike("postgresql://db:5432/shop#T")
    ('sqlite:/data/A.db#t', 'postgresql://db:5432/shop#T')
    """
    file, mark, table = identity.rpartition("#")
    return f"{file}#{table.lower()}" if mark and identity.startswith("sqlite:") else in_one_form(identity)


def in_one_form(identity: str) -> str:
    """An identity that was written down, maybe by an earlier version, as it is written today.  What it does not say is
    not asked of the environment, which may be another one now.

    >>> in_one_form("host=DB dbname=shop user=me password=***#t"), in_one_form("parquet: /data/a=b")
    ('postgresql://db:5432/shop#t', 'parquet: /data/a=b')
    """
    connection, mark, table = identity.rpartition("#")
    found = _server(connection) if mark else None
    return identity if found is None else f"postgresql://{_place(found)}#{table}"
