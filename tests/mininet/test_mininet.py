"""The scripts of examples/, and `mn --custom`, as a user runs them."""

from __future__ import annotations

import os
import re
import shutil
import sys

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
