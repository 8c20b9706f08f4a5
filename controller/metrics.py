"""Prometheus metrics: made anew from the fabric manager's answers at every scrape, plus this process's own requests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from datacast.fabric_manager.api import GroupState
from datacast.fabric_manager.api.records import FabricHealth, Host, Totals
from datacast.fabric_manager.api.reports import ReceiverState
from datacast.services.version import installed

from .audit import Audit

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES: tuple[str, ...] = get_args(GroupState)
RECEIVER_STATES: tuple[str, ...] = get_args(ReceiverState)
HOSTS_MAX = 1024
"""Of more hosts nothing is told host by host. No label has a value per group or receiver: their number has no bound."""
disable_created_metrics()  # type: ignore[no-untyped-call]


class RequestMetrics:
    """Of the REST API itself; lives as long as the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        Info("datacast_build", "The controller's version.", registry=self.registry).info({"version": installed()})
        self.requests = Counter(
            "datacast_http_requests",
            "REST requests by route, method and status.",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "datacast_http_request_duration_seconds",
            "Time to answer a REST request.",
            ["route"],
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
        )


class AuditMetrics(Collector):
    def __init__(self, audit: Audit) -> None:
        self.audit = audit

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "datacast_audit_lines_lost", "Changes that the audit log could not take.", value=self.audit.lost
        )


class Measured:
    """ASGI middleware: when a request came, and how it was answered. Not Starlette's own kind of middleware, which
    starts a task for each request and passes all that is sent through a queue."""

    def __init__(self, app: ASGIApp, own: RequestMetrics) -> None:
        self.app, self.own = app, own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        scope.setdefault("state", {})["accepted_ns"] = time.time_ns()
        started = time.perf_counter()

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "unknown")
                method = scope["method"] if route != "unknown" else "any"
                self.own.requests.labels(route, method, message["status"]).inc()
                self.own.seconds.labels(route).observe(time.perf_counter() - started)
            await send(message)

        await self.app(scope, receive, told)


@dataclass(frozen=True)
class Fabric:
    """As the fabric manager has it."""

    health: FabricHealth
    totals: Totals
    hosts: list[Host]


class FabricMetrics(Collector):
    """Of one scrape. None: the fabric manager does not answer. `until`: when the controller's own certificates end."""

    def __init__(self, fabric: Fabric | None, *until: float | None) -> None:
        self._fabric = fabric
        self._until = until

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "datacast_fabric_manager_up", "1 when the fabric manager answers.", float(self._fabric is not None)
        )
        theirs = self._fabric.health.certificate_until if self._fabric else None
        ends = [end for end in (*self._until, theirs) if end is not None]
        if ends:
            text = "When the first certificate ends, of controller, fabric manager, switches and hosts."
            yield GaugeMetricFamily("datacast_certificate_end_timestamp_seconds", text, min(ends))
        if self._fabric is None:
            return
        health, totals, hosts = self._fabric.health, self._fabric.totals, self._fabric.hosts
        for name, value, text in (
            ("hosts", health.hosts, "Hosts in the topology."),
            ("agents", health.agents, "Hosts whose agent is registered."),
            ("switches", health.switches, "Switches in the topology."),
            ("switches_registered", health.switches_registered, "Switches that are registered."),
            ("links_down", health.links_down, "Links that carry nothing now."),
        ):
            yield GaugeMetricFamily(f"datacast_{name}", text, value)
        yield from self._now(totals)
        yield from self._counted(totals, health.reports)
        if len(hosts) <= HOSTS_MAX:
            yield from self._by_host(hosts)

    @staticmethod
    def _now(totals: Totals) -> Iterator[Metric]:
        groups = {state: totals.groups.get(state, 0) for state in STATES}
        yield _by("datacast_groups", "Groups that are remembered, by state.", "state", groups)
        receivers = {state: totals.receivers.get(state, 0) for state in RECEIVER_STATES}
        yield _by("datacast_receivers", "Receivers of groups that run, by state.", "state", receivers)
        for name, value, text in (
            ("delivery_bytes_per_second", totals.received_bps / 8, "What receivers take, all together."),
            ("source_bytes_per_second", totals.sent_bps / 8, "New data that all trees send."),
            ("unwritten_bytes", totals.unwritten, "Data that has arrived and waits for receivers' disks."),
        ):
            yield GaugeMetricFamily(f"datacast_{name}", text, value)

    @staticmethod
    def _counted(totals: Totals, reports: dict[str, int]) -> Iterator[Metric]:
        def total(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
            family = CounterMetricFamily(name, text, labels=[label])
            for value, count in values.items():
                family.add_metric([value], count)
            return family

        ended = {state: totals.ended.get(state, 0) for state in ("done", "partial", "failed", "cancelled")}
        yield total("datacast_groups_ended", "Groups that ended, by state.", "state", ended)
        packets = {kind: totals.packets.get(kind, 0) for kind in ("new", "duplicate")}
        yield total("datacast_source_packets", "Data packets that sources of ended groups sent.", "kind", packets)
        yield total("datacast_registry_messages", "Messages of agents and switches.", "kind", reports)
        yield CounterMetricFamily(
            "datacast_delivered_bytes", "What receivers of ended groups have got whole.",
            totals.delivered_bytes,
        )  # fmt: skip
        yield CounterMetricFamily(
            "datacast_retransmissions", "Packets that receivers of ended groups asked for again.",
            totals.retransmissions,
        )  # fmt: skip

    @staticmethod
    def _by_host(hosts: list[Host]) -> Iterator[Metric]:
        free = {h.name: min(d.free_bytes for d in h.disks) for h in hosts if h.disks}
        yield _by(
            "datacast_host_disk_free_bytes", "Room for received files, the least of a host's folders.", "host", free
        )
        off = {h.name: h.clock_ms / 1e3 for h in hosts if h.clock_ms is not None}
        yield _by("datacast_host_clock_offset_seconds", "How far a host's clock is behind.", "host", off)
        ends = {h.name: h.certificate_until for h in hosts if h.registered and h.certificate_until is not None}
        text = "When the certificate ends that a host has registered with."
        yield _by("datacast_host_certificate_end_timestamp_seconds", text, "host", ends)


def _by(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, figure in values.items():
        family.add_metric([value], figure)
    return family


def render(own: RequestMetrics, fabric: FabricMetrics) -> bytes:
    registry = CollectorRegistry()
    registry.register(fabric)
    return generate_latest(own.registry) + generate_latest(registry)
