"""A collective fetch in a whole lab: hosts fetch an object from nginx, and send it to each other while they do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from origin_lab import origin_lab

sys.path.append(str(Path(__file__).parents[1] / "services_kit"))
from web import Nginx, put

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

SIZE = 12 << 20


@pytest.fixture
def place(tmp_path):
    with origin_lab(tmp_path) as it, Nginx(tmp_path / "nginx", it.lab.plan.root_address, 8099) as nginx:
        it.allow({"prefix": nginx.url + "/"})
        put(nginx.www / "object", SIZE)
        yield it, nginx


def fetch(place, fetchers, faults: tuple[str, ...] = ()):
    it, nginx = place
    return it.fetch(f"{nginx.url}/object", nginx.www / "object", fetchers, faults)


@pytest.mark.parametrize("fetchers", [1, 3, "all"])
def test_every_byte_leaves_the_origin_once_and_all_have_it(place, fetchers) -> None:
    report = fetch(place, fetchers)
    assert report["ok"], report
    assert place[1].sent() == SIZE
    clients = {client for client, status, n in place[1].rows() if status == 206 and n > 1}
    assert len(clients) == (5 if fetchers == "all" else fetchers)


def test_a_fetcher_that_is_killed_costs_what_it_had_begun(place) -> None:
    report = fetch(place, "all", ("kill agent h2 at 800ms",))
    assert [name for name, row in report["receivers"].items() if row["finish_s"] is None] == ["h2"]
    assert place[1].sent() <= 1.25 * SIZE
