// The tree as a picture: pieces between forks from left to right, as long as their turns; at the leaves the attempts and
// their scores; where people spoke, where turns carry no loss, where there was a risk. Below it the same as a list.
import { h, put, s, decimal } from "./dom.js";
import { state } from "./state.js";

const ROW = 26, LEFT = 12, ENDS = 110, WIDTH = 480;

export function picture(place, { pieces, nodes }, { tree, current }) {
  const under = new Map();
  for (const piece of pieces) under.set(piece.on, [...(under.get(piece.on) ?? []), piece]);
  const where = (piece) => piece.ends[0] ? `#/run/${encodeURIComponent(piece.ends[0].run)}/${piece.ends[0].id}` : `#/walk/${tree}/${piece.last}`;
  // A leaf has a row; a fork stands in the middle of its branches.
  const depth = new Map(), rows = new Map();
  let next = 0;
  for (const piece of pieces) depth.set(piece.number, (depth.get(piece.on) ?? 0) + Math.max(1, piece.turns));
  for (const piece of [...pieces].reverse()) {
    const children = under.get(piece.number) ?? [];
    rows.set(piece.number, children.length ? children.reduce((sum, child) => sum + rows.get(child.number), 0) / children.length : next++);
  }
  const most = Math.max(1, ...depth.values()), leaves = Math.max(1, next), height = leaves * ROW + 14;
  const x = (turns) => LEFT + turns / most * (WIDTH - LEFT - ENDS), y = (piece) => height - 8 - (rows.get(piece.number) + 0.5) * ROW;
  const score = (end) => end.score === null ? end.status : decimal(end.score);
  const kind = (piece) => piece.ends.some((end) => end.success) ? "won" : piece.ends.some((end) => end.status === "failed") ? "lost" : "";
  const draw = (piece) => {
    const from = depth.get(piece.on) ?? 0, to = depth.get(piece.number), above = pieces[piece.on], marks = [];
    const spread = (count, name, offset) => { for (let i = 0; i < Math.min(count, 12); i++) marks.push(s("circle", { class: `mark ${name}`, cx: x(from + (i + 1) * (to - from) / (Math.min(count, 12) + 1)), cy: y(piece) + offset, r: 4 })); };
    spread(piece.people, "person", 0); spread(piece.masked, "masked", -6); spread(piece.risks, "risk", 6);
    return s("g", { class: `piece ${kind(piece)} ${piece.last === current ? "here" : ""}`, onclick: () => { location.hash = where(piece); } },
      above ? s("path", { class: "fork", d: `M${x(from)},${y(above)}C${x(from) + 10},${y(above)} ${x(from) - 4},${y(piece)} ${x(from) + 8},${y(piece)}` }) : "",
      s("path", { class: "limb", d: `M${x(from) + (above ? 8 : 0)},${y(piece)}H${x(to)}` }), marks,
      piece.end ? [s("circle", { class: "leaf", cx: x(to), cy: y(piece), r: 5 }), s("text", { x: x(to) + 10, y: y(piece) + 4 }, `${piece.slot || "shared"}  ${piece.ends.map(score).join(", ")}`)] : "",
      s("title", {}, `${piece.slot || "shared"}, ${piece.turns} turns: ${piece.people} by people, ${piece.masked} masked, ${piece.risks} with a risk. ${piece.text}`));
  };
  const told = (piece) => [piece.people && `${piece.people} by people`, piece.masked && `${piece.masked} masked`, piece.risks && `${piece.risks} with a risk`].filter(Boolean).join(", ");
  const item = (piece) => h("li", { role: "treeitem", "aria-expanded": under.has(piece.number) ? "true" : undefined, "aria-selected": String(piece.last === current) },
    h("button", { title: piece.text, "aria-current": piece.last === current && "true", onclick: () => { location.hash = where(piece); } },
      `Branch ${piece.number}: ${piece.slot || "shared"}, ${piece.turns} turns, by ${piece.begins}${told(piece) ? ` · ${told(piece)}` : ""}${piece.ends.length ? ` ⇒ ${piece.ends.map((end) => `${end.status}${end.score === null ? "" : ` ${decimal(end.score)}`}`).join(", ")}` : ""}`, piece.ends.map(state), h("div", { class: "soft" }, piece.text)),
    under.has(piece.number) && h("ul", { role: "group" }, under.get(piece.number).map(item)));
  put(place,
    h("p", { class: "soft" }, `${nodes} nodes, ${pieces.filter((piece) => piece.end).length} leaves`),
    h("div", { class: "picture" }, s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", width: "100%", "aria-label": `The tree: ${leaves} leaves; listed below` }, pieces.map(draw))),
    h("p", { class: "soft legend" }, h("span", { class: "dot person" }), " people  ", h("span", { class: "dot masked" }), " no loss  ", h("span", { class: "dot risk" }), " risk"),
    h("div", { class: "tree" }, h("ul", { role: "tree", "aria-label": "Branches" }, (under.get(null) ?? []).map(item))));
}
