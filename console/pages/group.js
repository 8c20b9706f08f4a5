// One group: its trees on the map, every receiver's progress, rates over time, what was done about failures.

import { html, use, useEffect, usePoll, useRef, useState, Fail, State, Table } from "../ui.js";
import { ask, bytes, csv, percent, rate, seconds } from "../api.js";
import { COLOURS } from "../canvas.js";
import { way } from "../links.js";
import { FINAL, topology } from "../state.js";
import { Canvas } from "./map.js";
import uPlot from "../vendor/uPlot.js";

const SAMPLES = 600; // kept for the charts
const total = (o) => Object.values(o ?? {}).reduce((n, t) => n + (t.retransmitted ?? 0), 0);
const told = (error) => (error ? (error.detail ?? error.message ?? (typeof error === "string" ? error : JSON.stringify(error))) : "");

// Receivers down, time across: how fast each one gets its data.
function Heat({ history, names }) {
  const canvas = useRef(null);
  useEffect(() => {
    const c = canvas.current;
    c.width = Math.max(history.length, 1);
    c.height = Math.max(names.length, 1);
    const context = c.getContext("2d"), image = context.createImageData(c.width, c.height);
    let most = 1;
    for (const h of history) for (const n of names) most = Math.max(most, h.rates[n] ?? 0);
    history.forEach((h, x) => names.forEach((n, y) => {
      const share = (h.rates[n] ?? 0) / most;
      image.data.set([40 + 30 * share, 60 + 130 * share, 110 + 90 * share, 255], 4 * (y * c.width + x));
    }));
    context.putImageData(image, 0, 0);
  });
  return html`<canvas class="heat" ref=${canvas} style=${{ height: `${Math.min(300, Math.max(40, names.length * 10))}px` }} role="img" aria-label="Rate of every receiver over time: a row for each, brighter is faster"></canvas>`;
}

function Rates({ history, trees }) {
  const box = useRef(null), plot = useRef(null);
  useEffect(() => {
    const axis = { stroke: getComputedStyle(box.current).getPropertyValue("--ink"), grid: { stroke: "#8884" } };
    plot.current = new uPlot({
      width: box.current.clientWidth || 600, height: 220, legend: { live: false },
      scales: { x: { time: false } }, axes: [{ ...axis, label: "seconds" }, { ...axis, label: "Mb/s", size: 60 }],
      series: [{}, ...trees.map((id, i) => ({ label: `tree ${id}`, stroke: COLOURS[i % COLOURS.length], width: 2 }))],
    }, [[], ...trees.map(() => [])], box.current);
    const resize = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height: 220 }));
    resize.observe(box.current);
    return () => { resize.disconnect(); plot.current.destroy(); };
  }, [trees.join()]);
  useEffect(() => { plot.current?.setData([history.map((h) => h.t), ...trees.map((id) => history.map((h) => (h.trees[id] ?? 0) / 1e6))]); });
  return html`<div ref=${box}></div>`;
}

// Which parts of the file each receiver has: a row for each, the file from left to right.
function Blocks({ receivers, names }) {
  const shown = names.filter((n) => receivers[n].blocks);
  const canvas = useRef(null);
  useEffect(() => {
    if (!shown.length) return;
    const c = canvas.current;
    c.width = Math.max(...shown.map((n) => receivers[n].blocks.length));
    c.height = shown.length;
    const context = c.getContext("2d"), image = context.createImageData(c.width, c.height);
    shown.forEach((n, y) => {
      const cells = receivers[n].state === "done" ? "f".repeat(c.width) : receivers[n].blocks;
      for (let x = 0; x < cells.length; x += 1) {
        const part = parseInt(cells[x], 16) / 15;
        image.data.set([30 + 40 * part, 50 + 140 * part, 90 + 40 * part, 255], 4 * (y * c.width + x));
      }
    });
    context.putImageData(image, 0, 0);
  });
  if (!shown.length) return "";
  return html`<h3>Blocks</h3><div class="card"><canvas class="heat blocks" ref=${canvas} style=${{ height: `${Math.min(400, Math.max(40, shown.length * 14))}px` }}
    role="img" aria-label="Which parts of the file every receiver has: a row for each, the file from left to right, bright is whole"></canvas>
    <p class="dim">${shown.length < names.length ? `The ${shown.length} of ${names.length} receivers that are furthest behind` : `${shown.length} receivers`}, from above: ${shown.slice(0, 12).join(", ")}${shown.length > 12 ? " …" : ""}. Bright is whole.</p></div>`;
}

const LEVEL = 0.01, BEHIND = 0.5; // of the file; seconds of its rate that wait for its disk

