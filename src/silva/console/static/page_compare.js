// Compare: two trajectories side by side, the first divergence marked; or two runs (two policies), task by task.
import { h, put, decimal, percent } from "./dom.js";
import { ask, tried } from "./api.js";
import { List } from "./list.js";
import { line, isAction } from "./turn.js";

export async function compare(place, { given }, app) {
  const [left, right] = given;
  if (left === "runs") return twoRuns(place, given.slice(1));
  const fields = [left, right].map((value, i) => h("input", { value: value ?? "", "aria-label": i ? "Right trajectory" : "Left trajectory", placeholder: "a trajectory's id, or its beginning", size: "30" }));
  const start = () => app.go(`#/compare/${fields.map((field) => encodeURIComponent(field.value.trim())).join("/")}`);
  for (const field of fields) field.addEventListener("keydown", (event) => { if (event.key === "Enter") start(); });
  const { runs } = await ask("runs");
  const names = [0, 1].map((i) => h("select", { "aria-label": i ? "Right run" : "Left run" }, runs.map((run) => h("option", { value: run.id }, run.id))));
  const form = h("div", { class: "bar" }, h("h1", {}, "Compare"), fields, h("button", { onclick: start }, "Side by side"), h("span", { class: "soft" }, "or two policies:"), names, h("button", { onclick: () => app.go(`#/compare/runs/${names.map((field) => encodeURIComponent(field.value)).join("/")}`) }, "Task by task"));
  if (!left || !right) { put(place, form, h("p", { class: "soft" }, "In the lake, x marks trajectories; two marked ones can be compared.")); return { close() {} }; }
  const both = await ask("compare", { left, right });
  const length = Math.max(both.left.length, both.right.length), first = both.first ?? -1;
  const numbers = [both.left, both.right].map((nodes) => { let n = 0; return nodes.map((node) => isAction(node) ? ++n : n); });
  const open = new Set(), bodies = [new Map(), new Map()];
  const fetchBodies = tried(async (i) => {
    for (const [sideOf, nodes] of [both.left, both.right].entries()) {
      const node = nodes[i];
      if (node && !bodies[sideOf].has(node.id)) bodies[sideOf].set(node.id, (await ask("nodes", { tree: both.trees[sideOf], ids: node.id })).nodes[0]);
    }
    list.refresh(i);
  });
  const list = new List({
    label: "Side by side", estimate: 62,
    render(i) {
      const cells = [both.left[i], both.right[i]].map((node, sideOf) => node ? line(node, numbers[sideOf][i], { open: open.has(i), body: bodies[sideOf].get(node.id) }) : h("div", { class: "turn soft" }, "–"));
      const row = h("div", { class: first < 0 || i < first ? "two same" : "two", "aria-label": i === first ? "first divergence" : `row ${i + 1}` }, cells);
      if (i === first) row.classList.add("parts");
      return row;
    },
    opened: (i) => { if (!open.delete(i)) { open.add(i); fetchBodies(i); } list.refresh(i); },
  });
  const toFirst = () => { if (first >= 0) { list.select(first, { show: false }); list.show(first, "start"); } };
  const heads = both.heads.map((row) => h("div", {}, h("a", { href: `#/run/${encodeURIComponent(row.run)}/${row.id}` }, `${row.run} · ${row.task} ${row.slot}`), h("span", { class: "soft" }, ` ${row.status} · ${row.turns} turns · score ${decimal(row.score)} · safety ${decimal(row.safety)} · ${row.version || row.model}`)));
  put(place, h("div", { class: "tall" }, form, h("div", { class: "bar" }, h("b", { role: "status", "aria-label": "Divergence" }, first < 0 ? "They do not differ." : `They first differ in row ${first + 1} of ${length}.`), first >= 0 && h("button", { onclick: toFirst }, "To the first divergence")), h("div", { class: "two" }, heads), h("div", { class: "fill card" }, list.element)));
  list.setCount(length);
  toFirst();
  return { list, close: () => list.close(), keys: { d: toFirst } };
}

async function twoRuns(place, [left, right]) {
  const { figures, tasks, of } = await ask("compare-runs", { left, right });
  const mean = (rows) => { const known = rows.filter((row) => row.score !== null); return known.length ? known.reduce((sum, row) => sum + row.score, 0) / known.length : null; };
  const shown = (row) => h("a", { href: `#/run/${encodeURIComponent(row.run)}/${row.id}` }, decimal(row.score ?? null), " ");
  const overall = figures.overall;
  const body = h("tbody", {}, tasks.map((task) => {
    const gap = (mean(task.right) ?? 0) - (mean(task.left) ?? 0);
    return h("tr", {}, h("td", {}, task.task), h("td", {}, task.left.map(shown)), h("td", {}, task.right.map(shown)), h("td", { class: gap > 0 ? "num good" : gap < 0 ? "num bad" : "num" }, decimal(gap)),
      h("td", {}, h("a", { href: `#/compare/${task.left[0].id}/${task.right[0].id}` }, "side by side")));
  }));
  const interval = (value) => value ? `${percent(value.value)} (${percent(value.low)} to ${percent(value.high)})` : "–";
  put(place, h("h1", {}, `${right} against ${left}`),
    h("p", {}, `Paired over ${overall.tasks} tasks: score ${decimal(overall.left, 3)} and ${decimal(overall.right, 3)}; difference in success ${interval(overall.success)}, in score ${interval(overall.score)}; better on ${overall.better}, worse on ${overall.worse}.`),
    h("table", { class: "card", "aria-label": "Tasks of both runs" }, h("thead", {}, h("tr", {}, ["Task", left, right, "Difference", ""].map((name) => h("th", { scope: "col" }, name || "Look")))), body), of > tasks.length ? h("p", { class: "soft" }, `${of - tasks.length} tasks more.`) : "");
  return { close() {} };
}
