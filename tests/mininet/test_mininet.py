"""The scripts of examples/, and `mn --custom`, as a user runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from types import SimpleNamespace

import box
import pytest

pytestmark = [pytest.mark.root, pytest.mark.lab, pytest.mark.slow]
at_length = pytest.mark.skipif(not os.environ.get("DATACAST_FAULTS"), reason="a part of `make test-faults`")


def small(tmp: os.PathLike[str], size: int = 1 << 20) -> str:
    """A file of random bytes outside /tmp, which the box covers."""
    path = os.path.join("/var/tmp", f"datacast-test-{os.getpid()}.bin")
    with open(path, "wb") as out:
        out.write(os.urandom(size))
    return path


@pytest.fixture
def file(tmp_path):
    path = small(tmp_path)
    yield path
    os.unlink(path)


def test_mn_with_our_classes_pings_all_of_bcube():
    done = box.run(
        *("mn", "--custom", "mn/custom.py", "--topo", "bcube,2,1", "--switch", "datacast"),
        *("--controller", "datacast,rate=50mbit", "--test", "pingall"),
    )
    assert "0% dropped (12/12 received)" in done.stdout, done.stdout
    assert "ModuleNotFoundError" not in done.stdout, "mn's Python has no datacast"


def test_a_user_s_own_topology_pings_and_delivers_at_the_rate_of_its_slowest_cable(file):
    out = box.script("own_topology", file)
    assert "1 packets transmitted, 1 received" in out
    finish = re.search(r"delivered to 3 in ([0-9.]+) s", out)
    assert finish and float(finish[1]) > 0.95 * (1 << 20) * 8 / 40e6


def test_the_tutorial_s_script_runs_as_it_stands_there():
    page = (box.ROOT / "docs" / "tutorials" / "mininet.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    done = box.run(sys.executable, "-c", code)
    assert done.returncode == 0 and "1 received" in done.stdout and "delivered to 3" in done.stdout, done.stdout


PLAYED = """
import sys
from functools import partial
from mininet.link import Link, TCLink
from datacast.mininet import DatacastNet, topos

for link in (Link, partial(TCLink, max_queue_size=None)):
    net = DatacastNet(topo=topos["file"]("/tmp/topology.json"), link=link)
    net.start()
    try:
        print("ping", net["h1"].cmd("ping -c 5 -i 0.2 -W 2", net["h2"].IP()))
        for node, port in (("h1", "h1-eth0"), ("s1", "s1-eth1"), ("s1", "s1-eth2"), ("s1", "s1-eth3")):
            print("port", port, net[node].cmd(f"tc -s qdisc show dev {port}; tc class show dev {port}"))
        print(net.datacast.send("h1", "/tmp/file", ["h2"]))
        assert "100% packet loss" in net["h1"].cmd("ping -c 1 -W 1", net["h3"].IP()), "a link that is down"
        net.configLinkStatus("h3", "s1", "up")
        slower = net.datacast.send("h1", "/tmp/file", ["h3"], dest="later", faults=["link h3:0 rate 9mbit at 0s"])
        print(slower, slower.report.faults[0].error)
        print(net["h3"].cmd("tc qdisc show dev h3-eth0; tc class show dev h3-eth0"))
    finally:
        net.stop()
"""


def test_links_of_a_file_have_their_rates_and_delays():
    """Also those that Mininet shapes itself; and one that is down waits for the user."""
    edges = [
        {"source": "h1", "target": "s1", "rates_bps": {"h1": 20_000_000, "s1": 30_000_000}, "delay_ms": 10},
        {"source": "h2", "target": "s1", "rate_bps": 33_333_333},
        {"source": "h3", "target": "s1", "up": False, "rate_bps": 100_000_000},
    ]
    nodes = [{"id": name, "kind": "host"} for name in ("h1", "h2", "h3")] + [{"id": "s1", "kind": "switch"}]
    command = "echo \"$1\" >/tmp/topology.json; head -c 1M /dev/urandom >/tmp/file; exec \"$2\" -c \"$3\""
    told = json.dumps({"nodes": nodes, "edges": edges})
    done = box.run("sh", "-c", command, "sh", told, sys.executable, PLAYED)
    assert done.returncode == 0, done.stdout
    for rate, count in (("20Mbit", 2), ("30Mbit", 2), ("33333Kbit", 2), ("100Mbit", 2), ("9Mbit", 2)):
        assert len(re.findall(f"rate {rate} ", done.stdout)) == count, done.stdout
    round_trips = [float(ms) for ms in re.findall(r"time=([0-9.]+)", done.stdout)]
    assert len(round_trips) == 10 and min(round_trips) >= 20, done.stdout
    finish = [float(s) for s in re.findall(r"delivered to 1 in ([0-9.]+) s", done.stdout)]
    assert len(finish) == 4 and min(finish) > 0.95 * (1 << 20) * 8 / 20e6, done.stdout


def test_rates_that_nothing_in_a_plain_network_plays_are_refused():
    code = """
