"""A hub as Hugging Face's answers, of nginx: names lead to a commit, large files to another place with a digest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from web import Nginx

COMMIT = "5ca1ab1e" * 5
REPO = "meta/llama"


class Hub(Nginx):
    """`files` of one repository at one commit; those of `large` lie at another place, the second port."""

    def __init__(
        self, folder: Path, address: str, ports: tuple[int, int], files: dict[str, bytes], large: set[str], **more: Any
    ) -> None:
        port, other = ports
        about = [
            {"rfilename": name, "size": len(data)}
            | ({"lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}} if name in large else {})
            for name, data in files.items()
        ]
        api = json.dumps({"sha": COMMIT, "siblings": about})
        rows = [f"location = /api/models/{REPO}/revision/main {{ if ($arg_blobs = true) {{ return 200 '{api}'; }} }}"]
        for name, data in files.items():
            known, last = f"add_header X-Repo-Commit {COMMIT} always;", f"alias {folder}/www/cdn/{name};"
            if name in large:
                digest = hashlib.sha256(data).hexdigest()
                known += f" add_header X-Linked-Size {len(data)} always;"
                known += f" add_header X-Linked-Etag '\"{digest}\"' always;"
                last = f"return 302 http://{address}:{other}/cdn/{name};"
            for revision in ("main", COMMIT):
                rows.append(f"location = /{REPO}/resolve/{revision}/{name} {{ {known} {last} }}")
        super().__init__(folder, address, port, more=" ".join(rows) + f" listen {address}:{other};", **more)
        for name, data in files.items():
            path = self.www / "cdn" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