// The slowest receiver, and what can be said about why.
function Slowest({ group, links }) {
  const live = Object.entries(group.receivers ?? {}).filter(([, r]) => r.state !== "done" && r.state !== "failed");
  if (!live.length || FINAL.includes(group.state)) return "";
  const order = [...live].sort((a, b) => (a[1].fraction ?? 0) - (b[1].fraction ?? 0));
  const [name, r] = order[0], ahead = (order.at(-1)[1].fraction ?? 0) - (r.fraction ?? 0);
  const ways = Object.entries(group.trees ?? {}).map(([id, t]) => ({ id, ...way(name, t.arcs ?? [], links) })).filter((w) => w.path.length > 1);
  return html`<p class="card">Slowest: <b>${name}</b> at ${percent(r.fraction)}, because ${because(group, r, ahead, live.length, ways)}. <span class="dim">${ways.slice(0, 4).map((w) => `tree ${w.id}: ${w.path.join(" → ")}`).join("; ")}</span></p>`;
}

function because(group, r, ahead, count, ways) {
  if (told(r.error)) return told(r.error);
  if (r.state === "waiting") return "it has no agent yet";
  if (r.state === "aside") return "it is served when the others are done";
  if (r.unwritten * 8 > BEHIND * Math.max(r.rate_bps ?? 0, 8e6)) return `its disk is behind: ${bytes(r.unwritten)} wait to be written`;
  const lost = Object.values(r.trees ?? {}).reduce((n, t) => n + (t.retransmitted ?? 0), 0), had = Object.values(r.trees ?? {}).reduce((n, t) => n + (t.data ?? 0), 0);
  if (had > 200 && lost / had > 0.01) return `${percent(lost / had)} of its packets were lost on the way`;
  if (ahead < LEVEL && count > 1) return "somebody must be: all are level";
  if (!ways.length) return "no tree reaches it now";
  const cables = ways.map((w) => w.slowest).filter(Boolean), slow = cables.reduce((a, b) => (a && a.rate_bps <= b.rate_bps ? a : b), null);
  const room = cables.reduce((n, l) => n + l.rate_bps, 0);
  if (slow && r.rate_bps > 0.8 * room) return `the cable ${slow.u}–${slow.v} carries ${rate(slow.rate_bps)} at most`;
  return `it takes ${rate(r.rate_bps)} over ${ways.length} trees, less than its cables carry: its processor, or other groups`;
}

function Actions({ group, again }) {
  const [asked, setAsked] = useState(false);
  const [error, setError] = useState(null);
  const path = `groups/${encodeURIComponent(group.id)}`;
  const act = async (...request) => {
    setAsked(false);
    setError(null);
    try { await ask(...request); again(); } catch (problem) { setError(problem); }
  };
  const over = FINAL.includes(group.state);
  const add = (e) => { e.preventDefault(); act(`${path}/receivers`, "POST", { host: new FormData(e.target).get("host").trim() }); };
  return html`<div class="row">
    ${!over && !asked ? html`<button onClick=${() => setAsked(true)}>Cancel</button>` : ""}
    ${!over && asked ? html`<span>End it for all receivers? <button class="main" onClick=${() => act(`${path}/cancel`, "POST")}>Yes, cancel</button> <button onClick=${() => setAsked(false)}>No</button></span>` : ""}
    ${["failed", "partial"].includes(group.state) ? html`<button onClick=${() => act(`${path}/resume`, "POST")}>Resume</button>` : ""}
    ${over ? "" : html`<form class="row" onSubmit=${add}><label>One receiver more <input name="host" required size="8" /></label><button>Add</button></form>`}
    <a href=${path}>JSON</a><${Fail} error=${error} /></div>`;
}

function Remove({ path, name, of, again }) {
  const [asked, setAsked] = useState(false);
  const [error, setError] = useState(null);
  if (["done", "failed", "cancelled"].includes(of.state)) return "";
  const act = async () => { setAsked(false); try { await ask(path, "DELETE"); again(); } catch (problem) { setError(problem); } };
  if (error) return html`<${Fail} error=${error} />`;
  if (!asked) return html`<button aria-label=${`Remove ${name}`} onClick=${() => setAsked(true)}>Remove</button>`;
  return html`<span>What it has is dropped. <button class="main" onClick=${act}>Yes, remove ${name}</button> <button onClick=${() => setAsked(false)}>No</button></span>`;
}

