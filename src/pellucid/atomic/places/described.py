"""What ``network.toml`` may say: places, the tree, addresses, channels, certificates; everything else is refused by its
place in the file."""

from __future__ import annotations

import ipaddress
import random
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.errors import UsageError, nearest

VERSION = 1
HERE = "127.0.0.1"
_FIRST_PORT = 10_000  # of those that are chosen
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_PLACE_KEYS = {"address": str, "inside": str, "channels": list, "may": list, "log": str}
_TLS_KEYS = {"ca": str, "certificate": str, "key": str}


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
        if key not in ("version", "places", "tls"):
            raise UsageError(f"{file}: {key!r} is not known{nearest(key, ['version', 'places', 'tls'])}")
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


def tls_of(said: Mapping[str, Any], root: Path, file: str) -> dict[str, Path] | None:
    """The files of certificates, or None."""
    if (tls := said.get("tls")) is None:
        return None
    where = f"{file}: [tls]"
    if not isinstance(tls, dict):
        raise UsageError(f"{where}: expected a table")
    _typed(tls, _TLS_KEYS, where)
    for key in _TLS_KEYS:
        if key not in tls:
            raise UsageError(f"{where}: has no {key}: expected ca, certificate and key, each a file")
    return {key: root / tls[key] for key in _TLS_KEYS}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses now, each another, and none that the system gives to connections: while a
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


def text_of(places: Iterable[PlaceInfo], tls: Mapping[str, str] | None) -> str:
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
    if tls is not None:
        lines += ["", "[tls]", *(f"{key} = {_quoted(value)}" for key, value in tls.items())]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
