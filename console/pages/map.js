// The live map: the fabric, and over it the trees of the groups that run.

import { html, use, useEffect, useRef, useState } from "../ui.js";
import { ask, csv, percent, rate } from "../api.js";
import { COLOURS, NetworkMap } from "../canvas.js";
import { told } from "../links.js";
import { FINAL, groups, layout, topology } from "../state.js";

const GROUPS_MAX = 8; // drawn at once

const duplicates = (trees) => trees.reduce((n, t) => n + (t.dup_packets ?? 0), 0) / Math.max(1, trees.reduce((n, t) => n + (t.new_packets ?? 0), 0));

export const isUp = (n) => n.registered !== false && n.up !== false;

export function Canvas({ details }) {
  const [topo, places] = [use(topology), use(layout)];
  const canvas = useRef(null), map = useRef(null);
  const [tip, setTip] = useState(null);
  const trees = details.flatMap((g) => Object.entries(g.trees ?? {}).map(([id, t]) => ({ ...t, id, running: !FINAL.includes(g.state) })));
  useEffect(() => {
    map.current = new NetworkMap(canvas.current, setTip);
    canvas.current.networkMap = map.current; // for tests, and for the curious
    return () => map.current.close();
  }, []);
  useEffect(() => {
    if (!topo) return;
    const nodes = topo.nodes.map((n) => ({ name: n.name, kind: n.kind, up: isUp(n), x: places[n.name]?.[0] ?? 0.5, y: places[n.name]?.[1] ?? 0.5 }));
    map.current.show(nodes, told(topo.links, details.filter((g) => !FINAL.includes(g.state))));
    map.current.spread(trees.map((t, i) => ({ colour: COLOURS[i % COLOURS.length], arcs: t.arcs ?? [] })), trees.some((t) => t.running));
  }, [topo, places, details]);
  const about = () => {
    if (tip.node !== undefined) {
      const n = topo.nodes[tip.node];
      return n && html`<b>${n.kind} ${n.name}</b> ${isUp(n) ? "registered" : html`<span class="bad">not registered</span>`} ${n.addr ?? ""}`;
    }
    const l = map.current.links[tip.link];
    const over = l ? trees.filter((t) => (t.arcs ?? []).some(([u, v]) => (u === l.u && v === l.v) || (u === l.v && v === l.u))) : [];
    return l && html`<b>${l.u} port ${l.u_port} – ${l.v} port ${l.v_port}</b> ${l.up ? "up" : html`<span class="bad">down</span>`}, ${rate(l.rate_bps)}, MTU ${l.mtu}${over.length ? `, trees ${over.map((t) => t.id).join(", ")}, load ${(100 * l.load).toFixed(0)} %${l.loss === null ? "" : `, loss ${percent(l.loss)}`}, duplicates ${percent(duplicates(over))}` : ""}`;
  };
  return html`<div class="card map">
      <canvas ref=${canvas} tabindex="0" role="img" aria-label="Map of hosts, switches and cables. Arrow keys move it, plus and minus zoom, 0 shows all."></canvas>
      ${tip && topo ? html`<div class="tip" role="status">${about()}</div>` : ""}
    </div>
    <div class="legend"><span><i style="background:var(--host)"></i>host</span><span><i style="background:var(--switch)"></i>switch</span><span><i style="background:var(--down)"></i>down, or no daemon</span><span><i style="background:var(--warn)"></i>loses packets</span>
      ${trees.slice(0, 16).map((t, i) => html`<span key=${t.id}><i style=${{ background: COLOURS[i % COLOURS.length] }}></i>tree ${t.id}${t.running ? ` ${rate(t.rate_bps)}` : ""}</span>`)}</div>`;
}

// The groups that run, whole, as they stand.
export function useRunning() {
  const all = use(groups);
  const running = [...all.values()].filter((g) => !FINAL.includes(g.state)).map((g) => g.id).slice(0, GROUPS_MAX);
  const [details, setDetails] = useState([]);
  useEffect(() => {
    let timer = 0, alive = true;
    const round = async () => {
      const found = (await Promise.all(running.map((id) => ask(`groups/${encodeURIComponent(id)}`).catch(() => null)))).filter(Boolean);
      if (!alive) return;
      setDetails(found);
      if (running.length) timer = setTimeout(round, 700);
    };
    round();
    return () => { alive = false; clearTimeout(timer); };
  }, [running.join()]);
  return { running, details };
}

const ends = ["u", "u_port", "v", "v_port", "up", "rate_bps", "mtu", "load", "loss"];

export function MapPage() {
  const topo = use(topology);
  const { running, details } = useRunning();
  if (!topo) return html`<p class="center">Waiting for the topology …</p>`;
  const count = (kind) => topo.nodes.filter((n) => (n.kind === "host") === (kind === "host")).length;
  const down = topo.links.filter((l) => !l.up).length;
  return html`<h2>${topo.spec || "Fabric"}: ${count("host")} hosts, ${count("switch")} switches, ${topo.links.length} cables${down ? html`, <span class="bad">${down} down</span>` : ""}</h2>
    <${Canvas} details=${details} />
    <p>${running.length ? html`Running: ${running.map((id) => html`<a href=${`#/groups/${id}`}>${id}</a> `)}` : html`<span class="dim">No group is running. <a href="#/groups">Start one</a>.</span>`} <button onClick=${() => csv("cables.csv", ends, told(topo.links, details).map((l) => ends.map((name) => l[name])))}>CSV</button> <a href="topology">JSON</a></p>`;
}
