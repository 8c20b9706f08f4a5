"""`datacast lab run`: a lab, one file to a group through the REST API, an independent check, a report."""

from __future__ import annotations

import json
import os
import secrets
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import structs
from pydantic import TypeAdapter, ValidationError

from datacast.controller.api import FINAL_STATES
from datacast.controller.api.records import GroupRecord
from datacast.core.lists import few
from datacast.fabric_manager.api import Fetchers, GroupOptions, GroupSpec, OriginPolicy
from datacast.fabric_manager.api.specs import given
from datacast.lab.content import sha256_of, write_random
from datacast.lab.counters import cpu_sample, cpu_use, traffic
from datacast.lab.errors import LabError
from datacast.lab.faults import Fault, appliances_apart, slow_disks, small_disks, switches_apart
from datacast.lab.injector import Injector
from datacast.lab.lab import Lab, LabOptions, load_topology
from datacast.lab.report import AnySettings, Measured, Report, Settings, make_report, reactions_of
from datacast.lab.signals import Signals
from datacast.lab.state import marked
from datacast.services.problems import formed
from datacast.services.validation import first_error

if TYPE_CHECKING:
    import networkx as nx

T = TypeVar("T")
POLL_S = 0.25
PAYLOAD_NAME = "payload.bin"
PATIENCE_S = 40.0
"""A controller, or what is behind it, may start again in the middle of a transfer."""
DISK_SPARE = 16 << 20
"""Room beside one copy on a disk that is to be filled."""


@dataclass(frozen=True)
class Transfer:
    """What to send to whom. Exactly one of `size` and `file`."""

    source: str | None = None
    """None: the topology's first host."""
    _: KW_ONLY
    other_sources: tuple[str, ...] = ()
    """More hosts that send it; all hosts of a lab see the same files."""
    url: str | None = None
    """In place of a source: that receivers fetch it from there; `file` has the same bytes, to compare with."""
    fetchers: Fetchers = None
    policy: OriginPolicy = "steal"
    receivers: tuple[str, ...] | None = None
    """None: all hosts but the source."""
    size: int | None = None
    file: Path | None = None
    seed: int | None = None
    options: GroupOptions = field(default_factory=GroupOptions)
    faults: tuple[Fault, ...] = ()


class Watcher(Protocol):
    """What shows the progress to a person."""

    def step(self, text: str) -> None: ...
    def content(self, done: int, total: int) -> None: ...
    def group(self, group: GroupRecord) -> None: ...
    def verified(self, done: int, total: int) -> None: ...


class Quiet:
    """A Watcher that shows nothing."""

    def step(self, text: str) -> None: ...
    def content(self, done: int, total: int) -> None: ...
    def group(self, group: GroupRecord) -> None: ...
    def verified(self, done: int, total: int) -> None: ...


def settle(graph: nx.Graph, transfer: Transfer) -> Transfer:
    """Source and receivers by name, before anything is started. Raises LabError: unknown, doubled or missing ones."""
    hosts = [name for name, data in graph.nodes(data=True) if data["kind"] == "host"]
    known = f"the hosts are {few(hosts, 16)}"
    source = transfer.source or hosts[0]
    receivers = (
        transfer.receivers
        if transfer.receivers is not None
        else tuple(h for h in hosts if h not in (source, *transfer.other_sources))
    )
    for name in (source, *transfer.other_sources, *receivers):
        if name not in hosts:
            raise LabError(f"the topology has no host {name!r}", what=name, remedy=known)
    for name in (source, *transfer.other_sources):
        if name in receivers:
            raise LabError(f"{name} is the source and among the receivers", what=name, remedy="name it once")
    doubled = sorted({name for name in receivers if receivers.count(name) > 1})
    if doubled:
        raise LabError(f"{', '.join(doubled)} twice among the receivers", what=doubled[0], remedy="name each host once")
    if not receivers:
        raise LabError("no receivers", remedy="name a host or more, or all")
    check_content(transfer)
    return replace(transfer, source=source, receivers=receivers)


def check_content(transfer: Transfer) -> None:
    """What is sent, and how: as the controller would say when the lab is up. Raises LabError."""
    try:
        TypeAdapter(GroupOptions).validate_python(given(transfer.options))
    except ValidationError as error:
        where, text = first_error(error)
        raise LabError(text, what=where) from error
    if (transfer.size is None) == (transfer.file is None):
        raise LabError("give either --size or --file")
    if transfer.file is not None and not (transfer.file.is_file() and os.access(transfer.file, os.R_OK)):
        raise LabError(f"{transfer.file} is no file that can be read", what=str(transfer.file))


def size_of(transfer: Transfer) -> int:
    return transfer.size if transfer.size is not None else transfer.file.stat().st_size  # type: ignore[union-attr]


def room(transfer: Transfer) -> int:
    """Bytes that the copies, and made content, take."""
    return size_of(transfer) * (len(transfer.receivers or ()) + (transfer.file is None))


def with_disks(options: LabOptions, transfer: Transfer) -> LabOptions:
    """Disks of their own for the hosts whose disk a fault is about."""
    disk = size_of(transfer) + DISK_SPARE
    return replace(
        options,
        disks=tuple((host, disk) for host in small_disks(transfer.faults)),
        slow_disks=tuple((host, disk) for host in slow_disks(transfer.faults)),
    )


def run(options: LabOptions, name: str, transfer: Transfer, watcher: Watcher, signals: Signals | None = None) -> Report:
    """The whole run. Raises LabError, Interrupted among them."""
    transfer = settle(load_topology(options.topology), transfer)
    options = replace(
        with_disks(options, transfer),
        room=room(transfer),
        apart=switches_apart(transfer.faults),
        appliances_apart=appliances_apart(transfer.faults),
    )
    with Lab(options, name, watcher.step, signals) as lab:
        lab.up()
        return send(lab, transfer, watcher)


