"""What others may import from the controller: its address and a (blocking) client of the REST API."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator
from typing import Any

from datacast.services.problems import Problem, Unreachable, decoded, segment
from datacast.services.tls import is_local

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
    """For `http(s)://host:port` or `unix:/path`; None: $DATACAST_CONTROLLER or the default. `token`: for the
    controller's `--tokens`. $DATACAST_CA: the authority of an https controller, when it is not the system's. Raises
    Problem (Unreachable when nobody answers)."""

    def __init__(self, url: str | None = None, timeout: float = 10.0, token: str | None = None) -> None:
        import httpx

        self.url = url or os.environ.get(ENV_URL) or DEFAULT_URL
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if token and self.url.startswith("http://") and not is_local(self.url[len("http://") :].partition("/")[0]):
            raise Problem(
                400, "insecure", f"a token would travel to {self.url} in clear", what=self.url, remedy="use https://"
            )
        if self.url.startswith("unix:"):
            transport = httpx.HTTPTransport(uds=self.url[len("unix:") :])
            self._http = httpx.Client(
                transport=transport, base_url="http://controller", timeout=timeout, headers=headers
            )
        elif self.url.startswith(("http://", "https://")):
            self._http = httpx.Client(
                base_url=self.url, timeout=timeout, trust_env=False, headers=headers, verify=_verify(self.url)
            )
        else:
            raise Problem(
                400,
                "bad_url",
                f"{self.url!r} is no address of a controller",
                what=self.url,
                remedy="give http://host:port, https://host:port or unix:/path",
            )

    def __enter__(self) -> ControllerClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def request(self, method: str, path: str, body: Any = None, params: dict[str, Any] | None = None) -> Any:
        import httpx

        try:
            answer = self._http.request(method, path, params=params, json=body)
        except (httpx.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        return decoded(answer)

    def _unreachable(self, error: BaseException) -> Unreachable:
        why = "" if "CERTIFICATE" not in str(error) else f": {error} (its authority goes into ${ENV_CA})"
        return Unreachable(
            503,
            "unreachable",
            f"no controller at {self.url}{why}",
            what=self.url,
            remedy="start a lab with `datacast lab up` or set --controller",
        )

    def health(self) -> dict[str, Any]:
        return self.request("GET", "/healthz")

    def topology(self) -> dict[str, Any]:
        return self.request("GET", "/topology")

    def create_group(self, spec: dict[str, Any]) -> dict[str, Any]:
        return self.request("POST", "/groups", spec)

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

    def hosts(self) -> list[dict[str, Any]]:
        return self.request("GET", "/hosts")

    def cordon(self, host: str, reason: str) -> dict[str, Any]:
        return self.request("PUT", f"/hosts/{segment(host)}/cordon", {"reason": reason})

    def uncordon(self, host: str) -> dict[str, Any]:
        return self.request("DELETE", f"/hosts/{segment(host)}/cordon")

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

    def events(self, group: str | None = None) -> Iterator[dict[str, Any]]:
        """Events as they come, each with its `type`; ends when the controller does."""
        import httpx

        try:
            with self._http.stream(
                "GET", "/events", params={"group": group} if group else None, timeout=httpx.Timeout(10.0, read=30.0)
            ) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise Problem.from_json(answer.status_code, answer.json())
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        yield json.loads(line[len("data: ") :])
        except (httpx.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
