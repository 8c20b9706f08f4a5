"""A file of a model hub by its name, in a whole lab: found out by the command, fetched by hosts, checked by all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from origin_lab import HOSTS, origin_lab

sys.path.append(str(Path(__file__).parents[1] / "services_kit"))
from hub import REPO, Hub

from datacast.cli.origin import parse_origin

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

NAME = "weights.safetensors"


def test_a_hubs_file_reaches_all_and_another_one_nobody(tmp_path, monkeypatch) -> None:
    data = os.urandom(6 << 20)
    with (
        origin_lab(tmp_path) as it,
        Hub(tmp_path / "hub", it.lab.plan.root_address, (8091, 8092), {NAME: data}, {NAME}) as hub,
    ):
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        it.allow({"prefix": hub.url + "/"})
        spec = {**parse_origin(f"hf://{REPO}/{NAME}", [], "2", None), "receivers": HOSTS}
        group = it.group({**spec, "dest_path": "one"})
        assert group["state"] == "done", group
        assert all((it.lab.host_folder(name) / "one").read_bytes() == data for name in HOSTS)
        assert hub.sent() == len(data), "each byte once, from where the hub leads"
        wrong = it.group({**spec, "dest_path": "two", "sha256": 64 * "1"})
        assert wrong["state"] == "failed" and "SHA-256" in str(wrong), wrong
        for name in HOSTS:
            assert not (it.lab.host_folder(name) / "two").exists()
