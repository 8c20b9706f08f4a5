"""A collective fetch from an S3 server in a whole lab, and a look at everything that the lab has written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from origin_lab import HOSTS, origin_lab
from s3 import BUCKET, S3, program

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

SIZE = 8 << 20


def written(folders: list[Path], secret: bytes) -> list[Path]:
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [path for path in files if secret in path.read_bytes()]


def test_an_object_of_a_bucket_reaches_all_and_its_key_nobody(tmp_path) -> None:
    program()
    with origin_lab(tmp_path) as it, S3(tmp_path / "s3", it.lab.plan.root_address, 7070) as s3:
        it.allow(s3.entry())
        (tmp_path / "object").write_bytes(os.urandom(SIZE))
        s3.put_in_parts("llama.bin", (tmp_path / "object").read_bytes(), 5 << 20)
        report = it.fetch(f"s3://{BUCKET}/llama.bin", tmp_path / "object", 2)
        assert report["ok"], report
        assert len(report["receivers"]) == len(HOSTS)
        folders = [it.lab.work, it.lab.run_folder]
        assert written(folders, b"llama.bin"), "the group's record is among the files"
        for hidden in (s3.secret, s3.access):
            assert not written(folders, hidden.encode())
