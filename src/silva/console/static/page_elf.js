// Data engine: jobs, one plan as a graph with live steps, and candidates that wait for a person.
import { h, s, put, count, ago, decimal, calmly } from "./dom.js";
import { ask, order, tell, tried } from "./api.js";
import { visible } from "./rendered.js";

const PAUSE = 2000; // milliseconds between two looks at what runs
const heads = (names) => h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name))));
const scrolls = (label, ...inside) => h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": label }, inside);
const state = (text) => h("span", { class: `tag state${{ done: " good", failed: " bad", damaged: " bad" }[text] ?? ""}` }, text);

function candidate(each, app, again) {
  const may = app.me && app.me.role !== "viewer";
  const held = each.trials.every((trial) => trial.held);
  return h("section", { class: "card", "aria-label": `Candidate ${each.id}` }, h("h3", {}, visible(each.name), " ", h("small", { class: "soft" }, `${each.id} · ${each.kind} · ${ago(each.made)}`)),
    h("p", {}, visible(each.summary)), each.intent && h("p", { class: "soft" }, "Derived for: ", visible(each.intent)),
    scrolls(`What ${each.id} does`, h("pre", {}, visible(each.does))),
    h("ul", {}, each.trials.map((trial) => h("li", {}, trial.held ? "held: " : "did not hold: ", visible(trial.example), trial.said ? ` (${trial.said})` : ""))),
    h("p", { class: "soft" }, Object.entries(each.measured).map(([name, value]) => `${name}: ${value}`).join(" · ")),
    may ? h("button", { disabled: !held, onclick: tried(async () => { const made = await order("promote", { candidate: each.id }); tell(`${made.name} is an asset now, version ${made.version}`); await again(); }) }, "Promote to a tool") : h("p", { class: "soft" }, "Promoting takes the role guide."));
}

async function list(place, app) {
  let shown = "";
  const draw = calmly((found) => {
    const text = JSON.stringify(found);
    if (text === shown) return;
    shown = text;
    put(place, h("div", { class: "stack" }, h("h1", {}, "Data engine"),
      h("section", {}, h("h2", {}, "Candidates that wait"), found.candidates.length ? found.candidates.map((each) => candidate(each, app, update)) : h("p", { class: "soft" }, "None. A pilot that derives a tool leaves it here.")),
      h("section", { class: "card" }, h("h2", {}, "Jobs"), found.jobs.length ? scrolls("Jobs", h("table", { class: "still", "aria-label": "Jobs" }, heads(["Job", "Intent", "State", "Steps", "Seconds", "Tokens", "Began"]),
        h("tbody", {}, found.jobs.map((each) => h("tr", {}, h("td", {}, h("a", { href: `#/elf/${each.id}` }, each.id)), h("td", {}, visible(each.intent)), h("td", {}, state(each.state)), h("td", { class: "num" }, `${each.done} of ${each.steps}`), h("td", { class: "num" }, decimal(each.seconds ?? 0, 1)), h("td", { class: "num" }, count(each.tokens ?? 0)), h("td", { class: "soft" }, ago(each.made)))))))
        : h("p", { class: "soft" }, "No job yet: silva elf run \"describe what to do with which data\".")),
      found.assets.length ? h("section", { class: "card" }, h("h2", {}, "Assets"), h("ul", {}, found.assets.map((each) => h("li", {}, `${each.name}, version ${each.version} (${each.kind}), promoted by ${each.by} ${ago(each.at)}`)))) : ""));
  });
  const update = tried(async () => draw(await ask("elf")));
  draw(await ask("elf"));
  const timer = setInterval(update, PAUSE);
  return { close() { clearInterval(timer); } };
}

const WIDE = 190, HIGH = 62, GAP = 46, ROOM = 14;
function graph(steps) {
  const rows = new Map();
  const at = new Map(steps.map((step) => { const row = rows.get(step.layer) ?? 0; rows.set(step.layer, row + 1); return [step.id, { x: step.layer * (WIDE + GAP) + 4, y: row * (HIGH + ROOM) + 4 }]; }));
  const width = (Math.max(...steps.map((step) => step.layer)) + 1) * (WIDE + GAP), height = Math.max(...rows.values()) * (HIGH + ROOM) + 8;
  const edges = steps.flatMap((step) => step.from.map((source) => { const a = at.get(source), b = at.get(step.id); return a && s("path", { class: "edge", d: `M${a.x + WIDE} ${a.y + HIGH / 2} C${a.x + WIDE + GAP / 2} ${a.y + HIGH / 2} ${b.x - GAP / 2} ${b.y + HIGH / 2} ${b.x} ${b.y + HIGH / 2}` }); }));
  const told = (step) => step.state === "done" ? `${count(step.count)} ${step.kind}${step.kept ? ", kept" : ""}` : step.state;
  const boxes = steps.map((step) => { const { x, y } = at.get(step.id); return s("g", { class: `step ${step.state}` }, s("rect", { x, y, width: WIDE, height: HIGH, rx: 8 }), s("text", { x: x + 10, y: y + 25 }, step.tool.slice(0, 24)), s("text", { class: "soft", x: x + 10, y: y + 46 }, told(step).slice(0, 28))); });
  return s("svg", { class: "plan", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Plan: ${steps.map((step) => `${step.tool} ${step.state}`).join(", then ")}` }, edges, boxes);
}

export async function elf(place, { given }, app) {
  const [name] = given;
  if (!name) return list(place, app);
  let shown = "";
  const draw = calmly((job) => {
    const text = JSON.stringify(job);
    if (text === shown) return;
    shown = text;
    put(place, h("div", { class: "stack" }, h("div", {}, h("h1", {}, visible(job.intent || job.id)), h("p", { role: "status", "aria-label": "In short" }, state(job.state), ` ${job.id}: ${job.done} of ${job.steps} steps are done. `, job.why ? visible(job.why) : "")),
      h("section", { class: "card" }, h("h2", {}, "Plan"), scrolls("Plan as a graph", graph(job.plan)), job.notes.map((note) => h("p", { class: "soft" }, visible(note)))),
      h("section", { class: "card" }, h("h2", {}, "Steps"), scrolls("Steps in figures", h("table", { class: "still", "aria-label": "Steps" }, heads(["Step", "Settings", "State", "Gave", "Seconds", "Said"]),
        h("tbody", {}, job.plan.map((step) => h("tr", {}, h("td", {}, step.id), h("td", {}, h("code", {}, visible(step.settings))), h("td", {}, state(step.state)), h("td", {}, step.state === "done" ? `${count(step.count)} ${step.kind}` : "–"), h("td", { class: "num" }, step.kept ? "kept" : decimal(step.seconds, 2)), h("td", { class: "soft" }, visible(step.why)))))))),
      job.report ? h("section", { class: "card" }, h("h2", {}, "Report"), scrolls("Report", h("pre", {}, visible(job.report)))) : ""));
  });
  const update = tried(async () => draw(await ask("elf", { job: name })));
  draw(await ask("elf", { job: name }));
  const timer = setInterval(update, PAUSE);
  return { close() { clearInterval(timer); } };
}
