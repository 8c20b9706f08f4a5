// What cables carry and lose, from what groups tell of their trees.

const PACKETS_MIN = 200; // of a receiver, before its losses say anything

// Each cable with `load`, the trees' rates of its busier direction over its rate, and `loss`, the worse of its directions;
// null: nobody has told.
export function told(links, details) {
  const carried = new Map(), lost = new Map();
  for (const group of details) {
    for (const [id, tree] of Object.entries(group.trees ?? {})) {
      for (const [u, v] of tree.arcs ?? []) carried.set(`${u} ${v}`, (carried.get(`${u} ${v}`) ?? 0) + (tree.rate_bps ?? 0));
      const parts = seen(group.receivers, id);
      for (const [arc, part] of parts.size ? losses(tree.arcs ?? [], parts) : []) lost.set(arc, Math.max(lost.get(arc) ?? 0, part));
    }
  }
  const worse = (of, l) => [of.get(`${l.u} ${l.v}`), of.get(`${l.v} ${l.u}`)].reduce((a, b) => (b === undefined ? a : Math.max(a ?? 0, b)), null);
  return links.map((l) => ({ ...l, load: (worse(carried, l) ?? 0) / (l.rate_bps || Infinity), loss: worse(lost, l) }));
}

// By receiver, the part of a tree's packets that it asked for again.
function seen(receivers, id) {
  const parts = new Map();
  for (const [name, r] of Object.entries(receivers ?? {})) {
    const t = r.trees?.[id];
    if (t?.data >= PACKETS_MIN) parts.set(name, (t.retransmitted ?? 0) / t.data);
  }
  return parts;
}

// What is lost on an arc is missed by all receivers behind it: the least of them bounds it, less what was lost before it.
export function losses(arcs, parts) {
  const below = new Map(), children = new Set(arcs.map(([, v]) => v));
  for (const [u, v] of arcs) below.set(u, [...(below.get(u) ?? []), v]);
  const roots = [...below.keys()].filter((u) => !children.has(u));
  const least = new Map(), order = [...roots];
  for (let i = 0; i < order.length; i += 1) order.push(...(below.get(order[i]) ?? []));
  for (const node of [...order].reverse()) least.set(node, Math.min(parts.get(node) ?? Infinity, ...(below.get(node) ?? []).map((v) => least.get(v))));
  for (const root of roots) least.set(root, 0);
  return arcs.map(([u, v]) => [`${u} ${v}`, isFinite(least.get(v)) ? Math.max(0, least.get(v) - least.get(u)) : 0]);
}

// A receiver's way from the root of a tree, and the slowest cable on it.
export function way(name, arcs, links) {
  const parent = new Map(arcs.map(([u, v]) => [v, u])), path = [name];
  while (parent.has(path[0]) && path.length < 100) path.unshift(parent.get(path[0]));
  const rates = new Map(links.flatMap((l) => [[`${l.u} ${l.v}`, l], [`${l.v} ${l.u}`, l]]));
  const cables = path.slice(1).map((v, i) => rates.get(`${path[i]} ${v}`)).filter((l) => l?.rate_bps);
  return { path, slowest: cables.reduce((a, b) => (a && a.rate_bps <= b.rate_bps ? a : b), null) };
}
