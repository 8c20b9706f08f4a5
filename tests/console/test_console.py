"""The console in Chromium against a real lab: `make test-console`; PICTURES=folder takes the pictures of docs/ too."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

pytestmark = [pytest.mark.root, pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(280)]
CHROMIUM = shutil.which("chromium")
ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "build" / "axe.min.js"
PICTURES = os.environ.get("PICTURES")

if not os.environ.get("DATACAST_CONSOLE_TEST"):
    pytest.skip("a part of `make test-console`", allow_module_level=True)


@pytest.fixture(scope="module")
def lab():
    from left_over import unique_name
    from ports import free_ports

    from datacast.lab.lab import Lab, LabOptions

    rest, fabric = free_ports(2)
    options = LabOptions(topology="bcube:4,1", rate_bps=20_000_000, rest_port=rest, fabric_port=fabric, realtime=False)
    with Lab(options, unique_name("console")) as lab:
        lab.up()
        yield lab


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, lab):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(20_000)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
    page.goto(lab.rest + "/")
    yield page
    context.close()
    assert not errors


def sign_in(page, lab):
    page.get_by_label("Token").fill(lab.credentials.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="hosts").wait_for()


def source(lab, size: int) -> Path:
    path = lab.work / f"console-{size}.bin"
    path.write_bytes(os.urandom(size))
    return path


def picture(page, name: str) -> None:
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        from PIL import Image

        path = f"{PICTURES}/{name}.png"
        page.screenshot(path=path, full_page=True)
        Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the bytes


def serious(page) -> list[str]:
    """axe-core's findings that are serious or worse. Its script comes past the page's policy, as a debugger's does."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run().then(r => r.violations)")
    return [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in found if v["impact"] in ("serious", "critical")]


def test_a_wrong_token_is_refused_and_the_right_one_is_out_of_scripts_reach(page, lab):
    page.get_by_label("Token").fill("nonsense")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").filter(has_text="not known").wait_for()
    assert not serious(page)
    sign_in(page, lab)
    assert page.evaluate("document.cookie") == ""
    cookie = page.context.cookies()[0]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()


def test_a_group_is_started_seen_to_spread_and_ends(page, lab):
    sign_in(page, lab)
    page.get_by_role("link", name="Groups", exact=True).click()
    page.get_by_text("Start a group").click()
    path = source(lab, 96 << 20)
    page.get_by_label("From", exact=True).fill("00")
    page.get_by_label("File there").fill(str(path))
    page.get_by_label("To (hosts, or all)").fill("02, 10, 21, 23, 31, 33")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("status").filter(has_text="2 trees to 6 receivers").wait_for()
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("heading", name="Group g-").wait_for()
    page.get_by_text("Slowest:").wait_for()
    page.get_by_role("heading", name="Rates over time").wait_for()
    page.get_by_role("heading", name="Blocks").wait_for()
    # A row for each receiver, and some parts of the file are whole.
    page.wait_for_function(
        """() => { const c = document.querySelector('canvas.blocks');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            let bright = 0;
            for (let i = 0; i < d.length; i += 4) bright += d[i + 1] == 190;
            return c.height == 6 && bright > 0; }"""
    )
    time.sleep(2)
    picture(page, "group")
    assert not serious(page)
    page.get_by_role("link", name="Map").click()
    page.get_by_text("Running:").wait_for()
    page.wait_for_function("() => document.querySelector('canvas').networkMap.trees.length == 2")
    time.sleep(0.5)
    picture(page, "map")
    page.get_by_role("link", name="Groups", exact=True).click()
    page.locator("td", has_text="done").first.wait_for(timeout=60_000)
    picture(page, "groups")
    assert not serious(page)
    assert (lab.host_folder("33") / path.name).read_bytes() == path.read_bytes()


