"""What a lab's processes show each other: an authority of its own, made for this run and gone with it, and a token."""

from __future__ import annotations

import json
import os
import socket
import ssl
import urllib.request
from functools import cached_property
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datacast.core.errors import DatacastError
from datacast.lab.errors import LabError
from datacast.services.address import host_and_port

if TYPE_CHECKING:
    from datacast.services.tls import Security

DAYS = 7
"""How long they hold: longer than any lab stays up."""


class Credentials:
    """`identities`: ROLE/NAME of every process, ROLE/NAME,NAME… of one with several nodes. `folder` None: no TLS
    anywhere. Raises LabError for a name that no certificate can hold."""

    def __init__(self, folder: Path | None, identities: list[str], tokens: Path, rest: str | None = None) -> None:
        """`tokens`: the controller's file, made here; the token lies beside it, for this machine's root. `rest`: the
        address at which people find the controller by HTTPS."""
        self.tokens = tokens
        self.token = self._make_token(tokens)
        self._files: dict[str, dict[str, str]] = {}
        self._context: ssl.SSLContext | None = None
        if folder is None:
            return
        from datacast.services.authority import Authority, Identity
        from datacast.services.tls import Identity as Own

        try:
            authority = Authority.create(folder, name="datacast lab", days=DAYS, sync=False)
            for text in [*identities, "controller/lab"]:
                found_at = [rest] if rest and text == "controller/main" else []
                cert, key = authority.issue(Identity.parse(text), days=DAYS, ip=found_at)
                self._files[text] = {"ca": str(authority.ca), "cert": str(cert), "key": str(key)}
            own = Own(**self._files["controller/lab"], role="controller")
            self._context = own.client_for("fabric-manager controller")
        except DatacastError as error:
            raise LabError(str(error), what=error.what, remedy="give --insecure for a lab without TLS") from error

    @staticmethod
    def _make_token(tokens: Path) -> str:
        from datacast.services.tokens import create

        _, token = create(tokens, "lab", "admin")
        with open(os.open(tokens.with_name("token"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(token + "\n")
        return token

    @property
    def scheme(self) -> str:
        return "https" if self._files else "http"

    def options(self, identity: str) -> list[str]:
        """For a command line."""
        files = self._files.get(identity)
        return [word for key, path in files.items() for word in (f"--tls-{key}", path)] if files else ["--insecure"]

    def master_options(self) -> list[str]:
        files = self._files.get("master/main")
        return ["--master-cert", files["cert"], "--master-key", files["key"]] if files else []

    def settings(self, identity: str) -> dict[str, dict[str, str] | bool]:
        """For a configuration file."""
        files = self._files.get(identity)
        return {"tls": files} if files else {"insecure": True}

    def security(self, identity: str) -> Security:
        """For this process, in the place of another."""
        from datacast.services.tls import Identity, Security

        files = self._files.get(identity)
        return Security(Identity(**files, role=identity.partition("/")[0])) if files else Security(insecure=True)

    @cached_property
    def _master(self) -> ssl.SSLContext | None:
        """A master's, for agents. Every agent is asked again and again, and to make one takes longer than to ask."""
        identity = self.security("master/main").identity
        return identity.client_for("agent") if identity else None

    def agent(self, address: str, timeout_s: float) -> socket.socket:
        """A connection to an agent, as a master's. Raises OSError."""
        sock = socket.create_connection(host_and_port(address), timeout=timeout_s)
        try:
            return self._master.wrap_socket(sock) if self._master else sock
        except BaseException:
            sock.close()
            raise

    def open(self, method: str, url: str, body: Any = None, token: str = "", timeout_s: float = 10.0) -> Any:
        """The answer to one request, past any proxy; close it. Raises OSError (urllib's HTTPError among them)."""
        headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
        data = None if body is None else json.dumps(body).encode()
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._context)
        )
        return opener.open(urllib.request.Request(url, method=method, data=data, headers=headers), timeout=timeout_s)

    def json(self, method: str, url: str, body: Any = None, token: str = "", timeout_s: float = 10.0) -> Any:
        """Likewise, decoded. Raises ValueError too."""
        try:
            with self.open(method, url, body, token, timeout_s) as answer:
                text = answer.read()
        except HTTPException as error:  # killed in the middle of its answer
            raise ConnectionError(f"{url}: {error!r}") from error
        return json.loads(text) if text else None