from mininet.node import OVSBridge
from datacast.mininet import DatacastNet, topos
DatacastNet(topo=topos["torus"](3, 1, **{option}), switch=OVSBridge, controller=None).start()
"""
    for option, what in (({"bw": 10}, "a rate"), ({"delay_ms": 5}, "a delay")):
        done = box.run(sys.executable, "-c", code.replace("{option}", str(option)))
        assert done.returncode and f"has {what} that nothing in this network plays" in done.stdout, done.stdout


@pytest.mark.parametrize(
    "given, wrong", [("rat=50mbit", "rat: unknown key"), ("mtu=100", "mtu: "), ("lab=a/b", "is no name for a lab")]
)
def test_a_setting_that_is_none_is_refused(given, wrong):
    done = box.run(
        *("mn", "--custom", "mn/custom.py", "--topo", "torus,3,1", "--switch", "datacast", "--test", "none"),
        *("--controller", f"datacast,{given}"),
    )
    assert wrong in done.stdout, done.stdout


ENDED = """
import os, signal
from datacast.mininet import DatacastNet, topos

net = DatacastNet(topo=topos["leafspine"](1, 1, 2))
net.start()
print("mark", net.datacast.lab.identity)
os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_script_that_ends_without_stop_leaves_nothing():
    """A shell, as the first process, would take the others along."""
    look = "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep DATACAST_LAB_ID; ls /tmp/run /tmp /dev/shm; ip link"
    done = box.run("sh", "-c", f'"$1" -c "$2"; echo AFTER; {look}', "sh", sys.executable, ENDED)
    before, _, after = done.stdout.partition("AFTER")
    assert "KeyboardInterrupt" in before and "mark" in before, done.stdout
    assert not re.search(r"DATACAST_LAB_ID|mininet|dclab", after), after


def test_receivers_and_faults_are_lists():
    from datacast.lab.errors import LabError
    from datacast.mininet.service import Datacast

    for given in ({"receivers": "h2"}, {"receivers": ["h2"], "faults": "link s1:0 down"}):
        with pytest.raises(LabError, match=r"is a list.*\n.*give \["):
            Datacast.send(None, "h1", __file__, **given)


FAILS = """
from mininet.node import OVSSwitch
from mininet.topo import Topo
from datacast.mininet import DatacastNet, DatacastSwitch

class Mixed(Topo):
    def build(self):
        for i, kind in enumerate((DatacastSwitch, OVSSwitch), 1):
            self.addLink(self.addHost(f"h{i}"), self.addSwitch(f"s{i}", cls=kind))

net = DatacastNet(topo=Mixed())
try:
    net.start()
finally:
    net.stop()
"""


def test_what_a_start_failed_of_is_the_last_that_is_said():
    """Mininet's own stop fails twice then: over a switch that was not started, and over links that are gone."""
    said = box.run(sys.executable, "-c", FAILS).stdout
    assert re.search(r"LabError: switch s2 is no Datacast switch.*\n.*cls=DatacastSwitch.*\s*\Z", said), said


