"""What `datacast doctor --site` finds."""

from __future__ import annotations

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
        return self.fabric


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
    links = [{**LINK, "up": False}, {**LINK, "u": "b", "mtu": 1500}]
    checks = found(Controller(links, registered=False), tmp_path)
    assert "1 not registered: a" in checks["nodes"].detail
    assert "a:0-s:0" in checks["links"].detail and checks["links"].required
    assert "1500 on b-s" in checks["MTU"].detail and not checks["MTU"].required
    assert not checks["agent.pem"].ok and not checks["agent.pem"].required
    assert not checks["torn.pem"].ok
    assert all(check.remedy for check in checks.values() if not check.ok)


def test_a_controller_that_does_not_answer_is_the_first_finding(tmp_path):
    (check,) = site_checks(Controller([]), tmp_path)
    assert not check.ok and check.required and check.remedy == "start it"
