// What the console knows: signals, fed by the REST API and by its stream of events.

import { signal } from "./vendor/signals-core.js";
import { ask, askAll, Refused } from "./api.js";

export const signedIn = signal(null); // null: not known yet
export const connected = signal(false);
export const topology = signal(null);
export const layout = signal({});
export const groups = signal(new Map());
export const route = signal(location.hash.slice(1) || "/map");
export const FINAL = ["done", "partial", "failed", "cancelled"];

addEventListener("hashchange", () => { route.value = location.hash.slice(1) || "/map"; });

let stream = null;
let again = 0;

export async function start() {
  clearTimeout(again);
  try {
    const [found, list, places] = await Promise.all([ask("topology"), askAll("groups"), ask("console/layout")]);
    signedIn.value = true;
    layout.value = places;
    topology.value = found;
    groups.value = new Map(list.map((g) => [g.id, g]));
    listen();
  } catch (error) {
    connected.value = false;
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) signedIn.value = false;
    else { signedIn.value ??= true; again = setTimeout(start, 2000); }
  }
}

function listen() {
  stream?.close();
  stream = new EventSource("events");
  stream.onopen = () => { connected.value = true; };
  // The state may have changed while nobody listened: begin anew.
  stream.onerror = () => { stream.close(); connected.value = false; again = setTimeout(start, 1500); };
  for (const kind of ["group", "group.state", "group.progress"]) stream.addEventListener(kind, (e) => onGroup(JSON.parse(e.data)));
  for (const kind of ["link", "link.up", "link.down"]) stream.addEventListener(kind, (e) => onLink(JSON.parse(e.data)));
  for (const kind of ["node", "node.up", "node.down"]) stream.addEventListener(kind, (e) => onNode(JSON.parse(e.data)));
  stream.addEventListener("topology", (e) => { const t = JSON.parse(e.data); if (t.nodes) topology.value = t; });
}

function onGroup(event) {
  const group = typeof event.group === "object" && event.group ? event.group : event;
  const id = group.id ?? event.group;
  if (!id) return;
  const next = new Map(groups.value);
  next.set(id, { ...(next.get(id) ?? {}), ...group, id });
  groups.value = next;
}

function onLink(event) {
  const t = topology.value;
  if (!t) return;
  const links = Array.isArray(event.links) ? event.links : [event.link && typeof event.link === "object" ? event.link : event];
  const key = (l) => [l.u ?? l.from, l.v ?? l.to].sort().join(" ");
  const changed = new Map(links.map((l) => [key(l), l]));
  topology.value = { ...t, links: t.links.map((l) => (changed.has(key(l)) ? { ...l, up: changed.get(key(l)).up } : l)) };
}

function onNode(event) {
  const t = topology.value;
  if (!t) return;
  const node = event.node && typeof event.node === "object" ? event.node : event;
  topology.value = { ...t, nodes: t.nodes.map((n) => (n.name === node.name ? { ...n, ...node } : n)) };
}

export async function signIn(token) {
  await ask("console/session", "POST", { token });
  await start();
}

export async function signOut() {
  await ask("console/session", "DELETE");
  stream?.close();
  signedIn.value = false;
}
