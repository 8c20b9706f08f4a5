"""`datacast sites`: the file of other sites."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest
import yaml
from authority import Authority
from commands import command

from datacast.cli import sites as module
from datacast.controller.api.records import KnownSite
from datacast.controller.sites.directory import Directory
from datacast.controller.sites.naming import EVERYWHERE, split
from datacast.services import durable, sites_file
from datacast.services.sites_file import SiteError, read


def run(*words: str) -> tuple[int, str]:
    code, out, err = command("sites", *words)
    return code, out + err


def test_a_site_is_made_known_and_forgotten(tmp_path: Path):
    file, own, other = tmp_path / "sites.yaml", Authority(tmp_path / "own"), Authority(tmp_path / "other")
    assert run("init", str(file), "ams", "--url", "https://10.0.0.1:7580")[0] == 0
    assert run("init", str(file), "ams", "--url", "https://10.0.0.1:7580")[0] == 1  # it is there already
    directory = Directory(file, str(own.ca))
    assert run("add", str(file), "sfo", "--ca", str(other.ca), "--url", "https://10.0.0.2:7580")[0] == 0
    assert directory.look() and set(directory.authorities) == {"sfo"}
    assert run("add", str(file), "ams", "--ca", str(other.ca))[0] == 2  # this site's own name
    code, out = run("add", str(file), "sfo", "--ca", str(tmp_path / "none"))
    assert code == 2 and "No such file" in out and "ca.pem" in out
    (tmp_path / "text").write_text("no certificate")
    code, out = run("add", str(file), "sfo", "--ca", str(tmp_path / "text"))
    assert code == 2 and "no certificate stands there" in out
    code, out = run("add", str(file), "sfo", "--ca", other.issue("controller/main")[0])
    assert code == 2 and "the certificate is no authority's" in out
    code, out = run("add", str(file), "syd", "--ca", str(other.ca), "--url", "10.0.0.2:7580")
    assert code == 2 and "'10.0.0.2:7580' is not https://HOST:PORT" in out and "pydantic" not in out
    code, out = run("add", str(file), "all", "--ca", str(other.ca))
    assert code == 2 and "cannot be called all" in out
    assert run("init", str(tmp_path / "new.yaml"), "a b", "--url", "https://10.0.0.1:7580")[0] == 2
    assert run("remove", str(tmp_path / "new.yaml"), "sfo")[0] == 2  # there is no such file
    assert run("remove", str(file), "nobody")[0] == 1
    assert run("remove", str(file), "sfo")[0] == 0
    assert directory.look() and not directory.authorities


def test_of_two_sites_that_are_added_at_once_none_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, other = tmp_path / "sites.yaml", Authority(tmp_path / "other")
    module.init(file, "ams", "https://10.0.0.1:7580")
    second = threading.Thread(target=module.add, args=(file, "syd", Path(other.ca)))
    write = sites_file.write

    def while_another_comes(path: Path, sites: sites_file.Sites) -> None:
        if "sfo" in sites.sites and not second.ident:
            second.start()
            second.join(0.5)  # it waits for us, or is done before us
        write(path, sites)

    monkeypatch.setattr(sites_file, "write", while_another_comes)
    module.add(file, "sfo", Path(other.ca))
    second.join()
    assert set(read(file).sites) == {"sfo", "syd"}
    monkeypatch.setattr(durable, "LOCK_S", 0.05)
    with durable.locked(file):
        code, out = run("add", str(file), "oak", "--ca", str(other.ca))
    assert code == 1 and f"cannot write {file}: another process changes it" in out


def test_whose_a_certificate_is_its_authoritys_key_says_not_its_name(tmp_path: Path):
    """All authorities are called alike."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    own, other, third = (Authority(tmp_path / name) for name in ("own", "other", "third"))
    file = tmp_path / "sites.yaml"
    file.write_text(yaml.safe_dump({"name": "ams", "url": "https://h:1", "sites": {"sfo": {"ca": str(other.ca)}}}))
    directory = Directory(file, str(own.ca))

    def der(maker: Authority) -> bytes:
        path, _ = maker.issue("controller/main")
        return x509.load_pem_x509_certificate(Path(path).read_bytes()).public_bytes(Encoding.DER)

    assert [directory.whose(der(maker)) for maker in (own, other, third)] == ["", "sfo", None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a b\nurl: https://h:1", "name"),
        ("name: ams\nurl: http://h:1", "url"),
        ("name: ams\nurl: https://h:1/path", "url"),
        ("name: ams\nurl: https://u:p@h:1", "url"),
        ("name: ams\nurl: https://h:99999", "url: 'https://h:99999' is not https://HOST:PORT"),
        ("name: ams\nurl: https://h:1\nsites: {sfo: {ca: x, url: https://a..b:1}}", "'https://a..b:1' is not https"),
        ("name: ams\nurl: https://h:1\ncolour: red", "colour"),
        ("name: ams\nurl: https://h:1\nsites: {sfo: {ca: x}, sfo: {ca: y}}", "twice"),
        ("name: ams\nurl: https://h:1\nsites: {ams: {ca: x}}", "two sites of the name ams"),
        ("name: [", "no YAML"),
        ("- 1", "the file"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str, message: str):
    file = tmp_path / "sites.yaml"
    file.write_text(text)
    with pytest.raises(SiteError, match=message):
        read(file)


def test_names_of_receivers_are_split_by_site():
    told = split(["h1", "sfo/h2", "sfo/oak/all", "ams/h3"], "ams", ["sfo", "syd"], [])
    assert told.here == ["h1", "h3"] or told.here is None
    assert told.there == {"sfo": ["h2", "oak/all"]}


def test_all_below_a_site_is_for_that_site_to_find():
    deep = split(["sfo/*/all"], "ams", ["sfo", "syd"], [])
    assert deep.here is None and deep.there == {"sfo": [EVERYWHERE]}
    below = split(deep.there["sfo"], "sfo", ["ams", "oak"], ["ams", "sfo"], [])
    assert below.here == "all" and below.there == {"oak": [EVERYWHERE]}


def test_everywhere_is_here_and_all_sites_that_have_it_not():
    told = split([EVERYWHERE], "sfo", ["ams", "syd", "oak"], ["ams", "sfo"], ["oak"])
    assert told.here == "all" and told.there == {"syd": [EVERYWHERE]}
    assert split([f"sfo/{EVERYWHERE}"], "sfo", ["ams", "syd", "oak"], ["ams", "sfo"], ["oak"]) == told
    with pytest.raises(SiteError, match="leads back"):
        split(["ams/all"], "sfo", ["ams"], ["ams", "sfo"])
    with pytest.raises(SiteError, match="no site mars"):
        split(["mars/all"], "ams", ["sfo"], [])


def test_the_list_says_of_a_site_that_is_there_why_no_new_connection_leads_to_it(monkeypatch, capsys):
    class Controller:
        def sites(self) -> list[KnownSite]:
            problem = "site oak at https://oak:1: certificate has expired"
            rows = [("sfo", True, ""), ("oak", True, problem), ("syd", False, "it does not answer"), ("sjc", False, "")]
            return [KnownSite(name=n, url=None, there=t, heard_s=None, problem=why) for n, t, why in rows]

    monkeypatch.setattr(module, "connect", lambda *_: contextlib.nullcontext(Controller()))
    module.listing()
    assert [line.split("comes to us")[1].strip() for line in capsys.readouterr().out.splitlines()] == [
        "there", "there, but site oak at https://oak:1: certificate has expired", "it does not answer", "not heard of",
    ]  # fmt: skip
