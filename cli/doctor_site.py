"""`datacast doctor --site`: a running deployment, as its controller sees it, and this machine's certificates."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from datacast.controller.api import ControllerClient
from datacast.controller.api.records import Topology
from datacast.core.errors import DatacastError
from datacast.core.lists import few
from datacast.fabric_manager.api.topology import LoadedLink, PortState
from datacast.lab.checks import Check
from datacast.services.problems import Problem

CERTIFICATES = Path("/etc/datacast/tls")
CLOCK_MS = 500
CERTIFICATE_DAYS = 30
DISK_PART = 0.05
Ports = dict[tuple[str, int], PortState]
"""By node and number."""
REASONS = {"carrier": "no carrier", "silent": "no hello arrives", "unheard": "its hellos do not arrive"}


def site_checks(client: ControllerClient, certificates: Path = CERTIFICATES) -> list[Check]:
    """Everything that can be told from here."""
    try:
        fabric = client.topology()
    except Problem as problem:
        return [Check("controller", False, True, str(problem), problem.remedy), *_certificates(certificates)]
    return [
        Check("controller", True, True, f"answers: {fabric.spec}"),
        *_nodes(fabric),
        *_links(fabric),
        *_certificates(certificates),
    ]


def _nodes(fabric: Topology) -> list[Check]:
    away = [node.name for node in fabric.nodes if not node.registered]
    registered = Check(
        "nodes",
        not away,
        True,
        f"{len(away)} not registered: {few(away)}" if away else f"all {len(fabric.nodes)} registered",
        "journalctl -u datacast-agent (datacast-switch) there; its fabric-manager, certificate and clock"
        if away
        else "",
    )
    programs = {node.name: node.version for node in fabric.nodes if node.version} | fabric.services
    versions = Counter(programs.values())
    most = max(versions, key=lambda version: versions[version], default="")
    others = [f"{v} ({few([p for p in programs if programs[p] == v])})" for v in versions if v != most]
    told = ", ".join([f"{most} ({versions[most]} programs)", *others])
    return [
        registered,
        Check(
            "versions",
            len(versions) < 2,
            False,
            told if versions else "told by nobody",
            "apt-get install the same package everywhere" if len(versions) > 1 else "",
        ),
        _clocks(fabric),
        _certificates_of_nodes(fabric),
        _disks(fabric),
    ]


def _clocks(fabric: Topology) -> Check:
    """Against the fabric manager's, by heartbeats."""
    off = {node.name: node.clock_ms for node in fabric.nodes if node.clock_ms is not None}
    wrong = {name: ms for name, ms in off.items() if abs(ms) > CLOCK_MS}
    if not off:
        return Check("clocks", True, False, "told by nobody yet")
    most = max(off.values(), key=abs)
    told = [f"{name} by {abs(ms) / 1000:.1f} s {'behind' if ms > 0 else 'ahead'}" for name, ms in wrong.items()]
    return Check(
        "clocks",
        not wrong,
        False,
        f"{len(wrong)} are off: {few(told)}" if wrong else f"within {abs(most):.0f} ms of the fabric manager's",
        "timedatectl set-ntp true there: certificates and finish times need clocks that agree" if wrong else "",
    )


def _certificates_of_nodes(fabric: Topology) -> Check:
    """Those that they registered with."""
    now = time.time()
    ends = {node.name: node.certificate_until for node in fabric.nodes if node.registered}
    left = {name: (until - now) / 86400 for name, until in ends.items() if until is not None}
    if not left:
        return Check("certificates", True, False, "no node showed one")
    soon = {name: days for name, days in sorted(left.items(), key=lambda row: row[1]) if days < CERTIFICATE_DAYS}
    told = few(f"{name} {'has ended' if days <= 0 else f'in {days:.0f} days'}" for name, days in soon.items())
    return Check(
        "certificates",
        not soon,
        min(left.values()) <= 0,
        f"{len(soon)} end soon: {told}" if soon else f"the first ends in {min(left.values()):.0f} days",
        "datacast certs renew, or datacast admit and `datacast join --again` there" if soon else "",
    )


