"""The server side that Datacast's HTTP services share: listening, uvicorn inside a running loop, problems as
answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import ssl
import stat
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from datacast.core.errors import DatacastError

from . import framing
from .acceptor import Acceptor
from .address import ListenError, host_and_port
from .connection import Connection
from .problems import Problem
from .tls import Security
from .validation import either, sentence

log = logging.getLogger("datacast.http")

CONNECTIONS_MAX = 4096
KEPT_S = 30
"""A connection that has asked stays so long for the next request: longer than clients keep one (asking.KEPT_S),
so that no request meets a connection that is just being closed."""

GRACE_S = 2
"""Requests under way when the service ends have so long."""


def listen(address: str, security: Security | None = None) -> socket.socket:
    """A bound, listening socket for `host:port` or `unix:/path`. Raises ListenError, and TlsError where `security` does
    not allow it."""
    try:
        if address.startswith("unix:"):
            return _listen_unix(address[len("unix:") :])
        host, port = host_and_port(address)
        if security is not None:
            security.check(address, "listening on")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # The protocol is named: asyncio sets TCP_NODELAY only where it is.
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
            sock.listen(1024)
        except OSError:
            sock.close()
            raise
        return sock
    except OSError as error:
        remedy = (
            "another process listens there: stop it or choose another address"
            if error.errno == 98
            else "choose another"
        )
        raise ListenError(f"cannot listen on {address}: {error.strerror or error} ({remedy})", what=address) from error


def _listen_unix(path: str) -> socket.socket:
    if os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode):
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        probe.setblocking(False)  # one that hangs takes nobody in, and connecting to it would wait
        try:
            probe.connect(path)
        except BlockingIOError:
            pass
        except OSError:
            os.unlink(path)  # left behind by a process that was killed
        finally:
            probe.close()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)  # at no moment may others connect
        try:
            sock.bind(path)
        finally:
            os.umask(before)
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock


def address_of(sock: socket.socket) -> str:
    """host:port as bound (port 0 resolved), or unix:/path."""
    name = sock.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    return f"[{name[0]}]:{name[1]}" if sock.family == socket.AF_INET6 else f"{name[0]}:{name[1]}"


class _Ending:
    """Who waits for an answer when the service ends is told so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except asyncio.CancelledError:
            if begun or scope["type"] != "http":
                raise
            text = f"{scope['method']} {scope['path']}: the service ended before it was done"
            problem = Problem(503, "ending", text, what=scope["path"], remedy="ask again when it is there")
            await problem_response(problem)(scope, receive, send)