def test_losses_are_put_on_the_cable_that_all_who_miss_packets_are_behind(page, lab):
    found = page.evaluate(
        """async () => { const { losses } = await import('/console/links.js');
            const arcs = [['r', 's'], ['s', 'a'], ['s', 't'], ['t', 'b'], ['t', 'c']];
            return [losses(arcs, new Map([['a', 0.0], ['b', 0.02], ['c', 0.05]])), losses(arcs, new Map())]; }"""
    )
    by = {arc: round(part, 3) for arc, part in found[0]}
    assert by == {"r s": 0, "s a": 0, "s t": 0.02, "t b": 0, "t c": 0.03}
    assert {part for _, part in found[1]} == {0}


def test_hosts_tell_of_disk_and_clock_and_a_table_goes_by_pages(page, lab):
    sign_in(page, lab)
    page.get_by_role("link", name="Hosts", exact=True).click()
    page.locator("td", has_text=" GB of ").first.wait_for()
    page.locator("td", has_text=" ms").first.wait_for()
    page.get_by_label("Search").fill("33")
    page.get_by_text("1 of 16").wait_for()
    assert "hosts.find=33" in page.url
    page.reload()
    page.get_by_text("1 of 16").wait_for()
    # 250 groups that ended: three pages, and all of them were fetched though a page of REST has 100.
    row = {"state": "done", "source": "00", "source_path": "/f", "receivers": 1, "fraction": 1}

    def answer(route):
        after = route.request.url.partition("after=")[2]
        first = int(after or 0)
        rows = [{**row, "id": f"g-{i:04}", "created_ns": i} for i in range(first, min(first + 100, 250))]
        more = {"link": f'<{lab.rest}/groups?after={first + 100}>; rel="next"'} if first + 100 < 250 else {}
        route.fulfill(json=rows, headers=more)

    page.route("**/events", lambda route: None)  # which would say what groups there are
    page.route("**/groups?after=*", answer)
    page.route("**/groups", answer)
    page.goto(f"{lab.rest}/#/groups")
    page.reload()
    page.get_by_text("1 to 100 of 250").wait_for()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("201 to 250 of 250").wait_for()
    assert page.locator("tbody tr").count() == 50 and not serious(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    assert len(Path(download.value.path()).read_text().splitlines()) == 251


def test_switches_tell_of_their_caches(page, lab):
    group = lab.rest_json(
        "POST",
        "/groups",
        {"source": "00", "source_path": str(source(lab, 4 << 20)), "receivers": ["01", "02"], "dest_path": "c.bin"},
    )
    sign_in(page, lab)
    page.goto(f"{lab.rest}/#/switches")
    page.locator("td", has_text=" %)").first.wait_for()  # interests that a cache answered
    lab.rest_json("POST", f"/groups/{group['id']}/cancel")


def test_a_receiver_is_removed_and_its_slowness_has_a_reason(page, lab):
    sign_in(page, lab)
    group = lab.rest_json(
        "POST",
        "/groups",
        {
            "source": "03",
            "source_path": str(source(lab, 64 << 20)),
            "receivers": ["12", "22"],
            "dest_path": "removed.bin",
        },
    )
    page.goto(f"{lab.rest}/#/groups/{group['id']}")
    page.get_by_text("because").wait_for()
    page.get_by_role("button", name="Remove 22").click()
    page.get_by_role("button", name="Yes, remove 22").click()
    page.locator("tr", has_text="22").filter(has_text="cancelled").wait_for()
    lab.rest_json("POST", f"/groups/{group['id']}/cancel")


def test_a_cable_that_is_cut_is_seen_and_hover_tells_of_it(page, lab):
    sign_in(page, lab)
    lab.network.set_port("00", 1, False)
    try:
        page.get_by_text("1 down").wait_for()
        spot = page.evaluate(
            """() => { const m = document.querySelector('canvas').networkMap, l = m.links.find(l => !l.up);
                const [a, b] = [m.places[l.a], m.places[l.b]]; return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2]; }"""
        )
        page.locator("canvas").hover(position={"x": spot[0], "y": spot[1]})
        page.get_by_role("status").filter(has_text="down").wait_for()
        picture(page, "cut")
    finally:
        lab.network.set_port("00", 1, True)
    page.get_by_text("1 down").wait_for(state="detached")


def test_cancel_asks_back_and_ends_the_group(page, lab):
    sign_in(page, lab)
    group = lab.rest_json(
        "POST",
        "/groups",
        {"source": "01", "source_path": str(source(lab, 32 << 20)), "receivers": ["11"], "dest_path": "cancelled.bin"},
    )
    page.goto(f"{lab.rest}/#/groups/{group['id']}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="No", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Yes, cancel").click()
    page.get_by_role("heading", name="cancelled").wait_for()


def test_a_lost_connection_is_told_and_mended(page, lab):
    sign_in(page, lab)
    page.context.set_offline(True)
    process = next(p for p in lab.supervisor.processes if p.name == "controller" and p.running)
    lab.supervisor.stop([process])
    try:
        page.get_by_text("No connection to the controller").wait_for()
    finally:
        lab._controller()
        page.context.set_offline(False)
    page.get_by_text("No connection to the controller").wait_for(state="detached")


@pytest.mark.parametrize("where", ["/map", "/groups", "/hosts", "/switches"])
def test_every_page_has_an_address_fits_a_telephone_and_is_accessible(page, lab, where):
    sign_in(page, lab)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{lab.rest}/#{where}")
    page.reload()
    page.get_by_role("heading", level=2).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not serious(page)
    page.emulate_media(color_scheme="dark")
    assert not serious(page)


def test_a_group_of_500_shows_the_blocks_of_those_who_are_furthest_behind(page, lab):
    """What the controller tells of so many; the page is the real one."""
    behind = {f"h{i}": "f" * 8 + "0" * 56 for i in range(0, 320, 5)}
    receivers = {
        f"h{i}": {
            "state": "running",
            "fraction": 0.5,
            "rate_bps": 10**7,
            "blocks": behind.get(f"h{i}", ""),
            "trees": {},
        }
        for i in range(500)
    }
    group = {"id": "many", "state": "running", "size": 10**9, "fraction": 0.5, "rate_bps": 5 * 10**9, "trees": {}}
    sign_in(page, lab)
    page.route("**/groups/many", lambda route: route.fulfill(json={**group, "receivers": receivers, "reactions": []}))
    page.goto(f"{lab.rest}/#/groups/many")
    page.get_by_text("The 64 of 500 receivers that are furthest behind, from above: h0, h5, h10").wait_for()
    size = page.evaluate("(({width, height}) => [width, height])(document.querySelector('canvas.blocks'))")
    assert size == [64, 64]
    page.wait_for_function("() => document.querySelectorAll('canvas.heat')[1]?.height == 500")
    assert page.locator("tbody tr").count() < 200, "the table goes by pages"
    assert not serious(page)
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_map_stays_fluid_with_4096_hosts(page, lab):
    """Recolouring all of 7,168 links takes 120 ms at most, without a GPU."""
    sign_in(page, lab)
    hosts = [
        {"name": f"h{i}", "kind": "host", "up": True, "x": (i % 64) / 64, "y": (i // 64) / 100} for i in range(4096)
    ]
    switches = [
        {"name": f"s{i}", "kind": "switch", "up": True, "x": i / 512, "y": 0.8 + (i % 4) / 20} for i in range(512)
    ]
    links = [{"u": f"h{i}", "v": f"s{i % 512}", "up": True, "load": 0} for i in range(4096)]
    links += [{"u": f"s{i % 512}", "v": f"s{(i * 7 + 1 + i // 512) % 512}", "up": True, "load": 0} for i in range(3072)]
    took = page.evaluate(
        """([nodes, links]) => { const m = document.querySelector('canvas').networkMap; const took = [];
            for (let i = 0; i < 31; i++) { const now = performance.now();
              m.show(nodes, links.map((l, k) => ({...l, load: ((k + i) % 10) / 10, up: (k + i) % 50 != 0})));
              m.draw(now); m.canvas.getContext('2d').getImageData(0, 0, 1, 1); took.push(performance.now() - now); }
            return took.sort((a, b) => a - b); }""",
        [hosts + switches, links],
    )
    print(json.dumps({"recolour_ms": [round(t, 1) for t in took]}))
    assert len(links) == 7168 and took[len(took) // 2] <= 120
