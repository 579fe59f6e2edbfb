// Loops: which there are; one as it stands: stages, curves, tables, tasks born, pairs, versions of code with their diffs.
import { h, put, count, ago, decimal, calmly } from "./dom.js";
import { ask, tried } from "./api.js";
import { TONES, drawnSeries, series } from "./chart.js";
import { diff, visible } from "./rendered.js";

const PAUSE = 2000; // milliseconds between two looks at what runs
const MOST_ROWS = 200; // of the figures of one curve
const heads = (names, first = []) => h("thead", {}, h("tr", {}, names.map((name, i) => h("th", { scope: "col", class: typeof first[i] === "number" && "num" }, visible(String(name))))));
const scrolls = (label, ...inside) => h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": label }, inside);
const GOOD = new Set(["done", "ended", "kept", "accepted", "promoted", "approved"]), BAD = new Set(["failed", "refused", "discarded", "rejected", "rolled back", "diverged", "stopped"]);
const state = (text) => { const of = text.split(":")[0]; return h("span", { class: `tag state${GOOD.has(of) ? " good" : BAD.has(of) ? " bad" : ""}` }, visible(text)); };
const short = (id) => /^[0-9a-f]{32,}$/.test(id) ? id.slice(0, 12) : id;
const figure = (value) => value === null || value === undefined ? "–" : typeof value === "boolean" ? (value ? "yes" : "no") : typeof value === "number" ? (Number.isInteger(value) ? count(value) : decimal(value, 4)) : visible(String(value));
const cell = (value) => h("td", { class: typeof value === "number" ? "num" : false }, figure(value));
const more = (all, shown) => all > shown ? h("p", { class: "soft" }, `${count(all - shown)} more: silva loop show --all prints them.`) : "";
const told = (extra) => Object.entries(extra).filter(([, value]) => value !== null && value !== "").map(([name, value], i) => h("span", {}, i ? " · " : "", visible(name), " ", figure(value)));

async function list(place) {
  let before = "";
  const draw = calmly((loops) => {
    const text = JSON.stringify(loops);
    if (text === before) return;
    before = text;
    put(place, h("div", { class: "stack" }, h("h1", {}, "Loops"), h("section", { class: "card" }, loops.length ? scrolls("Loops", h("table", { class: "still", "aria-label": "Loops" }, heads(["Loop", "Kind", "Line", "State", "Stages", "Last stage", "Work", "Moved"]),
      h("tbody", {}, loops.map((each) => each.fault ? h("tr", {}, h("td", {}, visible(each.name)), h("td", { class: "bad", colspan: "7" }, visible(each.fault)))
        : h("tr", {}, h("td", {}, h("a", { href: `#/loops/${each.id}` }, visible(each.name))), h("td", {}, each.kind), h("td", {}, each.line), h("td", {}, state(each.state)), h("td", { class: "num" }, `${each.done} of ${each.of}`), h("td", {}, each.stage || "–"), h("td", { class: "num" }, `${decimal(each.seconds, 1)} s`), h("td", { class: "soft" }, ago(each.moved)))))))
      : h("p", { class: "soft" }, "No loop here. The console shows the loop that this lake belongs to, and those of silva console --loop FOLDER."))));
  });
  const update = tried(async () => draw((await ask("loops")).loops));
  draw((await ask("loops")).loops);
  const timer = setInterval(update, PAUSE);
  return { close() { clearInterval(timer); } };
}

const stage = (row) => h("li", {}, state(row.progress ? "running" : row.state), h("b", {}, row.name), h("span", { class: "num soft" }, row.seconds ? `${decimal(row.seconds, 1)} s` : ""),
  row.outputs ? h("details", {}, h("summary", {}, visible(row.words || "outputs")), h("pre", {}, visible(row.outputs))) : h("div", {}, visible(row.progress || row.note)));

function drawn(curve) {
  const names = drawnSeries(curve), every = Object.keys(curve.series);
  return h("section", { class: "card", "aria-label": curve.title }, h("h2", {}, visible(curve.title)), Object.values(curve.series).flat().some(Number.isFinite) ? series(curve) : h("p", { class: "soft" }, "No value is known yet."),
    h("p", { class: "legend" }, names.map((name, i) => h("span", {}, h("i", { class: `dot tone${i % TONES}` }), " ", visible(name)))),
    h("details", {}, h("summary", {}, "Figures"), scrolls(`Figures of ${curve.title}`, h("table", { class: "still" }, heads(["at", ...every], [curve.x[0], ...every.map(() => 0)]), h("tbody", {}, curve.x.slice(0, MOST_ROWS).map((at, i) => h("tr", {}, cell(at), every.map((name) => cell(curve.series[name][i])))))))));
}

const table = (sheet) => h("section", { class: "card" }, h("h2", {}, visible(sheet.title)), scrolls(sheet.title, h("table", { class: "still", "aria-label": sheet.title }, heads(sheet.columns, sheet.rows[0]), h("tbody", {}, sheet.rows.map((row) => h("tr", {}, row.map(cell)))))), more(sheet.of, sheet.rows.length));

