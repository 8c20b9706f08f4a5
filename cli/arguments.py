"""What is written on the command line: receivers, labels."""

from __future__ import annotations

from dataclasses import replace

import typer

from datacast.fabric_manager.api import GroupSpec


def with_receivers(spec: GroupSpec, texts: list[str]) -> GroupSpec:
    """`all`, `@set`, or hosts, separated by commas or given several times. Raises typer.BadParameter."""
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("--to names no host: give hosts, all, or @set")
    if names == ["all"]:
        return replace(spec, receivers="all")
    if len(names) == 1 and names[0].startswith("@"):
        return replace(spec, receiver_set=names[0][1:])
    odd = next((name for name in names if name == "all" or name.startswith("@")), None)
    if odd:
        raise typer.BadParameter(f"--to: {odd} stands alone or not at all")
    return replace(spec, receivers=names)


def parse_labels(texts: list[str]) -> dict[str, str]:
    """`NAME=VALUE`, each. Raises typer.BadParameter."""
    odd = next((text for text in texts if not text.partition("=")[0] or "=" not in text), None)
    if odd is not None:
        raise typer.BadParameter(f"{odd!r} is no label: give NAME=VALUE")
    return dict(text.partition("=")[::2] for text in texts)
