"""`datacast admit` and `join`: a machine comes in once, with a key of its own; and whoever tries otherwise does not."""

from __future__ import annotations

import json
import os
import queue
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from commands import command

from datacast.core.errors import DatacastError
from datacast.services import enrolment
from datacast.services.authority import Authority, Identity, describe
from datacast.services.enrolment import Enrolment
from datacast.services.problems import Problem

DATACAST = Path(sys.executable).parent / "datacast"
SITE = """topology: bcube:2,1
controller: 127.0.0.1
hosts:
  "00": {address: 127.0.0.2, ports: [eth1, eth2]}
  "01": {address: 127.0.0.3, ports: [eth1, eth2]}
  "10": {address: 127.0.0.4, ports: [eth1, eth2]}
  "11": {address: 127.0.0.5, ports: [eth1, eth2]}
switches:
  s0.0: {address: 127.0.0.50, ports: [eth1, eth2]}
"""


class Door:
    """A running `datacast admit`."""

    def __init__(self, site: Path, *arguments: str) -> None:
        program = [str(DATACAST), "admit", str(site), "--listen", "127.0.0.1:0", "--json", *arguments]
        self.process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def next(self) -> dict[str, str]:
        return json.loads(self._lines.get(timeout=90))

    def admitted(self, count: int) -> dict[str, tuple[str, str]]:
        told = [self.next() for _ in range(count)]
        assert all(one["event"] == "admitted" for one in told)
        return {one["name"]: (one["url"], one["token"]) for one in told}


