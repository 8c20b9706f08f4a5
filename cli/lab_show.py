"""What a person sees of the lab: progress while it works, the report at the end."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from datacast.cli.output import output
from datacast.cli.showing import appliance_notes, message_of

if TYPE_CHECKING:
    from datacast.controller.api.records import GroupRecord
    from datacast.lab.lab import Lab
    from datacast.lab.report import FaultReport, Report
    from datacast.lab.site_lab import SitesLab
    from datacast.lab.site_run import SitesReport

ROWS = 16
"""Receivers shown one by one while a transfer runs; the rest is in the first bar."""
PLAIN_S = 5.0


class Screen:
    """Live display on a terminal; a line now and then elsewhere; nothing when quiet. A run.Watcher."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True)
        self.quiet = quiet
        self.live: Live | None = None
        self._spinner = Spinner("dots", "")
        self._progress = Progress(
            TextColumn("{task.fields[name]:>10}"),
            BarColumn(40),
            TextColumn("{task.percentage:5.1f} %"),
            TextColumn("{task.fields[note]}"),
            console=self.console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._said, self._said_at = "", 0.0

    def __enter__(self) -> Screen:
        if not self.quiet and self.console.is_terminal:
            self.live = Live(
                Group(self._progress, self._spinner), console=self.console, refresh_per_second=8, transient=True
            )
            self.live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self.live:
            self.live.stop()
            self.live = None

    def _plain(self, text: str, always: bool = False) -> None:
        now = time.monotonic()
        if not self.quiet and not self.live and (always or now - self._said_at >= PLAIN_S):
            self._said_at = now
            with contextlib.suppress(OSError):  # the reader is gone; the work goes on
                print(text, file=sys.stderr, flush=True)

    def _bar(self, name: str, fraction: float, note: str = "") -> None:
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task("", total=1.0, name=name, note=note)
        self._progress.update(self._tasks[name], completed=fraction, note=note)

    def _clear(self) -> None:
        for task in self._tasks.values():
            self._progress.remove_task(task)
        self._tasks.clear()

    def step(self, text: str) -> None:
        kind = text.split()[0]
        self._spinner.update(text=text)
        if kind != self._said:
            self._said = kind
            self._clear()
            self._plain(f"{text} …", always=True)

    def content(self, done: int, total: int) -> None:
        self._bar("content", done / total if total else 1.0)

    def verified(self, done: int, total: int) -> None:
        self._bar("SHA-256", done / total if total else 1.0)

    def group(self, group: GroupRecord) -> None:
        if group.sites:  # each has trees of its own
            parts = ", ".join(f"{name} {100 * part.fraction:.0f} %" for name, part in group.sites.items())
            note = f"{group.rate_bps / 1e6:8.1f} Mb/s, {parts}, {group.state}"
        else:
            rate = sum(tree.rate_bps for tree in group.trees.values()) / 1e6
            note = f"{rate:8.1f} Mb/s over {len(group.trees)} trees, {group.state}"
        self._bar("group", group.fraction, note)
        for name, figures in list(group.receivers.items())[:ROWS]:
            text = f"{figures.rate_bps / 1e6:8.1f} Mb/s" if figures.state == "running" else figures.state
            self._bar(name, figures.fraction, text)
        self._plain(f"{100 * group.fraction:5.1f} % {note.strip()}")


def _end_text(name: str) -> str:
    from datacast.lab.state import lab_name

    return f"Ctrl-C, or `datacast lab down{'' if name == lab_name(None) else f' --name {name}'}`, takes it down."


def up_text(lab: Lab) -> str:
    """What to do with a lab that is up."""
    from datacast.lab.lab import LabOptions

    hosts, options = list(lab.plan.hosts), lab.options
    switches = sum(len(machine.nodes) for machine in lab.plan.switches)
    usual = options.rest_port == LabOptions.rest_port
    address = "" if usual else f"DATACAST_CONTROLLER={lab.rest} "
    return (
        f"The lab is up: {options.topology}, {len(hosts)} hosts, {switches} switches ({options.dataplane}), "
        f"links of {options.rate_bps / 1e6:g} Mb/s, MTU {options.mtu}.\n"
        f"REST: {lab.rest} (documentation at {lab.rest}/docs)\n"
        f"Hosts' files: {lab.work}/hosts/<host>, logs: {lab.work}/logs\n"
        f"In another terminal: {address}datacast send FILE --from {hosts[0]} --to {','.join(hosts[1:3])}\n"
        f"{_end_text(lab.name)}"
    )


def sites_text(lab: SitesLab) -> str:
    """Likewise, of sites."""
    first = lab.daemons[lab.home]
    asks = (
        f"DATACAST_CONTROLLER={lab.rest} DATACAST_CA={first.folder}/tls/ca.pem DATACAST_TOKEN_FILE={first.folder}/token"
    )
    rows = [f"  {name}: {lab.rest_of(name)}, its files in {site.folder}" for name, site in lab.daemons.items()]
    return (
        "The sites are up, each with its controller:\n" + "\n".join(rows) + "\n"
        f"Hosts' files: {lab.work}/hosts/<host>, logs: {lab.work}/logs\n"
        f"In another terminal: {asks} datacast send FILE --from {first.first} --to '*/all'\n"
        f"{_end_text(lab.name)}"
    )


def _number(value: float | None, unit: str = "", digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}{unit}"


def _busy(report: Report | SitesReport) -> str:
    bound = " (the processor set the pace, not the links)" if report.cpu_bound else ""
    return f"{100 * report.cpu_busy:.0f} % of all cores, {100 * report.cpu_lab:.0f} % by the lab{bound}"


def _print_verdict(console: Console, report: Report | SitesReport) -> None:
    receivers = report.receivers.values()
    good = sum(one.sha256_ok for one in receivers)
    if report.ok:
        console.print(f"delivered to {good} of {len(receivers)} and verified", style="green")
    else:
        console.print(Text(f"delivered to {good} of {len(receivers)}:", "red"), message_of(report.error))


def print_report(report: Report) -> None:
    """The report beside the ideal, for people."""
    console = output()
    trees = report.trees
    figures = Table(box=None, show_header=False, pad_edge=False)
    start = report.start_s
    figures.add_row("first data packet after", "-" if start is None else f"{1000 * start:.0f} ms")
    figures.add_row("finish", _number(report.finish_s, " s"))
    figures.add_row("ideal", _number(report.ideal_s, " s"))
    figures.add_row("finish over ideal", _number(report.finish_over_ideal))
    figures.add_row("link stress", _number(report.link_stress, digits=4))
    figures.add_row("duplicate data ratio", f"{100 * report.duplicate_ratio:.2f} %")
    figures.add_row("processor busy", _busy(report))
    console.print(figures)
    table = Table(title="trees", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for title in ("tree", "links", "depth", "new packets", "duplicates", "cache hits"):
        table.add_column(title, justify="right")
    rows = zip(trees.links, trees.depths, trees.new_packets, trees.duplicates, trees.cache_hits, strict=True)
    for number, row in enumerate(rows):
        table.add_row(str(number), *map(str, row))
    console.print(table)
    table = Table(title="receivers", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for title in ("host", "finish s", "Mb/s", "SHA-256", ""):
        table.add_column(title, justify="left" if title in ("host", "") else "right")
    for name, figure in report.receivers.items():
        table.add_row(
            name,
            _number(figure.finish_s),
            _number(figure.goodput_mbps, digits=1),
            Text("ok", "green") if figure.sha256_ok else Text("wrong", "red") if figure.state == "done" else "-",
            message_of(figure.error or None),
        )
    console.print(table)
    if report.faults:
        console.print(_faults(report.faults))
    for text in appliance_notes(report.plain_branches, report.reactions):
        console.print(text, style="yellow")
    _print_verdict(console, report)


def _faults(faults: list[FaultReport]) -> Table:
    """What became of each, in milliseconds after it."""
    table = Table(title="faults, ms after each", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for title in ("fault", "detected", "known", "signalled", "resumed", "all resumed", ""):
        table.add_column(title, justify="left" if title in ("fault", "") else "right")
    for fault in faults:
        after = (fault.detected_ms, fault.known_ms, fault.signalled_ms, fault.resumed_ms, fault.all_resumed_ms)
        table.add_row(fault.spec, *(_number(value, digits=1) for value in after), Text(fault.error or "", "yellow"))
    return table


def print_sites_report(report: SitesReport) -> None:
    """Each site beside what its links allow, and what the WAN links carried."""
    console = output()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("site", "hosts", "verified", "finish s", "its links allow s", "over that"):
        table.add_column(title, justify="left" if title == "site" else "right")
    for name, site in report.sites.items():
        figures = map(_number, (site.finish_s, site.ideal_s, site.finish_over_ideal))
        table.add_row(name, str(site.hosts), str(site.verified), *figures)
    console.print(table)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("WAN", "bytes", "over the file"):
        table.add_column(title, justify="left" if title == "WAN" else "right")
    for name, wan in report.wan.items():
        table.add_row(name, str(wan.bytes), _number(wan.over_file, digits=4))
    console.print(table)
    console.print(f"processor busy: {_busy(report)}")
    for fault in report.faults:
        if fault.error:
            console.print(f"{fault.spec}: {fault.error}", style="yellow")
    _print_verdict(console, report)
