"""`datacast doctor --site`: a running deployment, as its controller sees it, and this machine's certificates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from datacast.controller.api import ControllerClient
from datacast.core.errors import DatacastError
from datacast.lab.checks import Check
from datacast.services.problems import Problem

CERTIFICATES = Path("/etc/datacast/tls")
NAMES_MAX = 8


def _some(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:NAMES_MAX]) + (" …" if len(found) > NAMES_MAX else "")


def site_checks(client: ControllerClient, certificates: Path = CERTIFICATES) -> list[Check]:
    """Everything that can be told from here."""
    try:
        fabric = client.topology()
    except Problem as problem:
        return [Check("controller", False, True, str(problem), problem.remedy), *_certificates(certificates)]
    return [
        Check("controller", True, True, f"answers: {fabric['spec']}"),
        *_nodes(fabric),
        *_links(fabric),
        *_certificates(certificates),
    ]


def _nodes(fabric: dict[str, Any]) -> list[Check]:
    away = [node["name"] for node in fabric["nodes"] if node.get("registered") is False]
    remedy = "journalctl -u datacast-agent (datacast-switch) there; its fabric-manager, certificate and clock"
    registered = Check(
        "nodes",
        not away,
        True,
        f"{len(away)} not registered: {_some(away)}" if away else f"all {len(fabric['nodes'])} registered",
        remedy if away else "",
    )
    versions = Counter(node["version"] for node in fabric["nodes"] if node.get("version"))
    if len(versions) < 2:
        return [registered]
    told = ", ".join(f"{version} on {count}" for version, count in versions.most_common())
    return [registered, Check("versions", False, False, told, "apt-get install the same package everywhere")]


def _links(fabric: dict[str, Any]) -> list[Check]:
    down = [f"{link['u']}:{link['u_port']}-{link['v']}:{link['v_port']}" for link in fabric["links"] if not link["up"]]
    carrier = Check(
        "links",
        not down,
        True,
        f"{len(down)} down: {_some(down)}" if down else f"all {len(fabric['links'])} up",
        "ip link on both ends: carrier, MTU; a device between must pass EtherType 0x88B6" if down else "",
    )
    sizes = Counter(link["mtu"] for link in fabric["links"])
    odd = (
        [f"{link['u']}-{link['v']}" for link in fabric["links"] if link["mtu"] == min(sizes)] if len(sizes) > 1 else []
    )
    told = (
        f"{min(sizes)} on {_some(odd)}, {max(sizes)} elsewhere"
        if odd
        else f"{_some(map(str, sizes)) or '-'} everywhere"
    )
    return [carrier, Check("MTU", not odd, False, told, "groups over these links use smaller packets" if odd else "")]


def _certificates(folder: Path) -> list[Check]:
    from datacast.services.authority import describe

    checks = []
    for path in sorted(folder.glob("*.pem")):
        try:
            told = describe(path)
        except (DatacastError, OSError, ValueError) as error:
            checks.append(Check(path.name, False, True, f"cannot be read: {error}", "run as root"))
            continue
        good = told["state"] == "ok"
        text = f"{told['identity'] or 'authority'}, {told['days_left']:.0f} days left"
        late = told["state"] in ("expired", "not_yet")
        checks.append(
            Check(path.name, good, late, text, "" if good else "datacast certs renew, and this machine's clock")
        )
    return checks
