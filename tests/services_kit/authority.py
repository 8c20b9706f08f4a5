"""An authority for tests, and certificates of it, made with the openssl command."""

from __future__ import annotations

import ssl
import subprocess
import time
from pathlib import Path
from typing import Any


def openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Authority:
    """An authority, and certificates of it made with the openssl command."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.serial = folder, 0
        self.ca = folder / "ca.pem"
        self._key("ca")
        openssl(
            "req",
            "-x509",
            "-key",
            str(folder / "ca.key"),
            "-out",
            str(self.ca),
            "-days",
            "30",
            "-subj",
            "/CN=test",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
        )

    def _key(self, name: str) -> None:
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(self.folder / f"{name}.key"))

    def issue(self, identity: str, uri: str | None = None, days: tuple[int, int] = (-1, 30)) -> tuple[str, str]:
        """Certificate and key of ROLE/NAME."""
        self.serial += 1
        name = f"{self.serial}-{identity.replace('/', '-')}"
        base = self.folder / name
        self._key(name)
        openssl(
            "req", "-new", "-key", f"{base}.key", "-out", f"{base}.csr", "-subj", f"/CN={identity.replace('/', ' ')}"
        )
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName=URI:{uri or 'datacast://' + identity}\nbasicConstraints=CA:FALSE\n")
        # `openssl ca` alone can set both dates.
        (self.folder / "index.txt").touch()
        (self.folder / "serial").write_text(f"{self.serial:04d}\n")
        (self.folder / "ca.cnf").write_text(
            f"[ca]\ndefault_ca=d\n[d]\ndatabase={self.folder}/index.txt\nserial={self.folder}/serial\n"
            f"new_certs_dir={self.folder}\ndefault_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n"
        )
        begin, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + d * 86400)) for d in days)
        openssl(
            "ca",
            "-batch",
            "-notext",
            "-config",
            str(self.folder / "ca.cnf"),
            "-cert",
            str(self.ca),
            "-keyfile",
            str(self.folder / "ca.key"),
            "-in",
            f"{base}.csr",
            "-out",
            f"{base}.pem",
            "-startdate",
            begin,
            "-enddate",
            end,
            "-extfile",
            str(extensions),
        )
        return f"{base}.pem", f"{base}.key"

    def options(self, identity: str, **more: Any) -> list[str]:
        cert, key = self.issue(identity, **more)
        return ["--tls-ca", str(self.ca), "--tls-cert", cert, "--tls-key", key]

    def context(self, identity: str, server: bool = False, **more: Any) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.ca)
        context.load_cert_chain(*self.issue(identity, **more))
        return context
