"""What others may import from the controller: its address and a (blocking) client of the REST API."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from datacast.fabric_manager.api import FINAL_STATES, GroupSpec, NodeSpec
from datacast.fabric_manager.api.orders import Ping
from datacast.fabric_manager.api.records import Caps, Cordon, Host, HostSet, Plan
from datacast.fabric_manager.api.specs import given
from datacast.fabric_manager.api.topology import NodeState
from datacast.services.blocking import FAILED, BlockingClient, NotConnectedError, reason
from datacast.services.problems import Problem, Unreachable, decoded, formed, segment
from datacast.services.tls import is_local

from . import records
from .records import Event, GroupRecord, GroupSummary, Health, KnownSite, SwitchDetail, Switches, Topology

if TYPE_CHECKING:
    from datacast.services.asking import Params

DEFAULT_LISTEN = "127.0.0.1:7580"
DEFAULT_URL = f"http://{DEFAULT_LISTEN}"
ENV_URL = "DATACAST_CONTROLLER"
ENV_TOKEN = "DATACAST_TOKEN"
ENV_CA = "DATACAST_CA"
SILENCE_S = 15.0
"""Of a stream of events. A controller passes on what says that its fabric manager is there, and tells after half of it
that none is."""

__all__ = ["FINAL_STATES", "ControllerClient", "GroupSpec"]
T = TypeVar("T")


def _verify(url: str) -> ssl.SSLContext | None:
    """Raises Problem."""
    if not url.lower().startswith("https://"):
        return None  # there is nothing to verify, and loading the system's authorities takes a while
    path = os.environ.get(ENV_CA)
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:
        why = "it holds no certificate of an authority" if isinstance(error, ssl.SSLError) else error.strerror
        text = f"${ENV_CA}: {path}: {why}"
        raise Problem(400, "bad_ca", text, what=path or "") from error


class ControllerClient:
    """For `http(s)://host:port` or `unix:/path`, or several of them divided by commas: where one does not answer the
    next is asked. None: $DATACAST_CONTROLLER or the default. `token`: for the controller's `--tokens`. $DATACAST_CA:
    the authority of an https controller, when it is not the system's. Raises Problem (Unreachable when nobody
    answers)."""

    def __init__(self, url: str | None = None, timeout: float = 10.0, token: str | None = None) -> None:
        text = url or os.environ.get(ENV_URL) or DEFAULT_URL
        self._urls = [part.strip() for part in text.split(",") if part.strip()] or [text]
        self._clients = [_client(one, timeout, token) for one in self._urls]
        self._at = 0

    @property
    def url(self) -> str:
        """The one that is asked now."""
        return self._urls[self._at]

    def __enter__(self) -> ControllerClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Params | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        return self._asked(method, path, body, params, headers)[0]

    def _asked(
        self, method: str, path: str, body: Any, params: Params | None, headers: dict[str, str] | None
    ) -> tuple[Any, str]:
        """The answer, and where its header says that more of it is (Link)."""
        content = None if body is None else json.dumps(body).encode()
        headers = {**({"content-type": "application/json"} if body is not None else {}), **(headers or {})}
        failure: Unreachable | None = None
        for _ in self._urls:
            try:
                with self._clients[self._at].ask(method, path, content, params, headers) as answer:
                    return decoded(answer.status, answer.read(), self.url), answer.headers.get("link", "")
            except FAILED as error:
                failure = self._unreachable(error)
                self._next()
                failure.asked = not isinstance(error, NotConnectedError)
                if method != "GET" and failure.asked:
                    raise failure from error
        assert failure
        raise failure

    def told(
        self,
        form: type[T],
        method: str,
        path: str,
        body: Any = None,
        params: Params | None = None,
        headers: dict[str, str] | None = None,
    ) -> T:
        """The answer in its form."""
        return formed(self.request(method, path, body, params, headers), form, f"controller at {self.url}")

    def _next(self) -> None:
        self._at = (self._at + 1) % len(self._urls)

    def _unreachable(self, error: BaseException) -> Unreachable:
        text = f"no controller answers at {self.url}: {reason(error)}"
        remedy = "see that datacast-controller runs there, or name another with --controller"
        if self.url == DEFAULT_URL:
            remedy = "start a lab with `datacast lab up` or set --controller"
        if "CERTIFICATE" in str(error):
            text = f"the controller at {self.url} is not believed: {reason(error)}"
            remedy = f"the certificate of its authority goes into ${ENV_CA}"
            if "mismatch" in str(error):
                remedy = "its certificate names another address: `datacast certs issue` with --dns or --ip"
            if "expired" in str(error):
                remedy = "`datacast certs renew DIR`, where its authority's key is, makes its certificate anew"
        return Unreachable(503, "unreachable", text, what=self.url, remedy=remedy)

    def health(self) -> Health:
        return self.told(Health, "GET", "/healthz")

    def topology(self) -> Topology:
        return self.told(Topology, "GET", "/topology")

    def create_group(self, spec: GroupSpec, key: str | None = None) -> GroupRecord:
        """`key`: the caller's own name for this request: sent again with the same one it is carried out once."""
        return self.told(GroupRecord, "POST", "/groups", given(spec), headers={"idempotency-key": key} if key else None)

    def groups(self, state: str | None = None, label: str | None = None) -> list[GroupSummary]:
        """All of them, oldest first. `label`: NAME=VALUE."""
        params = {key: text for key, text in (("state", state), ("label", label)) if text}
        rows: list[GroupSummary] = []
        while True:
            page, link = self._asked("GET", "/groups", None, params, None)
            rows += formed(page, list[GroupSummary], f"controller at {self.url}")
            after = parse_qs(urlsplit(link.partition(">")[0].removeprefix("<")).query).get("after")
            if not after or after[0] == params.get("after"):
                return rows
            params["after"] = after[0]

    def group(self, group: str) -> GroupRecord:
        return self.told(GroupRecord, "GET", f"/groups/{segment(group)}")

    def cancel_group(self, group: str) -> GroupRecord:
        return self.told(GroupRecord, "POST", f"/groups/{segment(group)}/cancel")

    def forget_group(self, group: str) -> GroupRecord:
        """What it was."""
        return self.told(GroupRecord, "DELETE", f"/groups/{segment(group)}")

    def plan(self, spec: GroupSpec, size: int | None = None) -> Plan:
        """What a group would get if it began now."""
        return self.told(Plan, "POST", "/plan", given(spec), None if size is None else {"size": size})

    def sites(self) -> list[KnownSite]:
        """Other sites that are known there."""
        return self.told(list[KnownSite], "GET", "/sites")

    def hosts(self) -> list[Host]:
        return self.told(list[Host], "GET", "/hosts")

    def cordon(self, host: str, reason: str) -> Cordon:
        return self.told(Cordon, "PUT", f"/hosts/{segment(host)}/cordon", {"reason": reason})

    def uncordon(self, host: str) -> Cordon:
        return self.told(Cordon, "DELETE", f"/hosts/{segment(host)}/cordon")

    def cordon_switch(self, switch: str, reason: str) -> Cordon:
        """No tree uses it any more."""
        return self.told(Cordon, "PUT", f"/switches/{segment(switch)}/cordon", {"reason": reason})

    def uncordon_switch(self, switch: str) -> Cordon:
        return self.told(Cordon, "DELETE", f"/switches/{segment(switch)}/cordon")

    def caps(self) -> Caps:
        return self.told(Caps, "GET", "/caps")

    def cap(self, host: str | None, most_bps: int) -> Caps:
        """`host` None: the fabric."""
        return self.told(Caps, "PUT", _cap(host), {"most_bps": most_bps})

    def uncap(self, host: str | None) -> Caps:
        return self.told(Caps, "DELETE", _cap(host))

    def add_node(self, name: str, spec: NodeSpec) -> NodeState:
        """A host or a switch joins the fabric while it runs."""
        return self.told(NodeState, "PUT", f"/topology/nodes/{segment(name)}", given(spec))

    def remove_node(self, name: str) -> None:
        self.request("DELETE", f"/topology/nodes/{segment(name)}")

    def switches(self) -> Switches:
        return self.told(Switches, "GET", "/switches")

    def switch(self, name: str) -> SwitchDetail:
        return self.told(SwitchDetail, "GET", f"/switches/{segment(name)}")

    def sets(self) -> dict[str, list[str]]:
        return self.told(dict[str, list[str]], "GET", "/sets")

    def put_set(self, name: str, hosts: list[str]) -> HostSet:
        return self.told(HostSet, "PUT", f"/sets/{segment(name)}", {"hosts": hosts})

    def delete_set(self, name: str) -> None:
        self.request("DELETE", f"/sets/{segment(name)}")

    def resume_group(self, group: str) -> GroupRecord:
        return self.told(GroupRecord, "POST", f"/groups/{segment(group)}/resume")

    def add_receiver(self, group: str, host: str, dest_path: str | None = None) -> GroupRecord:
        body = {"host": host} if dest_path is None else {"host": host, "dest_path": dest_path}
        return self.told(GroupRecord, "POST", f"/groups/{segment(group)}/receivers", body)

    def remove_receiver(self, group: str, host: str) -> GroupRecord:
        return self.told(GroupRecord, "DELETE", f"/groups/{segment(group)}/receivers/{segment(host)}")

    def events(self, group: str | None = None, pings: bool = False, since: str = "none") -> Iterator[Event]:
        """Events as they come, each with its `type`, of all groups first the `groups` as they stand; ends when the
        controller does. pings: also those that only say that it is there, the first at once: what happened before is
        in the record then, and who waits may look at the clock. since: the last event that was heard before: then what
        was missed, where that is known, in place of what there is."""
        params = {"group": group} if group else None
        headers = {"last-event-id": since}  # what happened before one listens must not be missed
        try:
            with self._clients[self._at].ask(
                "GET", "/events", params=params, headers=headers, silence=SILENCE_S
            ) as answer:
                if answer.status >= 400:
                    decoded(answer.status, answer.read(), self.url)
                for text in answer:
                    line = text.decode().rstrip()
                    if line.startswith("data: "):
                        yield self._event(line[len("data: ") :])
                    elif pings and line.startswith((":", "retry:")):
                        yield Ping()
        except FAILED as error:
            failure = self._unreachable(error)
            self._next()
            raise failure from error

    def _event(self, line: str) -> Event:
        """Raises Problem, also where the event is that the controller could not go on."""
        answer = json.loads(line)
        if answer.get("type") == "error":
            raise Problem.from_json(int(answer.get("status", 503)), answer, f"the controller at {self.url}")
        event: Event = formed(answer, records.Event, f"controller at {self.url}")  # type: ignore[arg-type]
        return event


def _cap(host: str | None) -> str:
    return "/caps/fabric" if host is None else f"/caps/hosts/{segment(host)}"


def _client(url: str, timeout: float, token: str | None) -> BlockingClient:
    """Raises Problem where nobody can be asked there, or not with a token."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if token and url.lower().startswith("http://") and not is_local(url[len("http://") :].partition("/")[0]):
        raise Problem(400, "insecure", f"a token would travel to {url} in clear", what=url, remedy="use https://")
    try:
        return BlockingClient(url, timeout, _verify(url), headers)
    except ValueError as error:
        raise Problem(
            400,
            "bad_url",
            f"{url!r} is no address of a controller",
            what=url,
            remedy="give http://host:port, https://host:port or unix:/path",
        ) from error
