"""The P4 program against the numbers and the controller that belong to it, without p4c."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made import make

from datacast.controller.p4runtime import entries
from datacast.controller.p4runtime.entries import Copies, Entry, Installed, Write
from datacast.controller.p4runtime.stations import STATIONS_MAX, Stations
from datacast.controller.southbound.config import Pipeline, parse
from datacast.controller.southbound.desired import Desired, desired
from datacast.controller.southbound.errors import SwitchError
from datacast.controller.southbound.service import NODE_EVENTS
from datacast.core import constants

ROOT = Path(__file__).resolve().parents[2]
P4 = ROOT / "p4src"
SOURCES = {path.relative_to(P4).as_posix(): path.read_text() for path in sorted(P4.rglob("*.p4"))}
ALL = "\n".join(text for name, text in SOURCES.items() if not name.startswith("swx/"))


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
            if value == constants.LABEL_ADJ:  # sizes and widths that happen to be the same number
                code = re.sub(r"size = 1024|_CHUNKS 1024|ROUTE_MAX = 1024|bit<1024>|half128\W+1024", "", code)
            assert not re.search(rf"\b({value}|{value:#06x}|{value:#x})\b", code), f"{value:#x} in {name}"


def test_reasons_to_drop_are_the_cores() -> None:
    header = (ROOT / "libdatacast/include/datacast/wire.h").read_text()
    body = re.search(r"enum dc_drop {(.*?)};", header, re.DOTALL)
    assert body
    names = re.findall(r"^\s*DC_DROP_(\w+)", body[1], re.MULTILINE)
    found = {name.removeprefix("REASON_"): value for name, value in consts(SOURCES["shared/reasons.p4"]).items()
             if name.startswith("REASON_")}
    assert found and all(names[value] == name for name, value in found.items())
    events = dict(re.findall(r"const bit<32> EVENT_(\w+) = (\d+);", SOURCES["node/interest.p4"]))
    assert sorted(map(int, events.values())) == list(range(len(NODE_EVENTS)))
    assert consts(SOURCES["shared/reasons.p4"])["REASONS"] >= len(names)


def test_limits_are_the_cores_and_the_generated_ones() -> None:
    text = (ROOT / "libdatacast/include/datacast/limits.h").read_text()
    limits = {name: int(value) for name, value in re.findall(r"DC_(\w+) = (\d+)", text)}
    sizes = consts(SOURCES["shared/sizes.p4"])
    for ours, theirs in (("ROUTE_MAX", "ROUTE_MAX"), ("STOPS_MAX", "STOPS_MAX"), ("PAYLOAD_MAX", "PAYLOAD_MAX")):
        assert sizes[ours] == limits[theirs]
    literals = {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)", SOURCES["shared/sizes.p4"])}
    assert literals["NODE_SEGMENT"] == constants.P4_SEGMENT_MAX
    assert literals["NODE_CHILDREN"] == constants.P4_CHILDREN_MAX
    assert literals["NODE_WAITING"] == literals["NODE_WAITING_SETS"] * limits["WAITING_WAYS"]
    assert literals["NODE_TREES"] == 8 * literals["NODE_SETS"]
    growing = re.search(r"header growing_t {(.*?)}", SOURCES["shared/node_headers.p4"], re.DOTALL)
    assert growing and sum(map(int, re.findall(r"bit<(\d+)>", growing[1]))) == 8 * sizes["GROWING_LEN"]
    # bmv2 aborts where a frame grows by more than 512 bytes: labels must not come on top of two pieces
    assert sizes["GROWING_LEN"] >= 4 * (literals["NODE_SEGMENT"] + 1)


# ---- style: what holds for every table ----
@pytest.mark.parametrize("table", re.findall(r"^    table (\w+)", ALL, re.MULTILINE))
def test_every_table_has_name_size_default_and_counter(table: str) -> None:
    body = block("table", table)
    assert re.search(rf'@name\("{table}"\)\s+table {table}\b', ALL)
    for need in (r"\bsize = \d+;", r"const default_action = \w+\(", r"counters = \w+;"):
        assert re.search(need, body), f"table {table}: {need}"


MAINS = ("datacast.p4", "node.p4")


def test_the_main_files_only_wire_and_what_is_shared_imports_nothing() -> None:
    for main in MAINS:
        assert "table " not in SOURCES[main] and "action " not in SOURCES[main]
    for name, text in SOURCES.items():
        assert ("#include" in text) == (name in MAINS or name.startswith(("target/", "swx/"))), name


def test_what_belongs_to_v1model_stands_in_one_file() -> None:
    own = r"<v1model|\bcounter\(|direct_counter\(|\bregister<|HashAlgorithm|clone_preserving|recirculate_|mcast_grp"
    for name, text in SOURCES.items():
        assert name == "target/v1model.p4" or not re.search(own, re.sub(r"//.*", "", text)), name


def test_the_program_for_swx_takes_the_same_entries() -> None:
    text = SOURCES["swx/psa.p4"]
    for name in ("segment", "link"):
        parts = rf'table {name} {{.*?@name\("(\w+)"\).*?actions = {{(.*?)}}.*?size = (\d+);'
        tables = [re.search(parts, source, re.DOTALL) for source in (text, ALL)]
        here, there = (match.groups() for match in tables if match)
        assert [re.findall(r"\w+;", part) if ";" in part else part for part in here] == [
            re.findall(r"\w+;", part) if ";" in part else part for part in there]
        for action in re.findall(r"(\w+);", here[1]):
            assert re.search(rf'@name\("{action}"\)\s+action {action}\(', text)


# ---- entries ----
APPLIANCE = 490


def wanted(ports: int = 4, *, appliance: bool = True, blocked: tuple[int, ...] = (), node: bool = False) -> Desired:
    switch: dict = {"name": "s0", "p4runtime": {"address": "x:1"},
                    "ports": [{"port": p, "number": p} for p in range(ports)]}
    if node:
        switch["cache"] = "p4"
    elif appliance:
        switch["appliance"] = {"number": APPLIANCE}
    pipeline = {"json": "a", "p4info": "b"}
    config = parse({"switches": [switch], "pipeline": pipeline, "node_pipeline": pipeline}).switches[0]
    return desired(config, {}, [*range(ports), APPLIANCE], blocked, appliance)


def test_entries_name_what_the_program_has() -> None:
    for entry in [*entries.entries(wanted()).values(), *entries.entries(wanted(node=True)).values()]:
        keys = re.findall(r'exact @name\("(\w+)"\)', block("table", entry.table))
        assert keys == [entry.field]
        actions = re.search(r"actions = {(.*?)}", block("table", entry.table), re.DOTALL)
        assert actions and entry.action in actions[1]
        signature = re.search(rf"action {entry.action}\((.*?)\)", ALL)
        assert signature
        text = signature[1].replace("port_t", "bit<9>")
        widths = {name: int(bits) for bits, name in re.findall(r"bit<(\d+)> (\w+)", text)}
        assert [name for name, _ in entry.params] == list(widths)
        assert all(0 <= value < 1 << widths[name] for name, value in entry.params)


def test_a_switch_that_bridges_nothing_has_no_port_that_does() -> None:
    told = {"name": "s0", "p4runtime": {"address": "x:1"}, "ports": [{"port": p, "number": p} for p in range(4)]}
    pipeline = {"json": "a", "p4info": "b"}
    config = parse({"switches": [{**told, "bridges": False}], "pipeline": pipeline}).switches[0]
    found = entries.entries(desired(config, {}, range(4), (), False)).values()
    assert [dict(e.params) for e in found if e.table == "bridging"] == [{"low": 0, "high": 0}]


def test_labels_are_the_wire_formats() -> None:
    found = {e.value: dict(e.params)["port"] for e in entries.entries(wanted()).values() if e.table == "segment"}
    assert found == {constants.LABEL_ADJ + p: p for p in range(4)} | {constants.LABEL_LOCAL: APPLIANCE}


@pytest.mark.parametrize("ports", [1, 4, 64, 480])
@pytest.mark.parametrize("node", [False, True])
def test_the_number_of_entries_is_bounded(ports: int, node: bool) -> None:
    found = entries.entries(wanted(ports, node=node)).values()
    assert len(found) <= 2 * ports + 12
    for table in {e.table for e in found}:
        size = int(re.search(r"size = (\d+);", block("table", table))[1])  # type: ignore[index]
        assert sum(e.table == table for e in found) <= size
    assert len(entries.copies(wanted(ports, node=node))) <= 2 + constants.P4_CHILDREN_MAX


def apply(messages: list, have: Installed) -> Installed:
    """What a switch has afterwards; refuses what a P4Runtime server refuses."""
    rows, sets = dict(have.entries), dict(have.copies)
    for message in messages:
        assert isinstance(message, Write)
        there = sets if isinstance(message.what, Copies) else rows
        assert (message.kind == "insert") == (message.what.key not in there)
        if message.kind == "delete":
            del there[message.what.key]
        else:
            there[message.what.key] = message.what
    return Installed(rows, sets)


def installed(wants: Desired) -> Installed:
    return Installed(entries.entries(wants), entries.copies(wants))


@pytest.mark.parametrize("before", [None, wanted(), wanted(2), wanted(appliance=False), wanted(blocked=(1, 2)),
                                    wanted(node=True)])
@pytest.mark.parametrize("after", [wanted(), wanted(3), wanted(appliance=False), wanted(blocked=(0,)),
                                   wanted(node=True)])
def test_changes_lead_from_anything_to_what_is_wanted(before: Desired | None, after: Desired) -> None:
    have = installed(before) if before else Installed({("segment", 7): Entry("segment", "label", 7, "forward")})
    messages = entries.changes(after, have)
    assert apply(messages, have) == installed(after)
    assert before != after or messages == []


def test_a_port_leaves_the_flooding_before_another_joins() -> None:
    before, after = wanted(blocked=(1,)), wanted(blocked=(2,))
    seen = [m.what.replicas for m in entries.changes(after, installed(before)) if isinstance(m.what, Copies)]
    assert seen == [frozenset((n, 1) for n in ports) for ports in (before.flood - {2}, after.flood)]


# ---- learned addresses ----
def test_an_address_is_learned_moves_and_ages() -> None:
    stations = Stations()
    first = stations.learned(0x02000000000A, 3)
    assert [(w.kind, w.what.table) for w in first] == [("insert", "source"), ("insert", "destination")]
    assert stations.learned(0x02000000000A, 3) == [], "told twice"
    assert [w.kind for w in stations.learned(0x02000000000A, 4)] == ["modify", "modify"]
    assert stations.view() == {"02:00:00:00:00:0a": 4}
    assert [w.kind for w in stations.aged(0x02000000000A)] == ["delete", "delete"] and stations.view() == {}
    assert stations.aged(0x02000000000A) == []
    assert stations.learned(0x010000000000, 1) == [], "a group's address is nobody's"


def test_the_address_learned_first_gives_way() -> None:
    stations = Stations()
    for address in range(STATIONS_MAX + 1):
        writes = stations.learned(address << 1, 1)
    assert [(w.kind, w.what.value) for w in writes][:2] == [("delete", 0), ("delete", 0)]
    assert len(stations.view()) == STATIONS_MAX


# ---- pipeline ----
def test_a_pipeline_that_is_not_ours_is_refused_with_what_it_lacks(tmp_path: Path) -> None:

    from datacast.controller.p4runtime.shim import Info, p4info_pb2

    (tmp_path / "a.json").write_text("{}")
    info = tmp_path / "a.p4info.bin"
    other = p4info_pb2.P4Info()
    other.tables.add().preamble.alias = "segment"
    info.write_bytes(other.SerializeToString())
    with pytest.raises(SwitchError, match=r"lacks table segment, table link.*make p4") as error:
        Info(Pipeline(json=str(tmp_path / "a.json"), p4info=str(info)))
    assert error.value.code == "pipeline"
    info.write_text("this is no p4info {")
    with pytest.raises(SwitchError, match="no p4info"):
        Info(Pipeline(json=str(tmp_path / "a.json"), p4info=str(info)))
    with pytest.raises(SwitchError, match="make p4"):
        Info(Pipeline(json=str(tmp_path / "none.json"), p4info=str(info)))


def test_make_p4_compiles_or_says_how_to_get_p4c() -> None:
    import shutil

    done = make("p4")
    if shutil.which("p4c-bm2-ss"):
        assert done.returncode == 0, done.stderr
        from datacast.controller.p4runtime.shim import Info

        made = ROOT / "build" / "p4"
        for name, node in (("datacast", False), ("node", True)):
            pipeline = Pipeline(json=str(made / f"{name}.json"), p4info=str(made / f"{name}.p4info.bin"))
            info = Info(pipeline, node=node)
            for entry in entries.entries(wanted(node=node)).values():
                assert info.from_wire(info.to_wire(entry)) == entry
            with pytest.raises(SwitchError, match="does not match"):
                Info(pipeline, node=not node)
    else:
        assert done.returncode != 0 and "p4lang-p4c" in done.stderr and "Error 3" in done.stderr
