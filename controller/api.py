"""What others may import from the controller: its address and a (blocking) client of the REST API."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from datacast.services.problems import Problem, Unreachable, decoded, segment
from datacast.services.tls import is_local

if TYPE_CHECKING:
    import httpx

DEFAULT_LISTEN = "127.0.0.1:7580"
DEFAULT_URL = f"http://{DEFAULT_LISTEN}"
ENV_URL = "DATACAST_CONTROLLER"
ENV_TOKEN = "DATACAST_TOKEN"
ENV_CA = "DATACAST_CA"
FINAL_STATES = ("done", "partial", "failed", "cancelled")


def _verify(url: str) -> ssl.SSLContext | bool:
    """Raises Problem."""
    if not url.startswith("https://"):
        return False  # there is nothing to verify, and loading the system's authorities takes a while
    path = os.environ.get(ENV_CA)
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        text = f"${ENV_CA}: {path} holds no certificate of an authority"
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
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        import httpx

        failure: Unreachable | None = None
        for _ in self._urls:
            try:
                answer = self._clients[self._at].request(method, path, params=params, json=body, headers=headers)
                return decoded(answer)
            except (httpx.HTTPError, OSError) as error:
                failure = self._unreachable(error)
                self._next()
                if method != "GET" and not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    raise failure from error  # it may have been carried out
        assert failure
        raise failure

    def _next(self) -> None:
        self._at = (self._at + 1) % len(self._urls)

    def _unreachable(self, error: BaseException) -> Unreachable:
        text, remedy = f"no controller at {self.url}", "start a lab with `datacast lab up` or set --controller"
        if "CERTIFICATE" in str(error):
            text = f"the controller at {self.url} is not believed: {error}"
            remedy = f"the certificate of its authority goes into ${ENV_CA}"
            if "mismatch" in str(error):
                remedy = "its certificate names another address: `datacast certs issue` with --dns or --ip"
        return Unreachable(503, "unreachable", text, what=self.url, remedy=remedy)

    def health(self) -> dict[str, Any]:
        return self.request("GET", "/healthz")

    def topology(self) -> dict[str, Any]:
        return self.request("GET", "/topology")

    def create_group(self, spec: dict[str, Any], key: str | None = None) -> dict[str, Any]:
        """`key`: the caller's own name for this request: sent again with the same one it is carried out once."""
        return self.request("POST", "/groups", spec, headers={"idempotency-key": key} if key else None)

    def groups(self, state: str | None = None) -> list[dict[str, Any]]:
        return self.request("GET", "/groups", params={"state": state} if state else None)

    def group(self, group: str) -> dict[str, Any]:
        return self.request("GET", f"/groups/{segment(group)}")

    def cancel_group(self, group: str) -> dict[str, Any]:
        return self.request("POST", f"/groups/{segment(group)}/cancel")

    def forget_group(self, group: str) -> dict[str, Any]:
        """What it was."""
        return self.request("DELETE", f"/groups/{segment(group)}")

    def plan(self, spec: dict[str, Any], size: int | None = None) -> dict[str, Any]:
        """What a group would get if it began now."""
        return self.request("POST", "/plan", spec, None if size is None else {"size": size})

    def sites(self) -> list[dict[str, Any]]:
        """Other sites that are known there."""
        return self.request("GET", "/sites")

    def hosts(self) -> list[dict[str, Any]]:
        return self.request("GET", "/hosts")

    def cordon(self, host: str, reason: str) -> dict[str, Any]:
        return self.request("PUT", f"/hosts/{segment(host)}/cordon", {"reason": reason})

    def uncordon(self, host: str) -> dict[str, Any]:
        return self.request("DELETE", f"/hosts/{segment(host)}/cordon")

    def cordon_switch(self, switch: str, reason: str) -> dict[str, Any]:
        """No tree uses it any more."""
        return self.request("PUT", f"/switches/{segment(switch)}/cordon", {"reason": reason})

    def uncordon_switch(self, switch: str) -> dict[str, Any]:
        return self.request("DELETE", f"/switches/{segment(switch)}/cordon")

    def caps(self) -> dict[str, Any]:
        return self.request("GET", "/caps")

    def cap(self, host: str | None, most_bps: int) -> dict[str, Any]:
        """`host` None: the fabric."""
        return self.request("PUT", _cap(host), {"most_bps": most_bps})

    def uncap(self, host: str | None) -> dict[str, Any]:
        return self.request("DELETE", _cap(host))

    def add_node(self, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        """A host or a switch joins the fabric while it runs."""
        return self.request("PUT", f"/topology/nodes/{segment(name)}", spec)

    def remove_node(self, name: str) -> None:
        self.request("DELETE", f"/topology/nodes/{segment(name)}")

    def switches(self) -> dict[str, Any]:
        return self.request("GET", "/switches")

    def switch(self, name: str) -> dict[str, Any]:
        return self.request("GET", f"/switches/{segment(name)}")

    def sets(self) -> dict[str, list[str]]:
        return self.request("GET", "/sets")

    def put_set(self, name: str, hosts: list[str]) -> dict[str, Any]:
        return self.request("PUT", f"/sets/{segment(name)}", {"hosts": hosts})

    def delete_set(self, name: str) -> None:
        self.request("DELETE", f"/sets/{segment(name)}")

    def resume_group(self, group: str) -> dict[str, Any]:
        return self.request("POST", f"/groups/{segment(group)}/resume")

    def add_receiver(self, group: str, host: str, dest_path: str | None = None) -> dict[str, Any]:
        body = {"host": host} if dest_path is None else {"host": host, "dest_path": dest_path}
        return self.request("POST", f"/groups/{segment(group)}/receivers", body)

    def remove_receiver(self, group: str, host: str) -> dict[str, Any]:
        return self.request("DELETE", f"/groups/{segment(group)}/receivers/{segment(host)}")

    def events(self, group: str | None = None, pings: bool = False) -> Iterator[dict[str, Any]]:
        """Events as they come, each with its `type`, of all groups first the `groups` as they stand; ends when the
        controller does. pings: also those that only say that it is there, the first at once: what happened before is
        in the record then, and who waits may look at the clock."""
        import httpx

        try:
            with self._clients[self._at].stream(
                "GET",
                "/events",
                params={"group": group} if group else None,
                headers={"last-event-id": "none"},  # what happened before one listens must not be missed
                timeout=httpx.Timeout(10.0, read=30.0),
            ) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise Problem.from_json(answer.status_code, answer.json())
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        yield json.loads(line[len("data: ") :])
                    elif pings and line.startswith((":", "retry:")):
                        yield {"type": "ping"}
        except (httpx.HTTPError, OSError) as error:
            failure = self._unreachable(error)
            self._next()
            raise failure from error


def _cap(host: str | None) -> str:
    return "/caps/fabric" if host is None else f"/caps/hosts/{segment(host)}"


def _client(url: str, timeout: float, token: str | None) -> httpx.Client:
    """Raises Problem where nobody can be asked there, or not with a token."""
    import httpx

    headers = {"authorization": f"Bearer {token}"} if token else {}
    if token and url.startswith("http://") and not is_local(url[len("http://") :].partition("/")[0]):
        raise Problem(400, "insecure", f"a token would travel to {url} in clear", what=url, remedy="use https://")
    if url.startswith("unix:"):
        transport = httpx.HTTPTransport(uds=url[len("unix:") :], verify=False)
        return httpx.Client(transport=transport, base_url="http://controller", timeout=timeout, headers=headers)
    if url.startswith(("http://", "https://")):
        return httpx.Client(base_url=url, timeout=timeout, trust_env=False, headers=headers, verify=_verify(url))
    raise Problem(
        400,
        "bad_url",
        f"{url!r} is no address of a controller",
        what=url,
        remedy="give http://host:port, https://host:port or unix:/path",
    )
