// Training: curves as they are written, policy versions, and what data made them.
import { h, put, clock, decimal, ago } from "./dom.js";
import { ask, listen, tried } from "./api.js";
import { curve } from "./chart.js";

export async function training(place, { given }, app) {
  const { runs, versions } = await ask("training");
  let chosen = given[0] ?? runs[0]?.id ?? "", known = -1;
  const plots = h("div", { class: "grid" }), title = h("h2", { hidden: true }), list = h("tbody");
  const draw = tried(async () => {
    if (!chosen) { put(plots, h("p", { class: "soft" }, "Nothing was trained from this lake yet.")); return; }
    const { points } = await ask("curve", { run: chosen });
    if (points.length === known) return;
    known = points.length;
    const names = [...new Set(points.flatMap((point) => Object.keys(point)))].filter((name) => name !== "step");
    title.hidden = false;
    put(title, `Curves of ${chosen}: ${points.length} points`);
    put(plots, names.filter((name) => points.some((point) => Number.isFinite(point[name]))).map((name) => h("section", { class: "card" }, h("h2", {}, name.replaceAll("_", " ")), curve(name, points.map((point) => [point.step, point[name]])))));
  });
  const lines = () => put(list, runs.map((run) => h("tr", { "aria-selected": String(run.id === chosen), onclick: () => { chosen = run.id; known = -1; lines(); draw(); } },
    h("td", {}, run.id), h("td", {}, run.algorithm), h("td", {}, run.model), h("td", {}, run.status), h("td", {}, run.parents.join(", ") || "–"), h("td", { class: "soft" }, ago(run.finished || run.started)))));
  const data = (version) => [version.runs.length && `runs ${version.runs.join(", ")}`, version.filters.length && `where ${version.filters.join("; ")}`, version.lake_version && `lake at ${version.lake_version}`, version.samples && `${version.samples} sample files`].filter(Boolean).join(" · ") || "–";
  put(place, h("h1", {}, "Training"),
    h("section", { class: "card" }, h("table", { "aria-label": "Training runs" }, h("thead", {}, h("tr", {}, ["Run", "Algorithm", "From", "Status", "Data", "When"].map((name) => h("th", { scope: "col" }, name)))), list)),
    h("p"), title, plots, h("p"), h("h2", {}, "Policy versions"),
    h("section", { class: "card" }, versions.length ? h("table", { "aria-label": "Policy versions" }, h("thead", {}, h("tr", {}, ["Version", "Status", "From", "What data made it", "Marks", "By", "When"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, versions.map((version) => h("tr", {}, h("td", {}, version.name, version.head ? " (served)" : ""), h("td", {}, version.status), h("td", {}, version.parent || version.kind), h("td", {}, data(version)), h("td", {}, Object.entries(version.metrics).filter(([, value]) => typeof value === "number").map(([name, value]) => `${name} ${decimal(value, 3)}`).join(" · ") || version.note || "–"), h("td", {}, version.by), h("td", { class: "soft" }, clock(version.at)))))) : h("p", { class: "soft" }, "No policy line has begun in this lake.")));
  lines();
  await draw();
  const timer = setInterval(draw, 3000); // a curve is a file beside the lake: nothing tells of it but looking
  const stop = listen({ run: "*" }, { state: app.live, again: draw, told: () => {} });
  return { close() { clearInterval(timer); stop(); } };
}
