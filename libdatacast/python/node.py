"""A node of the core in Python, for tests and experiments: frames in as bytes, (port, bytes) out."""

from __future__ import annotations

from typing import Any

from ._core import ffi, lib
from .errors import DatacastError

HOST: int = lib.DC_PORT_HOST


class Node:
    """`dc_node` (libdatacast/include/datacast/node.h). Options are the fields of `struct dc_node_cfg`; times in ns.

    Raises DatacastError when an option is unknown or has a value that cannot be.
    """

    def __init__(self, **options: int) -> None:
        cfg = ffi.new("struct dc_node_cfg *")
        lib.dc_node_cfg_default(cfg)
        fields = {name for name, _field in ffi.typeof("struct dc_node_cfg").fields}
        for name, value in options.items():
            if name not in fields:
                raise DatacastError(f"a node has no option {name}; it has {', '.join(sorted(fields))}", what=name)
            setattr(cfg, name, value)
        what = ffi.new("const char **")
        if lib.dc_node_cfg_check(cfg, what) != 0:
            bad = ffi.string(what[0]).decode()
            raise DatacastError(f"a node's {bad} cannot be {getattr(cfg, bad)}", what=bad)
        self.ports = cfg.ports
        memory = lib.pymem_new(lib.dc_node_size(cfg) + 64)
        if memory == ffi.NULL:
            raise MemoryError
        aligned = ffi.cast("char *", memory) + -int(ffi.cast("uintptr_t", memory)) % 64
        node = lib.dc_node_init(aligned, cfg, lib.pybuf_ops())

        def release(node: Any) -> None:
            lib.dc_node_clear(node)
            lib.pymem_free(memory)

        self._node = ffi.gc(node, release)
        self._out = ffi.new("struct dc_tx[]", lib.DC_NODE_TX_MAX)

    def set_port(self, port: int, own: bytes, neighbour: bytes) -> None:
        lib.dc_node_set_port(self._node, port, own, neighbour)

    def handle(self, now: int, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """A frame arrives by `port` (HOST: from an endpoint of this host, from the Datacast header on) at `now` ns.
        Returns what leaves: (port, frame), for HOST from the Datacast header on."""
        buf = lib.pybuf_new(frame, len(frame))
        arrived = ffi.new("struct dc_frame *")
        arrived.buf, arrived.data, arrived.len, arrived.port = buf, lib.pybuf_data(buf), len(frame), port
        sent = []
        for i in range(lib.dc_node_handle(self._node, now, arrived, self._out, lib.DC_NODE_TX_MAX)):
            tx = self._out[i]
            body = b""
            if tx.buf != ffi.NULL:
                body = bytes(ffi.buffer(lib.pybuf_data(tx.buf) + tx.off, tx.len))
                lib.pybuf_unref(tx.buf)
            sent.append((int(tx.port), bytes(ffi.buffer(tx.prefix, tx.prefix_len)) + body))
        return sent

    def clear(self) -> None:
        """As a restart: every packet is given back, every tree forgotten."""
        lib.dc_node_clear(self._node)

    def counters(self) -> dict[str, Any]:
        """The node's counters; `drop` by reason, those that are not 0."""
        c = ffi.new("struct dc_node_counters *")
        lib.dc_node_counters(self._node, c)
        found = _as_dict(c[0], skip=("drop",))
        found["drop"] = {
            ffi.string(lib.dc_drop_name(i)).decode(): int(c.drop[i]) for i in range(lib.DC_DROP_MAX) if c.drop[i] != 0
        }
        return found

    def port_counters(self, port: int) -> dict[str, int]:
        c = ffi.new("struct dc_port_counters *")
        lib.dc_node_port_counters(self._node, port, c)
        return _as_dict(c[0])

    def tree_counters(self) -> dict[int, dict[str, int]]:
        """By tree id."""
        count = self.counters()["trees"]
        rows = ffi.new("struct dc_tree_counters[]", max(count, 1))
        n = lib.dc_node_tree_counters(self._node, rows, count)
        return {int(rows[i].tree): _as_dict(rows[i]) for i in range(n)}


def _as_dict(struct: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    return {name: int(getattr(struct, name)) for name, _field in ffi.typeof(struct).fields if name not in skip}
