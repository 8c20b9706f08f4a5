"""Bad configurations and surroundings: the error names the thing and the line, the exit code says which kind it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from switch_rig import BINARY, Rig

USAGE, RUNTIME = 2, 1
PORT = "{port: 0, vdev: 'net_null0'}"
NODE = "  - {name: a, ports: [" + PORT + "]}\n"


def run(path: Path, text: str, *options: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    config = path / "c.yaml"
    config.write_text(text)
    return subprocess.run([*prefix, str(BINARY), "--config", str(config), *options], capture_output=True, text=True,
                          timeout=90)


@pytest.mark.parametrize("text, words", [
    ("", ["empty"]),
    ("nodes: [", ["c.yaml:", "not YAML"]),
    ("- 1", ["mapping"]),
    ("nodes:\n" + NODE + "---\nmtu: 1500", ["c.yaml:4:", "a second document begins before this"]),
    ("nodes:\n" + NODE + "---\n[", ["c.yaml:5:", "not YAML"]),
    ("mtu: 9000", ["lacks 'nodes'"]),
    ("nodes: []", ["nodes is empty"]),
    ("nodes:\n" + NODE + "colour: red", ["c.yaml:3:", "unknown key 'colour'", "known: nodes, control"]),
    ("nodes:\n" + NODE + "x" + "é" * 400 + ": 1", ["unknown key 'xé"]),  # cut within a letter
    ("nodes:\n" + NODE + "mtu: 1500\nmtu: 1500", ["c.yaml:4:", "'mtu' stands twice"]),
    ("nodes:\n" + NODE + "mtu: huge", ["c.yaml:3:", "'huge' is not a number"]),
    ("nodes:\n" + NODE + "mtu: 575", ["mtu 575 is out of range (576 to 16000)"]),
    ("nodes:\n" + NODE + "mtu: 16001", ["mtu 16001 is out of range (576 to 16000)"]),
    ("nodes:\n" + NODE + "mtu: -5", ["'-5' is not a number"]),
    ("nodes:\n" + NODE + "ring_frames: 15", ["ring_frames 15 is out of range (16 to 4096)"]),
    ("nodes:\n" + NODE + "ring_frames: 4097", ["ring_frames 4097 is out of range (16 to 4096)"]),
    ("nodes:\n" + NODE + "workers: 0", ["workers 0 is out of range (1 to 16)"]),
    ("nodes:\n" + NODE + "workers: 17", ["workers 17 is out of range (1 to 16)"]),
    ("nodes:\n" + NODE + "away_ms: 10001", ["away_ms 10001 is more than neighbours wait (10000)"]),
    ("nodes:\n" + NODE + "away_ms: 4294967296", ["4294967296 is too large (at most 4294967295)"]),
    ("nodes:\n" + NODE + "fabric_manager: nowhere", ["'nowhere' is not address:port"]),
    ("nodes:\n" + NODE + "fabric_manager: 127.0.0.1:65536", ["'127.0.0.1:65536' is not address:port"]),
    ("nodes:\n" + NODE + "control: /" + "x" * 200, ["too long"]),
    ("nodes:\n" + NODE + "eal: {huge: maybe}", ["'maybe' is neither true nor false"]),
    ("nodes:\n" + NODE + "eal: {cores: 'all of them'}", ["'all of them' is no list of processors"]),
    ("nodes:\n" + NODE + NODE, ["c.yaml:3:", "two nodes are called a", "line 2"]),
    ("nodes:\n  - {name: a}", ["node lacks 'ports'"]),
    ("nodes:\n  - {name: '', ports: [" + PORT + "]}", ["name is empty"]),
    ("nodes:\n  - {name: a, ports: [{port: 0}]}", ["port 0 names no device"]),
    ("nodes:\n  - {name: a, ports: [{port: 0, iface: x, vdev: net_null0}]}", ["give one"]),
    ("nodes:\n  - {name: a, ports: [{port: 0, vdev: crypto_null0}]}", ["must begin with a driver's name"]),
    ("nodes:\n  - {name: a, ports: [{port: 256, vdev: net_null0}]}", ["port number 256 is too large"]),
    ("nodes:\n  - {name: a, ports: [{port: 70000, vdev: net_null0}]}", ["70000 is too large"]),
    ("nodes:\n  - {name: a, ports: [{port: 1, vdev: net_null0}, {port: 1, vdev: net_null1}]}",
     ["two ports with the number 1"]),
    ("nodes:\n  - {name: a, ports: [{port: 0, iface: e0}, {port: 1, iface: e0}]}", ["e0 already belongs to port 0"]),
    ("nodes:\n  - {name: a, ports: [{port: 0, iface: e0}]}\n  - {name: b, ports: [{port: 0, iface: e0}]}",
     ["c.yaml:3:", "e0 already belongs to port 0 of node a"]),
    ("nodes:\n" + NODE + "  - {name: b, ports: [{port: 0, iface: e0}]}\n  - {name: c, ports: [{port: 1, iface: e0}]}",
     ["c.yaml:4:", "e0 already belongs to port 0 of node b"]),
    ("nodes:\n  - {name: a, ports: [{port: 0, iface: e0}, {port: 1, iface: e1}, {port: 2, iface: e1}]}",
     ["c.yaml:2:", "e1 already belongs to port 1 of node a"]),
    ("nodes:\n  - name: a\n    ports:\n      - {port: 0, vdev: net_null0, neighbour: {mac: 'zz:00'}}",
     ["c.yaml:4:", "'zz:00' is not an Ethernet address"]),
    ("nodes:\n  - name: a\n    ports: [" + PORT + "]\n    cache: {bytes_per_tree: 12X}", ["c.yaml:4:", "'12X'"]),
    *[(f"nodes:\n  - name: a\n    ports: [{PORT}]\n    cache: {{{line}}}", ["node a", words]) for line, words in [
        ("packets_per_tree: 1000", "packets_per_tree must be a power of two"),
        ("packets_per_tree: 131072", "packets_per_tree must be a power of two"),
        ("waiting_per_tree: 2", "waiting_per_tree must be a power of two"),
        ("waiting_per_tree: 131072", "waiting_per_tree must be a power of two"),
        ("bytes_per_tree: 8999", "a cache of 8999 bytes_per_tree holds no packet of the mtu, 9000"),
        ("max_bytes_per_tree: 131071", "max_bytes_per_tree must not be less than bytes_per_tree"),
        ("memory: 0", "memory must not be 0"),
        ("trees: 0", "trees is out of range"), ("trees: 65537", "trees is out of range"),
        ("retx_ms: 0", "retx_ms must be from 1 to 60000"), ("retx_ms: 60001", "retx_ms must be from 1 to 60000"),
        ("idle_ms: 0", "idle_ms must not be 0"),
    ]],
    ("nodes:\n" + NODE.replace("port: 0", "port: 1") + "# appliance", ["appliance"]),
])
def test_configurations_that_cannot_be(tmp_path: Path, switch_binary: Path, text: str, words: list[str]) -> None:
    options = ["--appliance"] if text.endswith("# appliance") else []
    done = run(tmp_path, text, *options)
    assert done.returncode == USAGE, done.stderr
    assert len(done.stderr.splitlines()) == 1, "one line"
    for word in words:
        assert word in done.stderr


AT_LEAST = """
nodes: [{name: a, ports: [{port: 0, vdev: net_null0}], cache: {trees: 1, packets_per_tree: 1, waiting_per_tree: 4,
         retx_ms: 1, idle_ms: 1, memory: 1, bytes_per_tree: 576, max_bytes_per_tree: 576}}]
