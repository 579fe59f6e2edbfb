// When what happened: the model's time, the environment's, and waits for people, on one axis; and their sums.
import { h, put, s } from "./dom.js";
import { seconds } from "./turn.js";

const LANES = [["model", "Model"], ["environment", "Environment"], ["approval", "Waits for you"], ["pause", "Paused"]];
const WIDTH = 480, LEFT = 92, ROW = 26;

export function timeline(place, data, jump) {
  const span = Math.max(0.001, data.end - data.begin), lanes = LANES.filter(([kind]) => ["model", "environment"].includes(kind) || data.spans.some((each) => each.kind === kind));
  const x = (at) => LEFT + (at - data.begin) / span * (WIDTH - LEFT - 6), height = lanes.length * ROW + 46;
  const picture = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `Timeline of ${seconds(span)}: ${lanes.map(([kind, name]) => `${name} ${seconds(data.sums[kind] ?? 0)}`).join(", ")}`, width: "100%", class: "timeline" },
    lanes.map(([kind, name], i) => [
      s("text", { x: LEFT - 8, y: i * ROW + 17, "text-anchor": "end" }, name), s("path", { class: "axis", d: `M${LEFT},${i * ROW + ROW - 2}H${WIDTH - 6}` }),
      data.spans.filter((each) => each.kind === kind).map((each) => s("rect", { class: `span ${kind}`, x: x(each.at), y: i * ROW + 5, width: Math.max(1.5, x(each.at + each.seconds) - x(each.at)), height: ROW - 9, onclick: () => jump(each.node) }, s("title", {}, `turn ${each.turn}: ${seconds(each.seconds)} ${each.text}`)))]),
    data.marks.map((mark) => s("circle", { class: `mark ${mark.kind}`, cx: x(mark.at), cy: lanes.length * ROW + 10, r: 4, onclick: () => jump(mark.node) }, s("title", {}, `${mark.kind} at turn ${mark.turn}`))),
    [0, 0.25, 0.5, 0.75, 1].map((part) => s("text", { x: x(data.begin + part * span), y: height - 6, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, seconds(part * span))));
  const sums = Object.entries(data.sums).filter(([, value]) => value > 0.0005);
  const longest = [...data.spans].sort((a, b) => b.seconds - a.seconds).slice(0, 12), marks = [...new Set(data.marks.map((mark) => mark.kind))];
  put(place, picture,
    marks.length ? h("p", { class: "soft legend" }, marks.map((kind) => [h("span", { class: `dot ${kind}` }), ` ${kind}  `])) : "",
    h("table", { "aria-label": "Time by who took it" }, h("tbody", {}, sums.map(([kind, value]) => h("tr", {}, h("th", { scope: "row" }, { model: "Model", environment: "Environment", approval: "Waits for approval", pause: "Paused by a person", other: "Everything else" }[kind]), h("td", { class: "num" }, seconds(value)), h("td", { class: "num" }, `${Math.round(100 * value / span)} %`))))),
    h("h2", {}, "Longest"), h("ol", { class: "longest" }, longest.map((each) => h("li", {}, h("button", { onclick: () => jump(each.node) }, `turn ${each.turn}`), ` ${each.kind} ${seconds(each.seconds)} `, h("span", { class: "soft" }, each.text)))));
}
