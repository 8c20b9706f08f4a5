"""nginx as an origin: real range requests, rates per client, and a log of what it sent."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"


class Nginx:
    """Serves `folder`/www on ADDRESS:PORT. `rates`: bytes a second of each connection, by the client's address
    or "default".
    `enter`: a command that runs another one where the address is (`ip netns exec NAME`). `tls`: certificate, key.
    `seen`: a log format of that name, with what those who ask prove themselves with. `ahead`: bytes of an answer that
    its kernel takes before the client has them; the log counts them as sent."""

    def __init__(
        self,
        folder: Path,
        address: str,
        port: int,
        rates: dict[str, int] | None = None,
        enter: tuple[str, ...] = (),
        tls: tuple[Path, Path] | None = None,
        more: str = "",
        seen: bool = False,
        ahead: int | None = None,
    ) -> None:
        self.folder, self.address, self.port = folder, address, port
        self.www = folder / "www"
        self.www.mkdir(parents=True, exist_ok=True)
        self.log = folder / "access.log"
        self.rates = rates or {}
        self.enter, self.more = enter, more
        self.formats = "log_format seen '$request $http_authorization';" if seen else ""
        self.tls = f"ssl_certificate {tls[0]}; ssl_certificate_key {tls[1]};" if tls else ""
        self.secure = tls is not None
        self.listens = " ssl" * self.secure + (f" sndbuf={ahead}" if ahead else "")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.secure else ''}://{self.address}:{self.port}"

    def write(self) -> None:
        rates = "".join(f"    {client} {rate};\n" for client, rate in self.rates.items() if client != "default")
        (self.folder / "nginx.conf").write_text(f"""
daemon off; master_process off; worker_processes 1; user root;
pid {self.folder}/pid; error_log {self.folder}/error.log info;
events {{ worker_connections 512; }}
http {{
  log_format sent '$remote_addr $status $body_bytes_sent $http_range';
  {self.formats}
  access_log {self.log} sent;
  client_body_temp_path {self.folder}/t1; proxy_temp_path {self.folder}/t2; fastcgi_temp_path {self.folder}/t3;
  uwsgi_temp_path {self.folder}/t4; scgi_temp_path {self.folder}/t5;
  geo $rate {{ default {self.rates.get("default", 0)};
{rates}  }}
  keepalive_requests 100000;
  server {{
    listen {self.address}:{self.port}{self.listens}; {self.tls}
    root {self.www};
    limit_rate $rate;
    {self.more}
  }}
}}
""")

    def start(self) -> None:
        self.write()
        command = [*self.enter, NGINX, "-c", str(self.folder / "nginx.conf"), "-p", str(self.folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        end = time.monotonic() + 60
        while time.monotonic() < end and self._process.poll() is None:
            if (self.folder / "pid").exists() and (self.enter or self._answers()):
                return
            time.sleep(0.05)
        assert self._process.stderr
        raise RuntimeError(f"nginx did not start: {self._process.stderr.read().decode()}")

    def _answers(self) -> bool:
        try:
            socket.create_connection((self.address, self.port), 1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)
        if self._process is not None and self._process.stderr:
            self._process.stderr.close()

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """What is asked of it comes as far as its kernel."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Nginx:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def rows(self) -> list[tuple[str, int, int]]:
        """Of each answer the client, the status, and the bytes of its body."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(c, int(s), int(n)) for c, s, n, *_ in (line.split(" ") for line in lines)]

    def sent(self) -> int:
        """Bytes of the object that were sent, the probes' single bytes left out."""
        return sum(n for _, status, n in self.rows() if status == 206 and n > 1)


def put(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for at in range(0, size, 1 << 20):
            file.write(os.urandom(min(1 << 20, size - at)))
