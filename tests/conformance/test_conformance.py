"""One table, every data plane (scenarios.py, planes.py)."""

from __future__ import annotations

import time

import pytest
import scenarios
from conformance_kit import gather
from conformance_table import TABLE
from planes import PORTS, Plane
from scenarios import ANY_LAG, Scenario
from waiting import wait_for

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]

QUIET_S = 0.02
"""Silence that counts as silence: many times what a frame takes through any of these switches. One too many that a busy
machine keeps back for longer is what the next scenario did not expect."""
LAG_AT = 14 + 13


def normal(frame: bytes, like: bytes) -> bytes:
    """A frame without what does not count: addresses; padding; a lag where any will do."""
    frame = b"\0" * 12 + frame[12:]
    if len(like) < len(frame) <= 60 and not any(frame[len(like):]):
        frame = frame[:len(like)]
    if len(like) > LAG_AT and like[LAG_AT] == ANY_LAG and len(frame) == len(like):
        frame = frame[:LAG_AT] + bytes([ANY_LAG]) + frame[LAG_AT + 1:]
    return frame


def show(frames: list[tuple[int, bytes]]) -> str:
    return "\n".join(f"  port {port}: {len(frame)} bytes {frame[:64].hex()}" for port, frame in frames) or "  nothing"


def perform(plane: Plane, scenario: Scenario) -> None:
    before = plane.node()["drop"].get(scenario.drop, 0) if scenario.drop else 0
    for number, step in enumerate(scenario.steps):
        if step.wait_s:
            time.sleep(step.wait_s)  # the scenario is about this time
        if step.knows:
            plane.learn(step.knows)
        for port, frame in step.send:
            plane.wires[port].send(frame)
        # What leaves for the next switch to look at is waited for as well: late, it would be the next scenario's.
        onward = int(scenario.below and not plane.looks_below)
        came = gather(plane.wires, len(step.expect) or onward, QUIET_S)
        got = [(port, frame) for port, frames in came.items() for frame in frames]
        if scenario.below and not plane.looks_below and len(got) == 1:  # then the next switch sees it
            plane.wires[1].send(got[0][1])
            came = gather(plane.wires, len(step.expect), QUIET_S)
            got = [(port, frame) for port, frames in came.items() for frame in frames]
        left = list(got)
        missing = []
        for port, frame in step.expect:
            match = next((g for g in left if g[0] == port and normal(g[1], frame) == normal(frame, frame)), None)
            if match is None:
                missing.append((port, frame))
            else:
                left.remove(match)
        assert not missing and not left, (
            f"{plane.name}, {scenario.name}, step {number}:\nsent\n{show(step.send)}\n"
            f"expected, did not come\n{show(missing)}\ncame, not expected\n{show(left)}")
    if scenario.drop:
        wait_for(f"the counter {scenario.drop}", lambda: plane.node()["drop"].get(scenario.drop, 0) == before + 1)


@pytest.mark.parametrize("scenario", TABLE, ids=lambda s: s.name.replace(" ", "-"))
def test_scenario(plane: Plane, scenario: Scenario) -> None:
    if scenario.needs == "bridge" and not plane.bridges:
        pytest.skip(f"{plane.name} forwards Datacast only: ordinary Ethernet is dropped and counted")
    if plane.depth is not None and scenario.depth > plane.depth:
        scenario = Scenario(scenario.name, [scenarios.Step(step.send) for step in scenario.steps])
    perform(plane, scenario)


@pytest.mark.parametrize("deeper", [False, True], ids=["as-deep-as-it-goes", "one-deeper"])
def test_depth(plane: Plane, deeper: bool) -> None:
    found = scenarios.deep_scenarios(plane.depth)
    if deeper and len(found) == 1:
        pytest.skip(f"{plane.name} has no limit")
    perform(plane, found[deeper])


def test_ports_of_the_table_are_the_planes() -> None:
    assert scenarios.PORTS == PORTS
