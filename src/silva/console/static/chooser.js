// Choose a task: every attempt of a run, however many, those that moved last on top.
import { h, put, decimal, seldom, calmly } from "./dom.js";
import { ask, tried } from "./api.js";
import { List } from "./list.js";
import { state } from "./state.js";

const PAGE = 500;
const ORDERS = ["started", "moved", "task", "status", "score", "safety", "turns"];

// A task without its environment's name, which all of them share.
const named = (row) => row.task.split("/").slice(1).join("/") || row.task || row.tree.slice(0, 8);

export async function chooser({ run, id, app }) {
  let rows = [], total = 0, text = "", sort = "started";
  const loading = new Set();
  const places = new Map();
  const list = new List({
    label: "Attempts", estimate: 46, fixed: true,
    render(i) {
      const row = rows[i];
      if (!row) { load(Math.floor(i / PAGE)); return h("div", { class: "tr" }, "…"); }
      const ended = row.status !== "running" && row.status !== "cut off";
      return h("div", { class: "tr", "aria-label": `attempt ${row.task} ${row.slot}` },
        h("span", { title: row.task }, row.id === id ? h("b", {}, named(row)) : named(row)),
        h("span", { class: "num soft" }, `${row.turns} t`), h("span", { class: !ended ? "num good" : row.success ? "num good" : row.status === "failed" ? "num bad" : "num" }, ended ? (row.score === null ? row.status.slice(0, 6) : decimal(row.score)) : row.status === "running" ? "live" : "cut"),
        h("span", { class: "last" }, row.state && row.state !== "working" ? state(row) : "", ended ? row.failure || `try ${row.slot} · ${row.status}` : row.last || "…"));
    },
    opened: (i) => rows[i] && app.go(`#/run/${encodeURIComponent(run)}/${encodeURIComponent(rows[i].id)}`),
  });
  let asked = 0;
  const load = tried(async (page, keep = true) => {
    if (!keep) { asked += 1; loading.clear(); }
    if (loading.has(page)) return;
    loading.add(page);
    const mine = asked;
    try {
      const answer = await ask("attempts", { run, text, sort, offset: page * PAGE, limit: PAGE });
      if (mine !== asked) return; // another order was asked for meanwhile
      if (!keep) { rows = []; places.clear(); }
      const start = page * PAGE; // what stood here may stand further down by now: where, its page will tell
      for (const [i, row] of rows.slice(start, start + PAGE).entries()) if (row && places.get(row.id) === start + i) places.delete(row.id);
      answer.rows.forEach((row, i) => { rows[start + i] = row; places.set(row.id, start + i); });
      total = answer.total;
      offer(answer.metrics);
      put(number, `${total} attempts`);
      list.setCount(total);
      list.refresh();
    } finally { if (mine === asked) loading.delete(page); }
  });
  const number = h("span", { class: "soft" });
  const search = h("input", { type: "search", placeholder: "Find a task", "aria-label": "Find a task", oninput: seldom(() => { text = search.value; load(0, false); }, 250) });
  const order = h("select", { "aria-label": "Order", value: sort, onchange: () => { sort = order.value; load(0, false); } }, ORDERS.map((each) => h("option", { value: each }, each)));
  // Every metric a checker gave is an order, too.
  const offer = (metrics) => { if (order.childElementCount !== ORDERS.length + metrics.length) { put(order, [...ORDERS, ...metrics].map((each) => h("option", { value: each }, each))); order.value = sort; } };
  const element = h("section", { class: "choose", "aria-label": "Tasks" }, h("div", { class: "bar" }, search, order), number, h("div", { class: "fill" }, list.element));
  await load(0);
  const recount = seldom(() => load(0), 1500);
  const moved = new Set();
  const redraw = calmly(() => { list.redraw(moved); moved.clear(); });
  return {
    element, close: () => list.close(),
    show() { const at = places.get(id); list.setCount(total); if (at !== undefined) list.select(at, { tell: false }); },
    update(fresh) {
      if (!fresh.length) { load(0); return; }
      let unknown = false;
      for (const row of fresh) {
        const at = places.get(row.id);
        if (at === undefined) unknown = true; else { rows[at] = row; moved.add(at); }
      }
      redraw();
      if (unknown) recount();
    },
    move(by) { const at = (places.get(id) ?? 0) + by, row = rows[at]; if (row) app.go(`#/run/${encodeURIComponent(run)}/${encodeURIComponent(row.id)}`); },
  };
}
