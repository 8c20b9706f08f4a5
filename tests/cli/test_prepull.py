"""`datacast prepull`: what it asks of the controller, and again for those whose fetchers had the image."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import made_records
import pytest
from typer.testing import CliRunner

from datacast.cli import origin, prepull
from datacast.cli.main import build, report
from datacast.controller.api.records import GroupRecord, Ping
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.api.specs import given
from datacast.origins.parts import Named, OriginError, Part

DIGEST = "5" * 64
IMAGE = Named(
    "oci://r.test/team/app:v1",
    True,
    (
        Part("index.json", 60, data=json.dumps({"manifests": [{"digest": f"sha256:{DIGEST}"}]}).encode()),
        Part(f"blobs/sha256/{DIGEST}", 3, "https://r.test/blob", DIGEST),
    ),
)
DONE: dict[str, Any] = {"state": "done", "error": None}
HAD = {"state": "failed", "error": {"code": "exists", "message": "it is there"}}
LOST = {"state": "failed", "error": {"code": "origin_changed", "message": "another size"}}


class Answers:
    """A controller whose groups end at once, in these ways."""

    def __init__(self, error: dict[str, str] | None, *groups: dict[str, dict[str, Any]]) -> None:
        self.error, self.groups, self.asked = error, list(groups), list[dict[str, Any]]()

        self.told_at = self.cancelled = ""
        """Told to end while this group is made, or followed; which was cancelled."""

    def create_group(self, spec: GroupSpec, key: str) -> GroupRecord:
        self.asked.append(given(spec))
        if self.told_at == f"make g-{len(self.asked)}":
            signal.raise_signal(signal.SIGINT)
        return made_records.group(
            id=f"g-{len(self.asked)}",
            state="running" if self.told_at == f"follow g-{len(self.asked)}" else "done",
            receivers=self.groups.pop(0),
            error=self.error,
            source_path=spec.url,
            size=63,
        )

    def events(self, group: str, pings: bool) -> Iterator[Ping]:
        signal.raise_signal(signal.SIGINT)
        yield Ping()

    def cancel_group(self, group: str) -> GroupRecord:
        self.cancelled = group
        return made_records.group(id=group, state="cancelled")


Groups = tuple[dict[str, dict[str, Any]], ...]
Run = Callable[..., tuple[int, str, list[dict[str, Any]]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def prepulled(*words: str, groups: Groups = (), found: Any = IMAGE, error: Any = None, told_at: str = ""):
        answers = Answers(error, *groups)
        answers.told_at = told_at

        def resolve(name: str, platform: str) -> Named:
            if isinstance(found, Exception):
                raise found
            return found

        @contextmanager
        def connect(*_: object):
            yield answers

        monkeypatch.setattr(origin, "resolve", resolve)
        monkeypatch.setattr(prepull, "connect", connect)
        done = CliRunner().invoke(build(["prepull"]), ["prepull", "r.test/team/app:v1", *words])
        if isinstance(done.exception, OriginError):
            return report(done.exception), str(done.exception), answers.asked
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output, [answers.cancelled] if told_at else answers.asked

    return prepulled


def test_an_image_is_called_by_its_digest_and_its_blobs_are_fetched(run: Run) -> None:
    code, out, [spec] = run("--to", "h1,h2", "--fetchers", "1", groups=({"h1": DONE, "h2": DONE},))
    assert code == 0 and "g-1: done" in out
    assert spec["dest_path"] == f"mirror/images/{DIGEST}" and spec["receivers"] == ["h1", "h2"]
    assert (spec["url"], spec["fetchers"]) == ("oci://r.test/team/app:v1", 1)
    assert [part["path"] for part in spec["parts"]] == ["index.json", f"blobs/sha256/{DIGEST}"]
    assert spec["parts"][1] == {
        "path": f"blobs/sha256/{DIGEST}",
        "size": 3,
        "sha256": DIGEST,
        "url": "https://r.test/blob",
    }


@pytest.mark.parametrize("lacking", [["h3"], ["h2", "h3"]])
def test_who_lacks_it_fetches_when_the_fetchers_had_it(run: Run, lacking: list[str]) -> None:
    first = {name: LOST if name in lacking else HAD for name in ("h1", "h2", "h3")}
    groups = (first, dict.fromkeys(lacking, DONE))
    code, out, asked = run("--to", "@rack", "--fetchers", "h1,h2", groups=groups)
    assert code == 0 and asked[0]["receiver_set"] == "rack" and asked[0]["fetchers"] == ["h1", "h2"]
    assert asked[1]["receivers"] == lacking and "receiver_set" not in asked[1]
    assert asked[1].get("fetchers") == ([name for name in ("h1", "h2") if name in lacking] or None)
    had = ", ".join(name for name in first if name not in lacking)
    assert f"had it already: {had}" in out


def test_who_fails_with_the_group_because_its_fetchers_had_it_has_nothing(run: Run) -> None:
    whole = {"code": "is_directory", "message": "source h1: it is there"}
    groups = ({"h1": HAD, "h2": {"state": "failed", "error": whole}}, {"h2": DONE})
    code, out, asked = run("--to", "all", "--fetchers", "h1", groups=groups, error=whole)
    assert code == 0 and [spec["receivers"] for spec in asked] == ["all", ["h2"]] and "had it already: h1\n" in out


@pytest.mark.parametrize("when", ["make g-1", "follow g-1", "make g-2", "follow g-2"])
def test_told_to_end_it_cancels_the_group_that_runs(run: Run, when: str) -> None:
    groups = ({"h1": HAD, "h2": LOST}, {"h2": LOST})
    code, out, cancelled = run("--to", "h1,h2", groups=groups, told_at=when)
    assert (code, cancelled) == (130, [when.split()[1]]) and f"{when.split()[1]} is cancelled" in out


def test_a_mirror_s_folder_is_told_as_it_is(run: Run) -> None:
    """Without a name the image would go beneath the root of every host."""
    code, out, asked = run("--to", "h1", "--dest", "")
    assert (code, asked) == (2, []) and "--dest is empty" in out
    for dest in ("/srv/m", "/srv/m/"):
        _, _, [spec] = run("--to", "h1", "--dest", dest, groups=({"h1": DONE},))
        assert spec["dest_path"] == f"/srv/m/images/{DIGEST}"


def test_all_have_it(run: Run) -> None:
    code, out, asked = run("--to", "all", groups=({"h1": HAD, "h2": HAD},))
    assert (code, len(asked)) == (0, 1) and out.strip() == "had it already: h1, h2"


def test_a_host_that_does_not_get_it_makes_it_1(run: Run) -> None:
    code, out, asked = run("--to", "h1,h2", groups=({"h1": DONE, "h2": LOST},))
    assert (code, len(asked)) == (1, 1) and "another size" in out, "nobody had it: no second group"
    code, out, asked = run("--to", "h1,h2", "--json", groups=({"h1": HAD, "h2": LOST}, {"h2": LOST}))
    assert (code, len(asked)) == (1, 2) and json.loads(out)["id"] == "g-2"


def test_what_is_no_image_is_refused(run: Run) -> None:
    code, out, asked = run("--to", "all", found=OriginError("not_found", "r.test has no team/app:v1"))
    assert (code, asked) == (1, []) and "r.test has no team/app:v1" in out
    code, out, asked = run("--to", "all", found=OriginError("bad_origin", "give oci://HOST/NAME"))
    assert (code, asked) == (2, []) and "give oci://HOST/NAME" in out
    code, out, asked = run("--to", "all", "--platform", "windows")
    assert (code, asked) == (2, []) and "give OS/ARCH" in out
    code, out, _ = run(
        "--to", "all", found=Named("oci://r.test/x@sha256:1", False, (Part("1", 3, "https://r.test/1"),))
    )
    assert code == 2 and "is a layer; give an image" in out