class HttpServer:
    """uvicorn on a socket that listens already, in the running loop; signals stay the program's own. `context`: https,
    and the other side's certificate where it asks for one."""

    def __init__(
        self,
        app: ASGIApp,
        sock: socket.socket,
        context: ssl.SSLContext | None = None,
        connections: int = CONNECTIONS_MAX,
    ) -> None:
        self.address = address_of(sock)
        self.url = self.address
        if not self.address.startswith("unix:"):
            self.url = f"{'https' if context else 'http'}://{self.address}"
        config = uvicorn.Config(
            _Ending(app),
            http=Connection,
            ws="none",
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_keep_alive=KEPT_S,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = uvicorn.Server(config)
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
        state = self._server.server_state
        self._acceptor = Acceptor(
            sock,
            lambda: Connection(config, state, {}),
            lambda: len(state.connections),
            limit=connections,
            context=context,
            log=log,
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when requests are answered."""
        self._task = asyncio.create_task(self._server.serve(sockets=[]))
        while not self._server.started:
            if self._task.done():
                await self._task
                raise DatacastError(f"the HTTP server did not start at {self.address}", what=self.address)
            await asyncio.sleep(0.005)
        self._acceptor.start()

    async def stop(self) -> None:
        await self._acceptor.stop()
        self._server.should_exit = True
        if self._task:
            await asyncio.gather(self._task, return_exceptions=True)
        if self.address.startswith("unix:"):
            with contextlib.suppress(OSError):
                os.unlink(self.address[len("unix:") :])


def answer(record: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A record, or several, as JSON."""
    return Response(framing.text(record), status, headers, "application/json")


def problem_response(problem: Problem) -> Response:
    # ensure_ascii: a text that is no Unicode (lone surrogates) can be told all the same.
    return Response(json.dumps(problem.to_json()), status_code=problem.status, media_type="application/problem+json")


def validation_problem(errors: Any) -> Problem:
    """A request that does not fit its schema, with every field at fault."""
    found: dict[str, list[str]] = {}
    for error in errors:
        # Where a field may be one of several things, pydantic adds which of them: list[...], literal['all'].
        path = [part for part in map(str, error["loc"]) if not (part.endswith("]") or part.startswith("constrained-"))]
        name = ".".join(path[1:] if path[:1] in (["body"], ["query"], ["path"], ["header"]) and len(path) > 1 else path)
        if error["type"] == "json_invalid":
            text = f"is not JSON: {error['ctx']['error']}, at byte {path[-1]}"
            fields = [{"field": "body", "message": text}]
            return Problem(422, "malformed_json", f"the body {text}", "body", "send a JSON object", fields)
        found.setdefault(name, []).append(sentence(error))
    # Of several things that it may be, that one is meant which is wrong further inside.
    inside = {name.rpartition(".")[0] for name in found}
    fields = [{"field": name, "message": either(texts)} for name, texts in found.items() if name not in inside]
    first = fields[0] if fields else {"field": "body", "message": "not valid"}
    return Problem(
        422,
        "invalid",
        f"{first['field']}: {first['message']}",
        what=first["field"],
        remedy="see /openapi.json for what is accepted",
        fields=fields,
    )


def install_problem_handlers(app: FastAPI) -> None:
    @app.exception_handler(Exception)
    async def _failed(request: Request, _: Exception) -> Response:  # which goes on, to the log
        path = request.url.path
        text = f"{request.method} {path}: the service made a mistake"
        return problem_response(Problem(500, "internal", text, what=path, remedy="its log says more"))

    @app.exception_handler(Problem)
    async def _problem(_: Request, problem: Problem) -> Response:
        return problem_response(problem)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        kind = request.headers.get("content-type", "")
        if any(one["loc"][:1] == ("body",) for one in error.errors()) and await request.body() and not _is_json(kind):
            return problem_response(
                Problem(
                    415,
                    "not_json",
                    f"the body's content-type is {kind or 'not told'}",
                    what="content-type",
                    remedy="send content-type: application/json",
                )
            )
        return problem_response(validation_problem(error.errors()))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        if error.status_code == 400:  # FastAPI could not parse the body at all, for instance for its depth
            return problem_response(
                Problem(
                    422,
                    "malformed_json",
                    "the body is not JSON that can be read",
                    what="body",
                    remedy="send a JSON object",
                    fields=[{"field": "body", "message": str(error.detail)}],
                )
            )
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "error")
        response = problem_response(
            Problem(
                error.status_code,
                code,
                f"{request.method} {request.url.path}: {error.detail}",
                what=request.url.path,
                remedy="see /openapi.json for what there is",
            )
        )
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        if error.status_code == 405:
            response.headers["allow"] = ", ".join(_methods(app, request))
        return response


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _methods(app: FastAPI, request: Request) -> list[str]:
    """What this path is there for; the framework names the methods of the first route only."""
    return [
        method
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE")
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in app.routes)
    ]


async def known_query(request: Request) -> None:
    """A dependency: who misspells a filter must not get everything. Raises Problem. A plain function would wait for
    a thread, with each request."""
    known = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
    if unknown := sorted(set(request.query_params) - known):
        wanted = f"give {', '.join(sorted(known))}" if known else "leave it out"
        raise Problem(
            422,
            "invalid",
            f"{unknown[0]}: {request.url.path} has no such parameter",
            what=unknown[0],
            remedy=wanted,
            fields=[{"field": name, "message": "unknown parameter"} for name in unknown],
        )
