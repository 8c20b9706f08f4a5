"""What others may import from the controller: its address and a (blocking) client of the REST API."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from datacast.core.problems import Problem, Unreachable, segment

DEFAULT_LISTEN = "127.0.0.1:7580"
DEFAULT_URL = f"http://{DEFAULT_LISTEN}"
ENV_URL = "DATACAST_CONTROLLER"
FINAL_STATES = ("done", "partial", "failed", "cancelled")


class ControllerClient:
    """For `http://host:port` or `unix:/path`; None: $DATACAST_CONTROLLER or the default. Raises Problem (Unreachable
    when nobody answers)."""

    def __init__(self, url: str | None = None, timeout: float = 10.0) -> None:
        import httpx

        self.url = url or os.environ.get(ENV_URL) or DEFAULT_URL
        if self.url.startswith("unix:"):
            transport = httpx.HTTPTransport(uds=self.url[len("unix:") :])
            self._http = httpx.Client(transport=transport, base_url="http://controller", timeout=timeout)
        elif self.url.startswith(("http://", "https://")):
            self._http = httpx.Client(base_url=self.url, timeout=timeout, trust_env=False)
        else:
            raise Problem(
                400,
                "bad_url",
                f"{self.url!r} is no address of a controller",
                what=self.url,
                remedy="give http://host:port or unix:/path",
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
            raise self._unreachable() from error
        try:
            decoded = answer.json() if answer.content else None
        except ValueError:
            decoded = None
        if answer.status_code >= 400:
            raise Problem.from_json(answer.status_code, decoded)
        return decoded

    def _unreachable(self) -> Unreachable:
        return Unreachable(
            503,
            "unreachable",
            f"no controller at {self.url}",
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
        return self.request("DELETE", f"/groups/{segment(group)}")

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
            raise self._unreachable() from error
