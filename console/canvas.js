// The map on a canvas. Links of one colour are one path, so that thousands of them are drawn in a few strokes.

export const COLOURS = ["#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#0987a0", "#975a16", "#718096"];
const NEAR = 12;
const MANY = 1500; // cables, from which on they are thin, and told apart by colour alone: a processor has to paint them
const LOSS = 0.001; // of a cable's packets, from which on it is shown

export class NetworkMap {
  constructor(canvas, onPoint) {
    this.canvas = canvas;
    this.onPoint = onPoint;
    this.nodes = [];
    this.links = [];
    this.trees = [];
    this.view = { x: 0, y: 0, scale: 1 };
    this.fitted = false;
    this.phase = 0;
    this.drawMs = 0;
    this.css = (name) => getComputedStyle(canvas).getPropertyValue(name).trim();
    this.still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.observer = new ResizeObserver(() => { this.fit(); this.soon(); });
    this.observer.observe(canvas);
    this.listen();
  }

  // nodes: {name, kind, x, y (0..1), up}; links: {u, v, up, load, loss}
  show(nodes, links) {
    this.nodes = nodes;
    this.at = new Map(nodes.map((n, i) => [n.name, i]));
    this.links = links.map((l) => ({ ...l, a: this.at.get(l.u), b: this.at.get(l.v) })).filter((l) => l.a !== undefined && l.b !== undefined);
    if (!this.fitted) this.fit();
    this.soon();
  }

  // trees: [{name, colour, arcs: [[from, to], …]}]
  spread(trees, moving) {
    this.trees = trees.map((t) => ({ ...t, arcs: t.arcs.map(([u, v]) => [this.at?.get(u), this.at?.get(v)]).filter(([a, b]) => a !== undefined && b !== undefined) }));
    this.moving = moving && !this.still;
    this.soon();
  }

  fit() {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    if (!w) return;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = w * ratio;
    this.canvas.height = h * ratio;
    this.view = { x: 30, y: 30, scale: 1, w: Math.max(w - 60, 40), h: Math.max(h - 60, 40) };
    this.fitted = true;
  }

  place(n) { const v = this.view; return [v.x + n.x * v.w * v.scale, v.y + n.y * v.h * v.scale]; }

  soon() {
    if (this.asked) return;
    this.asked = requestAnimationFrame((now) => {
      this.asked = 0;
      this.draw(now);
      if (this.moving && this.trees.length && this.canvas.isConnected) this.soon();
    });
  }

  draw(now = 0) {
    const started = performance.now();
    const c = this.canvas.getContext("2d"), ratio = devicePixelRatio || 1;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    const places = this.nodes.map((n) => this.place(n));
    this.places = places;
    const classes = new Map();
    for (const l of this.links) {
      const key = !l.up ? "down" : l.loss > LOSS ? "lossy" : l.load > 0.9 ? "full" : l.load > 0.5 ? "half" : "up";
      if (!classes.has(key)) classes.set(key, []);
      classes.get(key).push(l);
    }
    const style = { up: [this.css("--link"), 1], half: [this.css("--half"), 2.5], full: [this.css("--switch"), 3], lossy: [this.css("--warn"), 3.5], down: [this.css("--down"), 2.5] };
    const many = this.links.length > MANY;
    for (const [key, links] of classes) {
      [c.strokeStyle, c.lineWidth] = style[key];
      if (many) c.lineWidth = 1;
      c.setLineDash(key === "down" && !many ? [4, 4] : []);
      c.beginPath();
      for (const { a, b } of links) { c.moveTo(...places[a]); c.lineTo(...places[b]); }
      c.stroke();
    }
    // Each tree beside the others, so that a cable that two of them use shows both.
    this.trees.forEach((tree, i) => {
      const off = (i - (this.trees.length - 1) / 2) * 4;
      c.strokeStyle = tree.colour;
      c.lineWidth = 2.5;
      c.setLineDash([]);
      c.beginPath();
      const segments = tree.arcs.map(([a, b]) => this.beside(places[a], places[b], off));
      for (const [p, q] of segments) { c.moveTo(...p); c.lineTo(...q); }
      c.stroke();
      if (!this.moving) return;
      c.fillStyle = tree.colour;
      c.beginPath();
      for (const [[x0, y0], [x1, y1]] of segments) {
        const t = (now / 900 + i * 0.37) % 1, x = x0 + (x1 - x0) * t, y = y0 + (y1 - y0) * t;
        c.moveTo(x + 4, y);
        c.arc(x, y, 4, 0, 7);
      }
      c.fill();
    });
    const big = this.nodes.length > 400 ? 2.5 : 6;
    for (const kind of ["host", "switch", "away"]) {
      c.fillStyle = { host: this.css("--host"), switch: this.css("--switch"), away: this.css("--down") }[kind];
      c.beginPath();
      this.nodes.forEach((n, i) => {
        if ((n.up ? n.kind : "away") !== kind) return;
        const [x, y] = places[i];
        if (n.kind === "host") { c.moveTo(x + big, y); c.arc(x, y, big, 0, 7); } else c.rect(x - big, y - big, 2 * big, 2 * big);
      });
      c.fill();
    }
    if (this.nodes.length <= 150) {
      c.fillStyle = this.css("--ink");
      c.font = "12px system-ui";
      c.textAlign = "center";
      this.nodes.forEach((n, i) => c.fillText(n.name, places[i][0], places[i][1] - big - 4));
    }
    if (this.pinned) this.ring(c, this.pinned);
    this.drawMs = performance.now() - started;
  }

