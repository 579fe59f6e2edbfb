// A whole run over wall-clock time: a lane for every attempt, with its turns, waits for people, their words, and its end.
import { h, put, s, count, clock, decimal, seldom, calmly } from "./dom.js";
import { ask, listen, tried } from "./api.js";
import { seconds } from "./turn.js";
import { state } from "./state.js";

const WIDTH = 1000, LEFT = 210, RIGHT = 78, ROW = 24, TOP = 24;

const ended = (lane) => lane.status === "running" || lane.status === "cut off" ? "open" : lane.status === "failed" ? "lost" : lane.success ? "won" : "over";
const score = (lane) => ended(lane) === "open" ? lane.state || lane.status : lane.score === null ? lane.status : decimal(lane.score);
const short = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
const hour = (at) => new Date(at * 1000).toLocaleTimeString("en-GB", { hour12: false });

export async function timeline(place, { given }, app) {
  const [run] = given;
  if (!run) {
    const { runs } = await ask("runs");
    put(place, h("h1", {}, "Timeline of a run"), runs.length ? h("ul", {}, runs.map((each) => h("li", {}, h("a", { href: `#/timeline/${encodeURIComponent(each.id)}` }, each.id), h("span", { class: "soft" }, ` ${each.status}`)))) : h("p", { class: "soft" }, "No run yet: silva rollout makes one."));
    return { close() {} };
  }
  const picture = h("section", { class: "card scrolls", tabindex: "0", role: "region", "aria-label": "Lanes" }), list = h("section", { class: "card scrolls", tabindex: "0", role: "region", "aria-label": "Attempts in figures" }), about = h("p");
  put(place, h("h1", {}, "Timeline of ", h("a", { href: `#/run/${encodeURIComponent(run)}` }, run)), about, picture,
    h("p", { class: "soft legend" }, h("span", { class: "dot turns" }), " turn  ", h("span", { class: "dot person" }), " a person's words  ", h("span", { class: "dot approval" }), " waits for approval  ", h("span", { class: "dot pause" }), " paused  ", h("span", { class: "dot won" }), " success  ", h("span", { class: "dot lost" }), " failed"), list);
  const open = (lane) => app.go(`#/run/${encodeURIComponent(run)}/${encodeURIComponent(lane.id)}`);
  const draw = calmly((data) => {
    const focused = list.contains(document.activeElement) && document.activeElement.getAttribute("href");
    const span = Math.max(0.001, data.end - data.begin), height = TOP + data.lanes.length * ROW + 8;
    const x = (at) => LEFT + (at - data.begin) / span * (WIDTH - LEFT - RIGHT), wide = (from, to) => Math.max(2, x(to) - x(from));
    put(about, `${hour(data.begin)} to ${hour(data.end)}, ${seconds(span)}: ${count(data.of)} attempts, ${count(data.lanes.reduce((sum, lane) => sum + lane.count, 0))} turns`, data.of > data.lanes.length ? `; the ${data.lanes.length} that moved last are drawn.` : ".");
    const drawn = (lane, i) => {
      const y = TOP + i * ROW;
      return s("g", { class: `lane ${ended(lane)}`, onclick: () => open(lane) },
        s("title", {}, `${lane.task} ${lane.slot}: ${seconds(lane.end - lane.begin)}, ${lane.count} turns, ${score(lane)}`),
        s("text", { x: LEFT - 8, y: y + 16, "text-anchor": "end" }, `${short(lane.task || lane.id, 26)} ${lane.slot}`),
        s("rect", { class: "life", x: x(lane.begin), y: y + 6, width: wide(lane.begin, lane.end), height: ROW - 10 }),
        lane.turns.map((turn) => s("path", { class: "tick", d: `M${x(turn.at).toFixed(1)},${y + 6}v${ROW - 10}` })),
        lane.waits.map((wait) => s("rect", { class: `span ${wait.kind}`, x: x(wait.at), y: y + 6, width: wide(wait.at, wait.at + wait.seconds), height: ROW - 10 }, s("title", {}, `${wait.kind} ${seconds(wait.seconds)}: ${wait.text}`))),
        lane.words.map((word) => s("circle", { class: "mark person", cx: x(word.at), cy: y + ROW / 2 + 1, r: 5 }, s("title", {}, `${hour(word.at)} ${word.text}`))),
        s("circle", { class: "end", cx: x(lane.end), cy: y + ROW / 2 + 1, r: 5 }), s("text", { x: x(lane.end) + 9, y: y + 16 }, short(score(lane), 10)));
    };
    put(picture, data.lanes.length ? s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", class: "lanes", "aria-label": `Lanes of ${data.lanes.length} attempts over ${seconds(span)}; listed below` },
      [0, 0.25, 0.5, 0.75, 1].map((part) => [s("path", { class: "axis", d: `M${x(data.begin + part * span)},${TOP - 4}V${height}` }), s("text", { x: x(data.begin + part * span), y: 14, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, hour(data.begin + part * span))]),
      data.lanes.map(drawn)) : h("p", { class: "soft" }, "No attempt has begun yet."));
    const waited = (lane, kind) => lane.waits.filter((wait) => wait.kind === kind).reduce((sum, wait) => sum + wait.seconds, 0);
    put(list, h("table", { "aria-label": "Attempts over time" }, h("thead", {}, h("tr", {}, ["Attempt", "Began", "Took", "Turns", "Waited for approval", "Paused", "People's words", "End", "Score"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, data.lanes.map((lane) => h("tr", {}, h("td", {}, h("a", { href: `#/run/${encodeURIComponent(run)}/${encodeURIComponent(lane.id)}` }, `${lane.task || lane.id} ${lane.slot}`)), h("td", { title: clock(lane.begin) }, hour(lane.begin)), h("td", { class: "num" }, seconds(lane.end - lane.begin)), h("td", { class: "num" }, count(lane.count)),
        ["approval", "pause"].map((kind) => h("td", { class: "num" }, waited(lane, kind) ? seconds(waited(lane, kind)) : "–")), h("td", {}, lane.words.length > 3 ? h("div", { class: "soft" }, `${lane.words.length - 3} before`) : "", lane.words.length ? lane.words.slice(-3).map((word) => h("div", {}, h("span", { class: "soft" }, `${hour(word.at)} `), short(word.text, 80))) : "–"),
        h("td", { class: { won: "good", lost: "bad" }[ended(lane)] ?? "" }, lane.state ? state(lane) : lane.status, lane.failure ? h("div", { class: "soft" }, lane.failure) : ""), h("td", { class: "num" }, decimal(lane.score)))))));
    if (focused) [...list.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
  });
  const update = tried(async () => draw(await ask("lanes", { run })));
  await update();
  const later = seldom(update, 2000);
  const stop = listen({ run }, { state: app.live, again: update, told: (news) => { if (news.rows || news.words || news.runs) later(); } });
  return { close: stop };
}
