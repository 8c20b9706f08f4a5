"""Files that people write: what cannot be read is a clear error that names the file, whatever is in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from datacast import topologies
from datacast.cli import site_file
from datacast.controller.southbound import config
from datacast.core.errors import DatacastError
from datacast.lab import sites
from datacast.services import sites_file, tokens, yaml_file
from datacast.services.authority import Authority
from datacast.services.store import open_store

READERS = {
    "sites": sites_file.read,
    "switches": config.load,
    "site": site_file.load,
    "lab's sites": sites.read,
    "topology": topologies.from_file,
}
DEEP, DEEPER = b"[" * 700 + b"]" * 700, b"[" * 5000 + b"]" * 5000
"""YAML's reader does not stand the first, and takes a second to give the second up; JSON's stands the first."""
STRANGE = {
    "empty": b"",
    "binary": b"\xff\xfe\x00\x01",
    "a list": b"- a\n- b\n",
    "a word": b"hello\n",
    "not closed": b"{a: [1, 2\n",
    "a list as key": b"? [a, b]\n: c\n",
    "a mapping as key": b"? {a: b}\n: c\n",
    "deep": DEEP,
    "deep in an object": b'{"a":' + DEEP + b"}",
    "an alias of nothing": b"a: *b\n",
    "an object": b"!!python/object/apply:os.system [true]\n",
    "a key that is none": b"nonsense: 1\n",
    "a day that is none": b"a: 2001-99-99\n",
    "a number of many digits": b"a: " + b"9" * 5000 + b"\n",
    "a key twice": b"a: 1\na: 2\n",
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", STRANGE)
def test_what_cannot_be_read_is_told_with_the_file_s_name(reader: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / f"file.{'json' if reader == 'topology' else 'yaml'}"
    content = STRANGE[what].replace(DEEP, DEEPER if reader == "topology" else DEEP)
    path.write_bytes(content)
    read: Callable[[Path], Any] = READERS[reader]
    with pytest.raises(DatacastError) as error:
        read(path)
    assert str(path) in f"{error.value.message} {error.value.what} {error.value.where}"


@pytest.mark.parametrize("reader", [name for name in READERS if name != "topology"])
def test_no_key_stands_twice_and_no_file_is_read_for_ever(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a host that is named twice the last line would count; of a file that is cut what had room."""
    path = tmp_path / "file.yaml"
    path.write_text("a: 1\na: 2\n")
    with pytest.raises(DatacastError, match="a stands there twice"):
        READERS[reader](path)
    monkeypatch.setattr(sites_file, "FILE_MAX", 1 << 20)
    with open(path, "r+b") as file:
        file.truncate(yaml_file.BYTES_MAX + 1)
    with pytest.raises(DatacastError, match="is longer than"):
        READERS[reader](path)


def test_a_mapping_may_take_another_in(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("usual: &usual {a: 1, b: 2}\nown: {b: 3, <<: *usual}\n")
    assert yaml_file.read(path)["own"] == {"a": 1, "b": 3}


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGED = "a: &a {k: v}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 10)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("content", [LAUGHS, MERGED], ids=["lists", "mappings"])
def test_what_aliases_repeat_has_a_bound(content: str, tmp_path: Path) -> None:
    """A billion values in nine lines: whoever shows them, or takes them into a mapping, would never be done."""
    path = tmp_path / "file.yaml"
    path.write_text(content)
    with pytest.raises(yaml_file.YamlError, match="repeats more than 100000 values by its aliases"):
        yaml_file.read(path)
    path.write_text("".join(content.splitlines(keepends=True)[:4]))
    assert set(yaml_file.read(path)) == set("abcd")


def test_an_alias_is_no_part_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("a: &a [1, *a]\n")
    with pytest.raises(yaml_file.YamlError, match="part of itself"):
        yaml_file.read(path)


def test_a_port_of_tcp_has_16_bits(tmp_path: Path) -> None:
    for port in (0, 9999, 49999, 65535):
        assert config.parse({"switches": [], "openflow_listen": f"127.0.0.1:{port}"})
    for port in ("65536", "99999", "x", ""):
        with pytest.raises(DatacastError, match="an address and a port"):
            config.parse({"switches": [], "openflow_listen": f"127.0.0.1:{port}"})


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_not_there_is_named(reader: str, tmp_path: Path) -> None:
    with pytest.raises(DatacastError, match="o such file"):
        READERS[reader](tmp_path / "none.json")


def test_a_site_stands_once_and_the_file_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sites.yaml"
    one = "{url: 'https://10.0.0.1:7580', ca: ca.pem}"
    path.write_text(f"name: ams\nurl: https://10.0.0.9:7580\nsites:\n  sfo: {one}\n  sfo: {one}\n")
    with pytest.raises(sites_file.SiteError, match="sfo stands there twice"):
        sites_file.read(path)
    path.write_text(f"name: ams\nurl: https://10.0.0.9:7580\nsites:\n  ams: {one}\n")
    with pytest.raises(sites_file.SiteError, match="two sites of the name ams"):
        sites_file.read(path)
    path.write_text("name: ams\nurl: https://10.0.0.9:7580 # \u00e9\n", encoding="utf-8")
    monkeypatch.setattr(sites_file, "FILE_MAX", path.stat().st_size)
    assert sites_file.read(path).name == "ams"
    monkeypatch.setattr(sites_file, "FILE_MAX", path.stat().st_size - 1)
    with pytest.raises(sites_file.SiteError, match="longer than"):
        sites_file.read(path)


async def _opened(path: Path) -> None:
    store = open_store(str(path))
    await store.put("key", "value", 0)
    await store.close()


def _store(path: Path) -> None:
    asyncio.run(_opened(path))


@pytest.mark.parametrize(
    "make, secret",
    [
        pytest.param(lambda path: tokens.create(path, "me", "admin"), True, id="tokens"),
        pytest.param(lambda path: Authority.create(path.parent), True, id="an authority"),
        pytest.param(_store, False, id="a store"),
    ],
)
def test_folders_that_a_file_is_to_lie_in_are_made(make: Callable[[Path], Any], secret: bool, tmp_path: Path) -> None:
    for folder in (tmp_path / "a" / "b", tmp_path / "a" / "c", tmp_path / "there"):
        (tmp_path / "there").mkdir(exist_ok=True)
        make(folder / "file")
        assert any(folder.iterdir())
    assert not secret or (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    mine = sites_file.Sites.model_validate({"name": "ams", "url": "https://10.0.0.9:7580"})
    with pytest.raises(sites_file.SiteError, match="cannot write"):
        sites_file.write(tmp_path / "none" / "sites.yaml", mine)
    sites_file.write(tmp_path / "sites.yaml", mine)
    assert sites_file.read(tmp_path / "sites.yaml") == mine


def test_a_switch_s_name_fits_into_a_discovery_frame() -> None:
    """One of more bytes ended the thread that sends them, and with it the controller's leases."""
    for count, fits in ((63, True), (64, False)):
        switch = {"name": "\U0001f600" * count, "openflow": {"dpid": 1}, "ports": []}
        if fits:
            assert config.parse({"switches": [switch]})
        else:
            with pytest.raises(DatacastError, match="longer than 255 bytes"):
                config.parse({"switches": [switch]})