mtu: 576
ring_frames: 16
workers: 1
away_ms: 0
"""
AT_MOST = """
nodes: [{name: a, ports: [{port: 255, vdev: net_null0}], cache: {trees: 65536, packets_per_tree: 65536,
         waiting_per_tree: 65536, retx_ms: 60000, idle_ms: 4294967295, memory: 18446744073709551615,
         bytes_per_tree: 4294967295, max_bytes_per_tree: 4294967295}}]
mtu: 16000
ring_frames: 4096
workers: 16
away_ms: 10000
"""


@pytest.mark.parametrize("text", [AT_LEAST, AT_MOST], ids=["least", "most"])
def test_what_is_just_within_its_bounds_is_good(tmp_path: Path, switch_binary: Path, text: str) -> None:
    done = run(tmp_path, text, "--check")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/c.yaml: 1 node(s), good\n"), done.stderr


def test_more_ports_than_this_dpdk_has(tmp_path: Path, switch_binary: Path) -> None:
    ports = ", ".join(f"{{port: {i}, vdev: net_null{i}}}" for i in range(33))
    done = run(tmp_path, f"nodes:\n  - {{name: a, ports: [{ports}]}}")
    assert done.returncode == USAGE
    assert "33 devices of DPDK, which has at most 32 per process" in done.stderr
    assert "split the nodes over several processes" in done.stderr


def test_caches_that_do_not_fit_the_memory(tmp_path: Path, switch_binary: Path) -> None:
    text = "nodes:\n  - {name: a, ports: [" + PORT + "], cache: {memory: 512M}}\neal: {memory_mb: 128}"
    done = run(tmp_path, text)
    assert done.returncode == RUNTIME
    assert "eal.memory_mb is 128: raise it or lower cache.memory" in done.stderr


@pytest.mark.parametrize("arguments, word", [
    ([], "--config FILE is missing"), (["--config"], "needs a value"), (["--nonsense"], "unknown option --nonsense"),
    (["--config", "/nowhere.yaml"], "cannot read configuration /nowhere.yaml"),
    (["--config", "x", "more"], "unexpected argument 'more'"), (["--log-level", "loud"], "'loud' is no log level"),
    (["--ctl", "/nowhere.sock"], "--ctl needs an operation"),
])
def test_wrong_usage(switch_binary: Path, arguments: list[str], word: str) -> None:
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True)
    assert done.returncode == USAGE and word in done.stderr


@pytest.mark.root
def test_an_interface_that_does_not_exist(rig3: Rig, tmp_path: Path) -> None:
    """It may be late, as at the start of a machine: another start may find it, and 2 would be the unit's last."""
    for option, code in ([], RUNTIME), (["--check"], USAGE):
        done = run(tmp_path, "nodes:\n  - {name: s0.0, ports: [{port: 0, iface: s0.0-eth9}]}", *option)
        assert done.returncode == code
        assert "interface s0.0-eth9 does not exist" in done.stderr and "node s0.0 port 0" in done.stderr


