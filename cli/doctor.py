"""`datacast doctor`: what is missing on this machine, and the remedy."""

from __future__ import annotations

import json

import typer


def register(app: typer.Typer) -> None:
    @app.command()
    def doctor(as_json: bool = typer.Option(False, "--json", help="Print JSON for machines.")) -> None:
        """Say what this machine lacks for building and for the lab. Exit code 1 when something required is missing."""
        from rich.console import Console
        from rich.table import Table

        from datacast.lab.checks import all_checks

        checks = all_checks()
        ok = all(check.ok for check in checks if check.required)
        if as_json:
            print(json.dumps({"ok": ok, "checks": [check.to_json() for check in checks]}, indent=1))
            raise typer.Exit(0 if ok else 1)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("", "what", "found", "remedy"):
            table.add_column(title, overflow="fold")
        for check in checks:
            mark = "[green]ok[/]" if check.ok else "[red]missing[/]" if check.required else "[yellow]absent[/]"
            table.add_row(mark, check.name, check.detail, check.remedy)
        console = Console()
        console.print(table)
        console.print("[green]This machine can run the lab.[/]" if ok else "[red]The lab cannot run here yet.[/]")
        raise typer.Exit(0 if ok else 1)
