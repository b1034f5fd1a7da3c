"""Beyond loopback: both ends show a certificate of the network's own authority, or nothing is said."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pellucid.atomic.places import Network, NotReached, connect, new_network, up
from pellucid.atomic.places.described import PlaceInfo, free_ports
from pellucid.errors import UsageError

ANY = "0.0.0.0"  # every address of this machine, and no loopback address


def authority(folder: Path) -> dict[str, str]:
    """A certificate authority of one's own, and a certificate of this machine."""
    folder.mkdir()
    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("authority", "place")]
    made = []
    for n, (key, name) in enumerate(zip(keys, names, strict=True)):
        one = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=not n, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()), critical=False)
        )
        if n:
            one = one.add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ANY))]), critical=False
            )
        made.append(one.sign(keys[0], hashes.SHA256()))
    files = {"ca": folder / "ca.pem", "certificate": folder / "certificate.pem", "key": folder / "key.pem"}
    files["ca"].write_bytes(made[0].public_bytes(serialization.Encoding.PEM))
    files["certificate"].write_bytes(made[1].public_bytes(serialization.Encoding.PEM))
    files["key"].write_bytes(
        keys[1].private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    files["key"].chmod(0o600)
    return {name: str(file) for name, file in files.items()}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("tls")
    ports = free_ports(2)
    places = [PlaceInfo("near", ANY, ports[0], None, ("answers",)), PlaceInfo("far", ANY, ports[1], None, ("asked",))]
    made = new_network(folder / "net", places, authority(folder / "tls"))
    with up(made):
        yield made


def test_a_transaction_over_tls(network: Network) -> None:
    with connect(network.folder, "near") as near, connect(network.folder, "far") as far:
        one, two = near.begin(), far.begin()
        one.send("far.asked", "?")
        assert two.receive("asked", timeout=60) == "?"
        one.commit()
        assert two.commit(timeout=60) == "committed"


def test_another_authority_is_not_believed(network: Network, tmp_path: Path) -> None:
    """The right keys, and a certificate that anybody could have made."""
    wrong = Network(network.folder, network.places, {k: Path(v) for k, v in authority(tmp_path / "other").items()})
    from pellucid.atomic.places.client import Place

    with pytest.raises(NotReached, match=r"near: the connection to .* cannot be made safe .* see \[tls\]"):
        Place(wrong, "near").reach()


def test_without_tls_nothing_is_said(network: Network) -> None:
    import socket

    from pellucid.atomic.places.link import CLIENT, Link

    place = network.place("near")
    link = Link(CLIENT, "near", "near", lambda role, name: network.secrets("near").client, begins=True)
    with closing(socket.create_connection((place.host, place.port), 30)) as made:
        made.sendall(link.opening())
        made.settimeout(10)
        try:
            said = made.recv(65536)
        except ConnectionError:
            said = b""
        assert b"nonce" not in said  # an alert of TLS, or nothing
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert network.tls is not None
    context.load_verify_locations(network.tls["ca"])
    heard = b""
    with (
        closing(socket.create_connection((place.host, place.port), 30)) as made,
        contextlib.suppress(ssl.SSLError, ConnectionError),
        context.wrap_socket(made, server_hostname=ANY) as bare,  # it shows no certificate
    ):
        bare.sendall(link.opening())
        heard = bare.recv(65536)
    assert heard == b""


def test_certificates_that_are_missing_are_told(network: Network, tmp_path: Path) -> None:
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "certificate", "key")}
    places = [PlaceInfo("near", ANY, free_ports(1)[0], None, ("answers",))]
    with pytest.raises(UsageError, match=r"ca\.pem: is not there: ca of tls="):
        new_network(tmp_path / "net", places, files)
    for file in files.values():
        Path(file).touch()
    made = new_network(tmp_path / "net", places, files)
    Path(files["ca"]).unlink()
    with pytest.raises(UsageError, match=r"ca\.pem: is not there: ca of \[tls\]"):
        connect(made.folder, "near")
    for file in files.values():
        Path(file).write_text("nonsense")
        Path(file).chmod(0o644)
    with pytest.raises(UsageError, match=r"key\.pem: others can read this key \(mode 644\)"):
        connect(made.folder, "near")
    Path(files["key"]).chmod(0o600)
    with pytest.raises(UsageError, match=r"\[tls\] in .*network.toml: "):
        connect(made.folder, "near")
