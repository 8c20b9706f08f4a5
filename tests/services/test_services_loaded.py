"""What a service loads: each process of a fabric has it in memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOADED = "import importlib, json, sys; importlib.import_module(sys.argv[1]); print(json.dumps([*sys.modules]))"


def loaded(module: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", LOADED, module], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("service", ["master", "fabric_manager", "controller", "mirror"])
def test_a_service_loads_no_second_client_and_nothing_of_a_command(service: str) -> None:
    assert not loaded(f"datacast.{service}.main") & {"httpx", "requests", "rich", "pygments"}


def test_who_asks_a_controller_from_a_command_loads_no_client_but_python_s() -> None:
    assert not loaded("datacast.controller.api") & {"aiohttp", "httpx"}


def test_what_every_worker_needs_is_there_before_it_is_forked() -> None:
    assert {"aiohttp", "networkx"} <= loaded("datacast.master.main")
