"""Prometheus metrics: made anew from the fabric manager's answers at every scrape, plus this process's own requests."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = ("starting", "running", "cancelling", "done", "partial", "failed", "cancelled")


class RequestMetrics:
    """Of the REST API itself; lives as long as the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "datacast_http_requests",
            "REST requests by route, method and status",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "datacast_http_request_seconds",
            "Time to answer",
            ["route"],
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
        )


def fabric_metrics(
    health: dict[str, Any] | None, groups: list[dict[str, Any]], details: list[dict[str, Any]]
) -> CollectorRegistry:
    """health: None when the fabric manager does not answer; groups: summaries; details: the running groups whole."""
    registry = CollectorRegistry()

    def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, text, labels, registry=registry)

    gauge("datacast_fabric_manager_up", "1 when the fabric manager answers").set(health is not None)
    if health is None:
        return registry
    for key, text in (
        ("hosts", "Hosts in the topology"),
        ("agents", "Hosts whose agent is registered"),
        ("switches", "Switches in the topology"),
        ("links_down", "Links that carry nothing now"),
    ):
        gauge(f"datacast_{key}", text).set(health[key])
    by_state = gauge("datacast_groups", "Groups that are remembered, by state", ("state",))
    for state in STATES:
        by_state.labels(state).set(sum(g["state"] == state for g in groups))
    fraction = gauge(
        "datacast_group_fraction", "Part of the file that a running group's receivers hold, 0 to 1", ("group",)
    )
    receiver = gauge(
        "datacast_receiver_fraction", "Part of the file that a receiver holds, 0 to 1", ("group", "receiver")
    )
    rate = gauge("datacast_tree_rate_bps", "New data a tree sends", ("group", "tree"))
    packets = gauge("datacast_tree_packets", "Data packets the source sent on a tree", ("group", "tree", "kind"))
    for group in details:
        fraction.labels(group["id"]).set(group["fraction"])
        for name, figures in group["receivers"].items():
            receiver.labels(group["id"], name).set(figures.get("fraction", 0.0))
        for tree, figures in group["trees"].items():
            rate.labels(group["id"], tree).set(figures.get("rate_bps", 0))
            packets.labels(group["id"], tree, "new").set(figures.get("new_packets", 0))
            packets.labels(group["id"], tree, "duplicate").set(figures.get("dup_packets", 0))
    return registry


def render(*registries: CollectorRegistry) -> bytes:
    return b"".join(generate_latest(registry) for registry in registries)
