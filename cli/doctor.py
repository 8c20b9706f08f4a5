"""`datacast doctor`: what is missing on this machine, and the remedy."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from datacast.cli.connection import Controller, TokenFile, connect
from datacast.cli.output import output
from datacast.controller.api import DEFAULT_URL


def register(app: typer.Typer) -> None:
    @app.command()
    def doctor(
        site: Annotated[bool, typer.Option("--site", help="Look at the running deployment instead.")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
        controller: Controller = DEFAULT_URL,
        token_file: TokenFile = None,
    ) -> None:
        """Say what this machine lacks for building and for the lab; with --site, what is wrong with a deployment:
        nodes, links, MTU, versions, this machine's certificates. Exit code 1 when something required is missing."""
        from rich.table import Table
        from rich.text import Text

        from datacast.lab.checks import all_checks

        if site:
            from datacast.cli.doctor_site import site_checks

            with connect(controller, token_file) as client:
                checks = site_checks(client)
        else:
            checks = all_checks()
        ok = all(check.ok for check in checks if check.required)
        if as_json:
            print(json.dumps({"ok": ok, "checks": [check.to_json() for check in checks]}, indent=1))
            raise typer.Exit(0 if ok else 1)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("", "what", "found", "remedy"):
            table.add_column(title, overflow="fold")
        wrong, odd = ("wrong", "look") if site else ("missing", "absent")
        for check in checks:
            mark = ("ok", "green") if check.ok else (wrong, "red") if check.required else (odd, "yellow")
            table.add_row(Text(*mark), check.name, check.detail, check.remedy)
        console = output()
        console.print(table)
        good, bad = (
            ("The deployment is well.", "Something is wrong with the deployment.")
            if site
            else ("This machine can run the lab.", "The lab cannot run here yet.")
        )
        console.print(good if ok else bad, style="green" if ok else "red")
        raise typer.Exit(0 if ok else 1)
