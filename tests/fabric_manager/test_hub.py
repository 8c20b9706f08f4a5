"""Streams that are not read."""

from __future__ import annotations

from datacast.fabric_manager.hub import QUEUE_MAX, Hub


def test_a_stream_that_is_not_read_is_cut_off_and_the_others_go_on() -> None:
    hub = Hub()
    slow, quick = hub.subscribe(lambda event: True), hub.subscribe(lambda event: True)
    for number in range(QUEUE_MAX + 10):
        hub.publish({"type": "link", "n": number})
        assert quick.queue.get_nowait() == {"type": "link", "n": number}
    assert slow.closed and not quick.closed
    heard = [slow.queue.get_nowait() for _ in range(slow.queue.qsize())]
    assert len(heard) == QUEUE_MAX and heard[-1] is None, "what was queued, then the end"
