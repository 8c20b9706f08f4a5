"""An S3 server: versitygw, which make installs from Go's modules, with objects in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest
from made import ROOT, make
from served import Served

T = TypeVar("T")

VERSITYGW = ROOT / "build" / "tools" / "versitygw"
BUCKET = "models"


def program() -> Path:
    """versitygw. Skips, with the reason, where it cannot be installed."""
    if not VERSITYGW.exists():
        said = make(VERSITYGW).stdout.strip().splitlines()
        if not VERSITYGW.exists():
            pytest.skip(f"no versitygw: {said[-1] if said else 'make says nothing'}")
    return VERSITYGW


class S3(Served):
    """`tls`: certificate, key."""

    access, secret, region = "AKIAEXAMPLE", "the-secret-of-this-bucket", "eu-test-1"

    def __init__(
        self,
        folder: Path,
        address: str,
        port: int,
        enter: tuple[str, ...] = (),
        inside: Callable[[Callable[[], Any]], Any] = lambda act: act(),
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        super().__init__(address, port, enter, inside)
        self.folder, self.tls = folder, tls
        self.endpoint = f"http{'s' if tls else ''}://{address}:{port}"

    def entry(self, **more: str) -> dict[str, str]:
        """Of an agent's file of --origins."""
        keys = {"access_key": self.access, "secret_key": self.secret, "region": self.region}
        return {"prefix": f"s3://{BUCKET}/", "endpoint": self.endpoint, **keys, **more}

    def start(self) -> None:
        command = [str(program()), "--port", f"{self.address}:{self.port}", "--region", self.region]
        command += ["--keep-alive", *(("--cert", str(self.tls[0]), "--key", str(self.tls[1])) if self.tls else ())]
        for part in ("objects", "about"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        keys = {"ROOT_ACCESS_KEY": self.access, "ROOT_SECRET_KEY": self.secret}
        command += ["posix", "--sidecar", str(self.folder / "about"), str(self.folder / "objects")]
        self.run(command, self.folder / "s3.log", {**os.environ, **keys})

    def __enter__(self) -> Self:
        super().__enter__()
        self.ask(lambda client: client.create_bucket(Bucket=BUCKET))
        return self

    def ask(self, act: Callable[[Any], T]) -> T:
        """What `act` gets from an S3 client of somebody else's."""

        def run() -> T:
            import boto3

            client = boto3.client(
                "s3",
                endpoint_url=self.endpoint,
                region_name=self.region,
                aws_access_key_id=self.access,
                aws_secret_access_key=self.secret,
                verify=str(self.tls[0]) if self.tls else None,
            )
            return act(client)

        return self.inside(run)  # type: ignore[no-any-return]

    def put(self, key: str, data: bytes) -> None:
        self.ask(lambda client: client.put_object(Bucket=BUCKET, Key=key, Body=data))

    def put_in_parts(self, key: str, data: bytes, part: int) -> str:
        """A multipart upload; its ETag."""

        def upload(client: Any) -> str:
            name: dict[str, Any] = {"Bucket": BUCKET, "Key": key}
            name["UploadId"] = client.create_multipart_upload(**name)["UploadId"]
            parts = []
            for n, at in enumerate(range(0, len(data), part), 1):
                made = client.upload_part(**name, PartNumber=n, Body=data[at : at + part])
                parts.append({"PartNumber": n, "ETag": made["ETag"]})
            return str(client.complete_multipart_upload(**name, MultipartUpload={"Parts": parts})["ETag"])

        return self.ask(upload)
