"""etcd 3.4 and later, over its gRPC gateway (JSON over HTTP): a transaction per write, leases and watches as they are.

The gateway comes with every etcd, and HTTP is what the services speak anyway; a write costs a round trip and etcd's
own sync. A member that does not answer is passed over for the next. A write whose answer was lost may have happened:
when it is asked for again, what stands there tells (base.own).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import math
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import aiohttp
import msgspec

from datacast.services.address import AddressError, host_and_port
from datacast.services.asking import FAILED, NOT_CONNECTED, ask, cause_of, lines, patience, session
from datacast.services.tls import is_local

from .base import Change, Conflict, Entry, Guard, Lost, Store, StoreError, WhereError, checked, own
from .etcd_answers import PREFIX, Done, Granted, Range, Refusal, Renewed, Rows, Said, Written, plain, read

if TYPE_CHECKING:
    from datacast.services.tls import Security

TIMEOUT_S = 0.7
"""Of one member: a write that comes while they elect a leader of theirs may be forgotten by etcd, and is answered by
nobody. Shorter than a fabric manager's lease."""
PASSES = 3
"""How often all members are tried, each time with twice the patience: who only waits for a processor never answers
those who ask again too soon."""
PAUSE_S = 0.2
QUIET_S = 5.0
"""A watch that is silent for so long is asked for again, of the next member: a lost machine ends no connection."""
ONLY_WITH_LEADER = {"Grpc-Metadata-hasleader": "true"}
"""As etcd's clients say it (WithRequireLeader): a member that is cut off from the others ends a watch."""
CONNECTIONS = 32
"""At once; more requests wait their turn."""
_BUSY = (14, 4, 8)
"""gRPC: unavailable, deadline exceeded, resource exhausted (too many requests): another member, or later."""


Body = Mapping[str, object]
"""Of a request, as etcd's gateway reads it."""
T = TypeVar("T")


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _end_of(prefix: str) -> str:
    """The first key behind all that begin with it."""
    data = prefix.encode()
    return base64.b64encode(data[:-1] + bytes([data[-1] + 1])).decode()


def _span(prefix: str) -> dict[str, str]:
    return {"key": _coded(PREFIX + prefix), "range_end": _end_of(PREFIX + prefix)}


