"""`--sites FILE`: each site a fabric of its own, with its authority, fabric manager and controller (docs/sites.md).

The controller of a site runs on its first host, and is reached over the wide area as everything is. It knows the sites
that its own has a WAN link to. Tunnels join the hosts of one site only: what goes from site to site goes through
controllers.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from datacast.lab import ip, sites
from datacast.lab.credentials import Credentials
from datacast.lab.errors import LabError
from datacast.lab.lab import READY_S, Lab, LabOptions
from datacast.lab.programs import need_program

if TYPE_CHECKING:
    import networkx as nx

    from datacast.lab.signals import Signals

CONTROLLER_PORT = 7580
FIRST_PORT = 7500
"""Fabric managers, on the lab's own end of the management network: two ports each."""
WORKERS = 1
"""Of each site: all sites share this machine."""


@dataclass
class SiteDaemons:
    name: str
    hosts: list[str]
    number: int
    credentials: Credentials
    folder: Path
    """Its own files."""

    @property
    def first(self) -> str:
        return self.hosts[0]


class SitesPlane(ip.IpPlane):
    """Tunnels inside each site."""

    def of(self, lab: Lab, site: str) -> Any:
        assert isinstance(lab, SitesLab)
        return ip.overlay(lab.plan, self.routers(lab), lab.daemons[site].hosts)

    def topology_of(self, lab: Lab, site: str) -> str:
        from datacast.topologies import files

        path = Path(lab.run_folder) / f"tunnels-{site}.json"
        path.write_text(json.dumps(files.to_json(self.of(lab, site))))
        return str(path)

    def agent_options(self, lab: Lab, host: str) -> list[str]:
        assert isinstance(lab, SitesLab)
        return ["--tunnel-slots", str(max(1, self.of(lab, lab.site_of[host]).degree(host)))]

    def ready(self, lab: Lab) -> None:
        assert isinstance(lab, SitesLab)
        lab.progress("tunnels, and sites that know each other")

        def up() -> bool:
            return all(
                all(link["up"] for link in lab.ask(site, "GET", "/topology")["links"])
                and all(other["there"] for other in lab.ask(site, "GET", "/sites"))
                for site in lab.daemons
            )

        lab.supervisor.wait(up, READY_S, "tunnels between the hosts of each site, and sites that know each other")


