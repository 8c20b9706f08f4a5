"""Figures over all groups, for monitoring. What is counted begins at nothing with each start of this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .api import records as told
from .machine import final
from .record import Record


class Totals:
    def __init__(self) -> None:
        self._ended: Counter[str] = Counter()
        self._delivered = self._retransmissions = 0
        self._packets: Counter[str] = Counter()

    def ended(self, record: Record, counted: frozenset[str]) -> frozenset[str]:
        """`counted`: receivers that had the file when this group ended before and was resumed; their figures are in.
        Returns them with the new ones."""
        self._ended[record.state] += 1
        new = {name: figures for name, figures in record.progress.receivers.items() if name not in counted}
        done = {name: figures.bytes for name, figures in new.items() if figures.state == "done"}
        self._delivered += sum(done.values())  # parts of the file where it was scattered
        self._retransmissions += sum(figures.retransmissions for figures in new.values())
        report = record.progress.report
        self._packets["new"] += report.new_packets if report else 0
        self._packets["duplicate"] += report.dup_packets if report else 0
        return counted | done.keys()

    def told(self, records: Iterable[Record]) -> told.Totals:
        """With what `records` say now."""
        groups: Counter[str] = Counter()
        receivers: Counter[str] = Counter()
        received_bps = sent_bps = unwritten = 0
        for record in records:
            groups[record.state] += 1
            if final(record):
                continue
            for figures in record.progress.receivers.values():
                receivers[figures.state] += 1
                received_bps += figures.rate_bps
                unwritten += figures.unwritten
            sent_bps += sum(tree.rate_bps for tree in record.progress.trees.values())
        return told.Totals(
            groups=dict(groups),
            receivers=dict(receivers),
            received_bps=received_bps,
            sent_bps=sent_bps,
            unwritten=unwritten,
            ended=dict(self._ended),
            delivered_bytes=self._delivered,
            retransmissions=self._retransmissions,
            packets=dict(self._packets),
        )
