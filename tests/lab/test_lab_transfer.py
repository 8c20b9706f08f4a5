"""Whole labs: real files through real agents and packet caches, and what goes wrong on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from lab_kit import DATACAST, Quiet, asked_again, eventually, start_run
from left_over import unique_name
from ports import free_ports

from datacast.fabric_manager.api import GroupOptions
from datacast.lab.counters import traffic
from datacast.lab.lab import Lab, LabOptions
from datacast.lab.report import plain
from datacast.lab.run import Transfer, run, send, settle

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

FIGURE_10 = ("02", "10", "21", "23", "31", "33")


@pytest.fixture(scope="module")
def lab():
    """A BCube(4,1) that stays up for this file."""
    rest, fabric = free_ports(2)
    made = Lab(LabOptions(rest_port=rest, fabric_port=fabric, room=1 << 28), unique_name("transfer"))
    with made:
        made.up()
        yield made


def transfer(lab, watcher=None, **what):
    what = {"source": "00", "receivers": FIGURE_10, "seed": 1, **what}
    return plain(send(lab, settle(lab.graph, Transfer(**what)), watcher or Quiet()))


def test_figure_10_s_group_gets_its_file_over_two_trees_and_each_byte_crosses_each_link_once(lab):
    report = transfer(lab, size=8 << 20)
    assert report["ok"], report
    assert report["trees"]["count"] == 2
    assert all(figures["sha256_ok"] for figures in report["receivers"].values()) and len(report["receivers"]) == 6
    assert report["drops"].get("unknown_tree", 0) == 0
    assert report["link_stress"] is not None and 1.0 <= report["link_stress"] < 1.1 + asked_again(report), report


@pytest.mark.parametrize("size", [0, 1, 8966, 1_000_003])
def test_files_of_any_length_arrive_exact(lab, size):
    report = transfer(lab, size=size)
    assert report["ok"], report


def test_a_given_file_is_sent_as_it_is(lab, tmp_path):
    path = tmp_path / "some file.txt"
    path.write_text("hello\n" * 1000)
    report = transfer(lab, size=None, file=path, receivers=("33",))
    assert report["ok"], report


def test_one_tree_on_request(lab):
    report = transfer(lab, size=1 << 20, options=GroupOptions(trees=1))
    assert report["ok"] and report["trees"]["count"] == 1


def test_two_groups_from_different_sources_share_the_fabric(lab):
    reports = {}

    def go(source, receivers, name):
        spec = {"source": source, "source_path": str(path), "receivers": list(receivers), "dest_path": name}
        group = lab.rest_json("POST", "/groups", spec)
        while group["state"] not in ("done", "failed", "partial", "cancelled"):
            lab.signals.sleep(0.1)
            group = lab.rest_json("GET", f"/groups/{group['id']}")
        reports[source] = (group, receivers, name)

    path = lab.work / "shared.bin"
    path.write_bytes(os.urandom(4 << 20))
    threads = [
        threading.Thread(target=go, args=("00", FIGURE_10, "from00.bin")),
        threading.Thread(target=go, args=("11", ("00", "02", "23", "33"), "from11.bin")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(reports) == 2
    for group, receivers, name in reports.values():
        assert group["state"] == "done", group
        for host in receivers:
            assert (lab.host_folder(host) / name).read_bytes() == path.read_bytes()


def test_a_destination_outside_the_allowed_folder_fails_that_receiver_with_the_reason(lab):
    spec = {
        "source": "00",
        "source_path": str(lab.work / "fabric.sqlite"),
        "receivers": ["01"],
        "dest_path": "../../outside",
    }
    outcome = refused_or_failed(lab, spec)
    assert "outside" in outcome
    assert not (lab.work / "outside").exists()


def test_a_source_file_that_is_not_there_is_told(lab):
    assert "/no/such/file" in refused_or_failed(
        lab, {"source": "00", "source_path": "/no/such/file", "receivers": ["01"]}
    )


def refused_or_failed(lab, spec) -> str:
    """What a person reads: the refusal, or the failed group's errors."""
    import urllib.error

    try:
        group = lab.rest_json("POST", "/groups", spec)
    except urllib.error.HTTPError as error:
        return error.read().decode()
    while group["state"] not in ("done", "failed", "partial", "cancelled"):
        lab.signals.sleep(0.1)
        group = lab.rest_json("GET", f"/groups/{group['id']}")
    assert group["state"] == "failed"
    return json.dumps([group["error"], group["receivers"]])


def restart_agent(lab, host, between=lambda: None):
    """Kill a host's agent, do something, start it again, and wait until it is registered."""
    agent = next(p for p in reversed(lab.supervisor.processes) if p.name == f"agent-{host}")
    agent.expected = True
    agent.popen.kill()
    agent.popen.wait()
    eventually(lambda: not registered(lab, host), 60, f"the fabric manager's notice of the end of agent {host}")
    between()
    lab.start_agent(host)
    eventually(lambda: registered(lab, host), 60, f"agent {host} again")


def registered(lab, host) -> bool:
    """Its agent is known and its links carry data again."""
    topology = lab.rest_json("GET", "/topology")
    known = next(node["registered"] for node in topology["nodes"] if node["name"] == host)
    return known and all(link["up"] for link in topology["links"] if host in (link["u"], link["v"]))


