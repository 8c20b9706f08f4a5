"""Small topologies and their trees as SVG, in the manner of the paper's Figures 4 to 7."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from datacast.core.errors import DatacastError

NODES_MAX = 400
COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#17becf")
STEP, MARGIN, SIZE = 90, 60, 15


class DrawingError(DatacastError):
    """Too large to draw, or a file that cannot be written; exit code 2."""

    status = 422


def save(path: Path, text: str) -> None:
    """Raises DrawingError."""
    try:
        path.write_text(text)
    except OSError as error:
        raise DrawingError(f"cannot write {path}: {error.strerror}", what=str(path)) from error


def draw(g: Any, trees: list[Any], source: str, receivers: list[str]) -> str:
    """The SVG's text. Links grey (dashed: down), each tree's arcs in its colour, the source green, receivers blue.

    Raises
    ------
    DrawingError
        More than NODES_MAX nodes.
    """
    if g.number_of_nodes() > NODES_MAX:
        raise DrawingError(f"{g.number_of_nodes()} nodes are too many to draw: {NODES_MAX} at most", what="svg")
    at = _places(g)
    width = max(x for x, _ in at.values()) + MARGIN
    height = max(y for _, y in at.values()) + MARGIN + 20 * len(trees)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" '
        'font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for i, _tree in enumerate(trees):
        colour = COLOURS[i % len(COLOURS)]
        out.append(
            f'<marker id="m{i}" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
            f'<path d="M0 0 6 3 0 6z" fill="{colour}"/></marker>'
        )
    for u, v, data in g.edges(data=True):
        dash = "" if data.get("up", True) else ' stroke-dasharray="3 4"'
        out.append(_line(at[u], at[v], 0, f'stroke="#ccc"{dash}'))
    for i, tree in enumerate(trees):
        style = f'stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="{_width(tree, trees)}" marker-end="url(#m{i})"'
        # Side by side: the trees on one cable must not hide each other.
        out += [_line(at[u], at[v], 3 + 2 * i, style) for u, v in tree.arcs]
    members = set(receivers)
    for name, data in g.nodes(data=True):
        x, y = at[name]
        fill = "#8fd18f" if name == source else "#9ec9f0" if name in members else "#f4f4f4"
        if data["kind"] == "host":
            out.append(f'<circle cx="{x}" cy="{y}" r="{SIZE}" fill="{fill}" stroke="#444"/>')
        else:
            out.append(
                f'<rect x="{x - SIZE}" y="{y - 11}" width="{2 * SIZE}" height="22" fill="{fill}" stroke="#444"/>'
            )
        out.append(
            f'<text x="{x}" y="{y + 4}" text-anchor="middle" font-size="{11 if len(name) < 6 else 8}">'
            f"{escape(name)}</text>"
        )
    for i, tree in enumerate(trees):
        y = height - 20 * (len(trees) - i) + 6
        out.append(
            f'<text x="20" y="{y:.0f}" fill="{COLOURS[i % len(COLOURS)]}">tree {tree.id}: {len(tree.arcs)} arcs, '
            f"depth {tree.depth}{_rate(tree)}</text>"
        )
    return "\n".join([*out, "</svg>", ""])


def _width(tree: Any, trees: list[Any]) -> str:
    """As wide as its rate, where trees have rates; the fastest is 5 wide."""
    rate = getattr(tree, "rate_bps", None)
    return "1.6" if rate is None else f"{0.6 + 4.4 * rate / max(other.rate_bps for other in trees):.1f}"


def _rate(tree: Any) -> str:
    rate = getattr(tree, "rate_bps", None)
    return "" if rate is None else f", {rate / 1e6:.1f} Mb/s"


def bars(rows: list[tuple[str, float, float]]) -> str:
    """Each receiver's rate (filled) beside its own bound (outline). `rows`: name, rate, bound, in bit/s."""
    rows = rows[:NODES_MAX]
    most = max((max(rate, bound) for _, rate, bound in rows), default=1.0) or 1.0
    high = 18 * len(rows) + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="620" height="{high}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="90" y="16">rate (filled) and bound (outline), Mb/s</text>',
    ]
    for i, (name, rate, bound) in enumerate(rows):
        y = 26 + 18 * i
        out += [
            f'<text x="82" y="{y + 10}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="90" y="{y}" width="{400 * rate / most:.1f}" height="12" fill="#4a7fb5"/>',
            f'<rect x="90" y="{y}" width="{400 * bound / most:.1f}" height="12" fill="none" stroke="#222"/>',
            f'<text x="{96 + 400 * max(rate, bound) / most:.0f}" y="{y + 10}">'
            f"{rate / 1e6:.1f} of {bound / 1e6:.1f}</text>",
        ]
    return "\n".join([*out, "</svg>", ""])


def _places(g: Any) -> dict[str, tuple[float, float]]:
    """Torus and other switchless topologies on a grid, others in layers: hosts below, switches by their level above."""
    hosts = [name for name, data in g.nodes(data=True) if data["kind"] == "host"]
    switches = [name for name, data in g.nodes(data=True) if data["kind"] == "switch"]
    if not switches:
        columns = round(len(hosts) ** 0.5) or 1
        return {name: (MARGIN + i % columns * STEP, MARGIN + i // columns * STEP) for i, name in enumerate(hosts)}
    rows: dict[str, list[str]] = {}
    for name in switches:
        rows.setdefault(name.partition(".")[0] if "." in name else "s", []).append(name)
    layers = [hosts, *(rows[level] for level in sorted(rows))]
    wide = max(len(layer) for layer in layers) * STEP * 0.6
    return {
        name: (MARGIN + (i + 0.5) * wide / len(layer), MARGIN + (len(layers) - 1 - level) * 1.8 * STEP)
        for level, layer in enumerate(layers)
        for i, name in enumerate(layer)
    }


def _line(a: tuple[float, float], b: tuple[float, float], shift: float, style: str) -> str:
    """A line between two nodes' rims, moved to its own side by `shift`."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = max((dx * dx + dy * dy) ** 0.5, 1)
    sx, sy = -dy / length * shift, dx / length * shift
    cut = (SIZE + 1) / length
    return (
        f'<line x1="{a[0] + dx * cut + sx:.1f}" y1="{a[1] + dy * cut + sy:.1f}" x2="{b[0] - dx * cut + sx:.1f}" '
        f'y2="{b[1] - dy * cut + sy:.1f}" {style}/>'
    )
