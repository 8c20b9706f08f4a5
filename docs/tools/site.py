"""Makes the site's sources in FOLDER: docs/ as it is, the README as first page, generated reference."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://example.org/datacast"
"""Where files outside docs/ are; links to them point there."""
DAEMONS = ("agent", "switch", "fabric-manager", "controller", "mirror")
ENVIRONMENT = {"COLUMNS": "100", "TERM": "dumb", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("tools", "results", "decisions"))
    (folder / "index.md").write_text((ROOT / "README.md").read_text().replace("](docs/", "]("))
    (folder / "reference").mkdir()
    (folder / "reference" / "rest.md").write_text(rest())
    (folder / "reference" / "command.md").write_text(command())
    (folder / "reference" / "configuration.md").write_text(configuration())
    for page in folder.rglob("*.md"):
        page.write_text(outside(page.read_text(), page, folder))


def outside(text: str, page: Path, folder: Path) -> str:
    """Links to what is not on the site go to the repository."""

    def link(match: re.Match[str]) -> str:
        target = match[2].split("#")[0]
        if not target or "://" in target or (page.parent / target).exists():
            return match[0]
        base = ROOT if page.name == "index.md" else ROOT / "docs" / page.parent.relative_to(folder)
        place = (base / target).resolve()
        known = place.is_relative_to(ROOT) and place.exists()
        return f"{match[1]}({REPOSITORY}/{place.relative_to(ROOT)})" if known else match[0]

    return re.sub(r"(\[[^\]]*\])\(([^)\s]+)\)", link, text)


def rest() -> str:
    """From OpenAPI, as the controller tells it."""
    from datacast.controller.app import make_app
    from datacast.fabric_manager.api import FabricManagerClient

    api: dict[str, Any] = make_app(FabricManagerClient("http://127.0.0.1:9")).openapi()
    lines = ["# REST", "", "Made from the controller's `/openapi.json`, which has the schemas too.", ""]
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            lines += [f"## {method.upper()} {path}", "", operation.get("summary", ""), ""]
            rows = [
                f"| `{p['name']}` | {p['in']} | {p.get('description', '')} |" for p in operation.get("parameters", [])
            ]
            if rows:
                lines += ["| parameter | in | |", "| --- | --- | --- |", *rows, ""]
            answers = ", ".join(f"{code} {a.get('description', '')}" for code, a in operation["responses"].items())
            lines += [f"Answers: {answers}.", ""]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if body.get("examples"):
                example = body["examples"]
                example = example[0] if isinstance(example, list) else next(iter(example.values()))
                lines += ["```json", json.dumps(example, indent=1), "```", ""]
    return "\n".join(lines)


def told(program: Path, *arguments: str) -> str:
    """What it says of itself."""
    done = subprocess.run(
        [str(program), *arguments, "--help"], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    return "\n".join(["```text", done.stdout.strip(), "```", ""])


def command() -> str:
    """From --help."""
    from datacast.cli.main import COMMANDS

    lines = ["# The command", "", "Every command takes `--help`.", ""]
    for name in sorted(name for commands in COMMANDS.values() for name in commands):
        lines += [f"## datacast {name}", "", told(Path(sys.executable).parent / "datacast", name)]
    return "\n".join(lines)


def configuration() -> str:
    """Of the daemons: the files as the packages bring them, and every option."""
    lines = [
        "# Configuration",
        "",
        "A daemon of Datacast reads one YAML file (`--config FILE`). Its keys are the daemon's options; what it "
        "does not know it refuses, by line. `datacast init` writes all of them.",
        "",
    ]
    for name in DAEMONS:
        program = next(
            path
            for path in (ROOT / "build" / f"datacast-{name}", Path(sys.executable).parent / f"datacast-{name}")
            if path.exists()
        )
        example = (ROOT / "packaging" / "etc" / f"{name}.yaml.example").read_text().strip()
        lines += [f"## datacast-{name}", "", "```yaml", example, "```", "", told(program)]
    return "\n".join(lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
