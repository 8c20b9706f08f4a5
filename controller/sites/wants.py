"""Ranges per receiver in a group of several sites: each site hears of what is wanted there and behind it, in bytes, for
blocks are of another length at each."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from datacast.fabric_manager.api import GroupSpec
from datacast.origins.ranges import piece_bytes
from datacast.services.problems import Problem
from datacast.services.ranges import RangeProblem, Rows, spans
from datacast.services.sites_file import SiteError, is_name

PART_LEAST = 64 << 10
"""Parts of a scatter are equal to so many bytes, or to a piece of the exchange where each has several."""
SEVERAL = 4

Texts = dict[str, list[str]]


def with_ranges(spec: GroupSpec, size: int, folder: bool, own: str) -> GroupSpec:
    """The request with every range as FIRST-LAST by receiver. Raises Problem."""
    field = "scatter" if spec.scatter else "shards"
    if not (spec.scatter or spec.shards):
        return spec
    if spec.scatter and spec.shards:
        raise _refusal("scatter", "scatter says what each receiver wants", "scatter", "leave shards out")
    if folder or spec.sha256:
        what = "a directory" if folder else "a file whose whole SHA-256 is to be checked"
        raise _refusal(field, f"{what} goes to all receivers as a whole", field, f"leave {field} out")
    assert isinstance(spec.receivers, list)
    names = [name.removeprefix(f"{own}/") for name in spec.receivers]
    asked = {name.removeprefix(f"{own}/"): texts for name, texts in spec.shards.items()}
    unit = PART_LEAST
    if spec.scatter:
        for name in names:
            if name == "all" or name.endswith("/all"):
                why = f"who {name} is another site knows: a part for each needs their names"
                raise _refusal(field, why, name, "name the hosts")
        asked = {name: [f"{k}/{len(names)}"] for k, name in enumerate(names, 1)}
        unit = piece_bytes(size) if size >= SEVERAL * len(names) * piece_bytes(size) else PART_LEAST
    receivers = set(names)
    for name in asked:
        if not _named(name, receivers):
            raise _refusal(field, f"{name} is no receiver", name, "name receivers")
    try:
        rows = {name: spans(texts, size, unit) for name, texts in asked.items()}
    except RangeProblem as error:
        raise _refusal(field, f"{spec.source_path}: {error}", field, "ranges are in bytes of the file") from None
    shards = {name: [f"{first}-{first + count - 1}" for first, count in found] for name, found in rows.items()}
    return replace(spec, scatter=False, shards=shards)


def _named(name: str, receivers: Set[str]) -> bool:
    """Itself, or by an `all` of its site or of one before it."""
    steps = name.split("/")
    deep = {"/".join([*steps[:n], "*", "all"]) for n in range(len(steps))}
    return not {name, "/".join([*steps[:-1], "all"]), *deep}.isdisjoint(receivers)


def check(shards: Mapping[str, list[str]], size: int) -> None:
    """Raises SiteError: a range that is none of this object."""
    try:
        spans([text for texts in shards.values() for text in texts], size, 1)
    except RangeProblem as error:
        raise SiteError(str(error), code="bad_shards") from None


def split(shards: Mapping[str, list[str]], own: str, there: Mapping[str, object]) -> tuple[Texts, dict[str, Texts]]:
    """Those of this site's hosts, and what each of the sites `there` is told. Raises SiteError."""
    here, others = Texts(), dict[str, Texts]()
    for name, texts in shards.items():
        site, slash, rest = name.partition("/")
        if not slash or not is_name(site) or site == own:
            here[rest if slash and site == own else name] = texts
        elif site in there:
            others.setdefault(site, {})[rest] = texts
        else:
            raise SiteError(f"{name} has a range, and is no receiver", name, "bad_shards", "name receivers")
    return here, others


def of_site(spec: GroupSpec, size: int) -> Rows | None:
    """Bytes, first and count, that receivers here want; None: all, as far as is known here."""
    if not spec.shards or not isinstance(spec.receivers, list) or not spec.shards.keys() >= set(spec.receivers):
        return None
    return spans([text for texts in spec.shards.values() for text in texts], size, 1)


def here(spec: GroupSpec, size: int) -> Rows:
    rows = of_site(spec, size)
    return [(0, size)] if rows is None else rows


def of_host(spec: GroupSpec, host: str, size: int) -> Rows:
    """What one of them wants."""
    return spans(spec.shards.get(host, ["0-"]), size, 1)


def along(rows: Rows, at: int, last: int) -> tuple[bool, int]:
    """Whether byte `at` is in these, and the last byte, `last` at most, up to which that stays so."""
    for first, count in rows:
        if at < first:
            return False, min(last, first - 1)
        if at < first + count:
            return True, min(last, first + count - 1)
    return False, last


def _refusal(field: str, message: str, what: str, remedy: str) -> Problem:
    return Problem(
        422, "bad_shards", message, what=what, remedy=remedy, fields=[{"field": field, "message": message}]
    )  # fmt: skip
