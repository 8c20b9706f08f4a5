"""The constants of C, Python and P4 come from one table, libdatacast/wire.yaml."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from datacast.core import constants as c

TABLE = Path("libdatacast/wire.yaml")
GENERATOR = Path("libdatacast/tools/gen_constants.py")
GENERATED = (
    "libdatacast/include/datacast/constants.h",
    "libdatacast/python/constants.py",
    "p4src/include/constants.p4",
)


def generate(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, root / GENERATOR, *options], capture_output=True, text=True, check=False)


@pytest.fixture
def copy(project: Path, tmp_path: Path) -> Path:
    """The table, the generator and what it wrote, apart from the source tree."""
    for name in (TABLE, GENERATOR, *GENERATED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project / name, tmp_path / name)
    return tmp_path


def test_the_committed_files_are_what_the_table_gives(project: Path) -> None:
    done = generate(project, "--check")
    assert done.returncode == 0, done.stderr


def test_a_change_of_the_table_is_noticed_in_every_language_and_written(copy: Path) -> None:
    table = copy / TABLE
    table.write_text(table.read_text().replace("LABEL_LOCAL: 1000", "LABEL_LOCAL: 1001"))
    done = generate(copy, "--check")
    assert done.returncode == 1
    for name in GENERATED:
        assert name in done.stderr
    assert generate(copy).returncode == 0
    assert generate(copy, "--check").returncode == 0
    assert "#define DC_LABEL_LOCAL 1001u" in (copy / GENERATED[0]).read_text()
    assert "const bit<20> LABEL_LOCAL = 1001;" in (copy / GENERATED[2]).read_text()


def test_an_edit_of_a_generated_file_is_noticed(copy: Path) -> None:
    path = copy / GENERATED[2]
    path.write_text(path.read_text().replace("1024", "1025"))
    done = generate(copy, "--check")
    assert done.returncode == 1 and GENERATED[2] in done.stderr and GENERATED[0] not in done.stderr


def test_a_header_of_another_length_is_refused(copy: Path) -> None:
    table = copy / TABLE
    table.write_text(table.read_text().replace("more: 8", "more: 16"))
    done = generate(copy)
    assert done.returncode != 0 and "HEADER_LEN" in done.stderr


def test_c_and_python_agree_on_every_value(project: Path) -> None:
    header = (project / GENERATED[0]).read_text()
    defined = {name: int(value, 0) for name, value in re.findall(r"#define DC_([A-Z0-9_]+) (\w+?)u\b", header)}
    python = {name: value for name, value in vars(c).items() if name.isupper() and isinstance(value, int)}
    assert python and {name: defined[name] for name in python} == python
