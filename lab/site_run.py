"""`datacast lab run --sites`: one file from a host to hosts of several sites, each site beside what its links allow.

A copy counts from the moment when it is at its place in the host's folder: that is seen here, not told by Datacast.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from msgspec import structs

from datacast.controller.api import FINAL_STATES
from datacast.controller.api.records import GroupRecord
from datacast.core.lists import few
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.api.reports import GroupFailure
from datacast.lab import run, sites
from datacast.lab.counters import cpu_sample, cpu_use
from datacast.lab.errors import LabError
from datacast.lab.faults import Fault, parse_faults
from datacast.lab.injector import Injector
from datacast.lab.lab import LabOptions
from datacast.lab.report import AnySettings, ratio
from datacast.lab.run import PAYLOAD_NAME, Transfer, Watcher
from datacast.lab.signals import Signals
from datacast.lab.site_lab import SitesLab
from datacast.lab.sites_best import Step, best_s, steps_of
from datacast.lab.state import marked

LOOK_S = 0.05
EVERYWHERE = "*/all"
ABLE = ("link", "rate", "blackhole", "agent", "stop", "cpu", "writes", "disk")
"""Kinds of faults: none of one fabric's own daemons, for there are several."""


@dataclass(frozen=True)
class SiteFigures:
    hosts: int
    """That were to get the file."""
    verified: int
    finish_s: float | None
    """From the request until the last one has it."""
    ideal_s: float | None
    finish_over_ideal: float | None


@dataclass(frozen=True)
class HostFigures:
    finish_s: float | None
    sha256_ok: bool


@dataclass(frozen=True)
class WanFigures:
    bytes: int
    over_file: float | None


class FaultOfSites(msgspec.Struct, frozen=True):
    spec: str
    at_s: float
    error: str | None


class SitesSettings(AnySettings, frozen=True, kw_only=True):
    sites: object
    """The file, as JSON has it."""


class SitesReport(msgspec.Struct, frozen=True, kw_only=True):
    ok: bool
    group: str
    state: str
    error: GroupFailure | None
    size: int
    sites: dict[str, SiteFigures]
    wan: dict[str, WanFigures]
    receivers: dict[str, HostFigures]
    cpu_busy: float
    cpu_bound: bool
    cpu_lab: float
    faults: list[FaultOfSites]
    settings: SitesSettings


def names_of(read: sites.Sites, source: str, receivers: Iterable[str]) -> list[str]:
    """The hosts that names of receivers mean (docs/sites.md), seen from the source's site. Raises LabError."""
    home, found = _site(source), []
    hosts = {name: [f"{name}-{number}" for number in range(site.hosts)] for name, site in read.sites.items()}
    for name in receivers:
        *way, host = name.split("/")
        deep = host == "all" and way[-1:] == ["*"]
        at, path = home, [home]
        for step in (way[:-1] if deep else way)[way[:1] == [home] :]:
            if step not in read.neighbours(at):
                known = ", ".join(read.neighbours(at))
                raise LabError(f"{name}: {at} knows no site {step}", what=name, remedy=f"it knows {known}")
            if step in path:
                raise LabError(f"{name} leads back to {step}", what=name, remedy="name each site once")
            at = step
            path.append(step)
        if deep:
            found += [host for site in _below(read, at, path) for host in hosts[site]]
            continue
        if host != "all" and host not in hosts[at]:
            raise LabError(
                f"{name}: {at} has no host {host}", what=name, remedy=f"its hosts are {', '.join(hosts[at])}"
            )
        found += hosts[at] if host == "all" else [host]
    wanted = [host for host in dict.fromkeys(found) if host != source]
    if not wanted:
        raise LabError("no receivers", remedy=f"name hosts in --to, SITE/all, or {EVERYWHERE}")
    return wanted


def _below(read: sites.Sites, site: str, path: list[str]) -> list[str]:
    """A site and all that it leads to, but those on the way to it."""
    found = [site]
    for one in found:
        found += [other for other in read.neighbours(one) if other not in found and other not in path]
    return found


def _site(host: str) -> str:
    return host.rpartition("-")[0]


def settle(read: sites.Sites, transfer: Transfer, faults: list[str]) -> Transfer:
    """Names and faults, before anything is started. Raises LabError."""
    graph = sites.graph(read)
    hosts = [name for name, data in graph.nodes(data=True) if data["kind"] == "host"]
    source = transfer.source or hosts[0]
    if source not in hosts:
        raise LabError(f"the sites have no host {source!r}", what=source, remedy=f"the hosts are {few(hosts, 16)}")
    if transfer.other_sources:
        raise LabError("a group of several sites has one source", what="--from", remedy="name one host")
    receivers = transfer.receivers or (EVERYWHERE,)
    names_of(read, source, receivers)
    run.check_content(transfer)
    parsed = parse_faults([*sites.faults(read, graph), *faults], graph, "ip")
    for fault in parsed:
        if fault.kind not in ABLE:
            raise LabError(
                f"--fault {fault.spec!r}: a lab of sites cannot do that", what=fault.spec,
                remedy="links, agents and disks can be broken here",
            )  # fmt: skip
    return replace(transfer, source=source, receivers=receivers, faults=parsed)


