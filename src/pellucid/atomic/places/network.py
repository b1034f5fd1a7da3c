"""A network of places is a folder: its places, which is inside which, where each listens, and their secrets.

::

    DIR/network.toml          places, the tree, addresses, channels; no secrets
    DIR/secrets/PLACE.toml    (0600) the certificate of PLACE with its key, that of the network's authority, the tokens
                              of its own gates and channels, and those that it was given
    DIR/places/PLACE/         the durable log, the lock of the process, what it said

A place on another machine needs ``network.toml`` and its own file of ``secrets/``, and no other.  The authority is made
with the network and signs the certificates of its places; its key is not kept, so no place can be added later.

A **capability** is a token that cannot be guessed: one for each ``in`` and ``out`` of a place and one for each channel.
A message goes along a path of them, and every place on its way compares the one that is its own, in constant time.
`may` in ``network.toml`` says which channels of others a place has the tokens for; without it, for all.
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import random
import re
import secrets as chance
import socket
import ssl
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.atomic.places.core.events import Tree
from pellucid.atomic.places.wire import Capability
from pellucid.errors import StateError, UsageError, nearest
from pellucid.internal.address import Address
from pellucid.internal.base.files import own_folder, read_own, write_lasting

# What ``network.toml`` may say: places, the tree, addresses, channels; everything else is refused by its place in the
# file.

VERSION = 1
SECRETS_VERSION = 2
HERE = "127.0.0.1"
_FIRST_PORT = 10_000  # of those that are chosen
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_PLACE_KEYS = {"address": str, "inside": str, "channels": list, "may": list, "log": str}


@dataclass(frozen=True)
class PlaceInfo:
    """What the network says about one place."""

    name: str
    host: str
    port: int
    inside: str | None = None
    channels: tuple[str, ...] = ()
    may: tuple[str, ...] | None = None  # "place.channel"; None for all
    log: str | None = None  # an address of PostgreSQL; None for a file of its own

    @property
    def address(self) -> str:
        """As in the file."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def places_of(said: Mapping[str, Any], file: str) -> dict[str, PlaceInfo]:
    """The places that a file tells of, checked one by one and as a tree."""
    if said.get("version") != VERSION:
        raise UsageError(f"{file}: version = {said.get('version')!r}: expected {VERSION}, which this Pellucid reads")
    for key in said:
        if key == "tls":
            raise UsageError(
                f"{file}: [tls]: is not used any more: a network has certificates of its own in {SECRETS}/, and every "
                "connection shows them; remove it"
            )
        if key not in ("version", "places"):
            raise UsageError(f"{file}: {key!r} is not known{nearest(key, ['version', 'places'])}")
    found = said.get("places")
    if not isinstance(found, dict) or not found:
        raise UsageError(f'{file}: has no places: expected [places.NAME] with address = "127.0.0.1:PORT"')
    places = {}
    for name, about in found.items():
        where = f"{file}: [places.{name}]"
        _named(name, where)
        if not isinstance(about, dict):
            raise UsageError(f"{where}: expected a table")
        _typed(about, _PLACE_KEYS, where)
        if "address" not in about:
            raise UsageError(f'{where}: has no address: expected address = "127.0.0.1:PORT"')
        host, port = address_of(about["address"], where)
        channels = tuple(_named(c, f"{where}: channels") for c in about.get("channels", ()))
        if len(set(channels)) < len(channels):
            raise UsageError(f"{where}: a channel is named twice")
        may = about.get("may")
        if may is not None and not all(isinstance(one, str) and one.count(".") == 1 for one in may):
            raise UsageError(f'{where}: may: expected a list of "PLACE.CHANNEL"')
        inside = about.get("inside") or None
        log = about.get("log")
        if log is not None and not log.startswith(("postgresql://", "postgres://")):
            raise UsageError(f"{where}: log: expected an address as in postgresql://user@host/database")
        places[name] = PlaceInfo(name, host, port, inside, channels, None if may is None else tuple(may), log)
    _tree(places, file)
    return places


