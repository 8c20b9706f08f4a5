"""Files of a model hub, Hugging Face's or one like it: hf://[datasets/|spaces/]ORG/REPO[@REVISION][/PATH]."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import quote

from .asking import ask
from .parts import FILES_MAX, SIZE_MAX, Named, OriginError, Part, safe_path, size_told

HUB = "https://huggingface.co"
HF = re.compile(r"hf://((?:datasets/|spaces/)?)([\w.-]+/[\w.-]+)(?:@([\w.-]+))?(?:/(.+))?")


def of_hub(name: str) -> Named:
    found = HF.fullmatch(name)
    if not found:
        raise OriginError("bad_origin", f"{name}: give hf://ORG/REPO[@REVISION][/PATH], hf://datasets/ORG/REPO…")
    kind, repo, revision, path = found[1], found[2], found[3] or "main", found[4]
    hub = os.environ.get("HF_ENDPOINT", HUB).rstrip("/")
    token = os.environ.get("HF_TOKEN", "")
    headers = {"Authorization": f"Bearer {token}"} if token and hub.startswith("https://") else {}
    if path:
        return Named(name, False, (_hub_file(name, f"{hub}/{kind}{repo}", revision, path, headers),))
    api = f"{hub}/api/{kind or 'models/'}{repo}/revision/{revision}"
    about = ask("GET", f"{api}?blobs=true", name, headers)  # with the files' sizes and digests
    about.check(name)
    told = about.json(name)
    commit, files = str(told.get("sha", "")), told.get("siblings", [])
    rows = [row for row in files if isinstance(row, dict)] if isinstance(files, list) else []
    if not re.fullmatch("[0-9a-f]{7,64}", commit) or not rows:
        raise OriginError("bad_answer", f"{name}: the hub names no commit, or no file")
    if len(rows) > FILES_MAX:
        raise OriginError("too_many", f"{name} has {len(rows)} files; a group takes {FILES_MAX}: name one of them")
    parts = [_listed(name, f"{hub}/{kind}{repo}/resolve/{commit}", row) for row in rows]
    return Named(name, True, tuple(sorted(parts, key=lambda part: part.path)))


def _listed(name: str, base: str, row: dict[str, Any]) -> Part:
    """As the hub tells it of a file of a repository."""
    path, size, large = row.get("rfilename"), row.get("size"), row.get("lfs")
    if not isinstance(path, str) or not safe_path(path):
        raise OriginError("bad_answer", f"{name}: a file called {path!r}")
    digest = str(large.get("sha256", "")) if isinstance(large, dict) else ""
    if type(size) is not int or not 0 <= size <= SIZE_MAX or not re.fullmatch("([0-9a-f]{64})?", digest):
        raise OriginError("bad_answer", f"{name}: the hub does not say how large {path} is, or what it has to be")
    return Part(path, size, f"{base}/{quote(path)}", digest)


def _hub_file(name: str, base: str, revision: str, path: str, headers: dict[str, str]) -> Part:
    if not safe_path(path):
        raise OriginError("bad_answer", f"{name}: a file called {path!r}")
    asked = {**headers, "Accept-Encoding": "identity"}
    answer = ask("HEAD", f"{base}/resolve/{revision}/{quote(path)}", name, asked)
    answer.check(name)
    told = answer.headers
    large = told.get("x-linked-size", "")
    size = size_told(large or ("" if answer.status >= 300 else told.get("content-length", "")))
    commit = told.get("x-repo-commit", revision)
    digest = told.get("x-linked-etag", "").strip('"')
    if size is None or not re.fullmatch(r"[\w.-]{1,64}", commit):
        raise OriginError("bad_answer", f"{name}: the hub does not say how large {path} is")
    sha256 = digest if re.fullmatch("[0-9a-f]{64}", digest) else ""
    return Part(path, size, f"{base}/resolve/{commit}/{quote(path)}", sha256)
