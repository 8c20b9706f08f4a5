// All groups, and a form to start one.

import { html, use, useParam, useState, Fail, State, Table } from "../ui.js";
import { ask, bytes, percent, rate, seconds } from "../api.js";
import { groups, topology } from "../state.js";
import { Canvas } from "./map.js";

function Start() {
  const topo = use(topology);
  const hosts = (topo?.nodes ?? []).filter((n) => n.kind === "host").map((n) => n.name);
  const [error, setError] = useState(null);
  const [plan, setPlan] = useState(null);
  const wanted = (element) => {
    const form = new FormData(element);
    const to = form.get("to").trim();
    const spec = { source: form.get("from").trim(), source_path: form.get("path").trim(), receivers: to === "all" ? "all" : to.split(/[ ,]+/).filter(Boolean) };
    if (form.get("dest").trim()) spec.dest_path = form.get("dest").trim();
    if (form.get("trees")) spec.options = { trees: Number(form.get("trees")) };
    return spec;
  };
  const act = async (work) => { setError(null); setPlan(null); try { await work(); } catch (problem) { setError(problem); } };
  const submit = (e) => {
    e.preventDefault();
    act(async () => { location.hash = `/groups/${(await ask("groups", "POST", wanted(e.target))).id}`; });
  };
  const preview = (e) => {
    const form = e.target.form;
    if (form.reportValidity()) act(async () => setPlan(await ask("plan", "POST", wanted(form))));
  };
  return html`<details class="card"><summary>Start a group</summary><form onSubmit=${submit} class="row">
    <label>From <input name="from" list="hosts" required size="8" /></label>
    <label>File there <input name="path" required size="30" placeholder="/srv/datacast/image" /></label>
    <label>To (hosts, or all) <input name="to" required size="24" placeholder="02, 10, 21" /></label>
    <label>Name there <input name="dest" size="16" placeholder="as at the source" /></label>
    <label>Most trees <input name="trees" type="number" min="1" max="64" /></label>
    <button class="main">Start</button> <button type="button" onClick=${preview}>Preview</button>
    <datalist id="hosts">${hosts.slice(0, 500).map((h) => html`<option value=${h} />`)}</datalist>
    <${Fail} error=${error} /></form>
    ${plan ? html`<p role="status">${plan.trees.length} trees to ${plan.receivers.length} receivers at ${rate(plan.rate_bps)}${plan.expected_s == null ? "" : `, about ${seconds(plan.expected_s)}`}${plan.unreachable.length ? html`; <span class="bad">out of reach: ${plan.unreachable.join(", ")}</span>` : ""}</p>
      <${Canvas} details=${[{ id: "preview", state: "done", trees: Object.fromEntries(plan.trees.map((t, i) => [String(i + 1), t])) }]} />` : ""}</details>`;
}

export const COLUMNS = [
  { name: "Group", of: (g) => g.id, show: (g) => html`<a href=${`#/groups/${g.id}`}>${g.id}</a>` },
  { name: "State", of: (g) => g.state, show: (g) => html`<${State} of=${g.state} />` },
  { name: "From", of: (g) => g.source },
  { name: "File", of: (g) => g.source_path },
  { name: "Receivers", of: (g) => g.receivers, number: true },
  { name: "Progress", of: (g) => g.fraction, show: (g) => html`<progress max="1" value=${g.fraction} aria-label=${`progress of ${g.id}`}></progress> ${percent(g.fraction)}` },
  { name: "Rate", of: (g) => g.rate_bps, show: (g) => rate(g.rate_bps), number: true },
  { name: "Size", of: (g) => g.size ?? 0, show: (g) => bytes(g.size), number: true },
  { name: "Started", of: (g) => g.created_ns, show: (g) => new Date(g.created_ns / 1e6).toLocaleString() },
];

export function GroupsPage() {
  const all = [...use(groups).values()];
  const [state, setState] = useParam("state");
  const states = [...new Set(all.map((g) => g.state))];
  return html`<h2>Groups</h2><${Start} />
    <div class="row"><label>State <select value=${state} onChange=${(e) => setState(e.target.value)}><option value="">all</option>${states.map((s) => html`<option value=${s}>${s}</option>`)}</select></label></div>
    <${Table} name="groups" json="groups" columns=${COLUMNS} rows=${state ? all.filter((g) => g.state === state) : all} first=${8} down empty="no groups yet" />`;
}
