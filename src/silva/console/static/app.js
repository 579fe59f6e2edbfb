// The frame: which page is shown, the keyboard, light and dark.
import { h, put, seldom } from "./dom.js";
import { ask, tell, tried } from "./api.js";
import { runs } from "./page_runs.js";
import { inbox } from "./page_inbox.js";
import { trained } from "./page_trained.js";
import { run } from "./page_run.js";
import { lake } from "./page_lake.js";
import { compare } from "./page_compare.js";
import { training } from "./page_training.js";
import { trail } from "./page_trail.js";
import { timeline } from "./page_timeline.js";
import { redteam } from "./page_redteam.js";
import { elf } from "./page_elf.js";
import { loops } from "./page_loops.js";
import { rate } from "./page_rate.js";

const PAGES = { inbox, runs, run, walk: run, lake, compare, training, trained, trail, timeline, redteam, elf, loops, rate };
const LINKS = [["inbox", "Inbox"], ["runs", "Runs"], ["run", "Run"], ["lake", "Lake"], ["compare", "Compare"], ["redteam", "Red team"], ["elf", "Data engine"], ["loops", "Loops"], ["trained", "What is trained"], ["training", "Training"]];
const main = document.getElementById("page");
const app = { me: null, page: null, go, live, last: "" };

function theme(next) {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = next ?? (dark ? "light" : "dark");
  localStorage.setItem("silva-theme", root.dataset.theme);
}

function head(where) {
  const links = [...LINKS, ...(app.me?.role === "admin" ? [["trail", "Trail"]] : [])];
  put(document.getElementById("top"),
    h("strong", {}, "Silva"),
    h("nav", { "aria-label": "Pages" }, links.map(([name, text]) => h("a", { href: name === "run" && app.last ? app.last : `#/${name}`, "aria-current": (where === name || (where === "rate" && name === "loops") || (where === "walk" && name === "run")) && "page" }, text, name === "inbox" && app.me?.waiting ? h("span", { class: "count", "aria-label": `${app.me.waiting} wait` }, String(app.me.waiting)) : ""))),
    h("span", { class: "room", id: "room" }, app.me ? `${app.me.lake} · ${app.me.name} (${app.me.role})` : ""),
    h("span", { class: "tag", id: "live", "aria-label": "Connection" }, "live"),
    h("button", { "aria-label": "Light or dark", onclick: () => theme() }, "◐"),
    h("button", { "aria-label": "Keys", onclick: keys }, "?"));
}

function live(up) {
  const tag = document.getElementById("live");
  if (tag) { tag.textContent = up ? "live" : "reconnecting"; tag.className = up ? "tag good" : "tag bad"; }
}

function go(hash) { if (location.hash === hash) show(); else location.hash = hash; }

let turn = 0;
const show = tried(async () => {
  const mine = ++turn;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...given] = path.split("/").map(decodeURIComponent);
  const where = PAGES[name] ? name : "runs";
  app.page?.close?.();
  app.page = null;
  if (where === "run" || where === "walk") app.last = location.hash;
  app.where = where;
  head(where);
  document.title = `${where} · Silva console`;
  const place = h("div", { class: "place" }); // of its own: a page that comes late, after another was asked for, is not seen
  put(main, place);
  const page = await PAGES[where](place, { where, given, query: new URLSearchParams(query ?? "") }, app).catch((fault) => {
    put(place, h("p", { class: "bad", role: "alert" }, fault.message));
    return null;
  });
  if (mine !== turn) page?.close?.(); else app.page = page;
});

const HELP = [
  ["j / k", "next, previous"], ["g / G", "jump to a turn (top of a list) / to the end"], ["/", "search"], ["n / N", "next, previous place found"],
  ["Enter or o", "open, fold and unfold"], ["O", "unfold or fold all"], ["c", "exact context of the turn"], ["s", "say something"],
  ["b", "branches"], ["[ / ]", "previous, next task of the run"], ["1 … 5", "Runs, Run, Lake, Compare, Training"], ["i", "inbox: who waits for you"], ["t", "light or dark"], ["?", "these keys"], ["Esc", "leave a field, close"],
];
function keys() {
  const box = h("dialog", { "aria-label": "Keys" }, h("h2", {}, "Keys"),
    h("table", {}, h("tbody", {}, HELP.map(([key, what]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, what))))),
    h("button", { onclick: () => box.close() }, "Close"));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const field = event.target.closest?.("input, textarea, select");
  if (field) { if (event.key === "Escape") { field.blur(); main.focus(); } return; }
  const list = app.page?.list, press = app.page?.keys?.[event.key];
  const common = {
    "?": keys, t: () => theme(), "/": () => main.querySelector("[data-search]")?.focus(),
    j: () => list?.select(list.at + 1), k: () => list?.select(list.at < 0 ? 0 : list.at - 1),
    g: () => list?.select(0), G: () => list?.select(list.count - 1),
    ArrowDown: () => list?.select(list.at + 1), ArrowUp: () => list?.select(Math.max(0, list.at - 1)),
    o: () => list?.opened(list.at), Enter: () => list?.opened(list.at),
    i: () => go("#/inbox"), 1: () => go("#/runs"), 2: () => go(app.last || "#/run"), 3: () => go("#/lake"), 4: () => go("#/compare"), 5: () => go("#/training"),
  }[event.key];
  const work = press ?? common;
  if (!work) return;
  if ((event.key === "Enter" || event.key.startsWith("Arrow")) && event.target.closest?.("button, a, summary")) return;
  event.preventDefault();
  tried(async () => work())();
});

const known = localStorage.getItem("silva-theme");
if (known === "light" || known === "dark") theme(known);
addEventListener("hashchange", show);

const look = async () => {
  const bar = document.getElementById("trouble");
  try {
    const before = app.me?.waiting;
    app.me = await ask("me");
    if (before !== undefined && before !== app.me.waiting) head(app.where);
    bar.textContent = app.me.trouble;
    bar.hidden = !app.me.trouble;
  } catch (fault) { bar.textContent = fault.message; bar.hidden = false; }
};
await look();
setInterval(look, 10000);
addEventListener("silva-inbox", seldom(look, 500));
if (app.me) await show(); else tell("The console does not answer.", true);
