"""The fault matrix on real labs: everybody who lives gets the file, whole. `make test-faults` runs all rows (one lab
per topology, mended after each row), PLANE=memif or ip those that another data plane can do; `make test` runs a few."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_rows import PLACES, ROWS, Row
from lab_kit import Quiet
from left_over import unique_name
from ports import free_ports

from datacast import topologies
from datacast.fabric_manager.api import GroupOptions
from datacast.lab import run as lab_run
from datacast.lab.errors import LabError
from datacast.lab.faults import parse_faults, small_disks, switches_apart
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

ALL = bool(os.environ.get("DATACAST_FAULTS"))
PLANE = os.environ.get("DATACAST_FAULTS_PLANE") or "dpdk"


def can(row: Row) -> bool:
    """Not every fault can strike every data plane: hosts that share memory with their switch have no cable to cut."""
    try:
        parse_faults(list(row.faults), topologies.parse(PLACES[row.place].topology), PLANE)
    except LabError:
        return False
    return True


CHOSEN = [row for row in ROWS if (ALL or row.fast) and (PLANE == "dpdk" or can(row))]
DISK = 48 << 20
WHOLE_S = 30.0
PATIENCE_S = 75.0
KEPT = Path(__file__).resolve().parents[2] / "build" / "faults"
"""What a row that failed leaves behind: the group as it was told, and the logs."""


class Labs:
    """The lab of one place at a time; a lab that could not be mended is replaced."""

    def __init__(self) -> None:
        self.lab: Lab | None = None
        self.place = ""
        self.rows = 0

    def of(self, name: str) -> Lab:
        if self.place != name:
            self.close()
            place = PLACES[name]
            graph = topologies.parse(place.topology)
            faults = parse_faults([f for row in CHOSEN if row.place == name for f in row.faults], graph, PLANE)
            rest, fabric = free_ports(2)
            options = LabOptions(
                topology=place.topology,
                rate_bps=place.rate_bps,
                dataplane=PLANE,
                mtu=1500,
                rest_port=rest,
                fabric_port=fabric,
                room=len(place.receivers) * place.size * max(row.larger for row in CHOSEN if row.place == name),
                apart=switches_apart(faults),
                disks=tuple((host, DISK) for host in small_disks(faults)),
            )
            lab = Lab(options, unique_name(f"faults-{name}")).__enter__()
            try:
                lab.up()
            except BaseException:
                lab.__exit__()
                raise
            self.lab, self.place = lab, name
        assert self.lab is not None
        return self.lab

    def close(self) -> None:
        lab, self.lab, self.place = self.lab, None, ""
        if lab is not None:
            lab.__exit__()

    def whole(self) -> None:
        """Everybody is registered and every link is up again."""
        lab = self.lab
        assert lab is not None
        view: dict[str, Any] = {}

        def ready() -> bool:
            try:
                view.update(lab.rest_json("GET", "/topology"))
            except (OSError, ValueError):
                return False
            return all(n["registered"] for n in view["nodes"]) and all(link["up"] for link in view["links"])

        end = time.monotonic() + WHOLE_S
        while not ready():
            if time.monotonic() > end:
                away = [n["name"] for n in view.get("nodes", ()) if not n["registered"]]
                down = [f"{link['u']}-{link['v']}" for link in view.get("links", ()) if not link["up"]]
                pytest.fail(f"not whole again after {WHOLE_S:g} s: unregistered {away}, down {down}")
            time.sleep(0.05)


def keep(row: Row, lab: Lab, group: dict[str, Any]) -> None:
    folder = KEPT / str(row)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "group.json").write_text(json.dumps(group, indent=1))
    shutil.copytree(lab.work / "logs", folder / "logs")


@pytest.fixture(scope="module")
def labs() -> Iterator[Labs]:
    found = Labs()
    yield found
    found.close()


@pytest.mark.parametrize("row", CHOSEN, ids=str)
def test_those_who_live_get_the_file(row: Row, labs: Labs) -> None:
    place = PLACES[row.place]
    lab = labs.of(row.place)
    graph = topologies.parse(place.topology)
    transfer = lab_run.Transfer(
        source=place.source,
        receivers=place.receivers,
        size=place.size * row.larger,
        options=GroupOptions(**row.options),
        faults=parse_faults(list(row.faults), graph, PLANE),
    )
    last: dict[str, Any] = {}
    end = time.monotonic() + PATIENCE_S

    def look(group: dict[str, Any]) -> None:
        last.update(group)
        if time.monotonic() > end:
            pytest.fail(
                f"the group is {group['state']} after {PATIENCE_S:g} s; it and the logs are in {KEPT / str(row)}"
            )

    labs.rows += 1
    dest = f"row{labs.rows}.bin"
    whole = False
    try:
        report = plain(lab_run.send(lab, lab_run.settle(graph, transfer), Quiet(look), dest, mend=True))
        labs.whole()
        whole = True
    finally:
        if not whole:
            keep(row, lab, last)
            labs.close()
    told = {name: (r["state"], r.get("error")) for name, r in report["receivers"].items()}
    try:
        assert [f for f in report["faults"] if f["error"]] == []
        wrong = [name for name, r in report["receivers"].items() if not r["sha256_ok"] and name not in row.lost]
        assert wrong == [], (report["state"], report["error"], told)
        assert report["state"] == ("partial" if row.lost else "done"), (report["error"], told)
        assert [name for name in row.lost if report["receivers"][name]["sha256_ok"]] == []
        anew = [f for f in row.faults if f.startswith(("kill switch", "kill agent", "upgrade switch", "power loss"))]
        assert not anew or report["link_stress"] is None, "it would be of a part of what was sent"
        if row.corrupt:
            assert sum(r["bad_blocks"] for r in report["receivers"].values()) > 0
    except AssertionError:
        keep(row, lab, last)
        raise
    finally:
        for host in place.receivers:
            (lab.host_folder(host) / dest).unlink(missing_ok=True)
