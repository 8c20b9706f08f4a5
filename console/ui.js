// Preact and htm, and what ties them to signals.

export { html, render, useEffect, useRef, useState } from "./vendor/preact.js";
import { html, useEffect, useState } from "./vendor/preact.js";
import { effect } from "./vendor/signals-core.js";
import { csv } from "./api.js";

// The value of a signal; the component is drawn again when it changes.
export function use(s) {
  const [value, set] = useState(() => s.value);
  useEffect(() => effect(() => { const v = s.value; set(() => v); }), [s]);
  return value;
}

// Asks again and again, not more often than `ms`, until the component goes or `stop(value)`.
export function usePoll(load, ms, keys, stop = () => false) {
  const [state, set] = useState({ value: null, error: null });
  useEffect(() => {
    let alive = true, timer = 0;
    const round = async () => {
      let done = false;
      try {
        const value = await load();
        done = stop(value);
        if (alive) set({ value, error: null });
      } catch (error) { if (alive) set((old) => ({ value: old.value, error })); }
      if (alive && !done) timer = setTimeout(round, ms);
    };
    round();
    return () => { alive = false; clearTimeout(timer); };
  }, keys);
  return state;
}

// A value that stands in the address, behind the page's "?": whoever gets the link sees the same.
export function useParam(name, initial = "") {
  const here = () => new URLSearchParams(location.hash.split("?")[1]);
  const [value, set] = useState(() => here().get(name) ?? initial);
  return [value, (next) => {
    const all = here();
    if (next === initial) all.delete(name); else all.set(name, next);
    history.replaceState(null, "", `${location.hash.split("?")[0]}${String(all) && "?"}${all}`);
    set(next);
  }];
}

const PAGE = 100; // rows

// Columns: {name, of: row -> value for sorting, show: row -> what is seen, number}. `json`: where the same is to be had by REST.
export function Table({ name, columns, rows, json, first = 0, down = false, empty = "nothing here" }) {
  const [sort, setSort] = useState({ at: first, down });
  const [query, setQuery] = useParam(`${name}.find`);
  const [page, setPage] = useParam(`${name}.page`, "1");
  const cells = (row) => columns.map((c) => c.of(row));
  const found = query ? rows.filter((row) => cells(row).some((v) => String(v ?? "").toLowerCase().includes(query.toLowerCase()))) : rows;
  const { of } = columns[sort.at];
  const order = [...found].sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    const less = typeof x === "number" && typeof y === "number" ? x - y : String(x ?? "").localeCompare(String(y ?? ""), "en", { numeric: true });
    return sort.down ? -less : less;
  });
  const last = Math.max(1, Math.ceil(order.length / PAGE)), at = Math.min(Math.max(1, Number(page) || 1), last), from = (at - 1) * PAGE;
  const press = (at) => setSort((s) => ({ at, down: s.at === at ? !s.down : false }));
  return html`<div class="row">
      <label>Search <input type="search" value=${query} onInput=${(e) => { setPage("1"); setQuery(e.target.value); }} /></label>
      <span class="dim">${found.length} of ${rows.length}</span>
      <button onClick=${() => csv(`${name}.csv`, columns.map((c) => c.name), order.map(cells))}>CSV</button>
      ${json ? html`<a href=${json}>JSON</a>` : ""}
    </div>
    <div class="scroll" tabindex="0" role="region" aria-label=${name}><table>
      <thead><tr>${columns.map((c, i) => html`<th class=${c.number ? "number" : ""} aria-sort=${sort.at === i ? (sort.down ? "descending" : "ascending") : "none"}>
        <button onClick=${() => press(i)}>${c.name}${sort.at === i ? (sort.down ? " ↓" : " ↑") : ""}</button></th>`)}</tr></thead>
      <tbody>${order.slice(from, from + PAGE).map((row) => html`<tr>${columns.map((c) => html`<td class=${c.number ? "number" : ""}>${(c.show ?? c.of)(row)}</td>`)}</tr>`)}
        ${order.length ? "" : html`<tr><td colspan=${columns.length} class="dim">${empty}</td></tr>`}</tbody>
    </table></div>
    ${last > 1 ? html`<nav class="row" aria-label=${`pages of ${name}`}>
      <button disabled=${at === 1} onClick=${() => setPage(String(at - 1))}>Before</button>
      <span>${from + 1} to ${Math.min(from + PAGE, order.length)} of ${order.length}</span>
      <button disabled=${at === last} onClick=${() => setPage(String(at + 1))}>Next</button></nav>` : ""}`;
}

export const Fail = ({ error }) => (error ? html`<p role="alert" class="bad">${error.message} ${error.remedy ?? ""}</p>` : "");
export const State = ({ of }) => html`<span class=${{ done: "good", running: "", failed: "bad", partial: "warn", cancelled: "dim" }[of] ?? ""}>${of}</span>`;