def join(root: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """With standard input: the program."""
    environment = {**os.environ, "DATACAST_ETC": str(root)}
    if not more:
        return subprocess.CompletedProcess(arguments, *command("join", *arguments, environment=environment))
    return subprocess.run(
        [str(DATACAST), "join", *arguments], capture_output=True, text=True, timeout=60, env=environment, **more
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("join")
    (folder / "site.yaml").write_text(SITE)
    code, _, told = command("init", folder / "site.yaml", folder / "site")
    assert code == 0, told
    return folder / "site"


@pytest.fixture
def door(site: Path):
    opened: list[Door] = []

    def make(*arguments: str) -> Door:
        opened.append(Door(site, *arguments))
        return opened[-1]

    yield make
    for one in opened:
        one.process.terminate()
        one.process.wait(60)


@pytest.mark.slow
def test_a_machine_joins_with_a_key_of_its_own(site: Path, door, tmp_path: Path) -> None:
    here = door("00", "s0.0")
    tokens = here.admitted(2)
    done = join(tmp_path / "a", *tokens["00"])
    assert done.returncode == 0 and "agent/00" in done.stdout, done.stderr
    assert here.next() == {"event": "joined", "name": "00", "address": "127.0.0.1"}
    tls = tmp_path / "a" / "tls"
    authority = Authority.open(site / "authority").certificate
    assert describe(tls / "agent.pem", authority).identity == "agent/00"
    assert (tls / "agent.key").stat().st_mode & 0o777 == 0o600
    ssl.create_default_context(cafile=tls / "ca.pem").load_cert_chain(tls / "agent.pem", tls / "agent.key")
    assert "listen: 127.0.0.2:7600" in (tmp_path / "a" / "agent.yaml").read_text()
    # The same as the tarball of `init`, but for the key, which is nowhere on the site's side.
    key = (tls / "agent.key").read_text()
    assert not [path for path in site.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    # By standard input; and the door closes behind the last one.
    done = join(tmp_path / "s", tokens["s0.0"][0], "-", input=tokens["s0.0"][1] + "\n")
    assert done.returncode == 0 and (tmp_path / "s" / "switch.yaml").exists(), done.stderr
    assert here.process.wait(60) == 0
    assert {path.name for path in (site / "joined").iterdir()} == {"agent-00.pem", "switch-s0.0.pem"}


@pytest.mark.slow
@pytest.mark.parametrize(("listen", "told"), [("127.0.0.9:0", "127.0.0.9"), ("0.0.0.0:0", "127.0.0.1")])
def test_machines_are_told_where_the_door_is_and_of_all_addresses_the_controllers(door, listen: str, told: str) -> None:
    url, _ = door("00", "--listen", listen).admitted(1)["00"]
    assert url.startswith(f"https://{told}:")


@pytest.mark.slow
def test_a_token_counts_once(door, tmp_path: Path) -> None:
    url, token = (here := door("00", "01")).admitted(2)["00"]
    assert join(tmp_path / "one", url, token).returncode == 0
    here.next()
    again = join(tmp_path / "two", url, token)
    assert again.returncode == 1 and "used already" in again.stderr and not (tmp_path / "two" / "agent.yaml").exists()
    assert "used already" in here.next()["why"]
    # And a machine that is enrolled is not enrolled over.
    assert "is enrolled" in join(tmp_path / "one", url, token).stderr


def test_a_token_expires(door, tmp_path: Path) -> None:
    here = door("00", "--minutes", "0.01")
    url, token = here.admitted(1)["00"]
    assert here.next() == {"event": "missing", "name": "00"}
    assert here.process.wait(60) == 1
    assert "does not answer" in join(tmp_path, url, token).stderr


def test_tokens_end_by_the_clock_that_they_were_made_by(site: Path) -> None:
    door = Enrolment(Authority.open(site / "authority"), lambda identity, certificate: b"")
    token = door.admit(Identity.parse("agent/00"), now=100, seconds=60)
    assert [str(one) for one in door.waits(159)] == ["agent/00"] and not door.waits(160)
    for now, code in ((160, "expired"), (1e9, "expired")):
        with pytest.raises(Problem) as refused:
            door.join(token.rpartition("-")[2], _request("ec:prime256v1"), now, _written)
        assert refused.value.code == code
    who = list[Identity]()
    door.join(token.rpartition("-")[2], _request("ec:prime256v1"), 159, lambda one, certificate: who.append(one))
    assert [str(one) for one in who] == ["agent/00"]


def test_a_token_is_used_by_who_got_something_for_it(site: Path) -> None:
    packs = [b"what it needs"]

    def pack(identity: Identity, certificate: bytes) -> bytes:
        if packs:
            raise OSError(packs.pop())
        return b"all"

    door = Enrolment(Authority.open(site / "authority"), pack)
    token = door.admit(Identity.parse("agent/00"), now=100, seconds=60).rpartition("-")[2]
    with pytest.raises(OSError, match="what it needs"):
        door.join(token, _request("ec:prime256v1"), 101, _written)
    assert door.join(token, _request("ec:prime256v1"), 102, _written) == b"all"
    with pytest.raises(Problem, match="used already"):
        door.join(token, _request("ec:prime256v1"), 103, _written)


@pytest.mark.slow
def test_a_token_whose_certificate_cannot_be_written_down_is_not_spent(site: Path, door, tmp_path: Path) -> None:
    """As on a full disk: here a folder is in the way."""
    here = door("11")
    url, token = here.admitted(1)["11"]
    (site / "joined" / "agent-11.pem").mkdir()
    done = join(tmp_path, url, token)
    assert done.returncode == 1 and "cannot be written down: Is a directory" in done.stderr, done.stderr
    assert "cannot be written down" in here.next()["why"]
    (site / "joined" / "agent-11.pem").rmdir()
    assert join(tmp_path, url, token).returncode == 0
    assert here.next()["event"] == "joined" and here.process.wait(60) == 0


def test_no_more_tokens_are_out_than_a_look_at_all_of_them_may_cost(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enrolment, "ADMISSIONS_MAX", 2)
    door = Enrolment(Authority.open(site / "authority"), lambda identity, certificate: b"")
    for host in ("00", "01"):
        door.admit(Identity.parse(f"agent/{host}"), now=100, seconds=60)
    with pytest.raises(DatacastError, match="2 tokens are out, that is the most"):
        door.admit(Identity.parse("agent/10"), now=100, seconds=60)
    assert [str(one) for one in door.waits(101)] == ["agent/00", "agent/01"]


@pytest.mark.slow
def test_other_tokens_and_other_requests_are_refused(site: Path, door, tmp_path: Path) -> None:
    here = door("00")
    url, token = here.admitted(1)["00"]
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    done = join(tmp_path, url, wrong)
    assert done.returncode == 1 and "not known" in done.stderr and here.next()["event"] == "refused"
    assert "no token" in join(tmp_path, url, "nonsense").stderr
    with httpx.Client(verify=False, trust_env=False, timeout=60.0) as client:
        secret = {"authorization": f"Bearer {token.rpartition('-')[2]}"}
        assert client.post(f"{url}/join", content=b"").status_code == 401
        assert client.post(f"{url}/join", content=b"x", headers=secret).status_code == 422
        assert client.post(f"{url}/join", content=b"x" * 9000, headers=secret).status_code == 413
        for request in (_request("rsa:2048"), _torn(_request("ec:prime256v1"))):
            answer = client.post(f"{url}/join", content=request, headers=secret)
            assert answer.status_code == 422, answer.text
        assert client.get(f"{url}/docs").status_code == 404
    # None of that has spent the token; and what a request calls itself counts for nothing.
    with httpx.Client(verify=False, trust_env=False, timeout=60.0) as client:
        answer = client.post(
            f"{url}/join", content=_request("ec:prime256v1", "/CN=controller\\/main"), headers=secret, timeout=90
        )
    assert answer.status_code == 200
    assert here.process.wait(60) == 0
    assert describe(site / "joined" / "agent-00.pem").identity == "agent/00"


@pytest.mark.slow
def test_whoever_answers_for_another_authority_gets_no_secret(site: Path, door, tmp_path: Path) -> None:
    """Somebody in the middle: its certificate, and the authority that it shows, are its own."""
    real = door("00")
    _, token = real.admitted(1)["00"]
    (tmp_path / "site.yaml").write_text(SITE)
    other = tmp_path / "other"
    assert command("init", tmp_path / "site.yaml", other)[0] == 0
    middle = Door(other, "00")
    try:
        url, _ = middle.admitted(1)["00"]
        done = join(tmp_path / "etc", url, token)
        assert done.returncode == 1 and "not of the site" in done.stderr
        # The real authority shown, but a door whose key it has not signed: the secret is not sent either.
        (other / "authority" / "ca.pem").write_bytes((site / "authority" / "ca.pem").read_bytes())
        done = join(tmp_path / "etc", url, token)
        assert done.returncode == 1 and "connection was lost" in done.stderr, done.stderr
        middle.process.terminate()
        assert middle.next()["event"] == "missing"  # nothing was refused: no request came
    finally:
        middle.process.terminate()
        middle.process.wait(60)


def test_an_unknown_machine_and_a_folder_without_a_site_are_named(site: Path, tmp_path: Path) -> None:
    done = subprocess.CompletedProcess("admit", *command("admit", site, "77"))
    assert done.returncode == 2 and "no 77" in done.stderr and f"{site}/site.yaml and" in done.stderr
    done = subprocess.CompletedProcess("admit", *command("admit", tmp_path))
    assert done.returncode == 2 and "site.yaml" in done.stderr


def _written(identity: Identity, certificate: bytes) -> None:
    """There is room for it."""


def _request(kind: str, subject: str = "/CN=x") -> bytes:
    algorithm, _, detail = kind.partition(":")
    new = (
        ["-newkey", f"rsa:{detail}"]
        if algorithm == "rsa"
        else ["-newkey", "ec", "-pkeyopt", f"ec_paramgen_curve:{detail}"]
    )
    done = subprocess.run(
        ["openssl", "req", "-new", *new, "-nodes", "-keyout", "/dev/null", "-subj", subject],
        capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout


def _torn(request: bytes) -> bytes:
    """With another signature: the last bytes of it changed."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    der = bytearray(x509.load_pem_x509_csr(request).public_bytes(Encoding.DER))
    der[-1] ^= 1
    return x509.load_der_x509_csr(bytes(der)).public_bytes(Encoding.PEM)
