// What the agent did: terminals, files, searches; and the tree's branches.
import { h, put, seldom } from "./dom.js";
import { ask, tried } from "./api.js";

const TABS = ["Terminals", "Files", "Searches", "Branches"];
const KEPT = 400; // newest entries in the page

export function side({ walk, question, current, jump }) {
  let tab = TABS[0], known = 0, forks = false;
  const panels = Object.fromEntries(TABS.map((name) => [name, h("div", { class: "scroll", role: "tabpanel", id: `panel-${name}`, "aria-label": name })]));
  const place = h("div", { class: "tall" });
  const buttons = TABS.map((name) => h("button", { role: "tab", "aria-controls": `panel-${name}`, onclick: () => pick(name) }, name));
  const element = h("section", { class: "side", "aria-label": "What was done" }, h("div", { class: "bar", role: "tablist" }, buttons), place);
  const turn = (entry) => h("button", { onclick: () => jump(entry.node), "aria-label": `Go to turn ${entry.turn}` }, `turn ${entry.turn}`);
  const makers = {
    Terminals: (entry) => h("div", { class: "terminal" }, h("div", { class: "row-of" }, turn(entry), h("span", { class: "soft mono" }, `${entry.session} · ${entry.tool}`)),
      entry.command && h("pre", { class: "typed" }, `$ ${entry.command}`), h("pre", {}, entry.output)),
    Files: (entry) => h("div", { class: "entry" }, h("div", { class: "row-of" }, turn(entry), h("code", {}, entry.path), h("span", { class: entry.failed ? "tag bad" : "tag" }, entry.failed ? "failed" : entry.how)),
      entry.command && h("pre", {}, entry.command), entry.diff.length ? h("pre", { class: "diff" }, entry.diff.map((text) => h("div", { class: { "+": "plus", "-": "minus", "@": "at" }[text[0]] ?? "" }, text))) : ""),
    Searches: (entry) => h("div", { class: "entry" }, h("div", { class: "row-of" }, turn(entry), h("code", {}, entry.what)), h("details", {}, h("summary", {}, entry.tool), h("pre", {}, entry.found))),
  };
  function add(name, entries) {
    const panel = panels[name], end = panel.scrollTop + panel.clientHeight >= panel.scrollHeight - 30;
    if (entries.length) panel.querySelector(".none")?.remove();
    panel.append(...entries.slice(-KEPT).map(makers[name]));
    while (panel.childElementCount > KEPT) panel.firstElementChild.remove();
    if (!panel.childElementCount) panel.append(h("p", { class: "soft none" }, { Terminals: "No command was run.", Files: "No file was changed.", Searches: "Nothing was searched for." }[name]));
    if (end) panel.scrollTop = panel.scrollHeight;
  }
  // Of the turns shown, the last may still be without its answer: it is asked for again.
  const update = tried(async () => {
    const { tree } = walk();
    if (!tree) return;
    const after = Math.max(0, known - 1);
    const done = await ask("work", { ...question(), after });
    for (const name of ["Terminals", "Files", "Searches"]) {
      for (const old of [...panels[name].children]) if (Number(old.dataset.turn) > after) old.remove();
      add(name, done[name.toLowerCase()]);
      const entries = done[name.toLowerCase()].slice(-KEPT);
      const rows = [...panels[name].children].slice(-entries.length);
      entries.forEach((entry, i) => { rows[i].dataset.turn = entry.turn; });
    }
    known = done.turns;
  });
  const branches = tried(async () => {
    const { tree } = walk();
    if (!tree) return;
    const { pieces, nodes } = await ask("branches", { tree });
    const under = new Map();
    for (const piece of pieces) under.set(piece.on, [...(under.get(piece.on) ?? []), piece]);
    const draw = (piece) => h("li", { role: "treeitem", "aria-expanded": under.has(piece.number) ? "true" : undefined },
      h("button", { title: piece.text, "aria-label": `Branch ${piece.number}: ${piece.slot || "shared"}, ${piece.turns} turns`, "aria-current": piece.last === current() && "true", onclick: () => { location.hash = piece.ends[0] ? `#/run/${encodeURIComponent(piece.ends[0].run)}/${piece.ends[0].id}` : `#/walk/${tree}/${piece.last}`; } },
        `${piece.slot || "shared"} · ${piece.turns} turns · ${piece.begins}${piece.ends.length ? ` ⇒ ${piece.ends.map((end) => `${end.status}${end.score === null ? "" : ` ${end.score}`}`).join(", ")}` : ""}`, h("div", { class: "soft" }, piece.text)),
      under.has(piece.number) && h("ul", { role: "group" }, under.get(piece.number).map(draw)));
    put(panels.Branches, h("p", { class: "soft" }, `${nodes} nodes, ${pieces.filter((piece) => piece.end).length} leaves`), h("div", { class: "tree" }, h("ul", { role: "tree", "aria-label": "Branches" }, (under.get(null) ?? []).map(draw))));
    forks = true;
  });
  function pick(name) {
    tab = name;
    buttons.forEach((button) => button.setAttribute("aria-selected", String(button.textContent === name)));
    put(place, panels[name]);
    if (name === "Branches") branches(); else panels[name].scrollTop = panels[name].scrollHeight;
  }
  pick(tab);
  return { element, update, later: seldom(update, 400), pick, forked: seldom(() => { if (tab === "Branches" && forks) branches(); }, 500) };
}
