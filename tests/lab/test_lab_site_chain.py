"""Sites behind sites: pieces go on while they come in; a cut, a site that nobody can reach, a controller that dies."""

from __future__ import annotations

import time

import pytest
from sites_kit import Wan, wan

from datacast.lab.site_lab import CONTROLLER_PORT

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

SITES = """
sites:
  ams: {hosts: 1}
  sfo: {hosts: 2}
  syd: {hosts: 2, nat: true}
links:
  - {between: [ams, sfo], rate: 40mbit, delay_ms: 10}
  - {between: [sfo, syd], rate: 40mbit, delay_ms: 10}
"""
MIB = 1 << 20


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory):
    """`syd` is behind `sfo`, and nobody can reach it: it asks."""
    with wan(tmp_path_factory.mktemp("chain"), SITES) as up:
        yield up


def cut(site: Wan, a: str, b: str, up: bool) -> None:
    """Frames are lost both ways; the routes stay."""
    for node, port in site.lab.graph.edges[f"{a}-gw", f"{b}-gw"]["ports"].items():
        site.lab.network.swallow(node, port, not up)


def test_a_site_behind_another_gets_pieces_while_they_come_in(chain: Wan):
    path = chain.file(16 * MIB)
    with chain.carried(16 * MIB) as links:
        group = chain.order("ams", path, ["*/all"])
        chain.until("ams", group, 0.2, "sfo")
        group = before = chain.now("ams", group)
        while max(figures["fraction"] for figures in group["receivers"].values()) < 0.9:  # as far as the nearer site is
            group, before = chain.now("ams", group), group
            time.sleep(0.1)
        assert before["receivers"]["sfo/syd/syd-0"]["fraction"] > 0.2, before  # it has not waited for the whole
        group = chain.end("ams", group)
    assert group["state"] == "done", chain.told(group)
    assert all(chain.has(host, path) for host in ("sfo-0", "sfo-1", "syd-0", "syd-1"))
    assert set(group["receivers"]) == {"sfo/sfo-0", "sfo/sfo-1", "sfo/syd/syd-0", "sfo/syd/syd-1"}
    assert links["ams", "sfo"] < 1.05 and links["sfo", "syd"] < 1.05


def test_a_site_between_that_wants_nothing_itself_passes_on(chain: Wan):
    path = chain.file(4 * MIB)
    group = chain.end("ams", chain.order("ams", path, ["sfo/syd/syd-1"]))
    assert group["state"] == "done", chain.told(group)
    assert chain.has("syd-1", path) and not chain.has("sfo-0", path) and not chain.has("syd-0", path)


@pytest.mark.parametrize(
    ("to", "there"),
    [
        (["sfo/sfo-1"], {"sfo-1"}),
        (["sfo/all"], {"sfo-0", "sfo-1"}),  # HiMM's limited broadcast: one level
        (["sfo/*/all"], {"sfo-0", "sfo-1", "syd-0", "syd-1"}),  # deep: that site and all below it
        (["sfo/syd/all"], {"syd-0", "syd-1"}),
    ],
)
def test_a_broadcast_goes_as_deep_as_it_says(chain: Wan, to: list[str], there: set[str]):
    path = chain.file(MIB)
    group = chain.end("ams", chain.order("ams", path, to))
    assert group["state"] == "done", chain.told(group)
    assert {name.rpartition("/")[2] for name in group["receivers"]} == there
    assert {host for host in ("sfo-0", "sfo-1", "syd-0", "syd-1") if chain.has(host, path)} == there


def test_a_name_that_leads_back_is_refused(chain: Wan):
    path = chain.file(1000)
    group = chain.end("ams", chain.order("ams", path, ["sfo/ams/ams-0"]))
    assert group["state"] == "failed" and group["sites"]["sfo"]["error"]["code"] == "cycle", group