def go(
    options: LabOptions, name: str, transfer: Transfer, watcher: Watcher, signals: Signals | None = None
) -> SitesReport:
    """A lab up, the file sent, the lab down. `transfer` as settle() returns it. Raises LabError (Interrupted too)."""
    assert transfer.source is not None and transfer.receivers is not None
    copies = len(names_of(sites.read(Path(options.topology)), transfer.source, transfer.receivers))
    room = run.size_of(transfer) * (copies + (transfer.file is None))
    with SitesLab(replace(run.with_disks(options, transfer), room=room), name, watcher.step, signals) as lab:
        lab.up()
        return send(lab, transfer, watcher)


def send(lab: SitesLab, transfer: Transfer, watcher: Watcher, dest: str = PAYLOAD_NAME) -> SitesReport:
    """One file over a lab that is up. Returns the report. Raises LabError."""
    assert transfer.source is not None and transfer.receivers is not None
    lab.home = _site(transfer.source)
    hosts = names_of(lab.sites, transfer.source, transfer.receivers)
    path, size, digest = run.content(lab, transfer, watcher)
    watcher.step("sending")
    spec = GroupSpec(
        source=transfer.source,
        source_path=str(path),
        receivers=list(transfer.receivers),
        dest_path=dest,
        options=transfer.options,
    )
    arrived: dict[str, float] = {}
    before_wan, before_cpu = lab.wan_bytes(), cpu_sample(marked(lab.identity))
    with Injector(lab, transfer.faults) as injector:
        injector.before()
        started = time.monotonic()
        group = run.post(lab, spec)
        injector.go(group.id, started)
        asked = started
        while True:
            over = group.state in FINAL_STATES  # looked at once more afterwards
            for host in hosts:
                if host not in arrived and (lab.host_folder(host) / dest).exists():
                    arrived[host] = time.monotonic() - started
            if over:
                break
            lab.signals.sleep(LOOK_S)
            if time.monotonic() - asked > run.POLL_S:
                asked = time.monotonic()
                group = run.get(lab, GroupRecord, f"/groups/{group.id}")
                watcher.group(group)
    after_wan, cpu = lab.wan_bytes(), cpu_use(before_cpu, cpu_sample(marked(lab.identity)), lab.options.realtime)
    verified = run.verify(lab, tuple(hosts), dest, size, digest, watcher)
    wan = {link: sent - before_wan[link] for link, sent in after_wan.items()}
    return SitesReport(
        ok=group.state == "done" and all(verified.values()),
        group=group.id,
        state=group.state,
        error=group.error,
        size=size,
        sites=_sites(lab, transfer.source, size, arrived, verified, steps_of(injector.as_done())),
        wan={f"{a} to {b}": WanFigures(sent, ratio(sent, size)) for (a, b), sent in wan.items()},
        receivers={host: HostFigures(arrived.get(host), verified[host]) for host in hosts},
        cpu_busy=round(cpu.busy, 4),
        cpu_bound=cpu.bound,
        cpu_lab=round(cpu.lab, 4),
        faults=[_came_of(fault, index, injector) for index, fault in enumerate(transfer.faults)],
        settings=SitesSettings(
            **structs.asdict(run.settings_of(lab, transfer, digest)), sites=lab.sites.model_dump(mode="json")
        ),
    )


def _sites(
    lab: SitesLab, source: str, size: int, arrived: dict[str, float], verified: dict[str, bool], steps: list[Step]
) -> dict[str, SiteFigures]:
    found = {}
    for name in lab.sites.sites:
        hosts = [host for host in verified if _site(host) == name]
        if not hosts:
            continue
        times = [arrived[host] for host in hosts if host in arrived]
        finish = max(times) if len(times) == len(hosts) else None
        ideal = best_s(lab.graph, lab.sites.sites, source, hosts[0], size, lab.options.mtu, steps, lab.signals.check)
        good = sum(verified[host] for host in hosts)
        found[name] = SiteFigures(len(hosts), good, finish, ideal, ratio(finish, ideal))
    return found


def _came_of(fault: Fault, index: int, injector: Injector) -> FaultOfSites:
    why = injector.errors.get(index) or (None if index in injector.failed_ns else "the transfer was over before")
    return FaultOfSites(fault.spec, fault.at_s, why)
