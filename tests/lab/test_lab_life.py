"""Receivers that come, go and stand still, full disks, files that change: on a real lab."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from life_kit import SIZE, Refused, SmallLab

from datacast.lab.injector import Injector

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

THREE = ["01", "10", "11"]
at_length = pytest.mark.skipif(not os.environ.get("DATACAST_FAULTS"), reason="a part of `make test-faults`")


@pytest.fixture(scope="module")
def lab() -> Iterator[SmallLab]:
    found = SmallLab("life", disks=(("11", 4 * SIZE),))
    yield found
    found.close()


@pytest.fixture(autouse=True)
def whole(lab: SmallLab) -> Iterator[None]:
    """Every test begins and ends with everybody there."""
    lab.mend()
    lab.whole()
    yield
    for process in lab.lab.supervisor.processes:
        if process.running:
            process.popen.send_signal(18)  # nobody stays stopped
    for host in ("00", *THREE):
        if not any(p.name == f"agent-{host}" and p.running for p in lab.lab.supervisor.processes):
            lab.restart(host)
    lab.clear()  # 11 has a small disk


# ---- quorum, late ones ----
def test_a_group_starts_with_its_quorum_and_serves_the_one_that_was_away_afterwards(lab: SmallLab) -> None:
    path = lab.source()
    lab.kill("11")
    with pytest.raises(Refused) as refused:
        lab.start(path, THREE)
    assert refused.value.args[0]["code"] == "no_agent" and refused.value.args[0]["what"] == "11"
    group = lab.start(path, THREE, quorum=2)
    lab.half(group)
    lab.restart("11")
    record = lab.end(group)
    assert record["state"] == "done", record["error"]
    assert all(lab.has(host, path) for host in THREE)


def test_a_receiver_that_stands_still_at_the_start_is_served_when_the_others_have_the_file(lab: SmallLab) -> None:
    path = lab.source()
    lab.stop("11")
    group = lab.start(path, THREE)
    record = lab.until(group, lambda g: all(g["receivers"][h]["state"] == "done" for h in ("01", "10")), "the others")
    assert record["state"] == "running" and record["receivers"]["11"]["state"] != "failed"
    lab.go_on("11")
    assert lab.end(group)["state"] == "done"
    assert all(lab.has(host, path) for host in THREE)


@at_length
def test_a_receiver_that_never_moves_again_has_failed_in_the_end_and_can_be_served_by_a_resume(lab: SmallLab) -> None:
    path = lab.source()
    group = lab.start(path, THREE, member_timeout_ms=3000)
    lab.half(group)
    lab.stop("11")
    record = lab.end(group)
    assert record["state"] == "partial" and record["receivers"]["11"]["error"]["code"] in ("unreachable", "cut_off")
    assert lab.has("01", path) and lab.has("10", path)
    lab.go_on("11")
    lab.whole()
    lab.ask("POST", f"/groups/{group}/resume")
    assert lab.end(group)["state"] == "done"
    assert lab.has("11", path)


def test_one_joins_late_with_a_path_of_its_own_and_one_leaves(lab: SmallLab) -> None:
    path = lab.source()
    group = lab.start(path, ["01", "10"])
    lab.half(group)
    lab.ask("POST", f"/groups/{group}/receivers", {"host": "11", "dest_path": "elsewhere/late.bin"})
    lab.ask("DELETE", f"/groups/{group}/receivers/10")
    record = lab.end(group)
    assert record["state"] == "done", record["error"]
    assert record["receivers"]["10"]["state"] == "cancelled" and lab.nothing_of("10", path)
    assert lab.has("01", path) and lab.has("11", path, "elsewhere/late.bin")


# ---- disks ----
@pytest.mark.parametrize("share", [pytest.param(0.0, marks=at_length), 0.3])
def test_a_full_disk_is_the_affair_of_its_host_alone(lab: SmallLab, share: float) -> None:
    path = lab.source()
    group = ""
    if share:
        group = lab.start(path, THREE)
        lab.half(group, share)
    Injector._fill(lab.lab.host_folder("11"))
    group = group or lab.start(path, THREE)
    record = lab.end(group)
    assert record["state"] == "partial"
    assert record["receivers"]["11"]["error"]["code"] == "disk_full", record["receivers"]["11"]["error"]
    assert lab.has("01", path) and lab.has("10", path)
    assert [entry.name for entry in lab.lab.host_folder("11").iterdir() if path.name in entry.name] in (
        [],
        [f".{path.name}.datacast-{group}"],
    )


# ---- the source's file ----
def overwrite(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(SIZE // 2)
        file.write(b"another")


def overwrite_and_set_the_time_back(path: Path) -> None:
    before = os.stat(path)
    overwrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(os.urandom(SIZE))
    new.rename(path)


def truncate(path: Path) -> None:
    os.truncate(path, SIZE // 2)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(overwrite, marks=at_length),
        overwrite_and_set_the_time_back,
        replace,
        pytest.param(truncate, marks=at_length),
    ],
)
def test_a_source_file_that_changes_meanwhile_fails_the_group_loudly(lab: SmallLab, change) -> None:
    path = lab.source()
    group = lab.start(path, THREE)
    lab.half(group, 0.2)
    change(path)
    record = lab.end(group)
    assert record["state"] == "failed" and record["error"]["code"] == "changed", record["error"]
    assert str(path) in record["error"]["message"]
    assert all(lab.nothing_of(host, path) for host in THREE)


def test_a_source_that_is_killed_and_has_another_file_when_it_is_back_is_refused(lab: SmallLab) -> None:
    path = lab.source()
    group = lab.start(path, THREE)
    lab.half(group, 0.2)
    lab.kill("00")
    overwrite(path)
    lab.restart("00")
    record = lab.end(group)
    assert record["state"] == "failed" and record["error"]["code"] == "changed", record["error"]
    assert all(lab.nothing_of(host, path) for host in THREE)


# ---- everything is lost ----
@pytest.mark.parametrize("then", ["as_it_was", "changed", pytest.param("vanished", marks=at_length)])
def test_after_a_loss_of_power_a_group_is_shown_and_resumed_from_what_was_verified(lab: SmallLab, then: str) -> None:
    path = lab.source()
    group = lab.start(path, THREE, block_bytes=128 << 10)
    lab.half(group, 0.4)
    Injector(lab.lab, ())._lose_power()
    for process in lab.lab.supervisor.processes:
        process.popen.wait(60)
    held = max(
        sum(f.stat().st_blocks * 512 for f in lab.lab.host_folder(host).glob(f".{path.name}*")) for host in THREE
    )
    assert held > SIZE // 10
    # Without agents it cannot go on: the group is shown, with what is missing.
    lab.lab._fabric_manager()
    lab.lab._controller()
    record = lab.end(group)
    assert record["state"] == "failed" and record["error"]["code"] == "interrupted"
    assert "the source 00 has no agent" in record["error"]["message"]
    assert [g["id"] for g in lab.ask("GET", "/groups?state=failed") if g["id"] == group] == [group]
    with pytest.raises(Refused) as refused:
        lab.ask("POST", f"/groups/{group}/resume")
    assert refused.value.args[0]["code"] == "no_agent" and refused.value.args[0]["what"] == "00"
    for machine in lab.lab.plan.switches:
        lab.lab.plane.start(lab.lab, machine)
    for host in ("00", *THREE):
        lab.lab.start_agent(host)
    lab.whole()
    if then == "changed":
        overwrite(path)
    elif then == "vanished":
        path.unlink()
    lab.ask("POST", f"/groups/{group}/resume")
    record = lab.end(group)
    if then == "as_it_was":
        assert record["state"] == "done", record["error"]
        assert all(lab.has(host, path) for host in THREE)
        fetched = sum(t["data"] for t in record["receivers"]["01"]["trees"].values()) * record["report"]["payload"]
        assert fetched < SIZE, "some of it was there already"
    else:
        assert record["state"] == "failed"
        assert record["error"]["code"] == ("changed" if then == "changed" else "not_found"), record["error"]
        assert str(path) in record["error"]["message"]
        assert all(lab.nothing_of(host, path) for host in THREE)
