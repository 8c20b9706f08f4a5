"""Both ends of what an option of a service may be are taken. What is beyond is refused with the option's name."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest

from datacast.controller import main as controller
from datacast.fabric_manager import main as fabric_manager
from datacast.master import main as master
from datacast.mirror import main as mirror


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Namespace]:
    """What programs would run with."""
    found: list[Namespace] = []
    for program in (controller, master, mirror):
        monkeypatch.setattr(program, "run", lambda args: found.append(args))
        monkeypatch.setattr(program.daemon, "run", lambda *_: None)
    return found


def takes(module: Any, option: str, value: Any, started: list[Namespace]) -> Any:
    """What the program knows of an option."""
    if module is fabric_manager:
        args = fabric_manager.arguments(["--topology", "bcube:4,1", option, str(value)])
    else:
        module.main([*(["--store", "/s"] if module is mirror else []), option, str(value)])
        args = started.pop()
    return getattr(args, option.lstrip("-").replace("-", "_"))


@pytest.mark.parametrize(
    ("module", "option", "least", "most"),
    [
        (fabric_manager, "--mtu", 256, 65535),
        (fabric_manager, "--queue-packets", 8, None),
        (fabric_manager, "--groups", 1, 65536),
        (fabric_manager, "--host-groups", 1, 65536),
        (fabric_manager, "--workers", 0, 64),
        (fabric_manager, "--realtime", 0, 99),
        (fabric_manager, "--heartbeat-ms", 50, 60_000),
        (controller, "--connections", 1, 65536),
        (controller, "--rate", 0, None),
        (controller, "--realtime", 0, 99),
        (mirror, "--patience", 0, None),
    ],
)
def test_both_ends_of_a_number_are_taken_and_none_beyond(
    module: Any, option: str, least: int, most: int | None, started: list[Namespace], capsys: pytest.CaptureFixture[str]
) -> None:
    assert takes(module, option, least, started) == least
    assert most is None or takes(module, option, most, started) == most
    for beyond in (least - 1, *([] if most is None else [most + 1])):
        with pytest.raises(SystemExit) as ended:
            takes(module, option, beyond, started)
        assert ended.value.code == 2 and option in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a", "7", "A-b_c.d", "x" * 64])
def test_a_workers_name_is_64_letters_digits_dots_and_dashes_at_most(name: str, started: list[Namespace]) -> None:
    assert takes(master, "--name", name, started) == name
    for wrong in (name + "/", " " + name, "." + name, "x" * 64 + name):
        with pytest.raises(SystemExit):
            takes(master, "--name", wrong, started)
