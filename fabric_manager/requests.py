"""What a request for a group must be like: hosts that there are, paths that can be meant. Problems name the field."""

from __future__ import annotations

import base64
import posixpath
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from datacast.origins.ranges import AT_SITE, Range, common, pieces
from datacast.services import ranges
from datacast.services.problems import Problem

from .api import FINAL_STATES, GroupSpec
from .api.specs import RECEIVERS_MAX, S3
from .fabric import Fabric
from .record import Record


def problem(code: str, field: str, message: str, what: str, remedy: str) -> Problem:
    """One field of a request is wrong."""
    return Problem(422, code, message, what=what, remedy=remedy, fields=[{"field": field, "message": message}])


def no_agent(name: str) -> Problem:
    return Problem(
        409,
        "no_agent",
        f"host {name} has no agent: nothing has registered for it",
        what=name,
        remedy=f"start datacast-agent on {name}, or leave the host out",
    )


def check_host(fabric: Fabric, field: str, name: str) -> None:
    """Raises Problem for what is no host."""
    node = fabric.nodes.get(name)
    if node is None or node.removed:
        raise problem(
            "unknown_host", field, f"the topology has no host {name!r}", name, "`datacast topology` lists the hosts"
        )
    if node.kind != "host":
        raise problem("not_a_host", field, f"{name} is a {node.kind}, not a host", name, "only hosts can be members")


def check_hosts(fabric: Fabric, field: str, names: list[str]) -> None:
    """Raises Problem: one that is none, or named twice."""
    seen: set[str] = set()
    for name in names:
        check_host(fabric, field, name)
        if name in seen:
            raise problem("duplicate_receivers", field, f"{name} is named twice", name, "name every host once")
        seen.add(name)


def check_number(receivers: int) -> None:
    """Raises Problem: more than a group may have, whoever they are: a record of more would not be read again."""
    if receivers > RECEIVERS_MAX:
        text = f"{receivers} receivers, a group has {RECEIVERS_MAX} at most"
        raise problem("too_many_receivers", "receivers", text, str(receivers), "start a group for some, then others")


def check_source_path(path: str) -> None:
    if "\0" in path or not path.startswith("/") or not posixpath.basename(path):
        raise problem(
            "bad_path",
            "source_path",
            f"{path!r} is no absolute path of a file",
            path,
            "give the file's absolute path at the source",
        )


def check_dest_path(path: str) -> str:
    """The path as it is. Raises Problem."""
    if not path:
        why = "a URL that ends with / names no file"
        raise problem("bad_path", "dest_path", why, "", "give the destination (--dest)")
    if "\0" in path:
        raise problem("bad_path", "dest_path", f"{path!r} is no path of a file", path, "give a file's path")
    if ".." in path.split("/"):  # agents refuse it too, each on its own, when the group has begun
        raise problem("bad_path", "dest_path", f'{path}: a path must not hold ".."', path, "name the folder itself")
    return path


def receivers_of(fabric: Fabric, sets: dict[str, list[str]], spec: GroupSpec) -> list[str]:
    """The receivers by name. Raises Problem."""
    _check_sources(fabric, spec)
    if (spec.receivers is None) == (spec.receiver_set is None):
        raise problem(
            "no_receivers",
            "receivers",
            "give receivers or a receiver_set, one of them",
            "",
            'a list of hosts, or "all", or the name of a set',
        )
    if spec.receivers == "all":
        names = [name for name in fabric.members() if name not in spec.roots]
    elif spec.receivers is not None:
        names = list(spec.receivers)
    else:
        if spec.receiver_set not in sets:
            raise problem(
                "unknown_set",
                "receiver_set",
                f"there is no set {spec.receiver_set!r}",
                str(spec.receiver_set),
                "`datacast sets put` makes one; `datacast sets list` shows them",
            )
        names = [name for name in sets[spec.receiver_set] if name not in spec.roots]
    if not names:
        text, remedy = "there is no receiver", "name at least one host"
        if spec.receivers == "all":
            text, remedy = "no other host has an agent", "start datacast-agent there (`datacast topology` tells where)"
        elif spec.receiver_set is not None:
            text = f"the set {spec.receiver_set!r} has no host that is not a source"
        raise problem("no_receivers", "receivers", text, "", remedy)
    check_number(len(names))
    check_hosts(fabric, "receivers", names)
    for source in () if spec.url else spec.roots:
        if source in names:
            raise problem(
                "source_among_receivers",
                "receivers",
                f"the source {source} is among the receivers",
                source,
                "leave it out: it has the file",
            )
    _check_agents(fabric, spec, names)
    return [sys.intern(name) for name in names]  # a host has one name, in however many groups it is