def test_a_cut_of_five_seconds_costs_the_site_behind_it_that_and_the_others_nothing(chain: Wan):
    path = chain.file(24 * MIB)
    with chain.carried(24 * MIB) as links:
        group = chain.order("ams", path, ["*/all"])
        far = "sfo/syd/syd-0"
        end = time.monotonic() + 120
        while chain.now("ams", group)["receivers"].get(far, {"fraction": 0})["fraction"] < 0.2:
            assert time.monotonic() < end, chain.logs()
            time.sleep(0.1)
        before = chain.now("ams", group)["receivers"]
        cut(chain, "sfo", "syd", False)
        try:
            time.sleep(5.0)
            near = chain.now("ams", group)["receivers"]
        finally:
            cut(chain, "sfo", "syd", True)
        got = {host: near[host]["fraction"] - before[host]["fraction"] for host in (far, "sfo/sfo-0")}
        assert got["sfo/sfo-0"] > max(0.1, got[far]), got  # it did not wait
        group = chain.end("ams", group)
    assert group["state"] == "done", chain.told(group)
    assert all(chain.has(host, path) for host in ("sfo-0", "sfo-1", "syd-0", "syd-1"))
    # The fifth that had come is not fetched again; what was in the cable and in the sender's sockets is, up to 0.07.
    assert links["sfo", "syd"] < 1.15


def test_a_controller_that_dies_goes_on_where_it_was(chain: Wan):
    path = chain.file(12 * MIB)
    group = chain.order("ams", path, ["*/all"])
    chain.until("ams", group, 0.2, "sfo")
    supervisor = chain.lab.supervisor
    one = next(p for p in supervisor.processes if p.name == "controller-sfo" and p.running)
    one.expected = True
    one.popen.kill()
    time.sleep(1.0)
    chain.lab.start_controller("sfo")
    group = chain.end("ams", group, 90)
    assert group["state"] == "done", chain.told(group)
    assert all(chain.has(host, path) for host in ("sfo-0", "sfo-1", "syd-0", "syd-1"))


def wan_port(site: Wan, a: str, b: str) -> str:
    """The interface of a's gateway towards b."""
    machine = site.lab.plan.machine_of(f"{a}-gw")
    return machine.ports[f"{a}-gw"][site.lab.graph.edges[f"{a}-gw", f"{b}-gw"]["ports"][f"{a}-gw"]].ifname


def rules(site: Wan, gateway: str, *rows: str) -> None:
    for row in rows:
        site.lab.network.run_in(site.lab.plan.machine_of(gateway).name, ["iptables", "-w", *row.split()])


def test_one_port_is_enough_and_a_site_that_lets_nobody_in_takes_part(chain: Wan):
    """`sfo` passes its controller's port and nothing else, `syd` no connection that begins outside, as behind NAT."""
    path, own = chain.file(2 * MIB), f"-p tcp --{{}} {CONTROLLER_PORT} -j ACCEPT"
    rules(chain, "sfo-gw", *(f"-A FORWARD {own.format(end)}" for end in ("dport", "sport")), "-A FORWARD -j DROP")
    rules(chain, "syd-gw", f"-A FORWARD -i {wan_port(chain, 'syd', 'sfo')} -p tcp --syn -j DROP")
    try:
        group = chain.end("ams", chain.order("ams", path, ["*/all"]))
        machine = chain.lab.plan.machine_of("sfo-gw").name
        counts = chain.lab.network.run_in(machine, ["iptables", "-w", "-L", "FORWARD", "-vnx"])
    finally:
        for gateway in ("sfo-gw", "syd-gw"):
            rules(chain, gateway, "-F FORWARD")
    assert group["state"] == "done", chain.told(group)
    assert all(chain.has(host, path) for host in ("sfo-0", "sfo-1", "syd-0", "syd-1"))
    passed, answered, dropped = (int(row.split()[0]) for row in counts.splitlines()[2:])
    assert passed > 100 and answered > 100 and dropped == 0, counts  # nothing else was even tried
