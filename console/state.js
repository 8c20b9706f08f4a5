// What the console knows: signals, fed by the REST API and by its stream of events.

import { signal } from "./vendor/signals-core.js";
import { ask, askAll, Refused } from "./api.js";

export const signedIn = signal(null); // null: not known yet
export const stays = signal(null); // why signing out did not work
export const connected = signal(false);
export const topology = signal(null);
export const layout = signal({});
export const groups = signal(new Map());
export const route = signal(location.hash.slice(1) || "/map");
export const FINAL = ["done", "partial", "failed", "cancelled"];

addEventListener("hashchange", () => { route.value = location.hash.slice(1) || "/map"; });

let stream = null;
let again = 0;
let watch = 0;
let several = false; // sites
const WATCH_MS = 10000;

export async function start() {
  clearTimeout(again);
  try {
    const [found, list, places, sites] = await Promise.all([ask("topology"), askAll("groups"), ask("console/layout"), ask("sites")]);
    signedIn.value = true;
    several = sites.length > 0;
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
  stream.onerror = lost;
  clearTimeout(watch);
  watch = setTimeout(look, WATCH_MS, stream);
  const on = (kind, act) => stream.addEventListener(kind, (e) => act(JSON.parse(e.data)));
  on("groups", (told) => mix(told.groups, (id) => !ofSites(id)));
  on("group", onGroup);
  on("forgotten", onForgotten);
  on("link", onLink);
  on("node", onNode);
  on("topology", (t) => { topology.value = there(t); });
}

// The state may have changed while nobody listened: begin anew.
function lost() {
  stream.close();
  connected.value = false;
  clearTimeout(again);
  again = setTimeout(start, 1500);
}

// A machine that is gone ends no stream, and one that nothing comes by looks the same.
async function look(watched) {
  let gone = false;
  try {
    if (several) mix(await askAll("groups", (rows) => ofSites(rows.at(-1).id)), ofSites);
    else await ask("healthz");
  } catch (error) { gone = !(error instanceof Refused); }
  if (watched !== stream || stream.readyState === 2) return; // there is another one, or it is closed: who opens it looks again
  if (gone) lost();
  else watch = setTimeout(look, WATCH_MS, watched);
}

// The stream tells of what was taken away, too: its place is kept.
function there(t) {
  const gone = new Set(t.nodes.filter((n) => n.removed).map((n) => n.name));
  if (!gone.size) return t;
  return { ...t, nodes: t.nodes.filter((n) => !n.removed), links: t.links.filter((l) => !gone.has(l.u) && !gone.has(l.v)) };
}

// The stream tells nothing of these: they are asked for, and stand in front of the others.
const ofSites = (id) => id.startsWith("s-");

// These are all groups of a kind.
function mix(rows, kind) {
  groups.value = new Map([...[...groups.value].filter(([id]) => !kind(id)), ...rows.filter((g) => kind(g.id)).map((g) => [g.id, g])]);
}

function onGroup(group) {
  groups.value = new Map(groups.value).set(group.id, { ...groups.value.get(group.id), ...group });
}

function onForgotten({ id }) {
  const next = new Map(groups.value);
  next.delete(id);
  groups.value = next;
}

function onLink(changed) {
  const t = topology.value;
  if (!t) return;
  const same = (l) => (l.u === changed.u && l.v === changed.v) || (l.u === changed.v && l.v === changed.u);
  topology.value = { ...t, links: t.links.map((l) => (same(l) ? { ...l, up: changed.up } : l)) };
}

function onNode(node) {
  const t = topology.value;
  if (!t) return;
  if (!t.nodes.some((n) => n.name === node.name) && !node.removed) { stream.close(); start(); return; } // it came back
  topology.value = there({ ...t, nodes: t.nodes.map((n) => (n.name === node.name ? { ...n, ...node } : n)) });
}

export async function signIn(token) {
  await ask("console/session", "POST", { token });
  stays.value = null; // an earlier session may have ended by itself
  await start();
}

// The cookie is out of reach of scripts: only the controller takes it away.
export async function signOut() {
  try {
    await ask("console/session", "DELETE");
  } catch (error) {
    stays.value = error instanceof Refused ? error : new Error("You are still signed in: the controller does not answer. Try again.");
    return;
  }
  stays.value = null;
  stream?.close();
  signedIn.value = false;
}
