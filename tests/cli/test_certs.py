"""`datacast certs` and `datacast token` as processes."""

from __future__ import annotations

import datetime
import errno
import json
import ssl
import subprocess
from pathlib import Path

import pytest
from commands import command

from datacast.services import authority as services_authority
from datacast.services import durable
from datacast.services.authority import Authority, AuthorityError, Identity
from datacast.services.tls import Identity as Own


def datacast(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(args, *command(*args))


def good(*args: object) -> str:
    done = datacast(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_authority_and_certificates_for_a_whole_topology(tmp_path: Path) -> None:
    folder = tmp_path / "ca"
    assert "keep it here" in good("certs", "init", folder)
    made = json.loads(good("certs", "issue", folder, "--topology", "bcube:2,1", "--days", "90", "--json"))
    who = {entry["identity"] for entry in made}
    hosts, switches = ("00", "01", "10", "11"), ("s0.0", "s0.1", "s1.0", "s1.1")
    nodes = {*(f"agent/{name}" for name in hosts), *(f"switch/{name}" for name in switches)}
    assert who == {"fabric-manager/main", "master/main", "controller/main", *nodes}
    assert len({entry["serial"] for entry in made}) == len(made)
    assert all(89 < entry["days_left"] <= 90 and entry["state"] == "ok" for entry in made)
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == (0o600 if path.suffix == ".key" else 0o644), path
    own = Own(str(folder / "ca.pem"), str(folder / "agent-01.pem"), str(folder / "agent-01.key"), "agent")
    assert str(own.own) == "agent/01"
    openssl = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", folder / "ca.pem"]
    verified = subprocess.run([*openssl, folder / "switch-s0.1.pem"], capture_output=True, text=True)
    assert verified.returncode == 0, verified.stderr
    text = subprocess.run(
        ["openssl", "x509", "-in", folder / "agent-01.pem", "-noout", "-text"], capture_output=True, text=True
    ).stdout
    for words in ("URI:datacast://agent/01", "TLS Web Server Authentication, TLS Web Client", "prime256v1", "CA:FALSE"):
        assert words in text, text


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "ca"
    good("certs", "init", folder)
    before = (folder / "ca.key").read_bytes()
    again = datacast("certs", "init", folder)
    assert again.returncode == 1 and "ca.pem exists" in again.stderr and (folder / "ca.key").read_bytes() == before
    good("certs", "issue", folder, "agent/b")
    first = (folder / "agent-b.pem").read_bytes()
    refused = datacast("certs", "issue", folder, "agent/a", "agent/b")
    assert refused.returncode == 1 and "agent-b.pem exists" in refused.stderr and "--replace" in refused.stderr
    assert not (folder / "agent-a.pem").exists(), "nothing is written when one is there"
    assert (folder / "agent-b.pem").read_bytes() == first
    good("certs", "issue", folder, "agent/b", "--replace")
    assert (folder / "agent-b.pem").read_bytes() != first
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_what_ends_soon_is_renewed_with_its_names(tmp_path: Path) -> None:
    folder = tmp_path / "ca"
    good("certs", "init", folder)
    good("certs", "issue", folder, "switch/s0.0,s0.1", "--days", "10")
    good("certs", "issue", folder, "controller/c", "--days", "10", "--dns", "rest.example", "--ip", "192.0.2.7")
    good("certs", "issue", folder, "agent/00", "--days", "90")
    keys = {path.name: path.read_bytes() for path in folder.glob("*.key")}
    renewed = json.loads(good("certs", "renew", folder, "--json", "--days", "365"))
    assert {entry["identity"] for entry in renewed} == {"switch/s0.0,s0.1", "controller/c"}
    (controller,) = (entry for entry in renewed if entry["identity"] == "controller/c")
    assert (controller["dns"], controller["ip"]) == (["rest.example"], ["192.0.2.7"]) and controller["days_left"] > 300
    changed = {path.name for path in folder.glob("*.key") if path.read_bytes() != keys[path.name]}
    assert changed == {"switch-s0.0.key", "controller-c.key"}
    assert "nothing" in good("certs", "renew", folder)
    assert json.loads(good("certs", "renew", folder, "agent/00", "--json"))[0]["identity"] == "agent/00"
    missing = datacast("certs", "renew", folder, "agent/99")
    assert missing.returncode == 1 and "agent-99.pem" in missing.stderr


def test_show_tells_what_is_wrong(tmp_path: Path) -> None:
    folder, other = tmp_path / "ca", tmp_path / "other"
    good("certs", "init", folder)
    good("certs", "init", other)
    authority = Authority.open(folder)
    authority.issue(Identity.parse("agent/old"), days=-1)
    good("certs", "issue", folder, "agent/soon", "--days", "3")
    good("certs", "issue", other, "agent/other")
    (folder / "agent-other.pem").write_bytes((other / "agent-other.pem").read_bytes())
    shown = datacast("certs", "show", folder, "--json")
    states = {entry["identity"]: entry["state"] for entry in json.loads(shown.stdout)}
    assert states == {
        None: "ok",
        "agent/old": "expired",
        "agent/soon": "expires_soon",
        "agent/other": "other_authority",
    }
    assert shown.returncode == 1
    text = datacast("certs", "show", folder / "agent-soon.pem")
    assert text.returncode == 0 and "agent/soon" in text.stdout and "expires soon" in text.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["issue", "CA", "robot/1"], "there is no role 'robot'"),
        (["issue", "CA", "agent"], "is no name for a certificate"),
        (["issue", "CA", "agent/a/b"], "is no name for a certificate"),
        (["issue", "CA", "agent/ä"], "is no name for a certificate"),
        (["issue", "CA", "agent/" + "x" * 200], "is no name for a certificate"),
        (["issue", "CA", "agent/a", "agent/a"], "asked for twice"),
        (["issue", "CA"], "ROLE/NAME"),
        (["issue", "CA", "--topology", "bcube:0,0"], "bcube"),
        (["issue", "CA", "agent/a", "--ip", "nowhere"], "is no IP address"),
        (["issue", "CA", "agent/a", "--dns", ""], "is no host name for a certificate"),
        (["issue", "CA", "agent/a", "--dns", "bücher.example"], "is no host name for a certificate"),
        (["issue", "NONE", "agent/a"], "datacast certs init"),
        (["show", "NONE"], "cannot read"),
        (["show", "CA/ca.key"], "is no certificate in PEM"),
        (["renew", "NONE"], "datacast certs init"),
        (["init", "FILE"], "cannot make"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, args: list[str], words: str) -> None:
    Authority.create(tmp_path / "CA", sync=False)
    (tmp_path / "FILE").write_text("x")
    places = [str(tmp_path / arg) if arg.split("/")[0] in ("CA", "NONE", "FILE") else arg for arg in args]
    done = datacast("certs", *places)
    misused = words in ("there is no role 'robot'", "is no name for a certificate", "ROLE/NAME", "bcube")
    assert done.returncode == (2 if misused else 1) and words in done.stderr, done.stderr
    assert sorted(path.name for path in (tmp_path / "CA").iterdir()) == ["ca.key", "ca.pem"]


def test_an_authority_s_name_is_cut_to_what_a_certificate_takes(tmp_path: Path) -> None:
    good("certs", "init", tmp_path / "ca", "--name", "Straße" * 20)
    assert "authority" in good("certs", "show", tmp_path / "ca")


def no_room_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the disk says it, of a file that is written beside its place."""

    def full(fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().name.startswith(f".{name}."):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable.os, "fsync", full)


def test_an_authority_that_no_room_was_for_can_be_made_when_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_room_for("ca.pem", monkeypatch)
    with pytest.raises(AuthorityError, match=r"cannot write .*ca\.pem: No space left"):
        Authority.create(tmp_path / "a")
    monkeypatch.undo()
    Authority.create(tmp_path / "a", sync=False)


def test_a_certificate_that_no_room_is_for_keeps_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that starts with a new key and the old certificate is refused everywhere."""
    authority, one = Authority.create(tmp_path / "a", sync=False), Identity.parse("agent/a")
    cert, key = authority.issue(one)
    before = cert.read_bytes(), key.read_bytes()
    no_room_for(cert.name, monkeypatch)
    with pytest.raises(AuthorityError, match=r"cannot write .*agent-a\.pem: No space left"):
        Authority.open(tmp_path / "a").issue(one, replace=True)
    assert (cert.read_bytes(), key.read_bytes()) == before
    assert not [path.name for path in cert.parent.iterdir() if path.name.startswith(".")]


def test_a_key_of_another_authority_makes_nothing(tmp_path: Path) -> None:
    Authority.create(tmp_path / "a", sync=False)
    Authority.create(tmp_path / "b", sync=False)
    (tmp_path / "a" / "ca.key").write_bytes((tmp_path / "b" / "ca.key").read_bytes())
    with pytest.raises(AuthorityError, match="is not the private key of"):
        Authority.open(tmp_path / "a")


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    made = Authority.create(tmp_path / "a", days=2, sync=False)
    cert, _ = made.issue(Identity.parse("agent/a"), days=365)
    shown = datacast("certs", "show", cert, "--json")
    assert 1.9 < json.loads(shown.stdout)[0]["days_left"] <= 2


def test_an_authority_that_has_expired_issues_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Authority.create(tmp_path / "a", sync=False)
    over = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    monkeypatch.setattr(services_authority, "end_of", lambda certificate: over)
    with pytest.raises(AuthorityError, match="has expired"):
        made.issue(Identity.parse("agent/a"))
    assert not list((tmp_path / "a").glob("agent-a.*"))


def test_links_are_not_followed(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "a", sync=False)
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "a" / "agent-x.key").symlink_to(tmp_path / "victim")
    with pytest.raises(AuthorityError, match="exists"):
        authority.issue(Identity.parse("agent/x"))
    authority.issue(Identity.parse("agent/x"), replace=True)
    assert (tmp_path / "victim").read_text() == "precious" and not (tmp_path / "a" / "agent-x.key").is_symlink()
    ssl.create_default_context().load_cert_chain(tmp_path / "a" / "agent-x.pem", tmp_path / "a" / "agent-x.key")