FETCHERS, FETCHERS_MOST = 8, 32
"""Where a request does not say how many."""
END = 1 << 53
"""No object has more bytes."""


URL_BYTES = 2048
"""That an agent takes."""
_LETTER = r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]"
"""Of a key in S3, which is written as the store shows it: agents escape it."""
_SECRET = re.compile(
    r"[?&](x-amz-|x-goog-)?(signature|credential|security-token|sig|(access_|private_)?token|api_?key|password)=", re.I
)
PARTS_BYTES = 512 << 10
"""Of all paths, URLs and data of a request: they are kept with the group, and told to its members."""


def check_url(spec: GroupSpec) -> None:
    """Raises Problem."""
    url = spec.url or ""
    _check_secret(url, "url")
    if not spec.parts:
        _check_object(url, "url")
    elif not re.fullmatch(r"(oci|hf)://[!-~]+", url) or "#" in url:
        raise problem(
            "bad_url", "url", f"{url!r} is no name of several files", url, "give oci://HOST/NAME:TAG or hf://ORG/REPO"
        )  # fmt: skip
    _check_parts(spec)
    if spec.source or spec.source_path or spec.other_sources:
        raise problem("two_sources", "url", "a group has a source or a url", url, "leave one of them out")


def _check_object(url: str, what: str) -> None:
    rest = next((url[len(s) :] for s in ("https://", "http://", S3, "site://") if url.startswith(s)), "")
    host, key = re.split("[/?#]", rest)[0], url.startswith(S3)
    written = re.fullmatch(rf"[!-~]+/{_LETTER}+" if key else '[!-"$-~]+', rest)
    if not host or not written or "/" not in rest or (key and not rest.startswith(f"{host}/")):
        why = "names no key" if host and url.removesuffix("/") == S3 + host else "names no object"
        remedy = "give https://HOST/PATH, http://HOST/PATH or s3://BUCKET/KEY"
        if not key and "/" in rest and (found := re.search("[^!-~]|#", rest)):
            why, remedy = f"has {found[0]!r} in it", f"write it as {quote(found[0])}"
            remedy = "leave out what is behind it, or write %23" if found[0] == "#" else remedy
        raise problem("bad_url", what, f"{url!r} {why}", url, remedy)
    if len(url.encode()) > URL_BYTES:
        raise problem("bad_url", what, f"the URL has more than {URL_BYTES} bytes", url, "name one with a shorter URL")


def _check_secret(url: str, what: str) -> None:
    """Raises Problem, which does not say it."""
    if "@" in re.split("[/?#]", url.partition("://")[2])[0] or _SECRET.search(url):
        raise problem(
            "secret_in_url", what, "the URL holds a credential, and would be kept with the group", "",
            "put credentials into the file of --origins on the hosts that fetch",
        )  # fmt: skip


def _check_parts(spec: GroupSpec) -> None:
    paths, total = {part.path for part in spec.parts}, 0
    if spec.parts and spec.sha256:
        raise problem("bad_sha256", "sha256", "a folder has no SHA-256: each of its parts has one", "", "leave it out")
    for part in spec.parts:
        names = part.path.split("/")
        above = {"/".join(names[:n]) for n in range(1, len(names))}
        if any(name in ("", ".", "..") for name in names) or not part.path.isprintable() or above & paths:
            raise problem(
                "bad_part", "parts", f"{part.path!r} leads outside, or lies beneath a file", part.path, "name another"
            )  # fmt: skip
        if bool(part.url) == bool(part.data) and part.size:
            raise problem("bad_part", "parts", f"{part.path} has a url or data", part.path, "leave one of them out")
        try:
            fits = not part.data or len(base64.b64decode(part.data, validate=True)) == part.size
        except ValueError:
            fits = False
        if not fits:
            raise problem("bad_part", "parts", f"{part.path}: data has another size", part.path, "give it in base64")
        if part.url:
            _check_secret(part.url, "parts")
            _check_object(part.url, "parts")
        total += len(part.path.encode()) + len(part.url) + len(part.data)
    if len(paths) < len(spec.parts) or total > PARTS_BYTES:
        raise problem(
            "bad_part", "parts", f"a path is there twice, or all take more than {PARTS_BYTES >> 10} KiB", "",
            "send fewer files at a time",
        )  # fmt: skip


