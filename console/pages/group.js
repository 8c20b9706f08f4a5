// One group: its trees on the map, every receiver's progress, rates over time, what was done about failures.

import { html, useEffect, usePoll, useRef, useState, Fail, State, Table } from "../ui.js";
import { ask, bytes, percent, rate, seconds } from "../api.js";
import { COLOURS } from "../canvas.js";
import { FINAL } from "../state.js";
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

// The slowest receiver, and what can be said about why.
function Slowest({ group }) {
  const live = Object.entries(group.receivers ?? {}).filter(([, r]) => r.state !== "done" && r.state !== "failed");
  if (!live.length || FINAL.includes(group.state)) return "";
  const [name, r] = live.reduce((a, b) => ((a[1].fraction ?? 0) <= (b[1].fraction ?? 0) ? a : b));
  const paths = Object.entries(group.trees ?? {}).slice(0, 4).map(([id, t]) => {
    const parent = new Map((t.arcs ?? []).map(([u, v]) => [v, u]));
    const path = [name];
    while (parent.has(path[0]) && path.length < 100) path.unshift(parent.get(path[0]));
    return `tree ${id}: ${path.join(" → ")}`;
  });
  const lost = r.retransmissions ?? total(r.trees);
  const why = told(r.error) || (r.state === "waiting" ? "it has no agent yet" : r.state === "aside" ? "it is served when the others are done" : lost ? `it asked ${lost} times again for what was lost` : "its links carry no more");
  return html`<p class="card">Slowest: <b>${name}</b> at ${percent(r.fraction)}, because ${why}. <span class="dim">${paths.join("; ")}</span></p>`;
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
    ${["failed", "partial", "cancelled"].includes(group.state) ? html`<button onClick=${() => act(`${path}/resume`, "POST")}>Resume</button>` : ""}
    ${over ? "" : html`<form class="row" onSubmit=${add}><label>One receiver more <input name="host" required size="8" /></label><button>Add</button></form>`}
    <a href=${path}>JSON</a><${Fail} error=${error} /></div>`;
}

export function GroupPage({ id }) {
  const history = useRef([]);
  const [round, setRound] = useState(0);
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
  const names = Object.keys(group.receivers ?? {}), trees = Object.keys(group.trees ?? {}), report = group.report;
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
  ];
  return html`<h2>Group ${group.id} <${State} of=${group.state} /></h2>
    ${group.error ? html`<p role="alert" class="bad">${told(group.error)}</p>` : ""}
    <${Actions} group=${group} again=${() => setRound(round + 1)} />
    <div class="card facts">
      <div>Progress <b>${percent(group.fraction)}</b></div><div>Size <b>${bytes(size)}</b></div>
      <div>Rate <b>${rate(group.rate_bps)}</b></div><div>Trees <b>${trees.length}</b></div>
      ${report ? html`<div>Finish <b>${seconds(report.finish_s)}</b></div><div>Ideal <b>${seconds(report.ideal_s)}</b></div><div>Duplicates <b>${percent(report.duplicate_ratio)}</b></div>` : html`<div>Left <b>${seconds(left)}</b></div>`}
    </div>
    <${Slowest} group=${group} />
    <${Canvas} details=${[group]} />
    ${history.current.length > 1 ? html`<h3>Rates over time</h3><div class="card"><${Rates} history=${history.current} trees=${trees} /></div>
      <h3>Receivers over time</h3><div class="card"><${Heat} history=${history.current} names=${names} /></div>` : ""}
    <h3>Receivers</h3><${Table} name=${`receivers-${group.id}`} columns=${columns} rows=${names} />
    <h3>Failures, and what was done</h3><${Reactions} list=${report?.reactions ?? group.reactions ?? []} takeovers=${report?.takeovers ?? 0} />`;
}

function Reactions({ list, takeovers }) {
  if (!list.length && !takeovers) return html`<p class="dim">None.</p>`;
  const columns = [...new Set(list.flatMap((one) => Object.keys(one)))].map((name) => ({ name, of: (one) => (typeof one[name] === "object" ? JSON.stringify(one[name]) : one[name]) }));
  return html`${list.length ? html`<${Table} name="failures" columns=${columns} rows=${list} />` : ""}${takeovers ? html`<p>${takeovers} masters took over.</p>` : ""}`;
}
