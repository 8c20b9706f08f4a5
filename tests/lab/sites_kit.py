"""Sites with a controller each, in namespaces, for tests."""

from __future__ import annotations

import contextlib
import os
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from left_over import unique_name
from ports import free_ports

from datacast.lab.content import write_random
from datacast.lab.lab import LabOptions
from datacast.lab.site_lab import SitesLab

FINAL = ("done", "partial", "failed", "cancelled")


class Wan:
    """A SitesLab that is up."""

    def __init__(self, lab: SitesLab, folder: Path) -> None:
        self.lab, self.folder, self._number = lab, folder, 0

    def file(self, size: int) -> Path:
        self._number += 1
        path = self.folder / f"payload-{self._number}"
        write_random(path, size, self._number, lambda done: None)
        return path

    def order(self, site: str, path: Path, to: list[str], **more: Any) -> dict[str, Any]:
        spec = {"source": f"{site}-0", "source_path": str(path), "receivers": to, "dest_path": path.name, **more}
        try:
            return self.lab.ask(site, "POST", "/groups", spec, timeout_s=20.0)
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                raise AssertionError(f"{error.read()!r}\n{self.logs()}") from error
            raise

    def now(self, site: str, group: dict[str, Any]) -> dict[str, Any]:
        return self.lab.ask(site, "GET", f"/groups/{group['id']}")

    def end(self, site: str, group: dict[str, Any], seconds: float = 60.0) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while group["state"] not in FINAL:
            assert time.monotonic() < end, self.told(group)
            time.sleep(0.1)
            group = self.now(site, group)
        return group

    def until(self, site: str, group: dict[str, Any], fraction: float, part: str, seconds: float = 120.0) -> None:
        """A site's part has got so far."""
        end = time.monotonic() + seconds
        while self.now(site, group)["sites"][part]["fraction"] < fraction:
            assert time.monotonic() < end, self.told(self.now(site, group))
            time.sleep(0.1)

    def of_manager(self, site: str, path: str) -> Any:
        """What a site's fabric manager tells its controller."""
        daemons = self.lab.daemons[site]
        return daemons.credentials.json("GET", f"https://{self.lab.manager(daemons)}{path}")

    def has(self, host: str, path: Path) -> bool:
        copy = self.lab.host_folder(host) / path.name
        return copy.is_file() and copy.read_bytes() == path.read_bytes()

    def told(self, group: dict[str, Any]) -> str:
        """For who sees it fail."""
        return f"{group}\n{self.logs()}"

    def logs(self) -> str:
        parts = [f"--- {log.name}\n{log.read_text()[-2000:]}" for log in sorted((self.lab.work / "logs").iterdir())]
        return "\n".join(parts)

    @contextlib.contextmanager
    def carried(self, size: int) -> Iterator[dict[tuple[str, str], float]]:
        """What each WAN link carries, as a part of `size`: known at the end."""
        found: dict[tuple[str, str], float] = {}
        self._before, self._size = self.lab.wan_bytes(), size
        yield found
        found |= self.since()

    def since(self) -> dict[tuple[str, str], float]:
        """What they have carried in a `carried` by now."""
        return {link: (sent - self._before[link]) / self._size for link, sent in self.lab.wan_bytes().items()}


@contextlib.contextmanager
def wan(folder: Path, text: str, origins: Path | None = None) -> Iterator[Wan]:
    """`origins`: what all agents may fetch."""
    file = folder / "sites.yaml"
    file.write_text(text)
    rest, fabric = free_ports(2)
    options = LabOptions(
        topology=str(file), mtu=1500, rest_port=rest, fabric_port=fabric, room=1 << 27, realtime=False,
        origins=str(origins) if origins else None,
    )  # fmt: skip
    os.chmod(folder, 0o755)
    with SitesLab(options, unique_name("wan")) as lab:
        lab.up()
        yield Wan(lab, folder)
