"""Container images of a registry: oci://HOST[:PORT]/NAME[:TAG], as the files of an OCI image layout, and its blobs:
oci://HOST[:PORT]/NAME@sha256:…"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from .asking import PORTS, REDIRECTS, Answer, ask, place
from .parts import FILES_MAX, SIZE_MAX, Named, OriginError, Part, size_told

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
MANIFESTS = (OCI_MANIFEST, "application/vnd.docker.distribution.manifest.v2+json")
INDEXES = (OCI_INDEX, "application/vnd.docker.distribution.manifest.list.v2+json")
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
NAME = r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
OCI = re.compile(rf"oci://([\w.-]+(?::\d+)?)/({NAME})(?::([\w][\w.-]{{0,127}}))?(?:@(sha256:[0-9a-f]{{64}}))?")


def image(name: str, platform: str) -> Named:
    found = OCI.fullmatch(name)
    if not found:
        raise OriginError("bad_origin", f"{name}: give oci://HOST/NAME[:TAG], or oci://HOST/NAME@sha256:…")
    host, repo, tag, digest = found[1], found[2], found[3] or "latest", found[4]
    host = "registry-1.docker.io" if host in ("docker.io", "index.docker.io") else host
    plain = host.split(":")[0] in ("localhost", "127.0.0.1")  # as docker does
    base = f"http{'' if plain else 's'}://{host}/v2/{repo}"
    registry = _Registry(name, base)
    if digest and (blob := registry.blob(digest)):
        return Named(name, False, (blob,))
    answer, digest = registry.manifest(digest or tag)
    parts = {}
    if answer.kind in INDEXES:
        parts[_blob(digest)] = Part(_blob(digest), len(answer.body), data=answer.body, sha256=digest[7:])
        told = answer.json(name).get("manifests")
        rows = [row for row in told if isinstance(row, dict)] if isinstance(told, list) else []
        there = {_platform(row.get("platform")): str(row.get("digest")) for row in rows}
        if platform not in there:
            which = ", ".join(sorted(there)) or "nothing"
            raise OriginError("not_found", f"{name} is there for {which}, not for {platform}")
        answer, digest = registry.manifest(there[platform])
    manifest, body = answer.json(name), answer.body
    if answer.kind not in MANIFESTS:
        raise OriginError("bad_answer", f"{name}: a manifest of the kind {answer.kind!r}")
    parts[_blob(digest)] = Part(_blob(digest), len(body), data=body, sha256=digest.removeprefix("sha256:"))
    layers = manifest.get("layers", [])
    for row in (manifest.get("config"), *(layers if isinstance(layers, list) else [])):
        part = _layer(name, base, row)
        parts[part.path] = part
    about = {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": f"{found[1]}/{repo}:{tag}"}
    row = {"mediaType": answer.kind, "digest": digest, "size": len(body), "annotations": about}
    small = [
        _text("index.json", {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [row]}),
        _text("oci-layout", {"imageLayoutVersion": "1.0.0"}),
    ]
    if len(parts) + len(small) > FILES_MAX:
        raise OriginError("too_many", f"{name} has {len(parts)} layers; a group takes {FILES_MAX}")
    return Named(name, True, (*small, *parts.values()))


def _text(path: str, value: dict[str, Any]) -> Part:
    data = json.dumps(value, sort_keys=True).encode()
    return Part(path, len(data), data=data)


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _platform(row: Any) -> str:
    row = row if isinstance(row, dict) else {}
    return "/".join(str(row[key]) for key in ("os", "architecture", "variant") if row.get(key))


def _layer(name: str, base: str, row: Any) -> Part:
    row = row if isinstance(row, dict) else {}
    digest, size = row.get("digest"), row.get("size")
    proper = isinstance(digest, str) and DIGEST.fullmatch(digest) and type(size) is int and 0 <= size <= SIZE_MAX
    if not proper:
        raise OriginError("bad_answer", f"{name}: a layer without a proper sha256 digest and size")
    return Part(_blob(digest), size, f"{base}/blobs/{digest}", digest.removeprefix("sha256:"))


class _Registry:
    def __init__(self, name: str, base: str) -> None:
        self.name, self.base = name, base
        self.headers = {"Accept": ", ".join((*MANIFESTS, *INDEXES))}

    def manifest(self, reference: str) -> tuple[Answer, str]:
        """It, and its digest, which is `reference` where that is one."""
        url = f"{self.base}/manifests/{reference}"
        answer = ask("GET", url, self.name, self.headers)
        if answer.status == 401 and "Authorization" not in self.headers:
            self._log_in(answer)
            answer = ask("GET", url, self.name, self.headers)
        answer.check(self.name)
        digest = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        if reference.startswith("sha256:") and digest != reference:
            raise OriginError("digest", f"{self.name}: the manifest's digest is {digest}, expected was {reference}")
        return answer, digest

    def blob(self, digest: str) -> Part | None:
        """A layer, or what else goes by a digest; None: it may be a manifest."""
        url = f"{self.base}/blobs/{digest}"
        answer = ask("HEAD", url, self.name, self.headers)
        if answer.status == 401 and "Authorization" not in self.headers:
            self._log_in(answer)
            answer = ask("HEAD", url, self.name, self.headers)
        if answer.status == 404:
            return None
        for _ in range(REDIRECTS):  # to a store of somebody else's, who is not to see the token
            if not answer.location:
                break
            answer = ask("HEAD", answer.location, self.name)
        answer.check(self.name)
        size = size_told(answer.headers.get("content-length", ""))
        if answer.status != 200 or size is None:
            raise OriginError("bad_answer", f"{self.name}: the registry does not say how large it is")
        return Part(_blob(digest), size, url, digest.removeprefix("sha256:"))

    def _log_in(self, answer: Answer) -> None:
        scheme, host, port = place(answer.url)
        challenge = answer.headers.get("www-authenticate", "")
        kind, _, rest = challenge.partition(" ")
        told = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        login = next(_logins(host, None if port == PORTS.get(scheme) else port), "")
        if kind.lower() == "basic" and login:
            self.headers["Authorization"] = f"Basic {login}"
            return
        if kind.lower() != "bearer" or "realm" not in told:
            answer.check(self.name)
        realm, query = told["realm"], urlencode({k: told[k] for k in ("service", "scope") if k in told})
        there = place(realm)
        if there[0] != "https" and scheme == "https":
            raise OriginError("origin_denied", f"{self.name}: tokens are to be had from {realm}, which is no https://")
        asked = f"{realm}{'&' if '?' in realm else '?'}{query}"
        proof = {"Authorization": f"Basic {login}"} if login and _kin(there[1], host) else {}
        given = ask("GET", asked, self.name, proof)
        given.check(self.name)
        text = given.json(self.name)
        token = text.get("token") or text.get("access_token")
        if not isinstance(token, str) or not token:
            raise OriginError("origin_denied", f"{self.name}: {realm} gives no token")
        self.headers["Authorization"] = f"Bearer {token}"


def _kin(host: str, other: str) -> bool:
    """May a password for one go to the other: auth.docker.io is registry-1.docker.io's."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == other or (host.count(".") > 1 and host.split(".")[-2:] == other.split(".")[-2:])
    return host == other


def _logins(host: str, port: int | None) -> Iterator[str]:
    """What `docker login` has left for a registry."""
    try:
        folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
        auths = json.loads((folder / "config.json").read_text()).get("auths", {})
    except (OSError, ValueError, AttributeError, RuntimeError):  # the last: who has no home
        return
    names = [host if port is None else f"{host}:{port}"]
    if host == "registry-1.docker.io":
        names.append("https://index.docker.io/v1/")
    for name in names:
        row = auths.get(name) if isinstance(auths, dict) else None
        auth = row.get("auth") if isinstance(row, dict) else None
        if not isinstance(auth, str):
            continue
        try:
            login = base64.b64decode(auth)
        except ValueError:
            continue
        if b":" in login:
            yield auth