function tasks(shown) {
  const by = new Map();
  for (const each of shown.tasks) { const key = `${each.signal || "no signal"} · ${each.verdict || "no verdict"}`; by.set(key, (by.get(key) ?? 0) + 1); }
  return h("section", { class: "card" }, h("h2", {}, `Tasks born (${count(shown.counts.tasks)})`), h("p", { class: "states" }, [...by].slice(0, 24).map(([key, times]) => h("span", { class: "tag" }, visible(key), ` ${count(times)}`))),
    scrolls("Tasks born", h("table", { class: "still", "aria-label": "Tasks born" }, heads(["Task", "Asks", "Signal", "Verdict", "Came of", "Provenance"]),
      h("tbody", {}, shown.tasks.map((each) => h("tr", {}, h("td", {}, visible(each.id)), h("td", {}, visible(each.words)), h("td", {}, visible(each.signal)), h("td", {}, each.verdict ? state(each.verdict) : "–"), h("td", {}, each.parent ? visible(short(each.parent)) : "–"), h("td", { class: "soft" }, told(each.more))))))), more(shown.counts.tasks, shown.tasks.length));
}

const pairs = (shown, id) => h("section", { class: "card" }, h("h2", {}, `Pairs (${count(shown.counts.pairs)})`), h("p", {}, h("a", { href: `#/rate/loop/${id}` }, "Rate them blind")),
  scrolls("Pairs", h("table", { class: "still", "aria-label": "Pairs" }, heads(["Chosen", "Rejected", "Verifier", "Gap", "More"]),
    h("tbody", {}, shown.pairs.map((each) => h("tr", {}, [each.chosen, each.rejected].map((said) => h("td", { class: "short" }, h("pre", {}, visible(short(said))))), h("td", {}, visible(each.verifier)), cell(each.gap), h("td", { class: "soft" }, told(each.more))))))), more(shown.counts.pairs, shown.pairs.length));

const versions = (shown, open) => h("section", { class: "card versions" }, h("h2", {}, `Versions of code (${count(shown.counts.versions)})`), more(shown.counts.versions, shown.versions.length),
  shown.versions.map((each) => h("details", { open: open.has(each.digest), ontoggle: (event) => open[event.target.open ? "add" : "delete"](each.digest) }, h("summary", {}, h("code", {}, visible(short(each.digest))), each.parent ? [" from ", h("code", {}, visible(short(each.parent)))] : "", " ", each.verdict ? state(each.verdict) : "", each.j === null ? "" : ` J ${decimal(each.j, 4)}`),
    h("p", { class: "soft" }, told(each.more)), each.diff.length ? diff(each.diff, false) : h("p", { class: "soft" }, "No diff: it is the first."))));

export async function loops(place, { given }, app) {
  const [id] = given;
  if (!id) return list(place);
  const open = new Set(), stages = h("section", { class: "card" }), head = h("div", {}), rest = h("div", { class: "stack" });
  let look = "", before = "";
  put(place, h("div", { class: "stack" }, head, stages, rest));
  const draw = calmly((loop) => {
    const text = JSON.stringify([loop.stages, loop.state, loop.words]);
    if (text !== before) {
      before = text;
      const unfolded = new Set([...stages.querySelectorAll("details[open]")].map((each) => each.closest("li").querySelector("b").textContent));
      put(head, h("h1", {}, visible(loop.name), " ", state(loop.state)), h("p", { role: "status", "aria-label": "In short" }, `${loop.kind} of line ${loop.line}: ${loop.done} of ${loop.of} stages are over, ${decimal(loop.seconds, 1)} s of work. `, loop.words.map((line) => h("span", {}, visible(line), ". "))),
        loop.report && h("p", { class: "soft" }, "Report: ", h("code", {}, visible(`${loop.folder}/report.html`))), !loop.here && h("p", { class: "soft" }, "Its runs are in another lake than this console's."));
      put(stages, h("h2", {}, "Stages"), h("ol", { class: "stages", "aria-label": "Stages" }, loop.stages.map(stage)));
      for (const each of stages.querySelectorAll("li")) if (unfolded.has(each.querySelector("b").textContent)) each.querySelector("details")?.setAttribute("open", "");
    }
    if (!loop.shown) return;
    look = loop.look;
    const shown = loop.shown;
    put(rest, shown.faults.length ? h("section", { class: "card faults" }, h("h2", {}, "Not shown"), h("ul", {}, shown.faults.map((fault) => h("li", {}, visible(fault))))) : "",
      shown.curves.length ? h("div", { class: "grid" }, shown.curves.map(drawn)) : "", shown.tables.map(table), shown.tasks.length ? tasks(shown) : "", shown.pairs.length ? pairs(shown, id) : "", shown.versions.length ? versions(shown, open) : "");
  });
  const update = tried(async () => draw(await ask("loop", { id, seen: look })));
  draw(await ask("loop", { id }));
  const timer = setInterval(update, PAUSE);
  return { close() { clearInterval(timer); } };
}
