"""Which folder may use which, what generated files must equal, how large a file may grow."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "libdatacast/python": "core",
    "services": "services",
    "origins": "origins",
    "mn": "mininet",
    "topologies": "topologies",
    "planners": "planners",
    "lab": "lab",
    "fabric_manager": "fabric_manager",
    "master": "master",
    "controller": "controller",
    "mirror": "mirror",
    "simulation": "simulation",
    "cli": "cli",
}
SERVICES = {"fabric_manager", "master", "controller"}
C_STANDARD = {
    "assert.h",
    "errno.h",
    "inttypes.h",
    "limits.h",
    "stdalign.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "string.h",
}
TOP = {
    *(".ci", ".clang-format", ".clang-tidy", ".gitignore"),
    *("CHANGELOG.md", "LICENSE", "Makefile", "README.md", "mkdocs.yml", "pyproject.toml", "setup.py"),
    *("bench", "cli", "console", "controller", "datapath", "docs", "dpdk_cache", "examples", "fabric_manager"),
    *("host_agent", "lab", "libdatacast", "master", "mirror", "mn", "origins", "p4src", "packaging", "planners"),
    *("services", "simulation", "tests", "topologies"),
}
"""What stands at the top of the tree. What a program leaves there by mistake, such as an input that a fuzzer found, is
in no list."""
MADE = {".git", ".venv", "build", ".pytest_cache", ".hypothesis", ".ruff_cache", "datacast.egg-info"}
LINES_MAX = 600
BYTES_MAX = 1 << 20
PURE = (
    ["master", "plan"],
    ["master", "requests"],
    ["master", "schedule"],
    ["master", "tree_queue"],
    ["fabric_manager", "shares"],
)


@cache
def tracked(*suffixes: str) -> list[Path]:
    """Files of the project (known to git, or new and not ignored); the source tree without git counts everything."""
    try:
        text = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True
        ).stdout.decode()
        paths = [ROOT / name for name in text.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [path for path in ROOT.rglob("*") if not MADE & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in paths if path.is_file() and (not suffixes or path.suffix in suffixes))


def part_of(path: Path) -> str | None:
    name = path.relative_to(ROOT).as_posix()
    return next((part for folder, part in FOLDERS.items() if name.startswith(folder + "/")), None)


@cache
def imports(path: Path) -> set[str]:
    """Absolute names of everything a Python file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def python_of_parts() -> list[tuple[str, Path]]:
    return [(part, path) for path in tracked(".py") if (part := part_of(path))]


def test_a_service_is_used_through_its_api_module_only():
    wrong = []
    for part, path in python_of_parts():
        for name in imports(path):
            words = name.split(".")
            if part == "simulation" and words[1:3] in PURE:
                continue  # experiments take what masters hand out, how they deal pieces out, how links are shared
            if words[0] == "datacast" and len(words) > 2 and words[1] in SERVICES - {part} and words[2] != "api":
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


def test_mininet_is_imported_by_its_classes_and_in_one_file_of_the_lab():
    users = {
        path.relative_to(ROOT).as_posix()
        for part, path in python_of_parts()
        if part != "mininet" and any(name.split(".")[0] == "mininet" for name in imports(path))
    }
    assert users == {"lab/network.py"}


def test_nothing_uses_tests_or_bench():
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for _, path in python_of_parts()
        for name in imports(path)
        if name.split(".")[0] in {"tests", "bench"} and "tests" not in path.parts
    ]
    assert not wrong


def test_the_namespace_package_has_no_init():
    assert not (ROOT / "datacast").exists()


def test_import_contracts():
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


OURS = {"datacast", "mininet"}
COME_WITH = {
    "pydantic-core": "pydantic",
    "starlette": "fastapi",
    "protobuf": "p4runtime",
    "googleapis-common-protos": "p4runtime",
}
"""Used as parts of another."""


