"""The file of `--sites`, what it says now and whose certificates are whose."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import time
from pathlib import Path

import pytest
import yaml
from authority import Authority
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.x509.oid import NameOID
from mesh import mesh, until

from datacast.controller.sites import directory as directories
from datacast.controller.sites.directory import Directory, issued_by
from datacast.services.sites_file import SiteError


def write(folder: Path, **sites: str) -> Path:
    file = folder / "sites.yaml"
    rows = {name: {"ca": ca} for name, ca in sites.items()}
    file.write_text(yaml.safe_dump({"name": "ams", "url": "https://127.0.0.1:1", "sites": rows}))
    return file


@pytest.mark.parametrize(
    ("sites", "code", "words"),
    [
        ({"sfo": "nowhere.pem"}, "no_authority", "cannot read .*nowhere.pem"),
        ({"sfo": "empty.pem"}, "no_authority", "holds no certificate"),
        ({"sfo": "ams/ca.pem"}, "same_authority", "sfo and this site have the same authority"),
        ({"sfo": "sfo/ca.pem", "oak": "sfo/ca.pem"}, "same_authority", "the same authority"),
    ],
)
def test_a_file_by_which_sites_cannot_be_told_apart_is_refused(
    tmp_path: Path, sites: dict[str, str], code: str, words: str
) -> None:
    ams, sfo = Authority(tmp_path / "ams"), Authority(tmp_path / "sfo")
    (tmp_path / "empty.pem").touch()
    good = write(tmp_path, sfo=str(sfo.ca))
    directory = Directory(good, str(ams.ca))
    file = write(tmp_path, **{name: str(tmp_path / ca) for name, ca in sites.items()})
    with pytest.raises(SiteError, match=words) as caught:
        Directory(file, str(ams.ca))
    assert caught.value.code == code
    # One that knew better before goes on with that, and says why only once.
    assert directory.look() is False and directory.sites.sites["sfo"].ca == str(sfo.ca)
    assert directory._seen is not None and directory.look() is False
    file.unlink()
    assert directory.look() is False and list(directory.sites.sites) == ["sfo"]


def made(kind: str, name: str, signer: object = None) -> tuple[x509.Certificate, object]:
    key = ed25519.Ed25519PrivateKey.generate() if kind == "ed25519" else rsa.generate_private_key(65537, 2048)
    now = datetime.datetime.now(datetime.UTC)
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key())
    builder = builder.serial_number(7).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    signing = signer or key
    return builder.sign(signing, None if kind == "ed25519" else hashes.SHA256()), key  # type: ignore[arg-type]


def test_an_authority_of_another_program_counts_by_its_signature_alone() -> None:
    """Of RSA keys, as openssl makes them. One that only has its name is nobody."""
    authority, key = made("rsa", "corp")
    shown, _ = made("rsa", "corp", key)
    lying, _ = made("rsa", "corp")
    assert issued_by(shown, authority) and not issued_by(lying, authority)
    assert not issued_by(made("rsa", "else", key)[0], authority)
    assert not issued_by(*(made("ed25519", "corp")[0] for _ in range(2)))  # no kind of key that is taken


def test_each_site_is_known_by_its_authoritys_key(tmp_path: Path) -> None:
    ams, sfo = Authority(tmp_path / "ams"), Authority(tmp_path / "sfo")
    directory = Directory(write(tmp_path, sfo=str(sfo.ca)), str(ams.ca))
    certificate = x509.load_der_x509_certificate(ssl.PEM_cert_to_DER_cert(sfo.ca.read_text()))
    der = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    digest = hashes.Hash(hashes.SHA256())
    digest.update(der)
    assert directory.key("sfo") == digest.finalize().hex() and directory.key("mars") is None
    assert directory.key("ams") not in (None, directory.key("sfo"))


async def test_a_site_that_has_a_new_authority_is_known_by_it_at_once(tmp_path: Path) -> None:
    """Its ca.pem stands where the one before stood: nothing else of the file changes."""
    async with mesh(tmp_path, {"ams": ["a0"], "sfo": ["s0"]}, {"sfo": ["ams"]}) as sites:
        ams, sfo = sites.values()
        await sfo.stop()
        stopped = time.monotonic()
        before = ams.coordinator.peers.directory.key("sfo")
        known, sfo.authority = sfo.authority.ca, Authority(tmp_path / "new")
        known.write_bytes(sfo.authority.ca.read_bytes())
        async with asyncio.timeout(30):
            await until(lambda: ams.coordinator.peers.directory.key("sfo") != before)
            await sfo.start()
            await until(lambda: (ams.coordinator.peers.all["sfo"].heard or 0.0) > stopped)


def test_an_authority_that_comes_after_the_file_that_names_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The file was read no more until somebody touched it."""
    monkeypatch.setattr(directories, "AGAIN_S", 0.0, raising=False)
    ams, sfo, oak = (Authority(tmp_path / name) for name in ("ams", "sfo", "oak"))
    directory = Directory(write(tmp_path, sfo=str(sfo.ca)), str(ams.ca))
    later = tmp_path / "oak.pem"
    write(tmp_path, sfo=str(sfo.ca), oak=str(later))
    assert [directory.look() for _ in range(3)] == [False] * 3 and caplog.text.count("oak.pem") == 1
    later.write_bytes(oak.ca.read_bytes())
    assert directory.look() and set(directory.authorities) == {"sfo", "oak"} and not directory.look()
