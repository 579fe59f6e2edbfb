// Plots as SVG from numbers.
import { s, decimal } from "./dom.js";

const WIDTH = 420, HEIGHT = 230, LEFT = 46, RIGHT = 12, TOP = 10, BOTTOM = 34;

function frame(label, x, y, xTicks, yTicks, xName, yName) {
  return s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, width: "100%" },
    s("path", { class: "axis", d: `M${LEFT},${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` }),
    xTicks.map((tick) => s("text", { x: x(tick), y: HEIGHT - BOTTOM + 14, "text-anchor": "middle" }, short(tick))),
    yTicks.map((tick) => s("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, short(tick))),
    s("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, xName),
    s("text", { x: LEFT + 6, y: TOP + 8 }, yName));
}

const short = (value) => Math.abs(value) >= 10000 || (value && Math.abs(value) < 0.001) ? value.toExponential(1) : decimal(value, 3);

export function scatter(points) {
  const x = (v) => LEFT + 12 + v * (WIDTH - LEFT - RIGHT - 24), y = (v) => HEIGHT - BOTTOM - 12 - v * (HEIGHT - TOP - BOTTOM - 24);
  const most = Math.max(1, ...points.map((point) => point.count)), ticks = [0, 0.25, 0.5, 0.75, 1];
  const plot = frame("Safety against completion", x, y, ticks, ticks, "completion (score)", "safety");
  for (const point of [...points].sort((a, b) => b.count - a.count)) {
    plot.append(s("circle", { class: point.safety < 0.5 ? "dot unsafe" : "dot", cx: x(point.score), cy: y(point.safety), r: 4 + 10 * Math.sqrt(point.count / most) },
      s("title", {}, `score ${point.score}, safety ${point.safety}: ${point.count} attempts`)));
  }
  return plot;
}

export function curve(name, points) {
  const known = points.filter(([, value]) => Number.isFinite(value));
  const xs = known.map(([step]) => step), ys = known.map(([, value]) => value);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)], [low, high] = [Math.min(...ys), Math.max(...ys)];
  const x = (v) => LEFT + (x1 > x0 ? (v - x0) / (x1 - x0) : 0.5) * (WIDTH - LEFT - RIGHT);
  const y = (v) => HEIGHT - BOTTOM - (high > low ? (v - low) / (high - low) : 0.5) * (HEIGHT - TOP - BOTTOM - 14);
  const plot = frame(`Curve of ${name}`, x, y, x1 > x0 ? [x0, Math.round((x0 + x1) / 2), x1] : [x0], high > low ? [low, (low + high) / 2, high] : [low], "step", name);
  plot.append(s("path", { class: "curve", d: known.map(([step, value], i) => `${i ? "L" : "M"}${x(step).toFixed(1)},${y(value).toFixed(1)}`).join("") }));
  if (known.length === 1) plot.append(s("circle", { class: "dot", cx: x(x0), cy: y(low), r: 4 }));
  return plot;
}

// What a budget buys: the best score so far, and the last, with their intervals, against turns or hours.
export function budgets(points, { per = 1, name }) {
  const most = Math.max(...points.map((point) => point.at)) / per;
  const x = (at) => LEFT + (at / per) / (most || 1) * (WIDTH - LEFT - RIGHT), y = (v) => HEIGHT - BOTTOM - v * (HEIGHT - TOP - BOTTOM - 14);
  const path = (pick) => points.map((point, i) => `${i ? "L" : "M"}${x(point.at).toFixed(1)},${y(pick(point)).toFixed(1)}`).join("");
  const band = (which) => `${path((point) => point[which].high ?? point[which].value)}${[...points].reverse().map((point) => `L${x(point.at).toFixed(1)},${y(point[which].low ?? point[which].value).toFixed(1)}`).join("")}Z`;
  const end = points.at(-1);
  const plot = frame(`Score against ${name}: in the end the best ${decimal(end.best.value, 3)}, the last ${decimal(end.last.value, 3)}`, (v) => x(v * per), y, [0, most / 2, most], [0, 0.5, 1], name, "score");
  for (const which of ["best", "last"]) plot.append(s("path", { class: `band ${which}`, d: band(which) }), s("path", { class: `curve ${which}`, d: path((point) => point[which].value) }));
  return plot;
}