  ring(c, what) {
    c.strokeStyle = this.css("--accent");
    c.lineWidth = 3;
    c.setLineDash([]);
    c.beginPath();
    if (what.node !== undefined) c.arc(...this.places[what.node], 11, 0, 7);
    else { const l = this.links[what.link]; c.moveTo(...this.places[l.a]); c.lineTo(...this.places[l.b]); }
    c.stroke();
  }

  beside([x0, y0], [x1, y1], off) {
    const length = Math.hypot(x1 - x0, y1 - y0) || 1;
    const [dx, dy] = [(-(y1 - y0) / length) * off, ((x1 - x0) / length) * off];
    return [[x0 + dx, y0 + dy], [x1 + dx, y1 + dy]];
  }

  // What is under a point: a node, else a link, else nothing.
  find(x, y) {
    let best = null, least = NEAR;
    this.places?.forEach(([px, py], node) => { const d = Math.hypot(px - x, py - y); if (d < least) { least = d; best = { node }; } });
    if (best) return best;
    least = 6;
    this.links.forEach(({ a, b }, link) => {
      const [x0, y0] = this.places[a], [x1, y1] = this.places[b];
      const t = Math.max(0, Math.min(1, ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / ((x1 - x0) ** 2 + (y1 - y0) ** 2 || 1)));
      const d = Math.hypot(x0 + t * (x1 - x0) - x, y0 + t * (y1 - y0) - y);
      if (d < least) { least = d; best = { link }; }
    });
    return best;
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const v = this.view, scale = Math.max(0.5, Math.min(40, v.scale * factor)), f = scale / v.scale;
    this.view = { ...v, scale, x: x - (x - v.x) * f, y: y - (y - v.y) * f };
    this.soon();
  }

  move(dx, dy) { this.view = { ...this.view, x: this.view.x + dx, y: this.view.y + dy }; this.soon(); }

  listen() {
    const c = this.canvas;
    let from = null, moved = 0;
    c.addEventListener("wheel", (e) => { e.preventDefault(); this.zoom(e.deltaY < 0 ? 1.2 : 1 / 1.2, e.offsetX, e.offsetY); }, { passive: false });
    c.addEventListener("pointerdown", (e) => { from = [e.offsetX, e.offsetY]; moved = 0; c.setPointerCapture(e.pointerId); });
    c.addEventListener("pointermove", (e) => {
      if (!from) { if (!this.pinned) this.onPoint(this.find(e.offsetX, e.offsetY)); return; }
      moved += Math.abs(e.offsetX - from[0]) + Math.abs(e.offsetY - from[1]);
      this.move(e.offsetX - from[0], e.offsetY - from[1]);
      from = [e.offsetX, e.offsetY];
    });
    c.addEventListener("pointerup", (e) => {
      if (from && moved < 5) { this.pinned = this.find(e.offsetX, e.offsetY); this.onPoint(this.pinned); this.soon(); }
      from = null;
    });
    c.addEventListener("keydown", (e) => {
      const step = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[e.key];
      if (step) this.move(...step);
      else if (e.key === "+") this.zoom(1.2);
      else if (e.key === "-") this.zoom(1 / 1.2);
      else if (e.key === "0") { this.fit(); this.soon(); } else return;
      e.preventDefault();
    });
  }

  close() { this.observer.disconnect(); cancelAnimationFrame(this.asked); }
}
