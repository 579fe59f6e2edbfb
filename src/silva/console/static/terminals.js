// A terminal for each session of an attempt: what was typed and what came, in order; it follows.
import { h, put } from "./dom.js";
import { coloured, visible } from "./rendered.js";
import { following } from "./follow.js";

const KEPT = 400; // newest commands of a session in the page

export function terminals({ turn }) {
  const tabs = h("div", { class: "bar sessions", role: "group", "aria-label": "Sessions" }), place = h("div", { class: "tall" });
  const element = h("div", { class: "tall" }, tabs, place), none = h("p", { class: "soft" }, "No command was run.");
  const sessions = new Map(); // name -> {panel, follow, button, seen}
  let shown = "";
  const entry = (one) => Object.assign(h("div", { class: "typing" },
    h("div", { class: "row-of" }, turn(one), one.tool ? h("span", { class: "soft mono" }, one.tool) : ""),
    one.command && h("pre", { class: "typed" }, "$ ", visible(one.command)), one.lines ? coloured(one.lines) : h("pre", {}, one.output)), { turn: one.turn });
  function session(name) {
    if (sessions.has(name)) return sessions.get(name);
    const panel = h("div", { class: "scroll terminal", tabindex: "0", role: "log", "aria-live": "off", "aria-label": `Terminal of session ${name}` });
    const made = { panel, follow: following(panel), button: h("button", { "aria-pressed": "false", onclick: () => show(name) }, name) };
    sessions.set(name, made);
    return made;
  }
  function show(name) {
    shown = name;
    const one = session(name);
    for (const [each, { button }] of sessions) button.setAttribute("aria-pressed", String(each === name));
    one.button.classList.remove("news");
    put(place, one.panel);
    one.follow.go();
  }
  put(place, none);
  return {
    element,
    // Entries of turns after `after`: what stood there of them is replaced.
    take(entries, after) {
      for (const { panel } of sessions.values()) for (const old of [...panel.children]) if (old.turn > after) old.remove();
      const moved = new Set();
      for (const one of entries) {
        const { panel } = session(one.session);
        panel.append(entry(one));
        while (panel.childElementCount > KEPT) panel.firstElementChild.remove();
        moved.add(one.session);
      }
      put(tabs, [...sessions.values()].map(({ button }) => button));
      tabs.hidden = sessions.size < 2;
      if (!sessions.size) return;
      if (!shown) show([...sessions.keys()][0]);
      for (const name of moved) { if (name === shown) session(name).follow.go(); else session(name).button.classList.add("news"); }
    },
    shown() { if (shown) session(shown).follow.go(); },
  };
}
