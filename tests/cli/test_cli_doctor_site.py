"""What `datacast doctor --site` finds."""

from __future__ import annotations

from types import SimpleNamespace

from made_records import topology

from datacast.cli import doctor_site
from datacast.cli.doctor_site import site_checks
from datacast.services.authority import Authority, Identity
from datacast.services.problems import Problem

LINK = {"u": "a", "v": "s", "u_port": 0, "v_port": 0, "up": True, "mtu": 9000}


class Controller:
    def __init__(self, links, **node):
        self.fabric = {"spec": "pair", "nodes": [{"name": "a", **node}, {"name": "s"}], "links": links}

    def topology(self):
        if not self.fabric["links"]:
            raise Problem(503, "unreachable", "no fabric manager", remedy="start it")
        return topology(**self.fabric)


def found(controller, folder):
    return {check.name: check for check in site_checks(controller, folder)}


def test_a_good_site_is_well(tmp_path):
    authority = Authority.create(tmp_path / "authority", days=3650)
    cert, _ = authority.issue(Identity.parse("agent/a"), days=365)
    (tmp_path / "agent.pem").write_bytes(cert.read_bytes())
    checks = found(Controller([LINK], registered=True), tmp_path)
    assert all(check.ok for check in checks.values()), checks
    assert "agent/a" in checks["agent.pem"].detail


def test_each_fault_is_named_with_a_remedy(tmp_path):
    authority = Authority.create(tmp_path / "authority", days=3650)
    cert, _ = authority.issue(Identity.parse("agent/a"), days=5)
    (tmp_path / "agent.pem").write_bytes(cert.read_bytes())
    (tmp_path / "torn.pem").write_text("-----BEGIN")
    links = [{**LINK, "up": False}, {**LINK, "u": "b"}]
    checks = found(Controller(links, registered=False), tmp_path)
    assert "1 not registered: a" in checks["nodes"].detail
    assert "a:0-s:0" in checks["links"].detail and checks["links"].required
    assert not checks["agent.pem"].ok and not checks["agent.pem"].required
    assert not checks["torn.pem"].ok
    assert all(check.remedy for check in checks.values() if not check.ok)


def site(**changed):
    """Two nodes and their link, all well but for what is changed of `a`."""

    def node(name, **more):
        port = {"port": 0, "ifname": "eth1", "mtu": 9000, "reason": None, "carried": 9000}
        good = {"name": name, "registered": True, "version": "1", "ports": [port], "clock_ms": 1.5}
        return {**good, "dest_roots": ["/r"], "disks": [[50, 100]], **more}

    it = Controller([dict(LINK)])
    it.fabric |= {"nodes": [node("a", **changed), node("s")], "services": {"fabric-manager": "1"}}
    return it


def test_clocks_versions_disks_and_mtu_of_every_end_are_looked_at(tmp_path):
    checks = found(site(), tmp_path)
    assert all(check.ok for check in checks.values()), checks
    assert "within 2 ms" in checks["clocks"].detail
    ports = [{"port": 0, "ifname": "eth1", "mtu": 1500, "reason": None}]
    checks = found(site(version="2", clock_ms=-61000.0, disks=[[4, 100]], ports=ports), tmp_path)
    assert "a by 61.0 s ahead" in checks["clocks"].detail
    assert checks["versions"].detail == "1 (2 programs), 2 (a)", "the fabric manager's, too"
    assert "a:/r has" in checks["disks"].detail
    assert "a:eth1 has 1500, the site says 9000" in checks["MTU"].detail and checks["MTU"].required
    assert not any(checks[name].ok for name in ("clocks", "versions", "disks", "MTU"))
    checks = found(site(ports=[{**ports[0], "mtu": 9216}]), tmp_path)
    assert "differ" in checks["MTU"].detail and not checks["MTU"].required


def test_frames_that_do_not_come_through_are_told_by_link_and_direction(tmp_path):
    good = found(site(), tmp_path)["frames"]
    assert good.ok and "came through 1 of 1" in good.detail
    port = {"port": 0, "ifname": "eth1", "mtu": 9000, "reason": None}
    lost = found(site(ports=[{**port, "carried": 0}]), tmp_path)["frames"]
    assert not lost.ok and lost.required and "of 9000 bytes from s to a:eth1" in lost.detail and lost.remedy
    unsaid = found(site(ports=[port]), tmp_path)["frames"]
    assert unsaid.ok and "came through 0 of 1" in unsaid.detail, "a P4 switch says no hello: neither good nor bad"


def test_certificates_of_all_nodes_are_looked_at(tmp_path, monkeypatch):
    now, day = 2e9, 86400
    monkeypatch.setattr(doctor_site, "time", SimpleNamespace(time=lambda: now))
    assert "no node showed one" in found(site(), tmp_path)["certificates"].detail
    for days, ok, must, told in (
        (300.4, True, False, "the first ends in 300 days"),
        (30, True, False, "the first ends in 30 days"),
        (29.99, False, False, "1 end soon: a in 30 days"),
        (9.6, False, False, "1 end soon: a in 10 days"),
        (1 / day, False, False, "1 end soon: a in 0 days"),
        (0, False, True, "1 end soon: a has ended"),
        (-1 / day, False, True, "1 end soon: a has ended"),
    ):
        check = found(site(certificate_until=now + days * day), tmp_path)["certificates"]
        assert (check.ok, check.required and not check.ok, check.detail) == (ok, must, told), days
        assert ("admit" in check.remedy) is not ok


def test_a_link_that_is_down_says_at_which_end_and_why(tmp_path):
    it = site(ports=[{"port": 0, "ifname": "eth1", "mtu": 9000, "reason": "silent"}])
    it.fabric["links"][0]["up"] = False
    assert "a:eth1 (no hello arrives)-s:eth1" in found(it, tmp_path)["links"].detail


def test_a_controller_that_does_not_answer_is_the_first_finding(tmp_path):
    (check,) = site_checks(Controller([]), tmp_path)
    assert not check.ok and check.required and check.remedy == "start it"
