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

// Columns: {name, of: row -> value for sorting, show: row -> what is seen, number}.
export function Table({ name, columns, rows, first = 0, down = false, empty = "nothing here" }) {
  const [sort, setSort] = useState({ at: first, down });
  const [query, setQuery] = useState("");
  const [most, setMost] = useState(200);
  const cells = (row) => columns.map((c) => c.of(row));
  const found = query ? rows.filter((row) => cells(row).some((v) => String(v ?? "").toLowerCase().includes(query.toLowerCase()))) : rows;
  const { of } = columns[sort.at];
  const order = [...found].sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    const less = typeof x === "number" && typeof y === "number" ? x - y : String(x ?? "").localeCompare(String(y ?? ""), "en", { numeric: true });
    return sort.down ? -less : less;
  });
  const press = (at) => setSort((s) => ({ at, down: s.at === at ? !s.down : false }));
  return html`<div class="row">
      <label>Search <input type="search" value=${query} onInput=${(e) => setQuery(e.target.value)} /></label>
      <span class="dim">${found.length} of ${rows.length}</span>
      <button onClick=${() => csv(`${name}.csv`, columns.map((c) => c.name), order.map(cells))}>CSV</button>
    </div>
    <div class="scroll" tabindex="0" role="region" aria-label=${name}><table>
      <thead><tr>${columns.map((c, i) => html`<th class=${c.number ? "number" : ""} aria-sort=${sort.at === i ? (sort.down ? "descending" : "ascending") : "none"}>
        <button onClick=${() => press(i)}>${c.name}${sort.at === i ? (sort.down ? " ↓" : " ↑") : ""}</button></th>`)}</tr></thead>
      <tbody>${order.slice(0, most).map((row) => html`<tr>${columns.map((c) => html`<td class=${c.number ? "number" : ""}>${(c.show ?? c.of)(row)}</td>`)}</tr>`)}
        ${order.length ? "" : html`<tr><td colspan=${columns.length} class="dim">${empty}</td></tr>`}</tbody>
    </table></div>
    ${order.length > most ? html`<button onClick=${() => setMost(most * 4)}>show more</button>` : ""}`;
}

export const Fail = ({ error }) => (error ? html`<p role="alert" class="bad">${error.message} ${error.remedy ?? ""}</p>` : "");
export const State = ({ of }) => html`<span class=${{ done: "good", running: "", failed: "bad", partial: "warn", cancelled: "dim" }[of] ?? ""}>${of}</span>`;
