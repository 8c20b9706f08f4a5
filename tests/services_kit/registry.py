"""A container registry (Debian's docker-registry) that wants tokens, and the server that gives them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from served import Served

PROGRAM = shutil.which("docker-registry")
SERVICE, ISSUER = "registry.test", "issuer.test"
CHUNK = 1 << 20
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def certificate(folder: Path, address: str) -> tuple[Path, Path]:
    """A certificate of its own for a server there, and its key."""
    cert, key = folder / "server.pem", folder / "server.key"
    name = ["-subj", "/CN=registry", "-addext", f"subjectAltName=IP:{address}"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", *name]
    subprocess.run([*command, "-days", "2", "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


@dataclass
class Tokens:
    """Gives tokens for what is asked, to those with the name and password (anybody, where there is none)."""

    socket: socket.socket
    cert: Path
    key: Path  # P-256
    login: tuple[str, str] | None = None
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        it, self.port = self, self.socket.getsockname()[1]

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query)
                given = self.headers.get("Authorization", "")
                it.asked.append(asked)
                it.logins.append(given)
                wanted = "Basic " + base64.b64encode(":".join(it.login).encode()).decode() if it.login else ""
                if given != wanted:
                    self.send_error(401)
                    return
                body = json.dumps({"token": it.token(asked.get("scope", []))}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("", 0), Answers, bind_and_activate=False)
        self.server.daemon_threads = True
        self.server.socket.close()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        self.server.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, scopes: list[str]) -> str:
        access = []
        for scope in scopes:
            kind, name, actions = scope.split(":")
            access.append({"type": kind, "name": name, "actions": actions.split(",")})
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": SERVICE, "sub": "", "nbf": now - 10, "iat": now, "exp": now + 300, "jti": "1"}
        cert = x509.load_pem_x509_certificate(self.cert.read_bytes())
        der = base64.b64encode(cert.public_bytes(serialization.Encoding.DER)).decode()
        return jwt.encode({**claims, "access": access}, self.key.read_bytes(), "ES256", headers={"x5c": [der]})

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Registry(Served):
    """By HTTPS. `realm`: where its tokens are to be had; None: everybody may pull and push."""

    def __init__(
        self,
        folder: Path,
        address: str,
        port: int,
        tls: tuple[Path, Path],
        realm: str | None = None,
        enter: tuple[str, ...] = (),
        inside: Callable[[Callable[[], Any]], Any] = lambda act: act(),
    ) -> None:
        super().__init__(address, port, enter, inside)
        self.folder, self.tls, self.realm = folder, tls, realm
        self.url = f"https://{address}:{port}"

    def start(self) -> None:
        assert PROGRAM, "docker-registry is not installed: `make setup` installs Debian's"
        self.folder.mkdir(parents=True, exist_ok=True)
        settings: dict[str, Any] = {
            "version": 0.1,
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "data")}},
            "http": {
                "addr": f"{self.address}:{self.port}",
                "tls": {"certificate": str(self.tls[0]), "key": str(self.tls[1])},
            },
        }
        if self.realm:
            settings["auth"] = {"token": {"realm": self.realm, "service": SERVICE, "issuer": ISSUER,
                                          "rootcertbundle": str(self.tls[0])}}  # fmt: skip
        (self.folder / "config.yml").write_text(json.dumps(settings))
        self.run([PROGRAM, "serve", str(self.folder / "config.yml")], self.folder / "log")

    def sent(self) -> dict[str, int]:
        """Bytes of blobs that have left it, by digest, as its own log has it; the probes' single bytes left out."""
        found: dict[str, int] = {}
        for digest, count in re.findall(
            r'"GET /v2/\S+/blobs/(sha256:[0-9a-f]{64})\S* HTTP/\S+" 20[06] (\d+)', (self.folder / "log").read_text()
        ):
            found[digest] = found.get(digest, 0) + (int(count) if int(count) > 1 else 0)
        return found

    def push(self, name: str, tag: str, layers: list[bytes], tokens: Tokens | None = None) -> str:
        """An image of these layers; the digest of its manifest."""
        headers = {"Authorization": f"Bearer {tokens.token([f'repository:{name}:pull,push'])}"} if tokens else {}

        def run() -> str:
            trust = ssl.create_default_context(cafile=str(self.tls[0]))
            with httpx.Client(base_url=self.url, verify=trust, headers=headers, trust_env=False, timeout=120) as client:
                rootfs = {"type": "layers", "diff_ids": [sha256(layer) for layer in layers]}
                config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": rootfs}).encode()
                for blob in (config, *layers):
                    began = client.post(f"/v2/{name}/blobs/uploads/").raise_for_status()
                    where = httpx.URL(began.headers["Location"]).copy_merge_params({"digest": sha256(blob)})
                    some = (blob[at : at + CHUNK] for at in range(0, len(blob), CHUNK))
                    told = {"Content-Length": str(len(blob))}
                    client.put(where, content=some, headers=told).raise_for_status()
                rows = [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": sha256(b), "size": len(b)}
                        for b in layers]  # fmt: skip
                about = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": sha256(config)}
                manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": {**about, "size": len(config)}}
                body = json.dumps({**manifest, "layers": rows}).encode()
                made = client.put(f"/v2/{name}/manifests/{tag}", content=body, headers={"Content-Type": MANIFEST})
                made.raise_for_status()
                return sha256(body)

        return self.inside(run)  # type: ignore[no-any-return]
