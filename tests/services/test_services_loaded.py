"""What a service loads: each process of a fabric has it in memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOADED = "import importlib, json, sys; importlib.import_module(sys.argv[1]); print(json.dumps([*sys.modules]))"
WITH_HTTPX = LOADED.replace("; print", "; import httpx; httpx.AsyncClient(verify=False); print")


def loaded(module: str, how: str = LOADED) -> set[str]:
    done = subprocess.run([sys.executable, "-c", how, module], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.parametrize("service", ["master", "fabric_manager", "controller", "mirror"])
def test_a_service_s_http_client_brings_no_command_of_its_own_with_it(service: str) -> None:
    assert not loaded(f"datacast.{service}.main", WITH_HTTPX) & {"rich", "pygments"}


def test_what_every_worker_needs_is_there_before_it_is_forked() -> None:
    assert {"httpx", "httpcore", "networkx", "anyio._backends._asyncio"} <= loaded("datacast.master.main")
