"""What a hub and a registry have, by its name, in a whole lab: found out, fetched by some hosts, checked by all."""

from __future__ import annotations

import json
import os

import pytest
from hub import REPO, Hub
from origin_lab import HOSTS, OriginLab, origin_lab
from registry import Registry, certificate, sha256

from datacast.cli.origin import parse_origin
from datacast.fabric_manager.api.specs import given

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

NAME = "weights.safetensors"


@pytest.fixture(scope="module")
def it(tmp_path_factory):
    with origin_lab(tmp_path_factory.mktemp("hub")) as made:
        yield made


def test_a_hubs_file_reaches_all_and_another_one_nobody(it: OriginLab, tmp_path, monkeypatch) -> None:
    data = os.urandom(6 << 20)
    with Hub(tmp_path / "hub", it.lab.plan.root_address, (8091, 8092), {NAME: data}, {NAME}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        it.allow({"prefix": hub.url + "/"})
        spec = {**given(parse_origin(f"hf://{REPO}/{NAME}", [], "2", None)), "receivers": HOSTS}
        group = it.group({**spec, "dest_path": "one"})
        assert group["state"] == "done", group
        assert all((it.lab.host_folder(name) / "one").read_bytes() == data for name in HOSTS)
        assert hub.sent() == len(data), "each byte once, from where the hub leads"
        wrong = it.group({**spec, "dest_path": "two", "sha256": 64 * "1"})
        assert wrong["state"] == "failed" and "SHA-256" in str(wrong), wrong
        for name in HOSTS:
            assert not (it.lab.host_folder(name) / "two").exists()


def test_a_whole_repository_is_one_group(it: OriginLab, tmp_path, monkeypatch) -> None:
    files = {NAME: os.urandom(3 << 20), "config.json": b"{}", "tokenizer/merges.txt": os.urandom(70_000), "empty": b""}
    with Hub(tmp_path / "hub", it.lab.plan.root_address, (8093, 8094), files, {NAME}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        it.allow({"prefix": hub.url + "/"})
        spec = {**given(parse_origin(f"hf://{REPO}", [], "3", None)), "receivers": HOSTS}
        group = it.group(spec)
        assert group["state"] == "done", group
        for name in HOSTS:
            top = it.lab.host_folder(name) / "llama"
            assert {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file()} == files
        assert hub.sent() == sum(map(len, files.values())), "each byte once"
        changed = [part | ({"sha256": 64 * "1"} if part["path"] == NAME else {}) for part in spec["parts"]]
        wrong = it.group({**spec, "dest_path": "two", "parts": changed})
        assert wrong["state"] == "failed" and NAME in str(wrong["error"]) and "SHA-256" in str(wrong["error"]), wrong
        (hub.www / "cdn" / "config.json").unlink()
        gone = it.group({**spec, "dest_path": "three"})
        assert gone["state"] == "failed" and gone["error"]["code"] == "not_found" and "config.json" in str(gone), gone
        assert not any((it.lab.host_folder(name) / other).exists() for name in HOSTS for other in ("two", "three"))


def test_an_image_arrives_as_a_layout_that_others_read(it: OriginLab, tmp_path, monkeypatch) -> None:
    address = it.lab.plan.root_address
    tls = certificate(tmp_path, address)
    monkeypatch.setenv("SSL_CERT_FILE", str(tls[0]))
    with Registry(tmp_path / "registry", address, 5000, tls) as registry:
        layers = [os.urandom(2 << 20), os.urandom(100_000)]
        digest = registry.push("team/app", "v1", layers)
        it.allow({"prefix": registry.url + "/", "ca": str(tls[0])})
        spec = {**given(parse_origin(f"oci://{address}:5000/team/app:v1", [], "2", None)), "receivers": HOSTS}
        group = it.group(spec)
    assert group["state"] == "done", group
    for name in HOSTS:
        top = it.lab.host_folder(name) / "app-v1"
        [row] = json.loads((top / "index.json").read_text())["manifests"]
        assert row["digest"] == digest
        for blob in (digest, *map(sha256, layers)):
            assert sha256((top / "blobs" / "sha256" / blob[7:]).read_bytes()) == blob