def send(lab: Lab, transfer: Transfer, watcher: Watcher, dest: str = PAYLOAD_NAME, mend: bool = False) -> Report:
    """One file over a lab that is up, to `dest` in each receiver's folder. `transfer` as settle() returns it. mend:
    undo the faults afterwards, so that the lab serves for the next transfer. Raises LabError."""
    assert transfer.source is not None and transfer.receivers is not None
    path, size, digest = content(lab, transfer, watcher)
    watcher.step("sending")
    pids = marked(lab.identity)
    before_traffic, before_cpu = traffic(lab), cpu_sample(pids)
    spec = GroupSpec(receivers=list(transfer.receivers), dest_path=dest, options=transfer.options)
    if transfer.url:
        spec = replace(spec, url=transfer.url, fetchers=transfer.fetchers, origin_policy=transfer.policy)
    else:
        others = list(transfer.other_sources)
        spec = replace(spec, source=transfer.source, source_path=str(path), other_sources=others)
    with Injector(lab, transfer.faults) as injector:
        injector.before()
        started = time.monotonic()
        group = post(lab, spec)
        injector.go(group.id, started)
        while group.state not in FINAL_STATES:
            lab.signals.sleep(POLL_S)
            group = get(lab, GroupRecord, f"/groups/{group.id}")
            watcher.group(group)
    if mend:
        injector.mend()
    after_cpu = cpu_sample(marked(lab.identity))
    after_traffic = traffic(lab)
    after_traffic.silent += injector.began_anew()
    verified = verify(lab, transfer.receivers, dest, size, digest, watcher)
    settings = Settings(
        **structs.asdict(settings_of(lab, transfer, digest)),
        topology=lab.options.topology,
        link_bps=lab.options.rate_bps,
        dataplane=lab.options.dataplane,
    )
    return make_report(
        Measured(
            group=group,
            size=size,
            rates_bps=_rates(lab),
            traffic=after_traffic.since(before_traffic),
            cpu=cpu_use(before_cpu, after_cpu, lab.options.realtime),
            verified=verified,
            settings=settings,
            faults=injector.report(reactions_of(group)),
        )
    )


def settings_of(lab: Lab, transfer: Transfer, digest: str) -> AnySettings:
    """`transfer` as settle() returns it."""
    assert transfer.source is not None and transfer.receivers is not None
    return AnySettings(
        mtu=lab.options.mtu,
        queue_packets=lab.options.queue_packets,
        source=transfer.source,
        to=list(transfer.receivers),
        seed=transfer.seed,
        options=given(transfer.options),
        sha256=digest,
    )


def content(lab: Lab, transfer: Transfer, watcher: Watcher) -> tuple[Path, int, str]:
    """The file to send, its size and SHA-256."""

    def step(done: int) -> None:
        lab.signals.check()
        watcher.content(done, total)

    if transfer.file is not None:
        path = transfer.file.resolve()
        total = path.stat().st_size
        watcher.step(f"reading {path.name}")
        return path, total, sha256_of(path, step)
    total = transfer.size or 0
    watcher.step("making content")
    folder = lab.work / "source"
    folder.mkdir(exist_ok=True)
    seed = transfer.seed if transfer.seed is not None else secrets.randbits(32)
    path = folder / PAYLOAD_NAME
    return path, total, write_random(path, total, seed, step)


def verify(
    lab: Lab, receivers: tuple[str, ...], dest: str, size: int, digest: str, watcher: Watcher
) -> dict[str, bool]:
    """SHA-256 of every received file against the original, two at a time, apart from what Datacast itself checked."""
    watcher.step("verifying")
    done = {host: 0 for host in receivers}

    def one(host: str) -> bool:
        def step(count: int) -> None:
            lab.signals.check()
            done[host] = count

        path = lab.host_folder(host) / dest
        return path.is_file() and path.stat().st_size == size and sha256_of(path, step) == digest

    with ThreadPoolExecutor(2) as pool:
        futures = {host: pool.submit(one, host) for host in receivers}
        while not all(future.done() for future in futures.values()):
            lab.signals.sleep(0.1)
            watcher.verified(sum(done.values()), size * len(receivers))
        watcher.verified(size * len(receivers), size * len(receivers))
        return {host: future.result() for host, future in futures.items()}


def _rates(lab: Lab) -> dict[tuple[str, str], int]:
    ends = [(cable, port) for cable in lab.plan.cables for port in (cable.a, cable.b)]
    return {(port.node, port.neighbour): cable.rate_of(port) for cable, port in ends}


def post(lab: Lab, spec: GroupSpec) -> GroupRecord:
    try:
        return formed(lab.rest_json("POST", "/groups", given(spec)), GroupRecord, f"controller at {lab.rest}")
    except urllib.error.HTTPError as error:
        raise LabError(f"the controller refused the group: {_detail(error)}") from error
    except OSError as error:
        raise LabError(f"no controller at {lab.rest}: {error}") from error


def get(lab: Lab, form: type[T], path: str) -> T:
    """Patient: a controller that starts again is no end of a transfer."""
    for _ in range(int(PATIENCE_S / POLL_S)):
        try:
            return formed(lab.rest_json("GET", path), form, f"controller at {lab.rest}")
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise LabError(f"{path}: {_detail(error)}") from error
        except (OSError, ValueError):
            pass
        lab.signals.sleep(POLL_S)
        lab.supervisor.check()
    raise LabError(f"no controller at {lab.rest} for {PATIENCE_S:g} s")


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        body = json.loads(error.read())
        return f"{body.get('detail', error)}" + (f" ({body['remedy']})" if body.get("remedy") else "")
    except (OSError, ValueError, AttributeError):
        return str(error)