def _tree(places: Mapping[str, PlaceInfo], file: str) -> None:
    at: dict[tuple[str, int], str] = {}
    for name, place in places.items():
        where = f"{file}: [places.{name}]"
        if place.inside is not None and place.inside not in places:
            raise UsageError(f"{where}: inside = {place.inside!r}: no such place{nearest(place.inside, list(places))}")
        seen, above = [name], place.inside
        while above is not None:
            if above in seen:
                raise UsageError(f"{where}: is inside itself: {' in '.join([*seen, above])}")
            seen.append(above)
            above = places[above].inside if above in places else None
        for channel in place.channels:
            if channel in places:
                raise UsageError(f"{where}: the channel {channel!r} is called like a place: choose another name")
        for one in place.may or ():
            other, _, channel = one.partition(".")
            if other not in places or channel not in places[other].channels:
                raise UsageError(f"{where}: may: {one!r}: there is no such channel")
        if (other := at.setdefault((place.host, place.port), name)) != name:
            raise UsageError(f'{where}: address = "{place.address}": is that of {other}, too')


def _named(name: Any, where: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{where}: {name!r}: expected a name of letters, digits, - and _, a letter first, 63 at most")
    return name


def _typed(about: Mapping[str, Any], keys: Mapping[str, type], where: str) -> None:
    for key, value in about.items():
        if key not in keys:
            raise UsageError(f"{where}: {key!r} is not known{nearest(key, list(keys))}")
        if type(value) is not keys[key]:
            raise UsageError(f"{where}: {key}: expected a {keys[key].__name__}, found a {type(value).__name__}")


def address_of(text: str, where: str) -> tuple[str, int]:
    """Host and port of an address.

    >>> address_of("127.0.0.1:4701", "agent"), address_of("[::1]:4701", "agent")
    (('127.0.0.1', 4701), ('::1', 4701))
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"{where}: address = {text!r}: expected HOST:PORT, as in 127.0.0.1:4701")
    return host, int(port)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that are not in use, all different, and none that the system gives to connections: while a
    place is down, a client that tries to reach it could otherwise be given the place's own port.

    >>> len(set(free_ports(3))), max(free_ports(3)) < _given_to_connections()
    (3, True)
    """
    found: list[int] = []
    choices = random.SystemRandom().sample(range(_FIRST_PORT, _given_to_connections()), 1000)
    while len(found) < count:
        if not choices:
            raise UsageError(f"{HERE}: no free ports were found: give the places addresses")
        with socket.socket() as probe:
            try:
                probe.bind((HERE, choices[-1]))
                found.append(choices[-1])
            except OSError:
                pass
        choices.pop()
    return found


def _given_to_connections() -> int:
    """The first of the ports that the system gives to outgoing connections."""
    try:
        low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        low = 32_768
    return low if low >= _FIRST_PORT + 5000 else 65_536


def text_of(places: Iterable[PlaceInfo]) -> str:
    """A file that says this."""
    lines = ["# Places, who is inside whom, and where they listen; the keys are in secrets/.", f"version = {VERSION}"]
    for place in places:
        lines += ["", f"[places.{_named(place.name, 'a place')}]", f'address = "{place.address}"']
        if place.inside is not None:
            lines.append(f"inside = {_quoted(place.inside)}")
        lines.append(f"channels = [{', '.join(map(_quoted, place.channels))}]")
        if place.may is not None:
            lines.append(f"may = [{', '.join(map(_quoted, place.may))}]")
        if place.log is not None:
            lines.append(f"log = {_quoted(place.log)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


FILE, SECRETS, PLACES = "network.toml", "secrets", "places"

Step = tuple[str, str]  # ("in" or "out", the name of a place or a channel)


@dataclass(frozen=True)
class Route:
    """Where a message goes: the steps of its path, and where that ends."""

    path: tuple[Step, ...]
    to: str
    channel: str

    def __str__(self) -> str:
        return ".".join(f"{way} {name}" for way, name in self.path)


@dataclass(frozen=True)
class Secrets:
    """What one place knows and others must not: the tokens of its own gates and channels, and those that it holds; and
    the certificate of the authority (PEM), which is no secret."""

    authority: str = field(repr=False)
    own: Mapping[str, bytes] = field(repr=False)  # "in", "out", "channel NAME"
    held: Mapping[str, bytes] = field(repr=False)  # "in PLACE", "out PLACE", "PLACE.CHANNEL"


class BadSecretsError(StateError):
    """A file of secrets that is there, and is not what it should be."""


@dataclass(frozen=True)
class Network:
    """A folder, read and looked through."""

    folder: Path
    places: Mapping[str, PlaceInfo]

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> Network:
        """Read a network's folder; one that is not a network, or says something impossible, is refused."""
        root = Path(folder)
        file = root / FILE
        try:
            said = tomllib.loads(read_own(file, links=True).decode())
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(
                f"{root}: is no network: it has no {FILE}; make one with `pellucid net new {root} --place …`"
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: cannot be read: {error}") from None
        except RecursionError:
            raise UsageError(f"{file}: cannot be read: it is nested too deeply") from None
        except OSError as error:
            raise UsageError(f"{file}: cannot be read: {error.strerror or error}") from None
        return Network(root, places_of(said, str(file)))

    @property
    def tree(self) -> dict[str, str | None]:
        """Each place and the one that it is inside of."""
        return {name: place.inside for name, place in self.places.items()}

    @property
    def channels(self) -> dict[str, tuple[str, ...]]:
        """The channels of each place."""
        return {name: place.channels for name, place in self.places.items()}

    def place(self, name: str) -> PlaceInfo:
        """What the file has about a place; one that is not there is refused by name."""
        if name not in self.places:
            listed = ", ".join(self.places)
            raise UsageError(
                f"{self.folder / FILE}: has no place {name!r}: it has {listed}{nearest(name, list(self.places))}"
            )
        return self.places[name]

    def folder_of(self, name: str) -> Path:
        """Where a place keeps its log and its lock."""
        return self.folder / PLACES / self.place(name).name

    def log_of(self, name: str) -> Path | str:
        """Where a place's log is: a file, or an address of PostgreSQL."""
        return self.place(name).log or self.folder_of(name) / "log.sqlite"

    # ---------------------------------------------------------------- ways

    def route(self, start: str, path: str) -> Route:
        """The route from a place along a path: ``airline.requests``, or every step of it,
        ``out agent.in airline.in requests``; a channel of one's own is its name.

        >>> tree = [PlaceInfo("corp", "127.0.0.1", 1), PlaceInfo("host", "127.0.0.1", 2, "corp", ("orders",)),
        ...         PlaceInfo("shop", "127.0.0.1", 3, None, ("answers",))]
        >>> network = Network(Path("net"), {place.name: place for place in tree})
        >>> str(network.route("host", "shop.answers")), str(network.route("host", "orders"))
        ('out host.out corp.in shop.in answers', 'in orders')
        >>> str(network.route("shop", "out shop.in corp.in host.in orders"))
        'out shop.in corp.in host.in orders'
        """
        parts = [part.strip() for part in path.split(".")] if isinstance(path, str) else []
        if not parts or not all(parts):
            raise UsageError(
                f"{path!r}: expected a path, as in 'airline.requests' or 'out agent.in airline.in requests'"
            )
        if any(part.startswith(("in ", "out ")) for part in parts):
            return self._literal(start, path, parts)
        *places, channel = parts
        for name in places:
            self.place(name)
        to = places[-1] if places else start
        self._channel(to, channel, path)
        steps = Tree(self.tree, self.channels).route(start, to, channel)
        down = [name for way, name in steps[:-1] if way == "in"]
        if places[:-1] and places != down[-len(places) :]:
            whole = ".".join([*down, channel])
            raise UsageError(f"{path!r}: {to} is not there: expected {whole!r}, or '{to}.{channel}'")
        return Route(tuple(steps), to, channel)

    def _literal(self, start: str, path: str, parts: Sequence[str]) -> Route:
        steps: list[Step] = []
        at: str | None = start
        for n, part in enumerate(parts):
            way, _, name = part.partition(" ")
            last = n == len(parts) - 1
            if way not in ("in", "out") or not name.strip():
                raise UsageError(f"{path!r}: {part!r}: expected 'in NAME' or 'out NAME'")
            name = name.strip()
            steps.append((way, name))
            if way == "out":
                if name != at or last:
                    raise UsageError(
                        f"{path!r}: '{part}': the message is {f'inside {at}' if at else 'outside'} there"
                        + (", and has to end in a channel" if last else "")
                    )
                at = self.place(name).inside
            elif last:
                if at is None:
                    raise UsageError(f"{path!r}: ends outside of every place, where there are no channels")
                self._channel(at, name, path)
                return Route(tuple(steps), at, name)
            elif self.place(name).inside != at:
                raise UsageError(
                    f"{path!r}: '{part}': {name} is inside {self.place(name).inside or 'nothing'}, and the message is "
                    f"{f'inside {at}' if at else 'outside'}"
                )
            else:
                at = name
        raise UsageError(f"{path!r}: does not end in a channel")

    def _channel(self, place: str, channel: str, path: str) -> None:
        has = self.place(place).channels
        if channel not in has:
            listed = f"it has {', '.join(has)}" if has else "it has none"
            raise UsageError(f"{path!r}: the place {place} has no channel {channel!r}: {listed}{nearest(channel, has)}")

    def path(
        self, secrets: Secrets, start: str, text: str, given: Mapping[str, bytes] | None = None
    ) -> list[list[Any]]:
        """The steps of a way with their tokens: those that the place has, else those ``given`` in a message.  A
        capability that it lacks is named."""
        route = self.route(start, text)
        out: list[list[Any]] = []
        for way, name in route.path:
            channel = len(out) == len(route.path) - 1
            if channel and route.to == start:
                what, token = f"in {name}", secrets.own.get(f"channel {name}")
            elif channel:
                what, token = f"{route.to}.{name}", secrets.held.get(f"{route.to}.{name}")
            else:
                what = f"{way} {name}"
                token = secrets.own.get(way) if name == start else secrets.held.get(what)
            token = token or (given or {}).get(what)
            if token is None:
                raise UsageError(
                    f"{start} has no capability for '{route.to}.{route.channel}': the token for '{what}' is missing; "
                    f"`may` of {start} in {FILE} said, when the network was made, what it may send to"
                )
            out.append([way, name, token])
        return out

    def capability(self, secrets: Secrets, start: str, text: str) -> Capability:
        """The route to a channel, to be given away: with all its tokens for `in` that the place has."""
        to, channel = (route := self.route(start, text)).to, route.channel
        tokens = {}
        for name in Tree(self.tree, self.channels).outward(to):
            if token := secrets.own.get("in") if name == start else secrets.held.get(f"in {name}"):
                tokens[f"in {name}"] = token
        last = secrets.own.get(f"channel {channel}") if to == start else secrets.held.get(f"{to}.{channel}")
        if last is None:
            raise UsageError(f"{start} has no capability for '{to}.{channel}', and cannot give one away")
        return Capability(to, channel, {**tokens, f"{to}.{channel}": last})

    def tree_of(self, name: str, secrets: Secrets) -> Tree:
        """What the core of a place knows: where places are, and the tokens that are asked for here."""
        tokens = {("in", what.removeprefix("channel ")): t for what, t in secrets.own.items() if " " in what}
        tokens |= {(way, name): secrets.own[way] for way in ("in", "out")}
        return Tree(self.tree, self.channels, tokens)

    # ---------------------------------------------------------------- secrets

    def has_secrets(self, name: str) -> bool:
        """Whether the keys of a place are here; those of places on other machines need not be."""
        return self._secrets(name).exists()

    def _secrets(self, name: str) -> Path:
        return self.folder / SECRETS / f"{self.place(name).name}.toml"

    def secrets(self, name: str) -> Secrets:
        """The keys and tokens of a place; a file that others can read is refused."""
        file = self._secrets(name)
        try:
            text = read_own(file, links=True).decode("ascii")
            mode = file.stat().st_mode & 0o777
            if mode & 0o077:
                raise StateError(
                    f"{file}: others can read it (mode {mode:o}), and it holds keys: `chmod 600 {file}`, and make a "
                    "new network if it may have been read"
                )
            said = tomllib.loads(text)
            if (version := said.pop("version")) != SECRETS_VERSION:
                raise StateError(
                    f"{file}: is of version {version}, and this Pellucid reads version {SECRETS_VERSION}: make a new "
                    f"network with the same places in another folder, and copy its {SECRETS}/ here; logs stay"
                )
            self._whole(name, file, said)
            tokens = {part: {k: bytes.fromhex(v) for k, v in said[part].items()} for part in ("own", "held")}
            return Secrets(said["authority"], **tokens)
        except FileNotFoundError:
            raise StateError(
                f"{file}: is not there, and the keys of {name} are needed: copy it from where the network was made"
            ) from None
        except (tomllib.TOMLDecodeError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BadSecretsError(f"{file}: is damaged; copy it again from where the network was made") from None
        except OSError as error:
            raise StateError(f"{file}: cannot be read: {error.strerror or error}") from None

    def _whole(self, name: str, file: Path, said: Mapping[str, Any]) -> None:
        """Refuse a file of secrets that lacks something, or that is another place's."""
        again = "copy it again from where the network was made"
        for part in ("place", "authority", "identity"):
            if not isinstance(said.get(part), str):
                raise BadSecretsError(f"{file}: has no {part}: {again}")
        for part in ("own", "held"):
            if part not in said:
                raise BadSecretsError(f"{file}: has no [{part}]: {again}")
        if said["place"] != name:
            raise BadSecretsError(f"{file}: has the keys of {said['place']}, not of {name}: {again}")
        for key in ("in", "out"):
            if key not in said["own"]:
                raise BadSecretsError(f"{file}: [own]: has no {key!r}: {again}")

    def tls(self, name: str, *, server: bool = False) -> ssl.SSLContext:
        """How a place makes connections, or with ``server`` takes them: it shows its certificate, and accepts those of
        this network alone."""
        authority, file = self.secrets(name).authority, self._secrets(name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # names of places, not of machines: `Link` compares them
        context.verify_mode = ssl.CERT_REQUIRED
        if server:
            context.num_tickets = 0
        try:
            context.load_verify_locations(cadata=authority)
            context.load_cert_chain(file)  # the first key and certificate (PEM) of the file; other lines are skipped
        except (ssl.SSLError, ValueError):
            raise BadSecretsError(f"{file}: is damaged; copy it again from where the network was made") from None
        except OSError as error:
            raise StateError(f"{file}: cannot be read: {error.strerror or error}") from None
        return context


def needed_here() -> None:
    """Refuse to go on without the libraries that places need."""
    for library in ("cryptography", "msgpack"):
        if importlib.util.find_spec(library) is None:
            raise UsageError(f"places need {library}, which is not installed: pip install 'pellucid[places]'")


def network_of(folder: str | os.PathLike[str]) -> Network:
    """The network in a folder: `Network.load`."""
    return Network.load(folder)


# ---------------------------------------------------------------- a new one


def new_network(
    folder: str | os.PathLike[str],
    places: Iterable[PlaceInfo] | Mapping[str, Sequence[str]],
) -> Network:
    """Make the folder of a new network, with fresh certificates and tokens; one that is there is left alone.

    The channels of each place are enough: they then listen on this machine, at ports that are free now.

    >>> import tempfile
    >>> made = new_network(tempfile.mkdtemp() + "/net", {"agent": ["answers"], "airline": ["requests", "seats"]})
    >>> made.channels, oct((made.folder / "secrets/agent.toml").stat().st_mode & 0o777)
    ({'agent': ('answers',), 'airline': ('requests', 'seats')}, '0o600')
    """
    if isinstance(places, Mapping):
        ports = free_ports(len(places))
        places = [PlaceInfo(n, HERE, p, None, tuple(c)) for p, (n, c) in zip(ports, places.items(), strict=True)]
    root = Path(folder)
    if (root / FILE).exists():
        raise UsageError(f"{root}: is a network already: choose another folder, or remove this one")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise UsageError(f"{root}: is there and not empty: choose another folder")
    needed_here()
    text = text_of(places)
    found = places_of(tomllib.loads(text), str(root / FILE))
    network = Network(root, found)
    for place in found.values():
        if place.log is not None and Address(place.log).secrets():
            raise UsageError(
                f"{root / FILE}: [places.{place.name}]: log: this file is no place for a password, for it is copied to "
                f"every machine: leave it out ({Address(place.log).stored}), and "
                "set PGPASSWORD, or write ~/.pgpass, where the place runs"
            )
    own_folder(root, "DIR")
    for inner in (root / SECRETS, root / PLACES):
        own_folder(inner, "DIR")
    for name, lines in _fresh(network).items():
        write_lasting(root / SECRETS / f"{name}.toml", [lines.encode("ascii")])
    write_lasting(root / FILE, [text.encode()])  # last: a folder without it is no network
    return network


def _fresh(network: Network) -> dict[str, str]:
    """The files of secrets: certificates with their keys, and tokens."""
    names = list(network.places)
    authority, identities = _certificates(names)
    own = {
        name: {what: chance.token_bytes(32) for what in ("in", "out", *(f"channel {c}" for c in place.channels))}
        for name, place in network.places.items()
    }
    files = {}
    for name, place in network.places.items():
        may = place.may
        if may is None:
            may = tuple(f"{other}.{c}" for other in names if other != name for c in network.places[other].channels)
        held: dict[str, bytes] = {}
        for one in may:
            to, _, channel = one.partition(".")
            for way, step in network.route(name, one).path[:-1]:
                if step != name:
                    held[f"{way} {step}"] = own[step][way]
            if to != name:
                held[one] = own[to][f"channel {channel}"]
        lines = [f"version = {SECRETS_VERSION}", f'place = "{name}"']
        lines += [f'identity = """\n{identities[name]}"""', f'authority = """\n{authority}"""']  # in this order: `tls`
        for part, tokens in (("own", own[name]), ("held", held)):
            lines += ["", f"[{part}]", *(f'"{what}" = "{token.hex()}"' for what, token in tokens.items())]
        files[name] = "\n".join(lines) + "\n"
    return files


_ALWAYS = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


def _certificates(names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The certificate of a new authority, and for each name a key with a certificate, all as PEM.  They do not expire:
    a place that must no longer take part is left out of a new network."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("", *names)}
    signed = {name: _certificate(name, key, keys[""]).public_bytes(Encoding.PEM).decode() for name, key in keys.items()}
    plain = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    return signed[""], {name: keys[name].private_bytes(*plain).decode() + signed[name] for name in names}


def _certificate(name: str, key: Any, authority: Any) -> Any:
    """Of a place; without a name, of the authority itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    def called(common: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])

    us, public = "the authority of a network of places", key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(called(name or us))
        .issuer_name(called(us))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))  # clocks of machines differ
        .not_valid_after(_ALWAYS)
        .add_extension(x509.BasicConstraints(ca=not name, path_length=None if name else 0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, SHA256())
    )
