"""The changes themselves: each alters one line, in code, in a way that the language can read."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import changes
import cover
import run
from tree import HERE, Tree

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
    y = (x is None) == (x not in (3, 4))
    return x <= (3 if y else 4)
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
    assert {c.line for c in found} == {3, 4, 5, 6, 7}
    assert "y = (x is None) != (x not in (3, 4))" in {c.new.strip() for c in found}
    assert "y = (x is None) == (x in (3, 4))" in {c.new.strip() for c in found}
    assert "return x < (3 if y else 4)" in {c.new.strip() for c in found}
    for change in found:
        ast.parse(change.applied(PYTHON))
    assert "    if (not (x < 3 and x != 1)):" in {c.new for c in found}
    assert "        x = x - 2" in {c.new for c in found}
    assert "        pass" in {c.new for c in found}


def test_what_no_test_could_tell_is_not_drawn() -> None:
    c = """int f(int n)
{
  log_warn("%d", n + 1);
  log_error("a long one: %d",
            n + 2);
  return n + 3;
}
static void prefetch_all(int n)
{
  touch(n + 4);
}
int g(int n)
{
  return n + 5;
}
"""
    assert {change.line for change in changes.of_c("f.c", c)} == {6, 14}
    python = """@dataclass(frozen=True, order=True)
class A(Struct, gc=False):
    x: Literal[3]
    y: Annotated[int, Le(4)] = 5

def f(n: Literal[1] = 2) -> Literal[6]:
    log.info("%d", n + 1)
    parser.add_argument("--n", default=7, help="so many: %d" % 8)
    return zip(range(n + 9), strict=True)
