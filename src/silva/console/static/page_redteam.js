// Red team: the plans of a lake; one plan as completion against safety, surfaces × framings, and every found failure.
import { h, put, percent, count, ago, seldom, calmly } from "./dom.js";
import { ask, listen, tried } from "./api.js";
import { plane } from "./chart.js";
import { visible } from "./rendered.js";

const TONES = 6;
const bounds = (interval) => interval.low === null || interval.high === null ? "" : ` [${(100 * interval.low).toFixed(1)}, ${(100 * interval.high).toFixed(1)}]`;
const share = (interval, none = "–") => interval ? [percent(interval.value), h("small", { class: "soft" }, bounds(interval))] : none;
const because = (why) => why.map(([text, times]) => `${text} (${times})`).join("; ");
const heads = (names) => h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name))));
const scrolls = (label, ...inside) => h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": label }, inside);

async function list(place) {
  const { plans } = await ask("redteam");
  put(place, h("h1", {}, "Red team"), plans.length ? h("section", { class: "card scrolls", tabindex: "0", role: "region", "aria-label": "Plans" }, h("table", { class: "still" }, heads(["Plan", "Runs", "Models", "Environments", "State", "Began"]),
    h("tbody", {}, plans.map((each) => h("tr", {}, h("td", {}, h("a", { href: `#/redteam/${encodeURIComponent(each.name)}` }, each.name)), h("td", { class: "num" }, count(each.runs)), h("td", {}, each.models.join(", ")), h("td", {}, each.envs.join(", ")), h("td", {}, each.live ? "under way" : "ended"), h("td", { class: "soft" }, ago(each.started)))))))
    : h("p", { class: "soft" }, "Nothing was attacked yet: silva redteam run makes a plan, silva rollout --attack one run."));
  return { close() {} };
}

function map(heat, label) {
  const cells = new Map(heat.cells.map((cell) => [`${cell.surface} ${cell.framing}`, cell]));
  const drawn = (cell) => {
    if (!cell) return h("td", {}, h("span", { class: "unheard" }, "not tried"));
    if (!cell.success) return h("td", { class: "unmeasured", title: because(cell.why) }, "not measured", h("small", {}, `0 of ${cell.attempts} exposed`));
    return h("td", { class: `hot part${Math.round(5 * cell.success.value)}`, title: `${cell.reached} of ${cell.exposed} exposed led astray${bounds(cell.success)}; ${cell.attempts} attempts` }, percent(cell.success.value), h("small", {}, `n ${cell.exposed}`));
  };
  return scrolls(label, h("table", { class: "heat", "aria-label": label }, heads(["Surface", ...heat.framings]), h("tbody", {}, heat.surfaces.map((surface) => h("tr", {}, h("th", { scope: "row" }, surface), heat.framings.map((framing) => drawn(cells.get(`${surface} ${framing}`))))))));
}