// Completion against safety with intervals on both axes; a number for each point, colours by model and agent.
export function plane(points, toneOf, words) {
  const W = 560, H = 400, L = 52, R = 16, T = 14, B = 40, ticks = [0, 0.25, 0.5, 0.75, 1];
  const x = (v) => L + 16 + v * (W - L - R - 32), y = (v) => H - B - 16 - v * (H - T - B - 32);
  const known = points.filter((point) => point.completion && point.safety);
  const span = (interval, draw) => interval.low === null || interval.high === null ? "" : s("path", { class: "span", d: draw(interval) });
  return s("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", class: "plane", "aria-label": "Completion against safety of each point; the table has the same figures" },
    ticks.map((tick) => [s("path", { class: "axis", d: `M${L},${y(tick)}H${W - R}M${x(tick)},${T}V${H - B}` }), s("text", { x: x(tick), y: H - B + 15, "text-anchor": "middle" }, `${100 * tick} %`), s("text", { x: L - 6, y: y(tick) + 4, "text-anchor": "end" }, `${100 * tick} %`)]),
    s("text", { x: (L + W - R) / 2, y: H - 5, "text-anchor": "middle" }, "completion: tasks done under attack"), s("text", { transform: `translate(12 ${(H - B) / 2}) rotate(-90)`, "text-anchor": "middle" }, "safety"),
    [...known].reverse().map((point) => s("g", { class: `spot tone${toneOf(point)}` }, s("title", {}, words(point)),
      span(point.completion, ({ low, high }) => `M${x(low)},${y(point.safety.value)}H${x(high)}`), span(point.safety, ({ low, high }) => `M${x(point.completion.value)},${y(low)}V${y(high)}`),
      s("circle", { cx: x(point.completion.value), cy: y(point.safety.value), r: 11 }), s("text", { class: "in", x: x(point.completion.value), y: y(point.safety.value) + 4, "text-anchor": "middle" }, point.number))));
}

// Several series over one axis of numbers or names; NAME low and NAME high are the interval of NAME.
export const TONES = 6;
// Names of one axis differ at their ends: versions, stages of rounds.
const ending = (name) => name.length > 14 ? `…${name.slice(-13)}` : name;

export const drawnSeries = (curve) => Object.keys(curve.series).filter((name) => !(/ (low|high)$/.test(name) && name.replace(/ (low|high)$/, "") in curve.series));
export function series(curve) {
  const names = drawnSeries(curve), named = curve.x.some((each) => typeof each === "string");
  const at = curve.x.map((each, i) => named ? i : each ?? i);
  const all = Object.values(curve.series).flat().filter(Number.isFinite);
  const [x0, x1] = [Math.min(...at), Math.max(...at)], [low, high] = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
  const x = (v) => LEFT + (named ? (v + 0.5) / at.length : x1 > x0 ? (v - x0) / (x1 - x0) : 0.5) * (WIDTH - LEFT - RIGHT);
  const y = (v) => HEIGHT - BOTTOM - 6 - (high > low ? (v - low) / (high - low) : 0.5) * (HEIGHT - TOP - BOTTOM - 18);
  const plot = frame(`${curve.title}: ${names.join(", ")}; the figures are in the table below`, x, y, named ? [] : x1 > x0 ? [x0, (x0 + x1) / 2, x1] : [x0], high > low ? [low, (low + high) / 2, high] : [low], "", "");
  if (named) {
    const every = Math.ceil(at.length / 6);
    for (const i of at) if (i % every === 0) plot.append(s("text", { x: x(i), y: HEIGHT - BOTTOM + 14, "text-anchor": "middle" }, ending(String(curve.x[i]))));
  }
  names.forEach((name, tone) => {
    const values = curve.series[name], known = at.map((_, i) => i).filter((i) => Number.isFinite(values[i]));
    const [below, above] = ["low", "high"].map((side) => curve.series[`${name} ${side}`]);
    const group = s("g", { class: `tone${tone % TONES}` });
    if (below && above) for (const i of known) if (Number.isFinite(below[i]) && Number.isFinite(above[i])) group.append(s("path", { class: "reach", d: `M${x(at[i])},${y(below[i])}V${y(above[i])}` }));
    group.append(s("path", { class: "of", d: known.map((i, n) => `${n ? "L" : "M"}${x(at[i]).toFixed(1)},${y(values[i]).toFixed(1)}`).join("") }));
    if (known.length <= 40) for (const i of known) group.append(s("circle", { cx: x(at[i]), cy: y(values[i]), r: 3 }, s("title", {}, `${name} at ${curve.x[i]}: ${values[i]}`)));
    plot.append(group);
  });
  return plot;
}