def with_fetchers(fabric: Fabric, spec: GroupSpec, receivers: list[str]) -> GroupSpec:
    """A request for a URL with its fetchers by name: they stand where the sources do. Raises Problem."""
    asked = spec.fetchers if spec.fetchers is not None else FETCHERS
    there = [name for name in receivers if fabric.nodes[name].registered]
    if spec.shards and spec.fetchers is None and there and (spec.url or "").startswith(AT_SITE):
        asked = fetchers_of_ranges(spec.shards, there)
    if isinstance(asked, list):
        for name in asked:
            if name not in receivers or asked.count(name) > 1:
                raise problem(
                    "bad_fetcher", "fetchers", f"{name} is no receiver, or named twice", name, "receivers fetch"
                )  # fmt: skip
        chosen = asked
    else:
        chosen = there if asked == "all" else there[:asked]
    if not chosen:
        raise problem(
            "too_few", "receivers", "nobody is there to fetch: no receiver has an agent now", "", "name another"
        )
    chosen = chosen[:FETCHERS_MOST]
    return replace(spec, source=chosen[0], other_sources=chosen[1:], source_path=spec.url or "")


def fetchers_of_ranges(shards: Mapping[str, Sequence[str]], there: Sequence[str]) -> list[str]:
    """Receivers of which two want each byte that is wanted, where there are two: each fetches what it wants itself.
    Raises Problem."""
    try:
        rows = {name: [Range(*row) for row in ranges.spans(shards.get(name, ["0-"]), END, 1)] for name in there}
    except ranges.RangeProblem as error:
        raise problem("bad_shards", "shards", str(error), "", "ranges are in bytes") from None
    order = sorted(there, key=lambda name: (-pieces(rows[name]), name))
    for times in (2, 1):
        chosen, covered = list[str](), [list[Range]() for _ in range(times)]
        for name in order:
            new = rows[name]
            if pieces(common(new, covered[-1])) == pieces(new):
                continue
            chosen.append(name)
            if len(chosen) > FETCHERS_MOST:
                break  # however many more
            for at, before in enumerate(covered):
                both = common(new, before)
                covered[at] = [Range(*row) for row in ranges.union((r.first, r.count) for r in [*before, *new])]
                new = both
        if len(chosen) <= FETCHERS_MOST:
            return chosen or order[:1]
    raise problem(
        "bad_shards", "shards", f"these ranges need {len(chosen)} hosts or more to fetch them, {FETCHERS_MOST} may", "",
        "name fewer receivers with ranges of their own at a time",
    )  # fmt: skip


def with_shards(spec: GroupSpec, receivers: list[str]) -> GroupSpec:
    """A request with its ranges by receiver: `scatter` means as many parts as there are receivers. Raises Problem."""
    if not (spec.scatter or spec.shards):
        return spec
    field = "scatter" if spec.scatter else "shards"
    if spec.scatter and spec.shards:
        raise problem("bad_shards", "scatter", "scatter says what each receiver wants", "", "leave shards out")
    at_site = (spec.url or "").startswith(AT_SITE) and not spec.scatter
    if (spec.url is not None and not at_site) or spec.sha256:
        what = "what a url names" if spec.url is not None else "a file whose whole SHA-256 is to be checked"
        raise problem("bad_shards", field, f"{what} goes to all receivers as a whole", "", f"leave {field} out")
    there = set(receivers)
    for name, texts in spec.shards.items():
        if name not in there:
            raise problem("bad_shards", "shards", f"{name} is no receiver", name, "name receivers")
        for text in texts:
            try:
                ranges.check(text)
            except ranges.RangeProblem as error:
                raise problem("bad_shards", "shards", f"{name}: {error}", name, "ranges are in bytes") from None
    if not spec.scatter:
        return spec
    return replace(spec, shards={name: [f"{k}/{len(receivers)}"] for k, name in enumerate(receivers, 1)})


