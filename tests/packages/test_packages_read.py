"""What can be told of packages and images by reading: dependencies are locked, rights are the least."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
DEBIANS = {"numpy"}
"""Debian's own package is used."""


def units() -> dict[str, dict[str, str]]:
    found = {}
    for path in (PACKAGING / "debian").glob("*.service"):
        lines = (line.partition("=") for line in path.read_text().splitlines() if "=" in line and line[0] != "#")
        found[path.name.removesuffix(".service").split(".")[-1]] = {key: value for key, _, value in lines}
    return found


def test_every_dependency_is_locked_with_a_hash_and_fits_what_the_project_asks_for() -> None:
    lock = (PACKAGING / "requirements.lock").read_text().replace("\\\n", " ")
    locked = {}
    for line in lock.splitlines():
        if line.strip():
            assert re.fullmatch(r"\S+==\S+( ;[^-]*)?(\s+--hash=sha256:[0-9a-f]{64})+\s*", line), line[:80]
            name, _, version = line.split()[0].partition("==")
            locked[name.lower().replace("_", "-")] = Version(version)
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    for text in asked:
        wanted = Requirement(text)
        if wanted.name not in DEBIANS:
            assert locked[wanted.name.lower()] in wanted.specifier, f"{text}: run packaging/lock"


def test_the_pod_has_the_unit_s_capabilities_and_no_other_rights() -> None:
    documents = list(yaml.safe_load_all((PACKAGING / "container" / "daemonset.yaml").read_text()))
    assert {document["kind"] for document in documents} == {"Namespace", "ServiceAccount", "DaemonSet"}
    pod = next(d for d in documents if d["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security["capabilities"]["drop"] == ["ALL"]
    added = {f"CAP_{name}" for name in security["capabilities"]["add"]}
    assert added == set(units()["datacast-agent"]["CapabilityBoundingSet"].split())
    assert (
        not security["privileged"] and not security["allowPrivilegeEscalation"] and security["readOnlyRootFilesystem"]
    )
    assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    assert pod["automountServiceAccountToken"] is False and "hostPID" not in pod and "hostIPC" not in pod
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/var/lib/datacast/received"]
    version = (PACKAGING / "debian" / "changelog").read_text().partition("(")[2].partition(")")[0]
    assert container["image"].endswith(f":{version}")


SERVICES = ("datacast-controller", "datacast-fabric-manager", "datacast-mirror")
"""Without any capability."""


@pytest.mark.parametrize("name", ["datacast-agent", "datacast-switch", *SERVICES])
def test_units_are_hardened_alike(name: str) -> None:
    unit = units()[name]
    assert unit["User"] == "datacast" and unit["NoNewPrivileges"] == "yes" and unit["ProtectSystem"] == "strict"
    assert unit["SystemCallErrorNumber"] == "EPERM", "a library that asks for what it can do without is not killed"
    assert name not in SERVICES or unit["CapabilityBoundingSet"] == ""


@pytest.mark.parametrize("name", ["datacast-agent", "datacast-switch", *SERVICES])
def test_a_unit_is_started_until_it_can_run_but_not_with_a_wrong_option(name: str) -> None:
    """By itself systemd gives up after five tries in ten seconds, as where an interface is late."""
    unit = units()[name]
    assert unit["Restart"] == "on-failure" and unit["StartLimitIntervalSec"] == "0"
    assert unit["RestartPreventExitStatus"] == "2"


def test_an_upgraded_agent_goes_on_with_the_files_that_it_had() -> None:
    daemons = list(yaml.safe_load_all((PACKAGING / "container" / "daemonset.yaml").read_text()))
    (pod,) = (d["spec"]["template"]["spec"]["containers"][0] for d in daemons if d["kind"] == "DaemonSet")
    assert "--keep-partial" in pod["args"] and "--keep-partial" in units()["datacast-agent"]["ExecStart"].split()


def test_the_mirror_writes_nothing_and_cannot_read_keys() -> None:
    unit = units()["datacast-mirror"]
    assert "ReadWritePaths" not in unit and "StateDirectory" not in unit
    hidden = set(unit["InaccessiblePaths"].split())
    examples = " ".join(path.read_text() for path in (PACKAGING / "etc").iterdir())
    assert hidden == {f"-{key}" for key in re.findall(r"/etc/datacast/tls/[a-z-]+\.key", examples)}
    authority = re.search(r"DATACAST_CA=(\S+)", (PACKAGING / "etc" / "mirror.yaml.example").read_text())[1]
    assert authority == "/etc/datacast/tls/ca.pem" and not any(authority.startswith(path[1:]) for path in hidden), (
        "it was hidden with the keys: no controller of the site's own authority could be believed"
    )


def test_what_units_and_documents_name_is_there_under_that_name() -> None:
    """Debian's tools compress documents of more than 4 KB: units named `README.md`, which was `README.md.gz`."""
    named = [unit["Documentation"] for unit in units().values()] + ["grafana.json", "alerts.yaml"]
    rules = (PACKAGING / "debian" / "rules").read_text()
    (line,) = re.findall(r"^\tdh_compress .*$", rules, re.MULTILINE) or [""]
    kept = tuple(re.findall(r"-X(\S+)", line))
    assert len(named) == 7 and [name for name in named if not name.endswith((*kept, "alerts.yaml"))] == []
    assert (PACKAGING / "monitoring" / "alerts.yaml").stat().st_size < 4096


@pytest.mark.slow
@pytest.mark.parametrize("daemon", ["datacast-agent", *SERVICES])
def test_the_example_files_have_keys_that_their_daemons_take(daemon: str) -> None:
    """Those in commented lines too. A switch's file has no options for keys."""
    path = PACKAGING / "etc" / f"{daemon.removeprefix('datacast-')}.yaml.example"
    program = next(p for p in (ROOT / "build" / daemon, Path(sys.executable).parent / daemon) if p.exists())
    options = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    keys = re.findall(r"^(?:# )?([a-z][a-z-]+):(?: |$)", path.read_text(), re.MULTILINE)
    assert keys and all(f"--{key}" in options for key in keys)


def test_the_containerfile_takes_packages_that_there_are() -> None:
    text = (PACKAGING / "container" / "Containerfile").read_text()
    packages = re.findall(r"^Package: (\S+)", (PACKAGING / "debian" / "control").read_text(), re.MULTILINE)
    assert re.search(r"^ARG PACKAGE=(\S+)", text, re.MULTILINE)[1] in packages
    assert "datacast-common" in packages and "datacast-common_*.deb" in text
    assert "USER" not in text, "the pod says who runs it"


@pytest.mark.parametrize("script", ["join", "datacast", "try", "build", "environment", "lock", "container/try"])
def test_scripts_are_shell_that_can_be_read(script: str) -> None:
    path = PACKAGING / script
    shell = path.read_text().splitlines()[0].removeprefix("#!")
    assert path.stat().st_mode & 0o111
    assert subprocess.run([shell, "-n", str(path)], capture_output=True).returncode == 0