export function GroupPage({ id }) {
  const history = useRef([]);
  const [round, setRound] = useState(0);
  const topo = use(topology);
  const load = async () => {
    const g = await ask(`groups/${encodeURIComponent(id)}`);
    const known = history.current, at = performance.now() / 1000;
    if (!FINAL.includes(g.state)) {
      const of = (all) => Object.fromEntries(Object.entries(all ?? {}).map(([key, value]) => [key, value.rate_bps ?? 0]));
      known.push({ at, t: at - (known[0]?.at ?? at), trees: of(g.trees), rates: of(g.receivers) });
      if (known.length > SAMPLES) known.shift();
    }
    return g;
  };
  const { value: group, error } = usePoll(load, 500, [id, round], (g) => FINAL.includes(g.state));
  if (!group) return html`<${Fail} error=${error} /><p class="center">${error ? "" : "Loading …"}</p>`;
  const names = Object.keys(group.receivers ?? {}).sort((a, b) => a.localeCompare(b, "en", { numeric: true })), trees = Object.keys(group.trees ?? {}), report = group.report;
  const size = group.size ?? report?.size;
  const left = group.rate_bps > 0 && size ? ((1 - (group.fraction ?? 0)) * size * 8) / group.rate_bps : null;
  const r = (n) => group.receivers[n];
  const columns = [
    { name: "Receiver", of: (n) => n },
    { name: "State", of: (n) => r(n).state, show: (n) => html`<${State} of=${r(n).state} />` },
    { name: "Progress", of: (n) => r(n).fraction ?? 0, show: (n) => html`<progress max="1" value=${r(n).fraction ?? 0} aria-label=${`progress of ${n}`}></progress> ${percent(r(n).fraction)}` },
    { name: "Rate", of: (n) => r(n).rate_bps ?? 0, show: (n) => rate(r(n).rate_bps), number: true },
    { name: "Asked again", of: (n) => r(n).retransmissions ?? total(r(n).trees), number: true },
    { name: "Error", of: (n) => told(r(n).error) },
    ...(FINAL.includes(group.state) ? [] : [{ name: "Change", of: () => "", show: (n) => html`<${Remove} path=${`groups/${encodeURIComponent(group.id)}/receivers/${encodeURIComponent(n)}`} name=${n} of=${r(n)} again=${() => setRound(round + 1)} />` }]),
  ];
  return html`<h2>Group ${group.id} <${State} of=${group.state} /></h2>
    ${group.error ? html`<p role="alert" class="bad">${told(group.error)}</p>` : ""}
    ${group.slow ? html`<p role="status">Slow: ${told(group.slow)}</p>` : ""}
    <${Actions} group=${group} again=${() => setRound(round + 1)} />
    <div class="card facts">
      <div>Progress <b>${percent(group.fraction)}</b></div><div>Size <b>${bytes(size)}</b></div>
      <div>Rate <b>${rate(group.rate_bps)}</b></div><div>Trees <b>${trees.length}</b></div>
      ${report ? html`<div>Finish <b>${seconds(report.finish_s)}</b></div><div>Ideal <b>${seconds(report.ideal_s)}</b></div><div>Duplicates <b>${percent(report.duplicate_ratio)}</b></div>` : html`<div>Left <b>${seconds(left)}</b></div>`}
    </div>
    <${Slowest} group=${group} links=${topo?.links ?? []} />
    <${Canvas} details=${[group]} />
    <${Blocks} receivers=${group.receivers ?? {}} names=${names} />
    ${history.current.length > 1 ? html`<h3>Rates over time</h3><div class="card"><${Rates} history=${history.current} trees=${trees} />
      <button onClick=${() => csv(`rates-${group.id}.csv`, ["seconds", ...trees.map((t) => `tree ${t} bit/s`), ...names.map((n) => `${n} bit/s`)], history.current.map((h) => [h.t.toFixed(2), ...trees.map((t) => h.trees[t] ?? 0), ...names.map((n) => h.rates[n] ?? 0)]))}>CSV of these rates</button></div>
      <h3>Receivers over time</h3><div class="card"><${Heat} history=${history.current} names=${names} /></div>` : ""}
    <h3>Receivers</h3><${Table} name=${`receivers-${group.id}`} columns=${columns} rows=${names} />
    <h3>Failures, and what was done</h3><${Reactions} list=${report?.reactions ?? group.reactions ?? []} takeovers=${report?.takeovers ?? 0} />`;
}

function Reactions({ list, takeovers }) {
  if (!list.length && !takeovers) return html`<p class="dim">None.</p>`;
  const columns = [...new Set(list.flatMap((one) => Object.keys(one)))].map((name) => ({ name, of: (one) => (typeof one[name] === "object" ? JSON.stringify(one[name]) : one[name]) }));
  return html`${list.length ? html`<${Table} name="failures" columns=${columns} rows=${list} />` : ""}${takeovers ? html`<p>${takeovers} masters took over.</p>` : ""}`;
}
