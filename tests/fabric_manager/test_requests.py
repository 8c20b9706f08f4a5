"""What a request for a group may say: each refusal has its code and names the field that is wrong."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from small import star

from datacast.fabric_manager import requests
from datacast.fabric_manager.api import GroupSpec
from datacast.fabric_manager.api.specs import PartSpec
from datacast.fabric_manager.fabric import Fabric
from datacast.services.problems import Problem

HF = GroupSpec(url="hf://org/repo", receivers=["h1", "h2"], dest_path="d")
SENT = GroupSpec(source="h0", source_path="/f", other_sources=["h3"], receivers=["h1"], dest_path="f")


def part(path: str = "a", **more: Any) -> PartSpec:
    return PartSpec(**{"path": path, "size": 1, "url": "https://h/a", **more})


def data(text: bytes, size: int) -> PartSpec:
    return part("data", size=size, url="", data=base64.b64encode(text).decode())


def refused(check: Any, *args: Any) -> tuple[str, str] | None:
    try:
        check(*args)
    except Problem as problem:
        assert problem.status == 422 and problem.message and problem.remedy
        return problem.code, problem.fields[0]["field"]
    return None


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([part(), part("b/c"), data(b"xyz", 3), part("empty", size=0, url="")], None),
        ([data(b"xyz", 4)], "another size"),
        ([part(url="", data="!")], "another size"),
        ([part(data="eA==")], "a url or data"),
        ([part(url="")], "a url or data"),
        ([part("a/../b")], "leads outside"),
        ([part("a"), part("a/b")], "beneath a file"),
        ([part("a"), part("a")], "there twice"),
        ([part("x" * (requests.PARTS_BYTES + 1 - len("https://h/a")))], "more than 512 KiB"),
        ([part("\u4e00" * (requests.PARTS_BYTES // 3))], "more than 512 KiB"),
        ([part(url="https://h/a?sig=1")], "credential"),
        ([part(url="ftp://h/a")], "names no object"),
    ],
)
def test_parts_of_a_folder(parts: list[PartSpec], why: str | None) -> None:
    if why is None:
        requests.check_url(replace(HF, parts=parts))
    else:
        with pytest.raises(Problem, match=why) as error:
            requests.check_url(replace(HF, parts=parts))
        assert error.value.fields[0]["field"] == "parts"


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({}, None),
        ({"parts": [part()]}, None),
        ({"parts": [part()], "sha256": "0" * 64}, ("bad_sha256", "sha256")),
        ({"parts": [part()], "url": "https://h/a"}, ("bad_url", "url")),
        ({"url": "https://h/a"}, None),
        ({"url": "https://h/a", "source": "h0"}, ("two_sources", "url")),
    ],
)
def test_what_is_fetched(changes: dict[str, Any], refusal: tuple[str, str] | None) -> None:
    spec = replace(HF, **changes)
    assert refused(requests.check_url, spec) == (refusal if changes else ("bad_url", "url")), "a name has parts"


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"source_paths": {"h3": "/elsewhere"}}, None),
        ({"holds": {"h3": ["0-9"]}}, None),
        ({"holds": {"h9": ["0-9"]}}, ("bad_holds", "holds")),
        ({"unfinished": {"h1": "g-1"}}, ("bad_holds", "unfinished")),
        ({"source_paths": {"h3": "../up"}}, ("bad_path", "dest_path")),
        ({"source": None, "other_sources": [], "url": "https://h/a", "holds": {"h3": ["0-9"]}}, ("bad_holds", "holds")),
        ({"holds": {"h3": ["0-9"]}, "unfinished": {"h3": "g-1"}}, ("bad_holds", "holds")),
        ({"holds": {"h3": ["0-9"]}, "scatter": True}, ("bad_holds", "shards")),
        ({"holds": {"h3": ["9-0"]}}, ("bad_holds", "holds")),
    ],
)
def test_sources_that_have_parts(changes: dict[str, Any], refusal: tuple[str, str] | None) -> None:
    assert refused(requests.check_holds, replace(SENT, **changes)) == refusal


@pytest.mark.parametrize(
    ("asked", "registered", "chosen"),
    [
        (None, "12", ["h1", "h2"]),
        (1, "123", ["h1"]),
        ("all", "123", ["h1", "h2", "h3"]),
        ("all", "3", ["h3"]),
        (["h2"], "1", ["h2"]),  # who is named is waited for
        (None, "", ("too_few", "receivers")),
        ([], "123", ("too_few", "receivers")),
        (["h2", "h2"], "123", ("bad_fetcher", "fetchers")),
        (["h0"], "123", ("bad_fetcher", "fetchers")),
    ],
)
def test_who_fetches(asked: Any, registered: str, chosen: Any) -> None:
    fabric, receivers = Fabric(star(4)), ["h1", "h2", "h3"]
    for digit in registered:
        fabric.nodes[f"h{digit}"].registered = True
    spec = replace(HF, url="https://h/a", fetchers=asked)
    if isinstance(chosen, tuple):
        assert refused(requests.with_fetchers, fabric, spec, receivers) == chosen
    else:
        made = requests.with_fetchers(fabric, spec, receivers)
        assert [made.source, *made.other_sources] == chosen and made.source_path == "https://h/a"
