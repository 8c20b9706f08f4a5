"""What this machine has and lacks for the lab. `datacast doctor` prints it, the lab starts on the same checks only."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from datacast.lab.errors import LabError
from datacast.lab.programs import find_program
from datacast.lab.state import Registry, _option


@dataclass(frozen=True)
class Check:
    """One fact about the machine. Not ok and `required`: the lab cannot run."""

    name: str
    ok: bool
    required: bool
    detail: str
    remedy: str = ""

    def to_json(self) -> dict[str, object]:
        return asdict(self)


TOOLS = {"ip": "iproute2", "tc": "iproute2", "ethtool": "ethtool", "mnexec": "mininet", "ifconfig": "net-tools"}
OPTIONAL_TOOLS = {"tcpdump": "tcpdump", "tshark": "tshark"}
PROGRAMS = ("datacast-switch", "datacast-agent", "datacast-fabric-manager", "datacast-controller", "datacast-master")

KERNEL_PROBE = """
ip link set lo up
ip link add name dcprobe0 mtu 9000 type veth peer name dcprobe1 2>&1 || { echo "no veth links"; exit 1; }
ip link add dcprobe2 type bridge 2>&1 || { echo "no bridges"; exit 1; }
tbf="tbf rate 100mbit burst 30000 limit 100000"
tc qdisc add dev dcprobe0 root handle 5: $tbf 2>&1 || { echo "no tbf shaper"; exit 1; }
tc qdisc add dev dcprobe0 parent 5:1 handle 6: pfifo limit 100 2>&1 || { echo "no pfifo queue"; exit 1; }
"""


def _output(command: list[str], script: str | None = None) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            input=script,
            stdin=None if script is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=20,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, str(error)
    return done.returncode, done.stdout.strip()


def check_root() -> Check:
    return Check(
        "rights",
        os.geteuid() == 0,
        True,
        "root" if os.geteuid() == 0 else f"user id {os.geteuid()}, not root",
        "" if os.geteuid() == 0 else "the lab makes network namespaces: run it as root (sudo -E)",
    )


def check_tools() -> list[Check]:
    checks = []
    for required, tools in ((True, TOOLS), (False, OPTIONAL_TOOLS)):
        for tool, package in tools.items():
            path = shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
            checks.append(
                Check(
                    tool, path is not None, required, path or "not found", "" if path else f"apt-get install {package}"
                )
            )
    return checks


def check_programs() -> list[Check]:
    checks = []
    for name in PROGRAMS:
        path = find_program(name)
        checks.append(
            Check(name, path is not None, True, str(path) if path else "not built", "" if path else "make build")
        )
    return checks


def check_python() -> Check:
    ok = importlib.util.find_spec("mininet") is not None
    return Check(
        "Mininet",
        ok,
        True,
        "importable" if ok else f"{sys.executable} cannot import it",
        "" if ok else "apt-get install mininet, and use the environment of `make build` (Debian's python3)",
    )


def check_dpdk() -> Check:
    code, version = _output(["pkg-config", "--modversion", "libdpdk"])
    drivers = [
        path
        for folder in ("/usr/lib/*/", "/usr/lib/", "/usr/local/lib/*/", "/usr/local/lib/")
        for path in glob.glob(folder + "librte_mempool_stack.so*")
    ]
    if not drivers:
        missing = "its memory pools (librte_mempool_stack) are missing"
        return Check("DPDK", False, True, missing, "apt-get install dpdk libdpdk-dev")
    return Check("DPDK", True, True, version if code == 0 else "found")


def check_hugepages() -> Check:
    try:
        with open("/proc/meminfo") as lines:
            total = next((int(line.split()[1]) for line in lines if line.startswith("HugePages_Total")), 0)
    except OSError:
        total = 0
    return Check(
        "hugepages",
        total > 0,
        False,
        f"{total} pages" if total else "none: DPDK runs with --no-huge, a bit slower",
        "" if total else "echo 512 >/proc/sys/vm/nr_hugepages",
    )


def check_kernel() -> Check:
    if os.geteuid() != 0:
        return Check("kernel", False, True, "cannot be tried without root", "run as root")
    code, text = _output(["unshare", "--net", "sh", "-e", "-s"], KERNEL_PROBE)
    return Check(
        "kernel",
        code == 0,
        True,
        "namespaces, veth, bridge, tbf, pfifo" if code == 0 else text.replace("\n", "; "),
        ""
        if code == 0
        else "use a kernel with CONFIG_NET_NS, VETH, BRIDGE, NET_SCH_TBF (Debian's has them; some "
        "containers need --privileged)",
    )


def check_memory() -> Check:
    with open("/proc/meminfo") as lines:
        available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) // 1024
    ok = available >= 1500
    return Check(
        "memory",
        ok,
        False,
        f"{available} MB available",
        "" if ok else "the default demo wants 1500 MB: use a smaller --size or a smaller topology",
    )


def check_dataplanes() -> list[Check]:
    checks = []
    code, text = _output(["ovs-vswitchd", "--version"])
    checks.append(
        Check(
            "Open vSwitch",
            code == 0,
            False,
            text.splitlines()[0] if code == 0 and text else "not found (only --dataplane ovs needs it)",
            "" if code == 0 else "apt-get install openvswitch-switch",
        )
    )
    for name in ("p4c-bm2-ss", "simple_switch_grpc"):
        path = shutil.which(name)
        checks.append(
            Check(
                name,
                path is not None,
                False,
                path or "not found (only --dataplane bmv2 needs it)",
                "" if path else "install p4lang's packages: https://github.com/p4lang/p4c#installing-packaged-versions",
            )
        )
    return checks


def check_leftover() -> Check:
    states = Registry().all()
    dead = [state for state in states if not state.alive]
    if dead:
        return Check(
            "labs",
            False,
            True,
            "left over: " + ", ".join(f"{s.name!r} of process {s.pid}" for s in dead),
            "; ".join(f"datacast lab down{_option(s.name)}" for s in dead),
        )
    running = ", ".join(f"{s.name!r} ({s.topology}, process {s.pid})" for s in states)
    return Check("labs", True, True, f"running: {running}" if running else "none running, none left over")


def all_checks() -> list[Check]:
    return [
        check_root(),
        check_kernel(),
        *check_tools(),
        check_python(),
        check_dpdk(),
        *check_programs(),
        check_hugepages(),
        check_memory(),
        *check_dataplanes(),
        check_leftover(),
    ]


def require(checks: Iterable[Check]) -> None:
    """Raises LabError that names everything required and missing, with the remedies."""
    bad = [check for check in checks if check.required and not check.ok]
    if bad:
        raise LabError(
            "; ".join(f"{check.name}: {check.detail}" for check in bad),
            what=bad[0].name,
            remedy="\n".join(dict.fromkeys(check.remedy for check in bad if check.remedy)),
        )


def before_start(programs: Iterable[str], extra: Callable[[], Iterable[Check]] = list) -> None:
    """What `lab up` insists on, cheapest first. Raises LabError."""
    require([check_root()])
    require(
        [
            *check_tools(),
            check_python(),
            *(check for check in check_programs() if check.name in set(programs)),
            *extra(),
        ]
    )
    require([check_kernel()])


def port_taken(address: str) -> str | None:
    """Who listens on host:port already, as ss tells it; None when nobody does."""
    host, _, port = address.rpartition(":")
    code, text = _output(["ss", "-Hltnp", f"sport = :{port}"])
    if code:
        return None
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[3].rpartition(":")[0].strip("[]") in (host, "0.0.0.0", "*", "::"):
            users = re.search(r'\(\("([^"]+)",pid=(\d+)', line)
            return f"{users[1]}, process {users[2]}" if users else "another process"
    return None
