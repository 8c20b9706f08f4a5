"""The `datacast` command. A command's module is imported when it is called: `--help` starts fast, and a part that is
not installed does not break the rest.

Exit codes: 0 done; 1 the transfer or the program failed; 2 wrong usage or a request that is refused; 3 no such group
or set; 4 the controller does not answer; 130 interrupted.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import Annotated, Any

try:
    import typer

    from datacast.core.errors import DatacastError
except KeyboardInterrupt:  # Ctrl-C while there is only Python that reads its files
    sys.exit(130)

COMMANDS: dict[str, dict[str, str]] = {
    "datacast.cli.lab": {"lab": "An emulated network on this machine: up, run, down."},
    "datacast.cli.send": {"send": "Deliver a file from one host to many."},
    "datacast.cli.groups": {
        "groups": "List the groups.",
        "status": "Show a group: receivers, trees, progress.",
        "cancel": "End a group.",
        "forget": "Forget a group that has ended.",
    },
    "datacast.cli.prepull": {"prepull": "Put a container image on hosts before they ask for it."},
    "datacast.cli.members": {
        "receivers": "Have one host more, or one less, receive a group that runs.",
        "resume": "Start a group again that has failed or reached only some.",
    },
    "datacast.cli.plan": {"plan": "Say what a group would get: trees, its share, the time."},
    "datacast.cli.events": {"events": "Show what happens as it happens."},
    "datacast.cli.cordons": {
        "hosts": "List the hosts, who is cordoned, and what runs on them.",
        "cordon": "Have a host take part in no new group, or no tree use a switch.",
        "uncordon": "Have it take part again.",
        "drain": "Cordon a host or a switch, and wait until nothing runs on it.",
    },
    "datacast.cli.fabric": {
        "switches": "Show the switches that the controller programs.",
        "topology": "Show the fabric: nodes, agents, links.",
    },
    "datacast.cli.sets": {"sets": "Named sets of hosts."},
    "datacast.cli.nodes": {"nodes": "Have hosts and switches join the fabric or leave it."},
    "datacast.cli.caps": {"caps": "What all groups together may send: everywhere, or over a host."},
    "datacast.cli.certs": {"certs": "Make a fabric's authority, and certificates for processes."},
    "datacast.cli.top": {"top": "Show the fabric and its groups, live."},
    "datacast.cli.site": {"init": "Make a site: certificates, a token, every machine's files."},
    "datacast.cli.admit": {"admit": "Let machines join a site, each once, for some minutes."},
    "datacast.cli.join": {"join": "Enrol this machine in a site."},
    "datacast.cli.sites": {"sites": "Other sites, so that a group may reach their hosts."},
    "datacast.cli.token": {"token": "Make, list and revoke tokens for the REST API."},
    "datacast.cli.trees": {"trees": "Compute edge-disjoint Steiner trees and show them."},
    "datacast.cli.sim": {"sim": "Simulate groups on a topology."},
    "datacast.cli.doctor": {"doctor": "Say what this machine lacks, and the remedy."},
}

EPILOG = (
    "Exit codes: 0 done; 1 failed; 2 wrong usage or refused request; 3 no such group; 4 no controller answers; "
    "130 interrupted."
)


UNWRITTEN = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Why there is no room for what is printed, or nobody who reads it."""


def _version(wanted: bool) -> None:
    if wanted:
        from datacast.services.version import installed

        print(f"datacast {installed()}")
        raise typer.Exit


def _completed() -> list[str]:
    """What stands on the command line behind `datacast` while a shell asks how it may go on."""
    if "_DATACAST_COMPLETE" not in os.environ:
        return []
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return line.split()[1:]


class Commands(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """A value that does not fit is told in the words of REST and of files, not in pydantic's."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if errors := getattr(error.__cause__, "errors", None):
                from datacast.services.validation import sentence

                error.message = sentence(errors()[0])
            raise


def build(argv: list[str]) -> typer.Typer:
    """The command line for these arguments: the named command for real, the others by name and help only. Raises
    ImportError when the named command's part cannot be loaded."""
    app = typer.Typer(
        name="datacast",
        cls=Commands,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        epilog=EPILOG,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
        ] = False,
    ) -> None:
        """Reliable group data delivery: one source, many receivers, the same file."""

    called = next((arg for arg in argv or _completed() if not arg.startswith("-")), None)
    for module, commands in COMMANDS.items():
        if called in commands:
            importlib.import_module(module).register(app)
        else:
            for name, text in commands.items():
                app.command(name, help=text)(lambda: None)
    return app


def _opened() -> None:
    """What a caller has closed (`>&-`) Python has as None, and a socket could take its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  (for as long as the process lasts)


def main(argv: list[str] | None = None) -> None:
    _opened()
    argv = sys.argv[1:] if argv is None else argv
    try:
        app = build(argv)
    except ImportError as error:
        print(
            f"datacast: `{argv[0]}` cannot be loaded: {error}. Run `datacast doctor`, or `make build` again.",
            file=sys.stderr,
        )
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    try:
        try:
            app(argv, prog_name="datacast")
        except SystemExit:
            sys.stdout.flush()  # here it can be told that it was not written; of what it does itself Python says little
            raise
    except DatacastError as error:
        sys.exit(report(error))
    except PermissionError as error:  # a folder that may not be looked into
        if error.filename is None:
            raise
        sys.exit(report(DatacastError(f"{os.fsdecode(error.filename)}: {error.strerror}")))
    except OSError as error:
        if error.errno not in UNWRITTEN or error.filename is not None:
            raise
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (it is tried once more as the process ends)
        if error.errno != errno.EPIPE:
            print(f"datacast: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def report(error: DatacastError) -> int:
    """Print an error for a person; the exit code that goes with it."""
    from datacast.core.visible import visible

    remedy, text = getattr(error, "remedy", ""), "\n".join(map(visible, str(error).split("\n")))
    print(f"datacast: {text}{f'; {remedy}' if remedy and remedy not in text else ''}", file=sys.stderr)
    return {404: 3, 409: 2, 422: 2, 400: 2, 401: 2, 403: 2, 413: 2, 429: 2, 503: 4}.get(getattr(error, "status", 0), 1)


if __name__ == "__main__":
    main()
