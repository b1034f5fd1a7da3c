"""Places on several machines, as far as one machine can show it: a network namespace for each place, wires between them
that are cut and slowed down.  Needs the right to make namespaces; `why_not` says what is missing.
"""

from __future__ import annotations

import ctypes
import datetime
import ipaddress
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pellucid.atomic.places.client import Place
from pellucid.atomic.places.network import PlaceInfo, new_network
from tests.judge.kills_places import PLACES, Judge
from tests.judge.places_clients import CHANNELS

CLONE_NEWNET = 0x40000000
SLOW = {
    "slow": ("netem delay 150ms 50ms", "tbf rate 150kbit burst 2000 latency 3000ms"),
    "lossy": ("netem delay 20ms loss 20%", "tbf rate 60kbit burst 2000 latency 60ms"),
}


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")


class Wires:
    """A namespace for each place, with an address each, and one between them that has the wires' other ends."""

    def __init__(self, places: tuple[str, ...]) -> None:
        mark = f"pel{os.getpid()}"
        self.hub = f"{mark}hub"
        self.spaces = {place: f"{mark}{n}" for n, place in enumerate(places)}
        self.addresses = {place: f"10.213.7.{n + 1}" for n, place in enumerate(places)}
        self.ends = {place: f"wire{n}" for n, place in enumerate(places)}
        self.slow_ones: set[str] = set()
        self.made: list[str] = []

    def make(self) -> None:
        for space in (self.hub, *self.spaces.values()):
            run("ip", "netns", "add", space)
            self.made.append(space)
        run("ip", "-n", self.hub, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", self.hub, "link", "set", "br0", "up")
        for place, space in self.spaces.items():
            end = self.ends[place]
            run("ip", "-n", self.hub, "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", space)
            run("ip", "-n", self.hub, "link", "set", end, "master", "br0", "up")
            run("ip", "-n", space, "addr", "add", f"{self.addresses[place]}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            run("ip", "-n", space, "link", "set", "lo", "up")

    def remove(self) -> None:
        for space in self.made:
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)

    def cut(self, place: str) -> None:
        run("ip", "-n", self.hub, "link", "set", self.ends[place], "down")

    def mend(self, place: str) -> None:
        run("ip", "-n", self.hub, "link", "set", self.ends[place], "up")
        if place in self.slow_ones:
            run("tc", "-n", self.hub, "qdisc", "del", "dev", self.ends[place], "root")
            self.slow_ones.discard(place)

    def slow(self, place: str, how: str) -> str:
        """Slow, or slow and with losses: by delay where the kernel has it, else by few bits a second; what was done."""
        for what in SLOW[how]:
            try:
                run("tc", "-n", self.hub, "qdisc", "add", "dev", self.ends[place], "root", *what.split())
            except OSError:
                continue
            self.slow_ones.add(place)
            return f"{how} ({what.split()[0]})"
        return f"{how}: the kernel cannot"

    @contextmanager
    def inside(self, place: str) -> Iterator[None]:
        """This thread, in the namespace of a place."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as before, open(f"/var/run/netns/{self.spaces[place]}") as there:
            if libc.setns(there.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                libc.setns(before.fileno(), CLONE_NEWNET)


def why_not() -> str:
    """Why there can be no namespaces here; nothing if there can."""
    if shutil.which("ip") is None:
        return "there is no `ip` (Debian: sudo apt-get install iproute2)"
    if os.geteuid() != 0:
        return "network namespaces are made by root"
    wires = Wires(("probe",))
    try:
        wires.make()
    except OSError as error:
        return f"network namespaces cannot be made here: {error}"
    finally:
        wires.remove()
    return ""


def certificates(folder: Path, addresses: list[str]) -> dict[str, str]:
    """An authority of the network's own, and a certificate for its addresses."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)

    def made(
        name: str, issuer: str, public: ec.EllipticCurvePublicKey, by: ec.EllipticCurvePrivateKey, ca: bool
    ) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
        )
        if not ca:
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(one)) for one in addresses])
            builder = builder.add_extension(names, critical=False)
        else:
            usage = x509.KeyUsage(
                digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
                key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
            )  # fmt: skip
            builder = builder.add_extension(usage, critical=True)
        return builder.sign(by, SHA256()).public_bytes(serialization.Encoding.PEM)

    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    files = {
        "ca": made("authority", "authority", authority.public_key(), authority, True),
        "certificate": made("places", "authority", own.public_key(), authority, False),
        "key": own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }
    for name, data in files.items():
        (folder / f"{name}.pem").write_bytes(data)
        (folder / f"{name}.pem").chmod(0o600)
    return {name: str(folder / f"{name}.pem") for name in files}


class Apart(Judge):
    """The judge of kills, where every place has a machine of its own."""

    def __init__(self, base: Path, rng: random.Random, counts: Counter[str], wires: Wires) -> None:
        super().__init__(base, rng, counts)
        self.wires, self.folder = wires, base / "apart"
        self.patience = 3.0  # wires may be cut: programs are not at work everywhere
        tls = certificates(base, list(wires.addresses.values()))
        places = [PlaceInfo(p, wires.addresses[p], 4700, None, tuple(CHANNELS[p])) for p in PLACES]
        new_network(self.folder, places, tls)

    def command(self, who: str) -> list[str]:
        return ["ip", "netns", "exec", self.wires.spaces[who.rstrip("!")], *super().command(who)]

    def connected(self, place: str) -> Place:
        with self.wires.inside(place):
            return super().connected(place)

    def strike(self) -> int:
        """Cut a wire, or slow it down, for a while; sometimes somebody is killed meanwhile."""
        place = self.rng.choice(PLACES)
        how = self.rng.choice(["cut", "cut", "slow", "lossy"])
        if how == "cut":
            self.wires.cut(place)
        else:
            how = self.wires.slow(place, how)
        self.counts[f"wires: {how}"] += 1
        self.history.append(f"{how} {place}")
        if self.rng.random() < 0.4:
            super().strike()
        time.sleep(self.rng.random() * 1.5)
        self.wires.mend(place)
        return 1


def judge_apart(troubles: int, seed: int, each: int = 10) -> Counter[str]:
    """So many troubles with wires and processes; what was done."""
    rng, counts, left = random.Random(seed), Counter[str](), troubles
    while left > 0:
        wires = Wires(PLACES)
        try:
            wires.make()
            with tempfile.TemporaryDirectory(prefix="pellucid-apart-", ignore_cleanup_errors=True) as name:
                Apart(Path(name), rng, counts, wires).go(min(each, left))
        finally:
            wires.remove()
        left -= each
    return counts
