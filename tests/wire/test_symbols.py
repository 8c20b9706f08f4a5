"""The check that keeps the core sans-I/O notices what it is there to notice."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ALLOWED = "#include <string.h>\nint f(const char *s); int f(const char *s) { return (int)strlen(s); }\n"
FOREIGN = {
    "clock_gettime": "#include <time.h>\nint f(void *t); int f(void *t) { return clock_gettime(0, t); }\n",
    "malloc": "#include <stdlib.h>\nvoid *f(void); void *f(void) { return malloc(7); }\n",
    "random": "#include <stdlib.h>\nlong f(void); long f(void) { return random(); }\n",
    "send": '#include <sys/socket.h>\nlong f(void); long f(void) { return send(0, "", 0, 0); }\n',
}


def check(project: Path, tmp_path: Path, *sources: str) -> subprocess.CompletedProcess[str]:
    objects = []
    for i, source in enumerate(sources):
        c = tmp_path / f"part{i}.c"
        c.write_text(source.replace(" f(", f" f{i}("))
        objects.append(c.with_suffix(".o"))
        subprocess.run(["gcc", "-O2", "-fPIC", "-c", c, "-o", objects[-1]], check=True)
    archive = tmp_path / "part.a"
    subprocess.run(["ar", "rcs", archive, *objects], check=True)
    script = project / "libdatacast" / "tools" / "check_symbols.sh"
    return subprocess.run([script, archive], capture_output=True, text=True, check=False)


def test_memory_and_string_functions_pass(project: Path, tmp_path: Path) -> None:
    done = check(project, tmp_path, ALLOWED, ALLOWED)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", FOREIGN)
def test_anything_else_is_named(project: Path, tmp_path: Path, name: str) -> None:
    done = check(project, tmp_path, ALLOWED, FOREIGN[name].replace("void *f(", "void * f("))
    assert done.returncode == 1 and name in done.stderr.split()


def test_an_archive_without_code_is_no_proof(project: Path, tmp_path: Path) -> None:
    done = check(project, tmp_path, "")
    assert done.returncode == 2 and "nothing" in done.stderr
