"""Debian's containerd, one for each host, and its own client that pulls images as a host's runtime does."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Self

PROGRAM = shutil.which("containerd")
OFF = ("io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs",
       "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
       "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.overlayfs")  # fmt: skip


def layer(size: int) -> bytes:
    """A tar archive with one file of random bytes."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        about = tarfile.TarInfo("data")
        about.size = size
        tar.addfile(about, io.BytesIO(os.urandom(size)))
    return made.getvalue()


class Containerd:
    """`enter`: a command that runs another one where the host is."""

    def __init__(self, folder: Path, enter: tuple[str, ...] = ()) -> None:
        self.folder, self.enter, self.socket = folder, enter, folder / "sock"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        assert PROGRAM, "containerd is not installed: `make setup` installs Debian's"
        self.folder.mkdir(parents=True)
        off = ", ".join(f'"{name}"' for name in OFF)
        (self.folder / "config.toml").write_text(
            f'version = 2\nroot = "{self.folder}/root"\nstate = "{self.folder}/state"\n'
            f'disabled_plugins = [{off}]\n[grpc]\n  address = "{self.socket}"\n'
        )
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen([PROGRAM, "--config", self.folder / "config.toml"], stdout=log, stderr=log)
        end = time.monotonic() + 60
        while self._ctr("version").returncode:
            assert time.monotonic() < end, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.1)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)

    def mirrored(self, registry: str, mirror: str, ca: Path) -> None:
        """Pulls of `registry` (host:port) go to the mirror first."""
        folder = self.folder / "hosts" / registry
        folder.mkdir(parents=True)
        (folder / "hosts.toml").write_text(
            f'server = "https://{registry}"\nca = "{ca}"\n[host."{mirror}"]\n  capabilities = ["pull"]\n'
        )

    def pull(self, image: str, unpack: bool = True) -> None:
        """`unpack`: into a folder as well, not into its content store alone."""
        hosts = ["--hosts-dir", str(self.folder / "hosts"), image]
        how = ["images", "pull", "--snapshotter", "native"] if unpack else ["content", "fetch"]
        done = self._ctr(*how, *hosts)
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]

    def forget(self, image: str) -> None:
        """The image, and content that no other one has."""
        done = self._ctr("images", "rm", "--sync", image)
        assert done.returncode == 0, done.stderr[-1000:]

    def holds(self) -> str:
        """Digests of its content."""
        return self._ctr("content", "ls", "-q").stdout

    def _ctr(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.enter, "ctr", "--address", str(self.socket), *words], capture_output=True, text=True, timeout=400
        )
