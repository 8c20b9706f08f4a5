"""`datacast lab exec`, `shell`, `capture`: into a lab that runs in another terminal, or in a Mininet script."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import typer

from datacast.cli.lab_flags import Name
from datacast.lab import visit
from datacast.lab.errors import LabError
from datacast.lab.state import lab_name


def register(lab: typer.Typer) -> None:
    lab.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(run_inside)
    lab.command("shell")(shell)
    lab.command("capture")(capture)


def _become(command: list[str]) -> None:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise LabError(f"cannot start {command[0]}: {error.strerror}", what=command[0], remedy="run as root") from error


def run_inside(
    node: str = typer.Argument(..., metavar="NODE", help="Host or switch."),
    command: list[str] = typer.Argument(..., metavar="COMMAND", help="Command and its arguments."),
    name: Name = None,
) -> None:
    """Run a command where a host or switch is. Its exit code is this one's. Switches of a process share a place."""
    _become(visit.inside(visit.running(lab_name(name)), node, command))


def shell(node: str = typer.Argument(..., metavar="NODE", help="Host or switch."), name: Name = None) -> None:
    """A shell where a host or switch is."""
    state = visit.running(lab_name(name))
    os.environ["PS1"] = f"{node}# "
    _become(visit.inside(state, node, ["bash", "--norc"]))


def capture(
    link: str = typer.Argument(..., metavar="CABLE", help="NODE:PORT, such as 00:0, or NODE-NODE, such as 00-s0.0."),
    file: Path = typer.Option(None, "--write", "-w", help="Write a pcap file; else print packets (needs tshark)."),
    count: int = typer.Option(None, "--count", "-c", min=1, help="End after so many frames."),
    snap: int = typer.Option(256, "--snap", min=64, max=65535, help="Bytes of each frame to keep."),
    name: Name = None,
) -> None:
    """Capture frames on a cable until Ctrl-C, as pcap. For Wireshark with Datacast's dissector."""
    end = visit.end_of(visit.running(lab_name(name)), link)
    limit = ["-c", str(count)] if count else []
    tcpdump = ["tcpdump", "-U", "-Z", "root", "-i", end.ifname, "-s", str(snap), *limit]
    state = visit.running(lab_name(name))
    reader = ["tshark", "-X", f"lua_script:{visit.DISSECTOR}", "-r"]
    if file:
        print(
            f"capturing {end.ifname} of {end.node}; read it with: {shlex.join([*reader, str(file)])}", file=sys.stderr
        )
        _become(visit.inside(state, end.node, [*tcpdump, "-w", str(file)]))
    if shutil.which("tshark") is None:
        raise LabError(
            "tshark is not installed, so packets cannot be printed",
            what="tshark",
            remedy="give --write FILE, or apt-get install tshark",
        )
    with subprocess.Popen(
        visit.inside(state, end.node, [*tcpdump, "-q", "-w", "-"]), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as source:
        try:
            raise typer.Exit(
                subprocess.run([*reader, "-", "-l"], stdin=source.stdout, stderr=subprocess.DEVNULL).returncode
            )
        finally:
            source.terminate()