def check_holds(spec: GroupSpec) -> None:
    """Sources that have parts. Raises Problem."""
    for field, said in (("holds", spec.holds), ("unfinished", spec.unfinished), ("source_paths", spec.source_paths)):
        if said and spec.url is not None:
            raise problem("bad_holds", field, "what a url names lies at no host", "", f"leave {field} out")
        for name in said:
            if name not in spec.roots:
                raise problem("bad_holds", field, f"{name} is no source", name, "name it in source or other_sources")
    for path in spec.source_paths.values():
        check_dest_path(path)
    if not (spec.holds or spec.unfinished):
        return
    if both := sorted(set(spec.holds) & set(spec.unfinished)):
        raise problem("bad_holds", "holds", f"{both[0]} has what it had received", both[0], "leave its ranges out")
    if spec.scatter or spec.shards or spec.options.delivery == "stable" or spec.options.planner:
        what = "shards" if spec.scatter or spec.shards else "options"
        raise problem(
            "bad_holds", what, "from sources that have parts all receivers get the whole file, at one rate", "",
            "leave scatter, shards, delivery stable and planner out",
        )  # fmt: skip
    for name, texts in spec.holds.items():
        for text in texts:
            try:
                ranges.check(text)
            except ranges.RangeProblem as error:
                raise problem("bad_holds", "holds", f"{name}: {error}", name, "ranges are in bytes") from None


def with_left(spec: GroupSpec, find: Callable[[str], Record | None]) -> GroupSpec:
    """A request with the paths of what its sources have left of groups that broke off: these groups' destinations.
    `find`: a group's record. Raises Problem."""
    check_holds(spec)
    paths = {}
    for name, group in spec.unfinished.items():
        record = find(group)
        if record is None or name not in {*record.receivers, *record.progress.receivers}:
            why = f"there is no group {group}" if record is None else f"{name} was no receiver of group {group}"
            raise problem("bad_holds", "unfinished", why, group, "`datacast groups` lists them")
        if record.state not in FINAL_STATES:
            raise problem("bad_holds", "unfinished", f"group {group} goes on", group, "wait for its end")
        paths[name] = record.dest_paths.get(name, record.spec.dest_path or "")
    return replace(spec, source_paths={**paths, **spec.source_paths}) if paths else spec


def check_late(spec: GroupSpec, host: str) -> None:
    """May this host become a receiver while the group runs? Raises Problem."""
    if host in spec.roots and spec.url is None:
        raise problem("source_among_receivers", "host", f"{host} is the group's source", host, "it has the file")
    if spec.shards and host not in (spec.receivers or ()):
        raise Problem(
            409, "has_shards", "who wants which ranges was said when the group began", what=host,
            remedy="start another group for this host",
        )  # fmt: skip


def _check_sources(fabric: Fabric, spec: GroupSpec) -> None:
    if spec.url is not None:
        check_url(spec)
        if spec.options.delivery == "stable" or spec.options.planner:
            raise problem(
                "several_sources", "options", "of what is fetched all receivers get the same rate", "",
                "leave delivery stable and planner out",
            )  # fmt: skip
        return
    if spec.fetchers is not None or spec.parts:
        raise problem("no_url", "fetchers", "only what a url names is fetched", "", "give a url, or leave fetchers out")
    if not spec.source:
        raise problem("no_source", "source", "the group has no source", "", "give source and source_path, or a url")
    check_host(fabric, "source", spec.source)
    for name in spec.other_sources:
        check_host(fabric, "other_sources", name)
        if spec.roots.count(name) > 1:
            raise problem(
                "duplicate_sources", "other_sources", f"{name} is named twice", name, "name every source once"
            )  # fmt: skip
    chosen = "delivery stable" if spec.options.delivery == "stable" else spec.options.planner and "a planner"
    if spec.other_sources and chosen:
        raise problem(
            "several_sources",
            "other_sources",
            f"{chosen} is for groups with one source: with several all receivers get the same rate",
            spec.other_sources[0],
            "leave it out, or name one source",
        )


def _check_agents(fabric: Fabric, spec: GroupSpec, names: list[str]) -> None:
    """All must have one, or as many receivers as the quorum says."""
    quorum = spec.options.quorum
    if quorum is not None and quorum > len(names):
        raise problem(
            "bad_quorum",
            "quorum",
            f"a quorum of {quorum} of {len(names)} receivers",
            str(quorum),
            "a quorum is at most the number of receivers",
        )
    away = [name for name in names if not fabric.nodes[name].registered]
    for source in spec.roots:
        if not fabric.nodes[source].registered:
            raise no_agent(source)
    if away and (quorum is None or len(names) - len(away) < quorum):
        raise no_agent(away[0])
