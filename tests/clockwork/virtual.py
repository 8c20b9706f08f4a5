"""An event loop whose clock jumps to the next timer, and processes that live in it.

What runs is the services' own code; what it asks of the machine (time, randomness, sockets, threads) is answered here,
from one seed. So a run of a minute takes a tenth of a second, and the same seed gives the same run.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import os
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

EPOCH_NS = 1_700_000_000_000_000_000
STEPS_AT_ONCE_MAX = 200_000
"""Callbacks without time passing: more is a loop that never waits."""

_serial = itertools.count()


class Standstill(AssertionError):
    """Nothing can ever happen any more, or so much happens that time does not pass."""


@dataclass(eq=False)
class Process:
    """What a process of the operating system would be: it can be killed, and stopped (SIGSTOP) for a while."""

    name: str
    machine: str
    skew_ns: int = 0
    """Of its machine's clock."""
    alive: bool = True
    paused: bool = False
    parked: list[asyncio.Handle] = field(default_factory=list)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    on_death: list[Callable[[], None]] = field(default_factory=list)
    serves: Any = None
    """The fabric manager that it is."""


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def here() -> Process:
    """The process whose code runs."""
    process = PROCESS.get()
    assert process is not None, "this runs in no process"
    return process


class _Task(asyncio.Task):  # type: ignore[type-arg]
    """In order of birth in every set, whatever its address is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(_serial)
        super().__init__(*args, **kwargs)
        context = kwargs.get("context")
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            process.tasks.add(self)
            self.add_done_callback(process.tasks.discard, context=contextvars.Context())

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.steps = 0
        self.set_task_factory(lambda loop, work, **more: _Task(work, loop=loop, **more))
        self.network: Any = None

    # ---- time ----
    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        ready, timers = self._ready, self._scheduled  # type: ignore[attr-defined]
        if not ready:
            while timers and timers[0]._cancelled:
                heapq.heappop(timers)._scheduled = False
            if not timers:
                raise Standstill(f"after {self.now:.3f} s nothing waits for anything")
            if timers[0]._when > self.now:
                self.now, self.steps = timers[0]._when, 0
        while timers and timers[0]._when <= self.now:
            handle = heapq.heappop(timers)
            handle._scheduled = False
            if not handle._cancelled:
                ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(PROCESS)
            if process is not None and process.paused:
                process.parked.append(handle)
                continue
            handle._run()
            self.steps += 1
        if self.steps > STEPS_AT_ONCE_MAX:
            raise Standstill(f"at {self.now:.3f} s more than {STEPS_AT_ONCE_MAX} steps without time passing")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # ---- processes ----
    def launch(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` in a process."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, process)
        return self.create_task(work, context=context)

    def pause(self, process: Process) -> None:
        process.paused = True

    def resume(self, process: Process) -> None:
        process.paused = False
        self._ready.extend(process.parked)  # type: ignore[attr-defined]
        process.parked.clear()

    async def kill(self, process: Process) -> None:
        """As SIGKILL: what its code does from now on reaches nobody."""
        process.alive = False
        for told in process.on_death:
            told()
        self.resume(process)
        me = asyncio.current_task()
        for _ in range(50):
            tasks = [task for task in process.tasks if task is not me]
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
        raise Standstill(f"tasks of {process.name} do not end when they are cancelled: {list(process.tasks)[:3]}")

    # ---- what asyncio asks of a loop ----
    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """At once: a thread would run when it liked."""
        future = self.create_future()

        def run() -> None:
            if future.done():
                return
            try:
                future.set_result(func(*args))
            except BaseException as error:
                future.set_exception(error)

        self.call_soon(run)
        return future

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return await self.network.connect(protocol_factory, f"{host}:{port}")

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return self.network.serve(protocol_factory, f"{host}:{port}")

    async def sock_accept(self, sock: Any) -> Any:  # type: ignore[override]
        return await sock.accept()

    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **_: Any) -> Any:  # type: ignore[override]
        protocol = protocol_factory()
        return sock.adopt(protocol), protocol


@contextlib.contextmanager
def world(seed: int) -> Iterator[tuple[VirtualLoop, random.Random]]:
    """Time and randomness come from a loop and a seed while this lasts."""
    loop, rng, bytes_rng = VirtualLoop(), random.Random(seed), random.Random(seed ^ 0x5EED)

    def time_ns() -> int:
        process = PROCESS.get()
        return EPOCH_NS + int(loop.now * 1e9) + (process.skew_ns if process else 0)

    replaced = {
        (time, "monotonic"): lambda: loop.now,
        (time, "monotonic_ns"): lambda: int(loop.now * 1e9),
        (time, "perf_counter"): lambda: loop.now,
        (time, "thread_time"): lambda: 0.0,  # processors take no time here
        (time, "time_ns"): time_ns,
        (time, "time"): lambda: time_ns() / 1e9,
        (os, "urandom"): lambda n: bytes_rng.randbytes(n),
        (secrets, "token_hex"): lambda n=16: bytes_rng.randbytes(n).hex(),
    }
    before = {(owner, name): getattr(owner, name) for owner, name in replaced}
    state = random.getstate()
    random.seed(seed)
    for (owner, name), fake in replaced.items():
        setattr(owner, name, fake)
    asyncio.set_event_loop(loop)
    try:
        yield loop, rng
    finally:
        for (owner, name), real in before.items():
            setattr(owner, name, real)
        random.setstate(state)
        asyncio.set_event_loop(None)
        loop._ready.clear()  # type: ignore[attr-defined]
        loop._scheduled.clear()  # type: ignore[attr-defined]
        loop.close()