def test_every_dependency_is_declared_and_used():
    def plain(text: str) -> str:
        return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=~ ;]", text)[0]).lower()

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plots = set(map(plain, project["optional-dependencies"]["plots"]))
    tests = set(map(plain, project["optional-dependencies"]["test"]))
    wheels = packages_distributions()
    used = set()
    for _, path in python_of_parts():
        for name in (
            {name.partition(".")[0] for name in imports(path)} - sys.stdlib_module_names - {"datacast", "mininet"}
        ):
            if path.name == "build_core.py" or name == "setuptools":
                continue  # needed to build
            assert name in wheels, f"{path.relative_to(ROOT)} imports {name}, which nothing installs"
            owners = {plain(owner) for owner in wheels[name]}
            used.add(min(COME_WITH.get(owner, owner) for owner in owners))
    declared = set(map(plain, project["dependencies"]))
    assert used - plots - tests - declared == set(), "used and not declared"
    # Used by uvicorn, which asks for it only if told so (uvicorn[standard], with more that nobody needs).
    by_others = {"cffi", "httptools"}
    assert declared - used - by_others == set(), "declared and not used"


def includes(path: Path) -> list[tuple[str, str]]:
    """("<" or '"', name) of every #include."""
    return re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', path.read_text(), re.MULTILINE)


def c_files(folder: str) -> list[Path]:
    return [path for path in tracked(".c", ".h") if path.is_relative_to(ROOT / folder)]


def test_the_core_includes_memory_and_string_functions_only():
    wrong = [
        f"{path.name} includes <{name}>"
        for folder in ("libdatacast/src", "libdatacast/include")
        for path in c_files(folder)
        for kind, name in includes(path)
        if kind == "<" and name not in C_STANDARD and not name.startswith("datacast/")
    ]
    assert not wrong


@pytest.mark.parametrize("folder", ["datapath", "dpdk_cache", "host_agent"])
def test_daemons_use_the_core_s_public_headers_and_their_own(folder):
    wrong = []
    for path in c_files(folder):
        if "tests" in path.parts:
            continue
        for kind, name in includes(path):
            if kind == "<" or name.startswith(("datacast/", "datapath/")) or name == "fuzz/script.h":
                continue
            candidates = [
                path.parent / name,
                ROOT / folder / name,
                ROOT / folder / "include" / name,
                ROOT / folder / "src" / name,
            ]
            if not any(c.exists() and c.resolve().is_relative_to(ROOT / folder) for c in candidates):
                wrong.append(f'{path.relative_to(ROOT)} includes "{name}"')
    assert not wrong


def test_generated_constants_are_those_of_the_table():
    done = subprocess.run(
        [sys.executable, "libdatacast/tools/gen_constants.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_stay_small():
    long = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for path in tracked(".c", ".h", ".py", ".p4")
        if (lines := path.read_text().count("\n")) > LINES_MAX
    ]
    large = [
        f"{path.relative_to(ROOT)}: {size} bytes" for path in tracked() if (size := path.stat().st_size) > BYTES_MAX
    ]
    assert not long + large


def test_nothing_stands_at_the_top_but_what_belongs_there():
    assert {path.relative_to(ROOT).parts[0] for path in tracked()} == TOP


def test_names_of_test_files_are_unique():
    """pytest imports them by name alone: two of one name end the whole run before it begins."""
    names = [path.name for path in tracked(".py") if path.name.startswith("test_") or path.name.endswith("_kit.py")]
    assert sorted(names) == sorted(set(names))


def test_every_folder_explains_itself():
    missing = [
        folder
        for folder in (
            "libdatacast",
            "datapath",
            "dpdk_cache",
            "host_agent",
            "fabric_manager",
            "master",
            "controller",
            "services",
            "origins",
            "topologies",
            "mn",
            "console",
            "packaging",
            "planners",
            "lab",
        )
        if not (ROOT / folder / "README.md").is_file()
    ]
    assert not missing