@pytest.mark.root
def test_an_interface_with_too_small_an_mtu(rig3: Rig) -> None:
    rig3.ns.ip("link", "set", rig3.ifaces[1], "mtu", "1500")
    process = rig3.start()
    assert process.popen.wait(60) == RUNTIME
    assert f"interface {rig3.ifaces[1]} has an MTU of 1500" in process.log and "ip link set" in process.log


@pytest.mark.root
def test_without_the_right_to_open_interfaces(rig3: Rig) -> None:
    process = rig3.start()
    process.stop()
    done = subprocess.run(["ip", "netns", "exec", rig3.ns.name, "setpriv", "--bounding-set", "-net_raw", "--inh-caps",
                           "-net_raw", str(BINARY), "--config", str(process.path / "switch.yaml")],
                          capture_output=True, text=True, timeout=90)
    assert done.returncode == RUNTIME
    assert "needs root or CAP_NET_RAW" in done.stderr


@pytest.mark.root
def test_dpdk_that_does_not_start_says_why(tmp_path: Path, switch_binary: Path) -> None:
    free = int(Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages").read_text())
    memory = free * 2 + 4096
    config = tmp_path / "c.yaml"
    config.write_text("nodes:\n" + NODE + f"eal: {{huge: true, memory_mb: {memory}}}")
    process = subprocess.Popen([BINARY, "--config", config], stderr=subprocess.PIPE, text=True)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == RUNTIME, errors
    assert "DPDK does not start: EAL: " in errors and "hugepages" in errors
    assert not Path(f"/var/run/dpdk/datacast-{process.pid}").exists()


@pytest.mark.root
def test_a_device_that_cannot_be_opened(tmp_path: Path, switch_binary: Path) -> None:
    for device in ("vdev: 'net_memif0,role=nobody'", "vdev: net_nonsense0", "device: '0000:ff:1f.7'"):
        done = run(tmp_path, f"nodes:\n  - {{name: a, ports: [{{port: 3, {device}}}]}}")
        assert done.returncode == RUNTIME, done.stderr
        assert "node a: port 3 (" in done.stderr and "cannot open the device" in done.stderr
