"""/metrics by conventions; every metric that the dashboard and the alerts name is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from datacast.controller.audit import Audit
from datacast.controller.metrics import HOSTS_MAX, AuditMetrics, Fabric, FabricMetrics, RequestMetrics, render
from datacast.fabric_manager.api.records import Disk, FabricHealth, Host
from datacast.fabric_manager.totals import Totals

MONITORING = Path(__file__).resolve().parents[2] / "packaging" / "monitoring"
NAME = re.compile(r"\bdatacast_[a-z_]+")
HEALTH = FabricHealth(
    topology="star", version=1, hosts=3, agents=2, switches=1, switches_registered=1, links_down=0, workers=[],
    streams=0, reports={"register": 3, "heartbeat": 70}, certificate_until=1.8e9,
)  # fmt: skip


def host(name: str) -> Host:
    disks = [Disk(path="/r", free_bytes=7, size_bytes=9)]
    return Host(
        name=name, registered=True, alive=True, cordoned=None, most_bps=None, groups=[], version=None, clock_ms=1500.0,
        certificate_until=1.9e9, disks=disks,
    )  # fmt: skip


def scrape(hosts: int = 2) -> str:
    own = RequestMetrics()
    with tempfile.TemporaryDirectory() as folder:
        own.registry.register(AuditMetrics(Audit(Path(folder) / "audit.jsonl")))
    own.requests.labels("/groups", "GET", 200).inc()
    own.seconds.labels("/groups").observe(0.01)
    return render(own, FabricMetrics(Fabric(HEALTH, Totals().told([]), [host(f"h{i}") for i in range(hosts)]))).decode()


def test_the_dashboard_and_the_alerts_name_nothing_that_is_not_there() -> None:
    there = {sample.name for family in text_string_to_metric_families(scrape()) for sample in family.samples}
    board = json.loads((MONITORING / "grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"][0]["rules"]
    asked += [rule["expr"] for rule in rules]
    named = {name for text in asked for name in NAME.findall(text)}
    assert named and not named - there
    told = {name for name in there if not name.endswith(("_count", "_sum"))}
    assert not told - named, "what nobody looks at need not be told"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)


def test_each_number_is_told_and_a_state_that_nobody_is_in_as_none() -> None:
    told = structs.replace(
        Totals().told([]), groups={"running": 2}, receivers={"done": 3}, received_bps=80, sent_bps=16, unwritten=5,
        ended={"done": 4}, packets={"new": 6}, delivered_bytes=7, retransmissions=8,
    )  # fmt: skip
    samples = [one for family in FabricMetrics(Fabric(HEALTH, told, [])).collect() for one in family.samples]
    found = {" ".join([s.name, *s.labels.values()]).removeprefix("datacast_"): s.value for s in samples}
    groups = dict.fromkeys(("queued", "starting", "running", "cancelling", "done", "partial", "failed", "cancelled"), 0)
    receivers = dict.fromkeys(("waiting", "open", "running", "aside", "done", "failed", "cancelled"), 0)
    ended = dict.fromkeys(("done", "partial", "failed", "cancelled"), 0)
    assert found == {
        "fabric_manager_up": 1, "certificate_end_timestamp_seconds": 1.8e9,
        "hosts": 3, "agents": 2, "switches": 1, "switches_registered": 1, "links_down": 0,
        "delivery_bytes_per_second": 10, "source_bytes_per_second": 2, "unwritten_bytes": 5,
        "source_packets_total new": 6, "source_packets_total duplicate": 0, "delivered_bytes_total": 7,
        "registry_messages_total register": 3, "registry_messages_total heartbeat": 70, "retransmissions_total": 8,
        **{f"groups {state}": n for state, n in (groups | {"running": 2}).items()},
        **{f"receivers {state}": n for state, n in (receivers | {"done": 3}).items()},
        **{f"groups_ended_total {state}": n for state, n in (ended | {"done": 4}).items()},
    }  # fmt: skip


def test_the_first_certificate_to_end_is_told_also_where_the_fabric_manager_is_away() -> None:
    """A switch's, or a service's own: only those of hosts were."""

    def told(fabric: Fabric | None, *until: float | None) -> list[float]:
        families = FabricMetrics(fabric, *until).collect()
        return [s.value for family in families for s in family.samples if "certificate" in s.name]

    fabric = Fabric(HEALTH, Totals().told([]), [])
    assert told(fabric, None) == told(fabric, 1.9e9) == [1.8e9] and told(fabric, 1.7e9) == [1.7e9]
    assert told(None, 1.7e9) == [1.7e9] and told(None, None) == []
    assert told(fabric, 1.7e9, 1.6e9) == told(fabric, None, 1.6e9) == [1.6e9], "REST may have one of its own"


def test_labels_are_bounded() -> None:
    assert 'datacast_host_clock_offset_seconds{host="h1"} 1.5' in scrape()
    assert 'datacast_host_certificate_end_timestamp_seconds{host="h1"} 1.9e+09' in scrape()
    assert "{host=" in scrape(HOSTS_MAX) and "{host=" not in scrape(HOSTS_MAX + 1)


def test_promtool_finds_nothing(tmp_path: Path) -> None:
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    done = subprocess.run(["promtool", "check", "metrics"], input=scrape(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    done = subprocess.run(
        ["promtool", "check", "rules", str(MONITORING / "alerts.yaml")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rules = tmp_path / "board.yaml"
    board = json.loads((MONITORING / "grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    records = [{"record": f"panel:{i}", "expr": text} for i, text in enumerate(asked)]
    rules.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": records}]}))
    done = subprocess.run(["promtool", "check", "rules", str(rules)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