class SitesLab(Lab):
    """A Lab of several fabrics. `options.topology`: the file of --sites."""

    def __init__(
        self,
        options: LabOptions,
        name: str,
        progress: Callable[[str], None] = lambda text: None,
        signals: Signals | None = None,
    ) -> None:
        self.sites = sites.read(Path(options.topology))
        super().__init__(replace(options, dataplane="ip"), name, progress, signals)
        self.plane = SitesPlane()
        self.site_of = {host: host.rpartition("-")[0] for host, d in self.graph.nodes(data=True) if d["kind"] == "host"}
        self.daemons: dict[str, SiteDaemons] = {}
        self.home = next(iter(self.sites.sites))
        """The site whose controller is asked where nothing else is said."""

    def described(self) -> nx.Graph:
        return sites.graph(self.sites)

    # ---- where things are ----
    def address(self, site: str) -> str:
        """Of its controller, on the wide area."""
        first = self.daemons[site].first
        return next(one.address for one in ip.attachments(self.plan) if one.host == first)

    def url(self, site: str) -> str:
        return f"https://{self.address(site)}:{CONTROLLER_PORT}"

    def rest_of(self, site: str) -> str:
        """Its REST, for whoever is on this machine."""
        return f"https://{self.plan.hosts[self.daemons[site].first].address}:{CONTROLLER_PORT}"

    @property
    def rest(self) -> str:
        return self.rest_of(self.home) if self.daemons else ""

    def ask(self, site: str, method: str, path: str, body: Any = None, timeout_s: float = 10.0) -> Any:
        """A site's controller. Raises OSError (HTTPError among them) or ValueError."""
        credentials = self.daemons[site].credentials
        return credentials.json(method, self.rest_of(site) + path, body, credentials.token, timeout_s)

    def rest_json(self, method: str, path: str, body: Any = None, timeout_s: float = 10.0) -> Any:
        return self.ask(self.home, method, path, body, timeout_s)

    # ---- up ----
    def _identities(self) -> list[str]:
        if self.options.insecure:
            raise LabError("sites know each other by certificates", remedy="leave --insecure out")
        for number, name in enumerate(self.sites.sites):
            folder = self.run_folder / "sites" / name
            folder.mkdir(parents=True)
            hosts = [host for host, site in self.site_of.items() if site == name]
            services = ["fabric-manager/main", "master/main", "controller/main"]
            identities = [*services, *(f"agent/{host}" for host in hosts)]
            rest = self.plan.hosts[hosts[0]].address
            credentials = Credentials(folder / "tls", identities, folder / "tokens.json", rest)
            self.daemons[name] = SiteDaemons(name, hosts, number, credentials, folder)
        return []

    def start_all(self) -> None:
        for machine in self.plan.switches:
            self.plane.start(self, machine)
        for site in self.daemons.values():
            self._manager_of(site)
        for host in self.plan.hosts:
            self.progress(f"agent {host}")
            self.start_agent(host)
        for site in self.daemons.values():
            self.start_controller(site.name)

    def _signalling(self, site: SiteDaemons) -> str:
        return f"{self.plan.root_address}:{FIRST_PORT + 2 * site.number}"

    def manager(self, site: SiteDaemons) -> str:
        return f"{self.plan.root_address}:{FIRST_PORT + 2 * site.number + 1}"

    def _manager_of(self, site: SiteDaemons) -> None:
        self.progress(f"fabric manager of {site.name}")
        assert isinstance(self.plane, SitesPlane)
        command = self.manager_command(self.plane.topology_of(self, site.name), site.name, WORKERS)
        command += ["--signalling", self._signalling(site), "--http", self.manager(site)]
        command += site.credentials.options("fabric-manager/main") + site.credentials.master_options()
        self.supervisor.service(f"fabric-manager-{site.name}", command)

    def start_agent(self, host: str) -> None:
        site = self.daemons[self.site_of[host]]
        command = self.agent_command(host, self._signalling(site), site.credentials)
        self.supervisor.start(f"agent-{host}", command, self.network.spawn(host), self.options.realtime)

    def start_controller(self, name: str) -> None:
        """Also after it was killed."""
        self.progress(f"controller of {name}")
        site = self.daemons[name]
        known = {}
        for other in self.sites.neighbours(name):
            known[other] = {"ca": str(self.daemons[other].folder / "tls" / "ca.pem")}
            if not self.sites.sites[other].nat:
                known[other]["url"] = self.url(other)
        path = site.folder / "sites.yaml"
        path.write_text(yaml.safe_dump({"name": name, "url": self.url(name), "sites": known}, sort_keys=False))
        command = [need_program("datacast-controller"), "--listen", f"0.0.0.0:{CONTROLLER_PORT}"]
        command += ["--fabric-manager", f"https://{self.manager(site)}", "--tokens", str(site.credentials.tokens)]
        command += ["--sites", str(path), *site.credentials.options("controller/main"), *self._control_priority()]
        self.supervisor.service(f"controller-{name}", command, self.network.nodes[site.first].pid)

    def _all_registered(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return all(
                node.get("registered") for site in self.daemons for node in self.ask(site, "GET", "/topology")["nodes"]
            )
        return False

    def _workers_wait(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            for site in self.daemons.values():
                url = f"https://{self.manager(site)}/healthz"
                if len(site.credentials.json("GET", url)["workers"]) < WORKERS:
                    return False
            return True
        return False

    # ---- looking ----
    def wan_bytes(self) -> dict[tuple[str, str], int]:
        """Bytes that each gateway has sent to the other one of a WAN link, with their headers."""
        found = {}
        for link in self.sites.links:
            for a, b in (link.between, link.between[::-1]):
                port = self.graph.edges[f"{a}-gw", f"{b}-gw"]["ports"][f"{a}-gw"]
                ifname = self.plan.machine_of(f"{a}-gw").ports[f"{a}-gw"][port].ifname
                text = self.network.run_in(
                    self.plan.machine_of(f"{a}-gw").name, ["cat", f"/sys/class/net/{ifname}/statistics/tx_bytes"]
                )
                found[a, b] = int(text)
        return found
