"""A group of several sites that begins at a URL: each site fetches it once, from the origin itself."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from sites_kit import Wan, wan
from web import Nginx, put

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]

SITES = """
sites:
  ams: {hosts: 2}
  sfo: {hosts: 2}
  syd: {hosts: 1, nat: true}
links:
  - {between: [ams, sfo], rate: 100mbit, delay_ms: 5}
  - {between: [sfo, syd], rate: 100mbit, delay_ms: 5}
"""
MIB = 1 << 20
EVERYONE = ("ams-0", "ams-1", "sfo-0", "sfo-1", "syd-0")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("url")
    allowed = folder / "origins.json"
    allowed.write_text("{}")
    allowed.chmod(0o600)
    with wan(folder, SITES, allowed) as up, Nginx(folder / "nginx", up.lab.plan.root_address, 8098) as nginx:
        allowed.write_text(json.dumps({"origins": [{"prefix": nginx.url + "/"}]}))
        yield up, nginx


def order(site: Wan, spec: dict) -> dict:
    return site.end("ams", site.lab.ask("ams", "POST", "/groups", spec, timeout_s=20.0))


def sent_by_site(site: Wan, nginx: Nginx) -> Counter[str]:
    """Bytes that left the origin, by the site of who asked."""
    at = {site.lab.plan.hosts[host].address: host.rpartition("-")[0] for host in EVERYONE}
    found: Counter[str] = Counter()
    for client, status, count in nginx.rows():
        if status == 206 and count > 1:
            found[at[client]] += count
    return found


def test_an_object_leaves_its_origin_once_for_each_site_and_crosses_no_link_between_them(place):
    site, nginx = place
    put(nginx.www / "model.bin", 6 * MIB)
    with site.carried(6 * MIB) as links:
        group = order(site, {"url": f"{nginx.url}/model.bin", "receivers": ["*/all"]})
    assert group["state"] == "done", site.told(group)
    assert all(site.has(host, nginx.www / "model.bin") for host in EVERYONE)
    assert set(group["receivers"]) == {"ams-0", "ams-1", "sfo/sfo-0", "sfo/sfo-1", "sfo/syd/syd-0"}
    assert sent_by_site(site, nginx) == {name: 6 * MIB for name in ("ams", "sfo", "syd")}
    assert all(share < 0.1 for share in links.values()), links


def test_a_folder_of_several_urls_arrives_at_every_site(place):
    site, nginx = place
    put(nginx.www / "one", MIB)
    put(nginx.www / "two", 2 * MIB)
    parts = [{"path": path, "size": size, "url": f"{nginx.url}/{path.rpartition('/')[2]}"}
             for path, size in (("one", MIB), ("under/two", 2 * MIB))]  # fmt: skip
    spec = {"url": "hf://team/model", "parts": parts, "receivers": ["*/all"], "dest_path": "models/team"}
    group = order(site, spec)
    assert group["state"] == "done", site.told(group)
    for host in EVERYONE:
        folder = site.lab.host_folder(host) / "models/team"
        assert (folder / "one").read_bytes() == (nginx.www / "one").read_bytes()
        assert (folder / "under/two").read_bytes() == (nginx.www / "two").read_bytes()


def test_an_object_that_is_not_there_ends_every_sites_part(place):
    site, nginx = place
    group = order(site, {"url": f"{nginx.url}/none", "receivers": ["sfo/all", "sfo/syd/all"]})
    assert group["state"] == "failed" and group["error"]["code"] == "not_found", group
    assert not (site.lab.host_folder("sfo-0") / "none").exists()