class EtcdStore(Store):
    """`members`: host:port each. `security`: its authority signs etcd's certificate, and its own certificate is shown
    (etcd's --client-cert-auth); plain HTTP over loopback or where `insecure`."""

    def __init__(self, members: list[str], security: Security | None = None) -> None:
        self.where = f"etcd://{','.join(members)}"
        try:
            if not [host_and_port(member) for member in members]:
                raise AddressError(self.where)
        except AddressError as error:
            text = f"{self.where}: give etcd://host:port, further members behind commas"
            raise WhereError(text, what=self.where) from error
        self._context: ssl.SSLContext | None = None
        scheme = "http"
        if security is not None and security.identity is not None:
            ca, cert, key = security.identity.files
            self._context, scheme = ssl.create_default_context(cafile=ca), "https"  # which looks at the host's name
            self._context.load_cert_chain(cert, key)
        elif not (security and security.insecure) and not all(is_local(member) for member in members):
            raise WhereError(f"{self.where}: plain HTTP would leave this machine; give certificates", what=self.where)
        self._members = [f"{scheme}://{member}/v3/" for member in members]
        self._session: aiohttp.ClientSession | None = None

    @property
    def _http(self) -> aiohttp.ClientSession:
        """Made with the first question, as there has to be a loop."""
        if self._session is None:
            self._session = session(self._context, connections=CONNECTIONS)
        return self._session

    def _failed(self, why: object) -> StoreError:
        return StoreError(f"{self.where} does not answer: {why}", what=self.where)

    async def _ask(self, form: type[T], path: str, body: Body) -> T:
        """Raises StoreError."""
        return (await self._ask_until(form, path, body))[0]

    async def _ask_until(self, form: type[T], path: str, body: Body) -> tuple[T, bool]:
        """Of the member that answered last, or else another; and whether it may have been carried out before, as an
        answer was lost. Raises StoreError."""
        why: object = "no member"
        unsure = False
        for attempt in range(PASSES * len(self._members)):
            if attempt and attempt % len(self._members) == 0:
                await asyncio.sleep(PAUSE_S)
            member = self._members[0]
            try:
                limit_s = TIMEOUT_S * 2 ** (attempt // len(self._members))
                most = patience(limit_s, limit_s)
                answer = await ask(self._http, "POST", member + path, most, json.dumps(body).encode())
                data = await answer.read()
                if answer.status == 200:
                    return read(data, form), unsure
                refusal = read(data, Refusal)
            except (*FAILED, msgspec.DecodeError) as error:
                why = str(cause_of(error)) or type(error).__name__
                unsure = unsure or not isinstance(error, NOT_CONNECTED)
            else:
                unsure = True
                why = refusal.message or refusal.error or answer.status
                if refusal.code not in _BUSY:
                    raise StoreError(f"{self.where}: {why}", what=self.where)
            self._pass_over(member)
        raise self._failed(why)

    def _pass_over(self, member: str) -> None:
        """Once, however many requests have waited for it: else it is first again after as many as members."""
        if self._members[0] == member:
            self._members.append(self._members.pop(0))

    # ---- keys ----
    async def get(self, key: str) -> Entry | None:
        found = await self._range({"key": _coded(PREFIX + key)})
        return found[0] if found else None

    async def list(self, prefix: str, since: int = 0) -> list[Entry]:
        return [*await self._range({**_span(prefix), "min_mod_revision": str(since)})]

    async def revisions(self, prefix: str) -> dict[str, int]:
        return {entry.key: entry.revision for entry in await self._range({**_span(prefix), "keys_only": True})}

    async def _range(self, body: Body) -> Sequence[Entry]:
        """Page by page: an answer is at most some MiB."""
        entries: Sequence[Entry] = []
        while True:
            told = await self._ask(Rows, "kv/range", {**body, "limit": 500})
            entries = [*entries, *(row.entry() for row in told.kvs)]
            if not told.more:
                return entries
            body = {**body, "key": base64.b64encode(base64.b64decode(told.kvs[-1].key) + b"\0").decode()}

    async def _write(self, key: str, value: str | None, expected: int, guard: Guard | None, request: Body) -> int:
        coded = _coded(PREFIX + key)
        compare = [_has(coded, expected)] + ([_has(_coded(PREFIX + guard.key), guard.revision)] if guard else [])
        look = [{"request_range": {"key": coded}}]
        look += [{"request_range": {"key": _coded(PREFIX + guard.key)}}] if guard else []
        request_body = {"compare": compare, "success": [request], "failure": look}
        told, unsure = await self._ask_until(Written, "kv/txn", request_body)
        if told.succeeded:
            return told.header.revision
        rows = [answer.response_range.kvs for answer in told.responses]
        there, leads = (row[0].entry() if row else None for row in (*rows, [])[:2])
        refused: StoreError = Conflict(f"{key} has revision {there.revision if there else 0}, not {expected}", what=key)
        if guard is not None and (leads.revision if leads else 0) != guard.revision:
            refused = Lost(f"{guard.key} is another's now", what=guard.key)
        if unsure:
            return own(there, value, expected, refused)
        raise refused

    async def put(
        self, key: str, value: str, expected: int, *, lease: int | None = None, guard: Guard | None = None
    ) -> int:
        data = base64.b64encode(checked(value)).decode()
        put: dict[str, object] = {"key": _coded(PREFIX + key), "value": data}
        if lease is not None:
            put["lease"] = str(lease)
        try:
            return await self._write(key, value, expected, guard, {"request_put": put})
        except StoreError as error:
            if lease is not None and "lease not found" in error.message:
                raise Lost(f"lease {lease} has ended", what=key) from error
            raise

    async def delete(self, key: str, expected: int, *, guard: Guard | None = None) -> None:
        await self._write(key, None, expected, guard, {"request_delete_range": {"key": _coded(PREFIX + key)}})

    # ---- leases ----
    async def grant(self, ttl_s: float) -> int:
        return (await self._ask(Granted, "lease/grant", {"TTL": str(math.ceil(ttl_s))})).ID

    async def renew(self, lease: int) -> None:
        told = await self._ask(Renewed, "lease/keepalive", {"ID": str(lease)})
        if told.result.TTL <= 0:
            raise Lost(f"lease {lease} has ended", what=str(lease))

    async def revoke(self, lease: int) -> None:
        try:
            await self._ask(Done, "lease/revoke", {"ID": str(lease)})
        except StoreError as error:
            if "lease not found" not in error.message:
                raise

    # ---- watching ----
    async def watch(self, prefix: str, since: int = 0) -> AsyncIterator[Change]:
        """`since`: all that has happened since that revision, in place of what is there."""
        start = since
        if not since:
            told = await self._ask(Range, "kv/range", _span(prefix))
            for row in told.kvs:
                yield Change(row.name, plain(row.value), row.mod_revision)
            start = told.header.revision + 1
        for turn in itertools.count():
            with contextlib.suppress(aiohttp.SocketTimeoutError):
                async for change in self._watched(self._members[turn % len(self._members)], prefix, start):
                    yield change
                    start = change.revision + 1

    async def _watched(self, member: str, prefix: str, start: int) -> AsyncIterator[Change]:
        """Raises SocketTimeoutError where nothing comes."""
        create = {**_span(prefix), "start_revision": str(start)}
        body, most = json.dumps({"create_request": create}).encode(), patience(TIMEOUT_S, QUIET_S)
        try:
            answer = await ask(self._http, "POST", member + "watch", most, body, headers=ONLY_WITH_LEADER)
            try:
                async for line in lines(answer):
                    result = read(line, Said).result
                    if result is None or result.canceled:
                        raise self._failed(line[:200])
                    for event in result.events:
                        yield event.change()
            finally:
                answer.close()
        except aiohttp.SocketTimeoutError:
            raise
        except (*FAILED, msgspec.DecodeError, ValueError) as error:
            self._pass_over(member)
            raise self._failed(error) from error
        raise self._failed("the watch ended")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _has(coded: str, revision: int) -> Body:
    return {"key": coded, "result": "EQUAL", "target": "MOD", "mod_revision": str(revision)}
