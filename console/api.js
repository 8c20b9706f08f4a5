// The REST API: the cookie that sign-in set goes along, scripts never see it.

export class Refused extends Error {
  constructor(problem, status) {
    super(problem.detail || `status ${status}`);
    this.status = status;
    this.remedy = problem.remedy || "";
  }
}

export const ask = async (...request) => (await answerOf(...request)).content;

// A listing with all its pages, or as long as `more(rows)`: `Link: <…>; rel="next"` leads on.
const PAGES_MAX = 50;
export async function askAll(path, more = () => true) {
  const rows = [];
  for (let page = 0, next = path; next && page < PAGES_MAX; page += 1) {
    const { content, link } = await answerOf(next);
    rows.push(...content);
    const url = link?.match(/<([^>]+)>;\s*rel="next"/)?.[1];
    next = url && more(rows) && new URL(url, location.href).pathname.slice(1) + new URL(url, location.href).search;
  }
  return rows;
}

const READ_MS = 15000; // then nobody is there; what is ordered may take its time
async function answerOf(path, method = "GET", body = undefined) {
  const answer = await fetch(path, {
    method,
    headers: body === undefined ? {} : { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    signal: method === "GET" || path === "console/session" ? AbortSignal.timeout(READ_MS) : undefined,
  });
  const text = await answer.text();
  let content = null;
  try { content = text ? JSON.parse(text) : null; } catch { content = { detail: text.slice(0, 200) }; }
  if (!answer.ok) throw new Refused(content || {}, answer.status);
  return { content, link: answer.headers.get("link") };
}

export const bytes = (n) => {
  if (n == null) return "-";
  let unit = 0;
  while (n >= 1000 && unit < 4) { n /= 1000; unit += 1; }
  return `${n.toFixed(unit && n < 100 ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
};
export const rate = (bps) => (bps == null ? "-" : bps >= 1e9 ? `${(bps / 1e9).toFixed(2)} Gb/s` : `${(bps / 1e6).toFixed(1)} Mb/s`);
export const seconds = (s) => (s == null || !isFinite(s) ? "-" : s < 100 ? `${s.toFixed(2)} s` : `${Math.round(s)} s`);
export const percent = (f) => (f == null ? "-" : `${(100 * f).toFixed(1)} %`);

// What others have named (labels, files, errors) must be no formula to who opens it: a spreadsheet would compute it.
const cell = (v) => {
  const text = String(v ?? ""), safe = /^[=+\-@\t\r]/.test(text) && !isFinite(text.trim() || "?") ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
export const csvText = (head, rows) => [head, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
// A table as a file, so that every view can be had as CSV.
export function csv(name, head, rows) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csvText(head, rows)], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
