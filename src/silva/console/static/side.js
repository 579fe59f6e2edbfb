// What the agent did: terminals, changes, the workspace, searches; when it was; and the tree it stands on.
import { h, put, seldom } from "./dom.js";
import { ask, tried } from "./api.js";
import { diff, visible } from "./rendered.js";
import { following } from "./follow.js";
import { terminals } from "./terminals.js";
import { timeline } from "./timeline.js";
import { picture } from "./picture.js";
import { files } from "./files.js";

const TABS = ["Terminals", "Files", "Workspace", "Timeline", "Branches", "Searches"];
const KEPT = 400; // newest entries in the page

export function side({ walk, question, current, jump, numbers }) {
  let tab = TABS[0], known = 0, forks = false;
  const turn = (entry) => h("button", { onclick: () => jump(entry.node), "aria-label": `Go to turn ${entry.turn}` }, `turn ${entry.turn}`);
  const shells = terminals({ turn }), world = files({ question, numbers });
  const panels = Object.fromEntries(TABS.map((name) => [name, h("div", { class: "Terminals Workspace".includes(name) ? "tall" : "scroll", role: "tabpanel", id: `panel-${name}`, "aria-label": name, tabindex: "Terminals Workspace".includes(name) ? false : "0" })]));
  panels.Terminals.append(shells.element);
  panels.Workspace.append(world.element);
  const lists = { Files: following(panels.Files), Searches: following(panels.Searches) };
  const place = h("div", { class: "tall" });
  const buttons = TABS.map((name) => h("button", { role: "tab", "aria-controls": `panel-${name}`, onclick: () => pick(name) }, name));
  const element = h("section", { class: "side", "aria-label": "What was done" }, h("div", { class: "bar", role: "tablist", "aria-label": "What was done" }, buttons), place);
  const makers = {
    Files: (entry) => h("div", { class: "entry" }, h("div", { class: "row-of" }, turn(entry), h("code", {}, visible(entry.path)), h("span", { class: entry.failed ? "tag bad" : "tag" }, entry.failed ? "failed" : entry.how), entry.diff.length && !entry.numbered ? h("span", { class: "soft" }, "what the file held is not known: no line numbers") : ""),
      entry.command && h("pre", { class: "code" }, visible(entry.command)), entry.diff.length ? diff(entry.diff, entry.numbered) : ""),
    Searches: (entry) => h("div", { class: "entry" }, h("div", { class: "row-of" }, turn(entry), h("code", {}, visible(entry.what))), h("details", {}, h("summary", {}, entry.tool), h("pre", {}, entry.found))),
  };
  function take(name, entries, after) {
    const panel = panels[name];
    for (const old of [...panel.children]) if (old.turn > after) old.remove();
    if (entries.length) panel.querySelector(".none")?.remove();
    panel.append(...entries.slice(-KEPT).map((entry) => Object.assign(makers[name](entry), { turn: entry.turn })));
    while (panel.childElementCount > KEPT) panel.firstElementChild.remove();
    if (!panel.childElementCount) panel.append(h("p", { class: "soft none" }, { Files: "No file was changed.", Searches: "Nothing was searched for." }[name]));
    lists[name].go();
  }
  // Of the turns shown, the last may still be without its answer: it is asked for again.
  const update = tried(async () => {
    const { tree } = walk();
    if (!tree) return;
    const after = Math.max(0, known - 1);
    const done = await ask("work", { ...question(), after });
    shells.take(done.terminals, after);
    take("Files", done.files, after);
    take("Searches", done.searches, after);
    known = done.turns;
    if (tab === "Timeline") later();
  });
  const branches = tried(async () => {
    const { tree } = walk();
    if (!tree) return;
    picture(panels.Branches, await ask("branches", { tree }), { tree, current: current() });
    forks = true;
  });
  const times = tried(async () => {
    if (!question().id) { put(panels.Timeline, h("p", { class: "soft" }, "A timeline is of an attempt: choose one.")); return; }
    timeline(panels.Timeline, await ask("timeline", question()), jump);
  });
  const later = seldom(times, 2000);
  function pick(name) {
    tab = name;
    buttons.forEach((button) => button.setAttribute("aria-selected", String(button.textContent === name)));
    put(place, panels[name]);
    if (name === "Branches") branches();
    else if (name === "Timeline") times();
    else if (name === "Workspace") world.draw();
    else if (name === "Terminals") shells.shown();
    else lists[name].go();
  }
  pick(tab);
  return { element, update, later: seldom(update, 400), pick, workspace(node) { pick("Workspace"); return world.go(node); }, forked: seldom(() => { if (tab === "Branches" && forks) branches(); }, 500) };
}