def _disks(fabric: Topology) -> Check:
    full = [
        f"{node.name}:{root} has {free / 1e9:.1f} GB"
        for node in fabric.nodes
        for root, (free, size) in zip(node.dest_roots, node.disks, strict=False)
        if free < DISK_PART * size
    ]
    told = f"{len(full)} nearly full: {few(full)}" if full else "room for files everywhere"
    return Check("disks", not full, False, told, "make room, or give another dest-root" if full else "")


def _links(fabric: Topology) -> list[Check]:
    ports = {(node.name, port.port): port for node in fabric.nodes if node.registered for port in node.ports}
    down = [_why_down(link, ports) for link in fabric.links if not link.up]
    carrier = Check(
        "links",
        not down,
        True,
        f"{len(down)} down: {few(down)}" if down else f"all {len(fabric.links)} up",
        "carrier: cable, ip link set IFACE up; hello: a device between must pass EtherType 0x88B6" if down else "",
    )
    small, odd = [], []
    for link in fabric.links:
        ends = [
            (f"{name}:{port.ifname}", port.mtu)
            for name, number in ((link.u, link.u_port), (link.v, link.v_port))
            if (port := ports.get((name, number))) is not None and port.mtu
        ]
        small += [f"{end} has {mtu}, the site says {link.mtu}" for end, mtu in ends if mtu < (link.mtu or 0)]
        if len({mtu for _, mtu in ends}) > 1:
            odd.append(" and ".join(f"{end} {mtu}" for end, mtu in ends))
    tried, lost = _carried(fabric, ports)
    told = f"{len(small)} too small: {few(small)}" if small else f"{len(odd)} differ at their ends: {few(odd)}"
    return [
        carrier,
        Check(
            "MTU",
            not small and not odd,
            bool(small),
            told if small or odd else f"{few(sorted({str(link.mtu) for link in fabric.links})) or '-'}, as set",
            "ip link set IFACE mtu N at both ends, or a smaller mtu for the site" if small or odd else "",
        ),
        Check(
            "frames",
            not lost,
            True,
            f"{len(lost)} links lose long ones: {few(lost)}"
            if lost
            else f"full-size ones came through {tried} of {len(fabric.links)} links, both ways",
            "a device between carries less than both ends: raise its MTU, or lower both ends' and the site's"
            if lost
            else "",
        ),
    ]


def _carried(fabric: Topology, ports: Ports) -> tuple[int, list[str]]:
    """Links that full-size hellos came through both ways, and directions in which they did not. What says no hello
    (an OpenFlow or P4 switch) is neither."""
    tried, lost = 0, []
    for link in fabric.links:
        if not link.up:
            continue
        good = 0
        for source, target, number in ((link.u, link.v, link.v_port), (link.v, link.u, link.u_port)):
            port = ports.get((target, number))
            if port is None or port.carried is None:
                continue
            if port.carried >= (link.mtu or 0):
                good += 1
            else:
                lost.append(f"of {link.mtu} bytes from {source} to {target}:{port.ifname}")
        tried += good == 2
    return tried, lost


def _why_down(link: LoadedLink, ports: Ports) -> str:
    """Both ends of it, with what the end says that has a reason."""
    told = []
    for name, number in ((link.u, link.u_port), (link.v, link.v_port)):
        port = ports.get((name, number))
        reason = REASONS.get(port.reason or "", "") if port else ""
        told.append(f"{name}:{(port and port.ifname) or number}{f' ({reason})' if reason else ''}")
    return "-".join(told)


def _certificates(folder: Path) -> list[Check]:
    from datacast.services.authority import describe

    checks = []
    for path in sorted(folder.glob("*.pem")):
        try:
            told = describe(path)
        except (DatacastError, OSError, ValueError) as error:
            checks.append(Check(path.name, False, True, f"cannot be read: {error}", "run as root"))
            continue
        good = told.state == "ok"
        text = f"{told.identity or 'authority'}, {told.days_left:.0f} days left"
        late = told.state in ("expired", "not_yet")
        checks.append(
            Check(path.name, good, late, text, "" if good else "datacast certs renew, and this machine's clock")
        )
    return checks