"""
    said = {change.new.strip() for change in changes.of_python("f.py", python)}
    assert {line for line in said if "strict" in line} == {
        "return zip(range(n - 9), strict=True)",
        "return zip(range(n + 10), strict=True)",
    }
    assert "@dataclass(frozen=True, order=False)" in said and "@dataclass(frozen=False, order=True)" not in said
    assert "y: Annotated[int, Le(5)] = 5" in said and "y: Annotated[int, Le(4)] = 6" in said
    assert "def f(n: Literal[1] = 3) -> Literal[6]:" in said
    assert {line for line in said if "add_argument" in line} == {
        'parser.add_argument("--n", default=8, help="so many: %d" % 8)'
    }
    assert not {line for line in said if line.startswith(("class", "x:", "log"))}


def test_a_change_of_a_line_that_is_another_by_now_is_refused():
    change = next(changes.of_c("f.c", C))
    with pytest.raises(ValueError, match="not what it was"):
        change.applied(C.replace("p->x >= n", "p->y >= n"))


def test_a_change_that_the_compiler_makes_the_same_of_is_known_and_one_that_does_not_build(tmp_path: Path) -> None:
    tree = Tree()
    tree.path, tree.log = tmp_path, tmp_path / "log"
    (tmp_path / "build").mkdir()

    def of(body: str) -> bytes | None:
        (tmp_path / "f.c").write_text(f"unsigned f(unsigned n);\nunsigned f(unsigned n)\n{{\n  {body}\n}}\n")
        return run.compiled(tree, "f.c")

    assert of("return 2 * n;") == of("return n + n;") is not None
    assert of("return 2 * n;") != of("return 3 * n;")
    assert of("return m;") is None


def test_a_change_of_the_core_meets_its_tests_in_c_those_named_as_its_file_first() -> None:
    """For some hours of 27 November they were built and not run: whatever was changed in the core would survive."""
    (build,) = {part.build for part in run.parts() if part.name in ("core", "trees", "rule")}
    done = subprocess.run(
        f"{build} --dry-run",
        shell=True,
        cwd=ROOT,
        env=Tree().environment | {"CHANGED": "trees_set"},
        capture_output=True,
    )
    asked = re.search(rb"for t in (.*?);", done.stdout)
    assert asked and asked[1].split()[0].endswith(b"/test_trees"), done.stderr
    assert len(asked[1].split()) == len(list(ROOT.glob("libdatacast/tests/test_*.c")))


@pytest.mark.parametrize(
    ("broad", "outcome"),
    [
        ("! grep -q 'n - 1' f.c", ("killed", run.BROADLY)),
        ("true", ("survived", "")),
        ("false", ("survived", "")),  # it fails without the change, too
    ],
)
def test_what_passes_all_tests_of_its_part_meets_what_is_broader(
    broad: str, outcome: tuple[str, str], tmp_path: Path
) -> None:
    tree = Tree()
    tree.path, tree.log = tmp_path, tmp_path / "log"
    (tmp_path / "build").mkdir()
    text = "int f(int n);\nint f(int n)\n{\n  return n + 1;\n}\n"
    (tmp_path / "f.c").write_text(text)
    change = next(change for change in changes.of_c("f.c", text) if change.new == "  return n - 1;")
    part = run.Part("a", 1, ["f.c"], [], broad=broad)
    result = run.Campaign("", cover.Cover()).attempt(tree, part, change)
    assert (result.outcome, result.by) == outcome
    assert (tmp_path / "f.c").read_text() == text


def test_a_change_that_is_known_to_mean_nothing_is_not_tried(tmp_path: Path) -> None:
    (path, old, new), _ = next(iter(run.equivalent().items()))
    tree, change = Tree(), changes.Change(path, 1, old, new, "")
    tree.path = tmp_path
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(old)
    result = run.Campaign("", cover.Cover()).attempt(tree, run.Part("a", 1, [], [], build="false"), change)
    assert result.outcome == "survived" and (tmp_path / path).read_text() == old


def test_two_programs_of_one_name_say_each_for_itself_what_they_reach(tmp_path: Path) -> None:
    """Of a switch built with ASan, which most tests start, nothing was known until 29 November."""
    marks = tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "f.c").write_text("int main(void) { return 0; }\n")
    mark = tmp_path / "reached.o"
    subprocess.run(["gcc", "-c", str(HERE / "reached.c"), "-o", str(mark)], check=True)
    gcc = ["gcc", "-fsanitize-coverage=trace-pc", str(tmp_path / "f.c"), str(mark)]
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        subprocess.run([*gcc, "-o", str(tmp_path / folder / "f")], check=True)
        subprocess.run(["./f"], check=True, cwd=tmp_path / folder, env={"DATACAST_REACH": str(marks)})
    programs = [Path(path.name.replace("!", "/")) for path in marks.iterdir()]
    assert sorted(programs) == [tmp_path / "one/f", tmp_path / "two/f"]


def test_what_hangs_is_ended_and_says_so(tmp_path: Path) -> None:
    tree = Tree()
    tree.path, tree.log = tmp_path, tmp_path / "log"
    assert tree.run("exit 3") == 3 and tree.run("sleep 300", limit=0.2) is None


def test_quick_tests_go_first_and_slow_ones_last() -> None:
    seconds = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 30.0, "e": 1.0}
    assert cover.in_parts(list(seconds), seconds, (4.0, 25.0)) == [["a", "b"], ["c"], ["d", "e"]]


def test_tests_that_could_not_run_say_nothing_about_what_is_reached() -> None:
    """Of an agent that was not built for five minutes, 360 tests reached nothing, and every change of it survived."""
    assert cover.spoilt("E  1 passed\n====\n20 passed, 340 errors in 446.01s\n") and cover.spoilt("1 failed in 1s\n")
    assert not cover.spoilt("2 failed, 97 passed in 9s") and not cover.spoilt("97 passed, 3 skipped in 9s\n")


def test_the_test_that_failed_is_known_whatever_its_parameters_are() -> None:
    plain, said, spaced = (f"tests/a/test_a.py::test_b{end}" for end in ("", "[it's - so]", "[x y]"))
    campaign = run.Campaign("", cover.Cover(dict.fromkeys([plain, said, spaced], 1.0)))
    assert campaign.failed(f"1 failed\nFAILED {said} - AssertionError: [x]\nFAILED {plain}\n") == said
    assert campaign.failed(f"ERROR {spaced}\n") == spaced and campaign.failed("FAILED tests/c.py::test_c\n") == ""
    assert shlex.split(run.pytest([said, plain]))[-2:] == [said, plain]


def test_who_speaks_of_a_name_is_asked_about_what_it_stands_for(tmp_path: Path) -> None:
    """A module's line is read before any test begins."""
    (tmp_path / "a.py").write_text("ROOM = 3\n\n\ndef room() -> int:\n    return ROOM\n")
    (tmp_path / "b.py").write_text("HEADROOM = 4\n")
    known = cover.Cover({"tests/a/test_a.py::test_room": 1.0})
    known.lines["a.py"][5].add("tests/a/test_a.py::test_room")
    known.lines["b.py"][1].add("tests/a/test_b.py::test_other")
    tree, part = Tree(), run.Part("a", 1, ["*.py"], ["tests/a"])
    tree.path = tmp_path
    change = changes.Change("a.py", 1, "ROOM = 3", "ROOM = 4", "3 becomes 4")
    assert run.Campaign("", known).stages(tree, part, change)[0] == ["tests/a/test_a.py::test_room"]


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
