// Hosts, and switches with their caches.

import { html, use, usePoll, Fail, Table } from "../ui.js";
import { ask, bytes, percent, rate } from "../api.js";
import { topology } from "../state.js";
import { isUp, useRunning } from "./map.js";

const state = (n) => (isUp(n) ? "registered" : "not registered");
const up = { name: "State", of: state, show: (n) => html`<span class=${isUp(n) ? "good" : "bad"}>${state(n)}</span>` };
const sum = (value) => (typeof value === "number" ? value : Object.values(value ?? {}).reduce((n, v) => n + sum(v), 0));
const count = (value) => (Array.isArray(value) ? value.length : typeof value === "number" ? value : "");

function cablesOf(topo) {
  const cables = new Map();
  for (const l of topo?.links ?? []) for (const end of [l.u, l.v]) {
    const [all, live] = cables.get(end) ?? [0, 0];
    cables.set(end, [all + 1, live + (l.up ? 1 : 0)]);
  }
  return { name: "Cables up", of: (n) => cables.get(n.name)?.[1] ?? 0, show: (n) => `${cables.get(n.name)?.[1] ?? 0} of ${cables.get(n.name)?.[0] ?? 0}`, number: true };
}

// What hosts send and take now, by the groups that run.
function ratesOf(details) {
  const sent = new Map(), taken = new Map();
  const add = (to, name, bps) => to.set(name, (to.get(name) ?? 0) + (bps ?? 0));
  for (const g of details) {
    for (const [name, r] of Object.entries(g.receivers ?? {})) add(taken, name, r.rate_bps);
    for (const t of Object.values(g.trees ?? {})) if (t.arcs?.length) {
      const below = new Set(t.arcs.map(([, v]) => v));
      add(sent, t.arcs.find(([u]) => !below.has(u))?.[0], t.rate_bps);
    }
  }
  return { sent, taken };
}

export function HostsPage() {
  const topo = use(topology);
  const { details } = useRunning();
  const { value, error } = usePoll(() => ask("hosts"), 2000, []);
  const told = new Map((value ?? []).map((h) => [h.name, h]));
  const { sent, taken } = ratesOf(details);
  const disk = (n) => (told.get(n.name)?.disks ?? []).reduce((a, d) => (a && a.free_bytes <= d.free_bytes ? a : d), null);
  const columns = [
    { name: "Host", of: (n) => n.name }, up,
    { name: "Address", of: (n) => n.addr ?? "" },
    { name: "New groups", of: (n) => (told.get(n.name)?.cordoned != null ? `none: ${told.get(n.name).cordoned || "cordoned"}` : "yes") },
    { name: "Groups", of: (n) => told.get(n.name)?.groups.length ?? 0, show: (n) => html`${(told.get(n.name)?.groups ?? []).slice(0, 4).map((g) => html`<a href=${`#/groups/${g}`}>${g}</a> `)}${told.get(n.name)?.groups.length || "0"}`, number: true },
    { name: "Sends", of: (n) => sent.get(n.name) ?? 0, show: (n) => rate(sent.get(n.name) ?? 0), number: true },
    { name: "Takes", of: (n) => taken.get(n.name) ?? 0, show: (n) => rate(taken.get(n.name) ?? 0), number: true },
    { name: "Disk free", of: (n) => disk(n)?.free_bytes ?? -1, show: (n) => { const d = disk(n); return d ? html`<span class=${d.free_bytes < 0.05 * d.size_bytes ? "bad" : ""} title=${d.path}>${bytes(d.free_bytes)} of ${bytes(d.size_bytes)}</span>` : "-"; }, number: true },
    { name: "Clock", of: (n) => told.get(n.name)?.clock_ms ?? 0, show: (n) => { const ms = told.get(n.name)?.clock_ms; return ms == null ? "-" : html`<span class=${Math.abs(ms) > 500 ? "bad" : ""}>${ms.toFixed(0)} ms</span>`; }, number: true },
    { name: "Version", of: (n) => told.get(n.name)?.version ?? "" },
    cablesOf(topo),
    { name: "Files go to", of: (n) => (n.dest_roots ?? []).join(" ") },
  ];
  return html`<h2>Hosts</h2><${Fail} error=${error} /><${Table} name="hosts" json="hosts" columns=${columns} rows=${(topo?.nodes ?? []).filter((n) => n.kind === "host")} />`;
}

const drops = (n) => n.counted?.drop ?? {};
const cached = [
  { name: "Trees", of: (n) => n.counted?.trees ?? "", number: true },
  { name: "In cache", of: (n) => n.counted?.bytes ?? -1, show: (n) => (n.counted ? bytes(n.counted.bytes) : ""), number: true },
  { name: "Interests", of: (n) => n.counted?.interests ?? "", number: true },
  { name: "Hits", of: (n) => n.counted?.hits ?? "", show: (n) => (n.counted?.interests ? `${n.counted.hits} (${percent(n.counted.hits / n.counted.interests)})` : ""), number: true },
];

export function SwitchesPage() {
  const topo = use(topology);
  const { value, error } = usePoll(() => ask("switches"), 2000, []);
  const { value: fresh } = usePoll(() => ask("topology"), 3000, []);
  const told = new Map((Array.isArray(value) ? value : (value?.switches ?? [])).map((s) => [s.name, s]));
  const columns = [
    { name: "Switch", of: (n) => n.name }, up,
    { name: "Programmed by", of: (n) => (told.has(n.name) ? "the controller" : "itself") },
    { name: "Rules", of: (n) => count(told.get(n.name)?.rules), number: true },
    { name: "Drops", of: (n) => (n.counted ? sum(drops(n)) : ""), show: (n) => (n.counted ? Object.entries(drops(n)).map(([why, count]) => `${count} ${why}`).join(", ") || "0" : ""), number: true },
    { name: "Cache", of: (n) => (n.cache === false ? "none" : "yes") },
    ...cached,
    { name: "Labels at most", of: (n) => n.msd ?? "any" },
    cablesOf(topo),
  ];
  return html`<h2>Switches and caches</h2><${Fail} error=${error} /><${Table} name="switches" json="switches" columns=${columns} rows=${((fresh ?? topo)?.nodes ?? []).filter((n) => n.kind !== "host")} empty="a fabric without switches" />`;
}