export async function redteam(place, { given }, app) {
  const [name] = given;
  if (!name) return list(place);
  const open = new Set();
  const draw = calmly((plan) => {
    const several = (field) => new Set(plan.points.map((point) => point[field])).size > 1;
    const kinds = [...new Set(plan.points.map((point) => `${point.model} ${point.agent}`))];
    const points = plan.points.map((point, i) => ({ ...point, number: i + 1 }));
    const tone = (point) => kinds.indexOf(`${point.model} ${point.agent}`) % TONES;
    const label = (point) => [point.env, point.model, several("agent") && point.agent, point.defence && `with ${point.defence}`].filter(Boolean).join(" · ");
    const live = plan.runs.filter((run) => run.live).length;
    const to = (failure) => `#/run/${encodeURIComponent(failure.run)}/${failure.trajectory}?turn=${failure.reached}`;
    const focused = place.contains(document.activeElement) && document.activeElement.getAttribute("href");
    put(place, h("div", { class: "stack" },
      h("div", {}, h("h1", {}, "Red team: ", name), h("p", { "aria-label": "In short", role: "status" }, `${count(plan.attempts)} attempts under attack have ended, ${count(plan.exposed)} were exposed, in ${count(plan.found)} a goal was reached. `, live ? `${live} of ${plan.runs.length} runs are under way.` : "All runs have ended.")),
      h("section", { class: "card" }, h("h2", {}, "Completion against safety"),
        points.some((point) => point.safety && point.completion) ? plane(points, tone, (point) => `${point.number}: ${label(point)}: tasks done ${percent(point.completion.value)}, safe ${percent(point.safety.value)}, ${point.exposed} exposed of ${point.attempts}`) : h("p", {}, "Not measured: no attempt was shown an attack."),
        points.length ? scrolls("Points in figures", h("table", { class: "still", "aria-label": "Points" }, heads(["Point", "Attempts", "Launched", "Exposed", "Led astray", "Safe", "Done under attack", "Done without attack", "Why not exposed"]),
          h("tbody", {}, points.map((point) => h("tr", {}, h("td", {}, h("span", { class: `numbered tone${tone(point)}` }, point.number), " ", visible(label(point))), [point.attempts, point.launched, point.exposed, point.reached].map((value) => h("td", { class: "num" }, count(value))),
            h("td", { class: "num" }, share(point.safety, "not measured")), h("td", { class: "num" }, share(point.completion, "not measured")), h("td", { class: "num" }, share(point.untouched)), h("td", { class: "soft" }, because(point.unseen) || "–")))))) : ""),
      h("section", { class: "card" }, h("h2", {}, "Surfaces × framings"), h("p", { class: "soft" }, "Share of the exposed that was led astray; n: how many those were. Without defences."),
        plan.heat.cells.length ? map(plan.heat, "Surfaces and framings, all points") : h("p", { class: "soft" }, "Nothing yet."),
        points.length > 1 ? points.map((point) => h("details", { open: open.has(point.number), ontoggle: (event) => open[event.target.open ? "add" : "delete"](point.number) }, h("summary", {}, `${point.number}: `, visible(label(point))), map(point.heat, `Surfaces and framings of point ${point.number}`))) : ""),
      h("section", { class: "card" }, h("h2", {}, "Found failures"),
        plan.failures.length ? [scrolls("Found failures", h("table", { class: "still", "aria-label": "Found failures" }, heads(["Attempt", "Attack", "Seen", "Acted on", "Reached", "Task done", "Standards", "Take it again"]),
          h("tbody", {}, plan.failures.map((failure) => h("tr", {}, h("td", {}, h("a", { href: to(failure) }, visible(`${failure.env} ${failure.task}`)), h("div", { class: "soft" }, visible(failure.model))), h("td", {}, failure.attack), [failure.exposed, failure.acted, failure.reached].map((turn) => h("td", {}, turn ? `turn ${turn}` : "–")),
            h("td", {}, failure.done === null ? "not judged" : failure.done ? "yes" : "no"), h("td", { class: "soft" }, failure.standards.join(", ")), h("td", {}, failure.replay ? h("code", {}, failure.replay) : h("span", { class: "soft" }, "several agents acted"))))))), plan.found > plan.failures.length ? h("p", { class: "soft" }, `${plan.found - plan.failures.length} more.`) : ""]
          : h("p", { class: "soft" }, plan.exposed ? `No attack reached its goal in ${plan.exposed} exposed attempts.` : "None was looked for yet: no attempt was exposed."))));
    if (focused) [...place.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
  });
  const update = tried(async () => draw(await ask("redteam", { plan: name })));
  draw(await ask("redteam", { plan: name }));
  const later = seldom(update, 2000);
  const stop = listen({ run: "*" }, { state: app.live, again: update, told: (news) => { if ((news.runs ?? []).some((run) => run === name || run.startsWith(`${name}.`))) later(); } });
  return { close: stop };
}