def test_tokens_are_made_listed_and_revoked(tmp_path: Path) -> None:
    path = tmp_path / "etc" / "tokens.json"
    made = json.loads(good("token", "create", path, "--role", "viewer", "--name", "ci", "--days", "30", "--json"))
    secret = good("token", "create", path, "--role", "admin").strip()
    assert made["token"].startswith("dct_") and made["token"] != secret
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}, "the lock, too"
    listed = json.loads(good("token", "list", path, "--json"))
    assert [entry["role"] for entry in listed] == ["viewer", "admin"] and "sha256" not in listed[0]
    assert "ci" in good("token", "list", path) and secret not in good("token", "list", path)
    good("token", "create", path, "--name", "a\n\x1b[2J")
    assert "a\\x0a\\x1b[2J" in good("token", "list", path).splitlines()[-1]
    strange = json.loads(good("token", "list", path, "--json"))[-1]["id"]
    assert "(a\\x0a\\x1b[2J)" in good("token", "revoke", path, strange)
    assert "revoked" in good("token", "revoke", path, made["id"])
    assert [entry["role"] for entry in json.loads(good("token", "list", path, "--json"))] == ["admin"]
    for args, code, words in (
        (["revoke", path, "t-none"], 1, "holds no token 't-none'"),
        (["create", path, "--role", "king"], 2, "'king' is not one of 'viewer', 'operator', 'admin'"),
        (["list", tmp_path / "none"], 1, "cannot read"),
    ):
        done = datacast("token", *args)
        assert done.returncode == code and words in done.stderr, done.stderr
