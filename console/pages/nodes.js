// Hosts, and switches with their caches.

import { html, use, usePoll, Fail, Table } from "../ui.js";
import { ask } from "../api.js";
import { groups, topology, FINAL } from "../state.js";
import { isUp } from "./map.js";
import { receiversOf } from "./groups.js";

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

export function HostsPage() {
  const [topo, all] = [use(topology), use(groups)];
  const busy = new Map();
  for (const g of all.values()) if (!FINAL.includes(g.state)) for (const name of [g.spec?.source ?? g.source, ...receiversOf(g)]) busy.set(name, (busy.get(name) ?? 0) + 1);
  const columns = [
    { name: "Host", of: (n) => n.name }, up,
    { name: "Address", of: (n) => n.address ?? "" },
    { name: "Groups", of: (n) => busy.get(n.name) ?? 0, number: true },
    cablesOf(topo),
    { name: "Files go to", of: (n) => (n.dest_roots ?? []).join(" ") },
  ];
  return html`<h2>Hosts</h2><${Table} name="hosts" columns=${columns} rows=${(topo?.nodes ?? []).filter((n) => n.kind === "host")} />`;
}

export function SwitchesPage() {
  const topo = use(topology);
  const { value, error } = usePoll(() => ask("switches"), 2000, []);
  const told = new Map((Array.isArray(value) ? value : (value?.switches ?? [])).map((s) => [s.name, s]));
  const columns = [
    { name: "Switch", of: (n) => n.name }, up,
    { name: "Programmed by", of: (n) => (told.has(n.name) ? (told.get(n.name).language ?? "the controller") : "itself") },
    { name: "Rules", of: (n) => count(told.get(n.name)?.rules), number: true },
    { name: "Drops", of: (n) => (told.has(n.name) ? sum(told.get(n.name).drops) : ""), number: true },
    { name: "Cache", of: (n) => (n.cache === false ? "none" : "yes") },
    { name: "Labels at most", of: (n) => n.msd ?? "any" },
    cablesOf(topo),
  ];
  return html`<h2>Switches and caches</h2><${Fail} error=${error} /><${Table} name="switches" columns=${columns} rows=${(topo?.nodes ?? []).filter((n) => n.kind !== "host")} empty="a fabric without switches" />`;
}