def test_a_delivery_says_in_a_line_what_came_of_it_and_why():
    from datacast.mininet import Delivery

    def told(*errors, whole=None):
        receivers = {
            f"h{i}": SimpleNamespace(sha256_ok=not error, error=SimpleNamespace(message=error) if error else None)
            for i, error in enumerate(errors)
        }
        error = SimpleNamespace(message=whole) if whole else None
        report = SimpleNamespace(receivers=receivers, error=error, state="partial", link_stress=None)
        return repr(Delivery(not any(errors), None, None, dict.fromkeys(receivers), report))

    assert told("", "") == "<delivered to 2>"
    assert told("", "disk full") == "<NOT delivered: 1 of 2 have it: h1: disk full>"
    assert told("cut off", whole="no path leads there") == "<NOT delivered: 0 of 1 have it: no path leads there>"


def test_a_file_that_is_not_named_is_asked_for():
    from datacast.mininet import topos
    from datacast.topologies import FileError

    with pytest.raises(FileError, match="give file,PATH"):
        topos["file"]()
    with pytest.raises(FileError, match="/no/such,7"):
        topos["file"]("/no/such", 7)


def test_a_failed_link_stops_neither_the_delivery_nor_ping(file):
    out = box.script("failed_link", file)
    assert "delivered to 2" in out and "NOT" not in out
    assert "0 % of pings lost" in out


@at_length
def test_one_tree_against_two(file):
    out = box.script("trees", file)
    one, two = re.findall(r"ideal ([0-9.]+) s", out)
    assert float(two) < 0.6 * float(one)
    assert out.count("delivered to 8") == 2 and "NOT" not in out


@at_length
def test_a_cache_sends_what_the_source_sent_once(file):
    out = box.script("caching", file, "/tmp/caching.pcap")
    assert out.count("delivered to 3") == 2 and "NOT" not in out
    size = os.path.getsize(file) / 1e6
    sent = [float(value) for value in re.findall(r"h1 sent ([0-9.]+) MB", out)]
    copies = [float(value) for value in re.findall(r"the switch sent ([0-9.]+) MB", out)]
    finish = [float(value) for value in re.findall(r"after ([0-9.]+) s", out)]
    together, alone = finish[:3], finish[3:]
    assert sent[0] < 1.2 * size and sent[1] < 2.4 * size
    assert all(copy > 0.95 * size for copy in copies)
    assert alone[0] < 0.6 * together[0], "who is fast does not wait for who is slow"


def need_bmv2(kinds):
    if "bmv2" in kinds and not (shutil.which("simple_switch_grpc") and (box.ROOT / "build/p4/datacast.json").exists()):
        pytest.skip("bmv2 or the compiled P4 program is not there")


@at_length
@pytest.mark.parametrize("kinds", ["ovs,dpdk,ovs", "bmv2,dpdk,ovs"])
def test_switches_of_several_kinds_in_one_network(file, kinds):
    need_bmv2(kinds)
    out = box.script("bmv2_switch", file, kinds)
    assert "delivered to 2" in out and "NOT" not in out
    assert "0 % of pings lost" in out


PING = """
import sys
sys.path.insert(0, "examples")
from bmv2_switch import DatacastBmv2, DatacastNet, DatacastOVS, DatacastSwitch, Line
kinds = {"bmv2": DatacastBmv2, "ovs": DatacastOVS, "dpdk": DatacastSwitch}
net = DatacastNet(topo=Line(kinds=[kinds[name] for name in sys.argv[1].split(",")]))
net.start()
try:
    for one, other in (("h1", "h3"), ("h3", "h1"), ("h2", "h1"), ("h3", "h2")):
        print(net[one].cmd("ping -c 2 -i 0.3 -W 2", net[other].IP()))
finally:
    net.stop()
"""


@at_length
@pytest.mark.parametrize("kinds", ["ovs,ovs,ovs", "bmv2,dpdk,ovs", "bmv2,bmv2,bmv2"])
def test_ordinary_ip_is_forwarded_once(kinds):
    """By the kernel, and by no switch beside it."""
    need_bmv2(kinds)
    done = box.run(sys.executable, "-c", PING, kinds)
    assert done.returncode == 0 and done.stdout.count("2 packets transmitted, 2 received") == 4, done.stdout
    assert "DUP!" not in done.stdout and "duplicates" not in done.stdout, done.stdout
