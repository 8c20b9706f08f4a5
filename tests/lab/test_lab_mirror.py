"""An image on every host of a lab: containerd pulls through mirrors, and its registry sends each byte once."""

from __future__ import annotations

import shutil

import pytest
from containerd import layer
from lab_kit import eventually
from mirror_kit import mirror_lab
from origin_lab import HOSTS, origin_lab
from registry import Registry, certificate, sha256

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]

CUT = 64 << 10
"""A fetcher that takes over from another one cuts its request short: the registry logs what its writes took until then,
some records of TLS more or less than had arrived (16 and 40 KiB less were seen)."""


def sent(registry: Registry, layers: list[bytes], times: int = 1) -> dict[str, int]:
    """What has left it of everything, when all of these has so often: its log has a request's line a moment later than
    who asked has its bytes."""

    def told() -> dict[str, int] | None:
        found = registry.sent()
        return found if all(found.get(sha256(data), 0) >= times * len(data) for data in layers) else None

    try:
        return eventually(told, 60, "the registry's log has all of the layers")
    except AssertionError as error:
        found, wanted = registry.sent(), {sha256(data): times * len(data) for data in layers}
        if all(found.get(name, 0) >= size - CUT for name, size in wanted.items()):
            return found
        raise AssertionError(f"{error}: it has {found}, wanted are {wanted}") from error


def test_containerd_gets_what_groups_have_brought(tmp_path, monkeypatch) -> None:
    with origin_lab(tmp_path) as it:
        address = it.lab.plan.root_address
        tls = certificate(tmp_path, address)
        monkeypatch.setenv("SSL_CERT_FILE", str(tls[0]))
        with Registry(tmp_path / "registry", address, 5000, tls) as registry:
            it.allow({"prefix": registry.url + "/", "ca": str(tls[0])})
            with mirror_lab(it.lab, tmp_path, registry) as mirrors:
                layers = [layer(3 << 20), layer(90_000)]
                digest = registry.push("team/app", "v1", layers)
                image = f"{address}:5000/team/app:v1"

                told = mirrors.command("prepull", image, "--to", "all", "--fetchers", "2")
                assert told.returncode == 0, told.stdout + told.stderr
                once = sent(registry, layers)
                assert all(abs(once[sha256(data)] - len(data)) <= CUT for data in layers), once
                mirrors.pull_everywhere(image)
                assert registry.sent() == once, "every blob came from a mirror"
                for host in mirrors.hosts.values():
                    assert all(blob in host.holds() for blob in (digest, *map(sha256, layers)))
                again = mirrors.command("prepull", image, "--to", "all")
                assert again.returncode == 0 and "had it already: " + ", ".join(HOSTS) in again.stdout, again
                assert registry.sent() == once
                shutil.rmtree(it.lab.host_folder("h4") / "mirror" / "images")
                again = mirrors.command("prepull", image, "--to", "all", "--fetchers", "h0,h1")
                assert again.returncode == 0 and "had it already: h0, h1, h2, h3" in again.stdout, again
                once = sent(registry, layers, 2)
                assert all(abs(once[sha256(data)] - 2 * len(data)) <= CUT for data in layers), (once, again.stdout)

                wanted = layer(2 << 20)
                registry.push("team/app", "v2", [wanted])
                mirrors.pull_everywhere(f"{address}:5000/team/app:v2")
                once = sent(registry, [wanted])
                came, size = once[sha256(wanted)], len(wanted)  # not the bytes themselves, in what a failure says
                assert abs(came - size) <= CUT, f"nobody had it; five asked at once: {mirrors.said(registry, wanted)}"
                assert all(sha256(wanted) in host.holds() for host in mirrors.hosts.values())

                it.allow()
                hidden = layer(50_000)
                registry.push("team/app", "v3", [hidden])
                mirrors.hosts["h0"].pull(f"{address}:5000/team/app:v3")
                assert sha256(hidden) in mirrors.hosts["h0"].holds(), "containerd goes to the registry by itself"