def test_a_full_disk_fails_that_receiver_only(lab):
    folder = str(lab.host_folder("21"))
    restart_agent(
        lab, "21", lambda: lab.network.run_in("21", ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder])
    )
    try:
        report = transfer(lab, size=4 << 20)
    finally:
        restart_agent(lab, "21", lambda: lab.network.run_in("21", ["umount", folder]))
    states = {host: figures["state"] for host, figures in report["receivers"].items()}
    assert states.pop("21") == "failed" and set(states.values()) == {"done"}
    assert report["receivers"]["21"]["error"]["code"] == "disk_full"
    assert all(figures["sha256_ok"] for host, figures in report["receivers"].items() if host != "21")


def test_garbage_on_the_wire_is_counted_and_harms_nobody(lab):
    before = traffic(lab)
    # Random frames, truncated headers, other versions, unknown trees: on a host's port and on a switch's.
    code = """
import errno, itertools, os, random, socket, sys, time
rng, sock = random.Random(5), socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sock.bind((sys.argv[1], 0))
label = lambda value, bottom: (value << 12 | bottom << 8 | 255).to_bytes(4, "big")
for i in itertools.count():
    if i == 3000:
        print("enough", flush=True)
    ether = b"\\xff" * 6 + bytes(6)
    stack = rng.choice([b"\\x88\\xb5", b"\\x88\\x47" + label(1000, 1), b"\\x08\\x00",
                        b"\\x88\\x47" + label(1024 + rng.randrange(9), 0) + label(1000, 1),
                        b"\\x88\\x47" + label(rng.randrange(1 << 20), 0)])
    head = rng.choice([b"", bytes([0x12, 0, 0, 9]), bytes([0x21]) + bytes(15), bytes([0x11, 0, 0xff, 0xff]) + bytes(12),
                       bytes([0x12, 0, 0, 4]) + rng.randbytes(8) + bytes(4)])
    try:
        sock.send(ether + stack + head + rng.randbytes(rng.randrange(0, 1400)))
    except OSError as error:  # the cable's queue is full
        if error.errno != errno.ENOBUFS:
            raise
    time.sleep(0.0005)
"""
    senders = [
        lab.network.spawn(machine)([sys.executable, "-c", code, port], stdout=subprocess.PIPE, stderr=None)
        for machine, port in (("12", "12-eth0"), ("sw0", "s1.3-eth1"))
    ]
    try:  # from before the transfer until after it, however long it is
        report = transfer(lab, Quiet(), size=24 << 20)
        assert [sender.stdout.readline() for sender in senders] == [b"enough\n"] * 2
        assert [sender.poll() for sender in senders] == [None] * 2
    finally:
        for sender in senders:
            sender.kill()
            sender.communicate()
    assert report["ok"], report
    lab.supervisor.check()  # nobody crashed
    drops = traffic(lab).since(before).drops
    assert sum(drops.values()) > 1000, drops
    assert {"truncated", "version"} <= set(drops), drops


def test_a_receiver_that_dies_does_not_stop_the_others(lab):
    victim = next(p for p in lab.supervisor.processes if p.name == "agent-10" and p.running)
    killed = []

    def kill(group):
        if group["fraction"] > 0.1 and not killed:
            killed.append(True)
            victim.expected = True
            victim.popen.send_signal(signal.SIGKILL)

    slow = GroupOptions(rate_bps=40_000_000)  # of each tree: who looks late still sees it run
    report = transfer(lab, Quiet(kill), size=64 << 20, options=slow)
    restart_agent(lab, "10")
    assert killed
    states = {host: figures["state"] for host, figures in report["receivers"].items()}
    assert states.pop("10") == "failed" and set(states.values()) == {"done"}, report["receivers"]
    assert all(report["receivers"][host]["sha256_ok"] for host in states)
    assert report["receivers"]["10"]["error"]["message"]


def test_after_all_that_the_lab_still_delivers(lab):
    assert transfer(lab, size=2 << 20)["ok"]


@pytest.mark.parametrize(("topology", "trees"), [("torus:3,2", 4), ("fattree:4,2", 1)])
def test_forwarding_hosts_and_trees_of_switches(topology, trees):
    rest, fabric = free_ports(2)
    options = LabOptions(topology, rest_port=rest, fabric_port=fabric, room=1 << 27)
    report = plain(run(options, unique_name(topology[:5]), Transfer(None, size=2 << 20), Quiet()))
    assert report["ok"] and report["trees"]["count"] == trees, report


def test_the_command_s_json_goes_to_standard_output_alone():
    process = start_run(unique_name("json"), "--size", "100K", "--json", "-")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert json.loads(out)["ok"] and err == ""


def test_doctor_approves_of_this_machine():
    done = subprocess.run([str(DATACAST), "doctor", "--json"], capture_output=True, text=True)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert all(
        checks[name]["ok"] for name in ("rights", "kernel", "Mininet", "DPDK", "datacast-switch", "datacast-agent")
    )
    assert done.returncode == (0 if all(c["ok"] for c in checks.values() if c["required"]) else 1)
