"""The P4 program against the numbers and the controller that belong to it, without p4c."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from datacast.controller.p4runtime import entries
from datacast.controller.p4runtime.entries import Entry, FloodGroup, Write
from datacast.controller.southbound.config import Pipeline, parse
from datacast.controller.southbound.desired import Desired, desired
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.service import DROP_NAMES
from datacast.core import constants

ROOT = Path(__file__).resolve().parents[2]
P4 = ROOT / "p4src"
SOURCES = {path.relative_to(P4).as_posix(): path.read_text() for path in sorted(P4.rglob("*.p4"))}
ALL = "\n".join(SOURCES.values())


def consts(text: str) -> dict[str, int]:
    return {name: int(value, 0) for name, value in re.findall(r"const bit<\d+> (\w+) = (\w+);", text)}


def block(kind: str, name: str) -> str:
    """The body of a table or action, from its name on."""
    match = re.search(rf"\b{kind} {name}\b(.*?)^    }}", ALL, re.DOTALL | re.MULTILINE)
    assert match, f"no {kind} {name} in p4src"
    return match[1]


# ---- numbers ----
def test_the_generated_constants_are_the_other_languages() -> None:
    found = consts(SOURCES["include/constants.p4"])
    expected = {name: value for name, value in vars(constants).items() if name.isupper() and isinstance(value, int)}
    assert found == expected


def test_the_header_is_the_other_languages() -> None:
    body = re.search(r"header datacast_t {(.*?)}", SOURCES["include/constants.p4"], re.DOTALL)
    assert body
    widths = [int(bits) for bits, _ in re.findall(r"bit<(\d+)> (\w+);", body[1])]
    assert widths == [bits for _, bits in constants.HEADER] and sum(widths) == 8 * constants.HEADER_LEN


def test_no_number_of_the_wire_format_is_written_by_hand() -> None:
    for name, text in SOURCES.items():
        if name.startswith("include/"):
            continue
        code = re.sub(r"//.*", "", text)
        numbers = (constants.LABEL_LOCAL, constants.LABEL_ADJ, constants.ETHERTYPE_MPLS, constants.ETHERTYPE_DATACAST)
        for value in numbers:
            if value == constants.LABEL_ADJ:
                code = code.replace("STATIONS = 1024", "")
            assert not re.search(rf"\b({value}|{value:#06x}|{value:#x})\b", code), f"{value:#x} in {name}"


def test_reasons_to_drop_are_the_cores() -> None:
    header = (ROOT / "libdatacast/include/datacast/wire.h").read_text()
    body = re.search(r"enum dc_drop {(.*?)};", header, re.DOTALL)
    assert body
    names = re.findall(r"^\s*DC_DROP_(\w+)", body[1], re.MULTILINE)
    found = {name.removeprefix("REASON_"): value for name, value in consts(SOURCES["shared/reasons.p4"]).items()
             if name.startswith("REASON_")}
    assert found and all(names[value] == name for name, value in found.items())
    assert {value: name.lower() for name, value in found.items() if value} == DROP_NAMES
    assert consts(SOURCES["shared/reasons.p4"])["REASONS"] >= len(names)


def test_the_stack_is_as_deep_as_the_cores() -> None:
    limits = (ROOT / "libdatacast/include/datacast/limits.h").read_text()
    deepest = int(re.search(r"DC_SEG_MAX = (\d+)", limits)[1])  # type: ignore[index]
    assert int(re.search(r"#define BELOW_MAX (\d+)", ALL)[1]) == deepest + 1  # type: ignore[index]


# ---- style: what holds for every table ----
@pytest.mark.parametrize("table", re.findall(r"^    table (\w+)", ALL, re.MULTILINE))
def test_every_table_has_name_size_default_and_counter(table: str) -> None:
    body = block("table", table)
    assert re.search(rf'@name\("{table}"\)\s+table {table}\b', ALL)
    for need in (r"\bsize = \d+;", r"const default_action = \w+\(", r"counters = \w+;"):
        assert re.search(need, body), f"table {table}: {need}"


def test_the_main_file_only_wires_and_shared_files_import_nothing() -> None:
    assert "table " not in SOURCES["datacast.p4"] and "action " not in SOURCES["datacast.p4"]
    for name, text in SOURCES.items():
        assert ("#include" in text) == (name == "datacast.p4"), name


# ---- entries ----
def wanted(ports: int = 4, *, appliance: bool = True, blocked: tuple[int, ...] = ()) -> Desired:
    switch: dict = {"name": "s0", "p4runtime": {"address": "x:1"},
                    "ports": [{"port": p, "number": p} for p in range(ports)]}
    if appliance:
        switch["appliance"] = {"number": 500}
    config = parse({"switches": [switch], "pipeline": {"json": "a", "p4info": "b"}}).switches[0]
    return desired(config, {}, [*range(ports), 500], blocked, appliance)


def test_entries_name_what_the_program_has() -> None:
    for entry in entries.entries(wanted()).values():
        keys = re.findall(r'exact @name\("(\w+)"\)', block("table", entry.table))
        assert keys == [entry.field]
        actions = re.search(r"actions = {(.*?)}", block("table", entry.table), re.DOTALL)
        assert actions and entry.action in actions[1]
        signature = re.search(rf"action {entry.action}\((.*?)\)", ALL)
        assert signature
        widths = {name: int(bits) for bits, name in re.findall(r"bit<(\d+)> (\w+)", signature[1])}
        assert [name for name, _ in entry.params] == list(widths)
        assert all(0 <= value < 1 << widths[name] for name, value in entry.params)


def test_labels_are_the_wire_formats() -> None:
    found = {e.value: dict(e.params)["port"] for e in entries.entries(wanted()).values() if e.table == "segment"}
    assert found == {constants.LABEL_ADJ + p: p for p in range(4)} | {constants.LABEL_LOCAL: 500}


@pytest.mark.parametrize("ports", [1, 4, 64, 500])
def test_the_number_of_entries_is_bounded(ports: int) -> None:
    count = len(entries.entries(wanted(ports)))
    assert count <= 2 * ports + 12
    for table in ("segment", "member"):
        size = int(re.search(r"size = (\d+);", block("table", table))[1])  # type: ignore[index]
        assert sum(e.table == table for e in entries.entries(wanted(ports)).values()) <= size


def test_numbers_of_the_target() -> None:
    found = consts(SOURCES["shared/target.p4"])
    assert found["FLOOD_GROUP"] == entries.FLOOD_GROUP and found["CPU_PORT"] == entries.CPU_PORT


def apply(messages: list, have: dict, group: frozenset | None) -> tuple[dict, frozenset | None]:
    """What a switch has afterwards; refuses what a P4Runtime server refuses."""
    have = dict(have)
    for message in messages:
        assert isinstance(message, Write)
        if isinstance(message.what, FloodGroup):
            assert (message.kind == "insert") == (group is None)
            group = message.what.ports
        elif message.kind == "insert":
            assert message.what.key not in have
            have[message.what.key] = message.what
        elif message.kind == "modify":
            assert message.what.key in have
            have[message.what.key] = message.what
        else:
            del have[message.what.key]
    return have, group


@pytest.mark.parametrize("before", [None, wanted(), wanted(2), wanted(appliance=False), wanted(blocked=(1, 2))])
@pytest.mark.parametrize("after", [wanted(), wanted(3), wanted(appliance=False), wanted(blocked=(0,))])
def test_changes_lead_from_anything_to_what_is_wanted(before: Desired | None, after: Desired) -> None:
    have = entries.entries(before) if before else {("segment", 7): Entry("segment", "label", 7, "forward")}
    group = before.flood if before else None
    messages = entries.changes(after, have, group)
    assert apply(messages, have, group) == (entries.entries(after), after.flood)
    assert before != after or messages == []


def test_a_port_leaves_the_flooding_before_another_joins() -> None:
    before, after = wanted(blocked=(1,)), wanted(blocked=(2,))
    seen = [m.what.ports for m in entries.changes(after, entries.entries(before), before.flood)
            if isinstance(m.what, FloodGroup)]
    assert seen == [before.flood - {2}, after.flood]


# ---- pipeline ----
def test_a_pipeline_that_is_not_ours_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    from datacast.controller.p4runtime.shim import Info

    (tmp_path / "a.json").write_text("{}")
    info = tmp_path / "a.p4info.txt"
    info.write_text('pkg_info { arch: "v1model" }\ntables { preamble { id: 1 name: "a.segment" alias: "segment" } }\n')
    with pytest.raises(SwitchError, match=r"lacks table segment, table member.*make p4") as error:
        Info(Pipeline(json=str(tmp_path / "a.json"), p4info=str(info)))
    assert error.value.code == "pipeline"
    info.write_text("this is no p4info {")
    with pytest.raises(SwitchError, match="no p4info"):
        Info(Pipeline(json=str(tmp_path / "a.json"), p4info=str(info)))
    with pytest.raises(SwitchError, match="make p4"):
        Info(Pipeline(json=str(tmp_path / "none.json"), p4info=str(info)))


def test_make_p4_compiles_or_says_how_to_get_p4c() -> None:
    import shutil

    done = subprocess.run(["make", "-s", "p4"], cwd=ROOT, capture_output=True, text=True)
    if shutil.which("p4c-bm2-ss"):
        assert done.returncode == 0, done.stderr
        from datacast.controller.p4runtime.shim import Info

        made = ROOT / "build" / "p4"
        info = Info(Pipeline(json=str(made / "datacast.json"), p4info=str(made / "datacast.p4info.txt")))
        for entry in entries.entries(wanted()).values():
            assert info.from_wire(info.to_wire(entry)) == entry
    else:
        assert done.returncode != 0 and "p4lang-p4c" in done.stderr and "Error 3" in done.stderr
