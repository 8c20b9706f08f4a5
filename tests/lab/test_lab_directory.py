"""A directory in a whole lab, over REST, to all hosts."""

from __future__ import annotations

import os

import pytest
from origin_lab import HOSTS, origin_lab

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]


def test_a_directory_reaches_all_hosts(tmp_path) -> None:
    with origin_lab(tmp_path) as it:
        top = it.lab.host_folder("h0") / "model"
        (top / "a").mkdir(parents=True)
        (top / "a" / "weights").write_bytes(os.urandom(3 << 20))
        (top / "run").write_text("#!/bin/sh\n")
        (top / "run").chmod(0o755)
        (top / "latest").symlink_to("a/weights")
        group = it.group({"source": "h0", "source_path": str(top), "receivers": HOSTS[1:], "dest_path": "models/one"})
        assert group["state"] == "done", group
        for name in HOSTS[1:]:
            got = it.lab.host_folder(name) / "models" / "one"
            assert (got / "a" / "weights").read_bytes() == (top / "a" / "weights").read_bytes()
            assert (got / "run").stat().st_mode & 0o777 == 0o755 and os.readlink(got / "latest") == "a/weights"
            assert sorted(p.name for p in got.parent.iterdir()) == ["one"], "nothing else stays"
        many = it.lab.host_folder("h0") / "many"
        for n in range(20):
            (many / str(n)).mkdir(parents=True)
            for k in range(250):
                (many / str(n) / str(k)).touch()
        group = it.group({"source": "h0", "source_path": str(many), "receivers": HOSTS[1:3], "dest_path": "many"})
        assert group["state"] == "done", group
        for name in HOSTS[1:3]:
            assert len(list((it.lab.host_folder(name) / "many").rglob("*"))) == 5_020
        again = it.group({"source": "h0", "source_path": str(top), "receivers": HOSTS[1:2], "dest_path": "models/one"})
        assert again["state"] == "failed" and "is a folder that is there already" in str(again), again
