"""The changes themselves: each alters one line, in code, in a way that the language can read."""

from __future__ import annotations

import ast
import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import changes
import run

ROOT = Path(__file__).resolve().parents[2]

C = """#include <stdint.h>
#define LIMIT 4
/* a > b in a comment */
static int f(struct s *p, int n)
{
    const char *text = "a == b";
    if (p->x >= n && n != 0) {
        p->x = n - 1;
        reset(p);
    }
    return n;
}
"""
PYTHON = '''"""1 + 1 in a text."""
def f(x: int) -> int:
    if x < 3 and x != 1:
        g(x)
        x = x + 2
    return x
'''


def test_c_changes_are_in_code_only():
    found = {(c.line, c.new.strip()) for c in changes.of_c("f.c", C)}
    assert (7, "if (p->x > n && n != 0) {") in found
    assert (7, "if (p->x >= n || n != 0) {") in found
    assert (7, "if (!(p->x >= n && n != 0)) {") in found
    assert (8, "p->x = n + 1;") in found and (8, "p->x = n - 2;") in found
    assert (9, ";") in found
    assert not {line for line, _ in found} & {1, 2, 3, 6}


def test_python_changes_can_be_read_and_leave_texts_alone():
    found = list(changes.of_python("f.py", PYTHON))
    assert {c.line for c in found} == {3, 4, 5}
    for change in found:
        ast.parse(change.applied(PYTHON))
    assert "    if (not (x < 3 and x != 1)):" in {c.new for c in found}
    assert "        x = x - 2" in {c.new for c in found}
    assert "        pass" in {c.new for c in found}


def test_a_change_of_a_line_that_is_another_by_now_is_refused():
    change = next(changes.of_c("f.c", C))
    with pytest.raises(ValueError, match="not what it was"):
        change.applied(C.replace("p->x >= n", "p->y >= n"))


def test_the_lines_of_listed_mutants_are_there():
    """A row whose line is another by now would be found out only by the long run."""
    root = Path(__file__).resolve().parents[2]
    found = run.listed(root)
    assert len(found) >= 20
    for part, change in found:
        assert change.new != change.old, change
        assert all((root / tests.split()[0]).exists() for tests in part.tests), part.tests


def test_every_mistake_of_the_lists_has_its_line() -> None:
    """Or it is tried no more, as three were not when the services had changed."""
    assert run.listed(ROOT)
    for row in tomllib.loads((ROOT / "tests/clockwork/bugs.toml").read_text())["bug"]:
        spec = importlib.util.find_spec(row["module"])
        origin = spec.origin if spec else str(ROOT / "tests" / (row["module"].replace(".", "/") + ".py"))
        assert origin and Path(origin).read_text().count(row["old"]) == 1, row["name"]
