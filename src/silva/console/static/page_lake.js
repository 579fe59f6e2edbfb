// Lake: every trajectory, found by a condition; turns by words; images; a filter saved as a data set; labels.
import { h, put, decimal, count, ago, seldom } from "./dom.js";
import { ask, order, listen, tell, tried } from "./api.js";
import { List } from "./list.js";
import { state } from "./state.js";

const PAGE = 500, HELD = 12; // pages of rows held
const COLUMNS = [["task", "Task"], ["run", "Run"], ["status", "Status"], ["score", "Score"], ["safety", "Safety"], ["turns", "Turns"], ["tokens", "Tokens"], ["usd", "Cost"], ["moved", "Moved"]];
const WIDTHS = "minmax(120px, 3fr) minmax(60px, 2fr) 86px 56px 56px 52px 70px 62px 90px";

export async function lake(place, { query }, app) {
  let tab = query.get("tab") ?? "Trajectories";
  const panel = h("div", { class: "tall" }), made = { Trajectories: null, Turns: null, Images: null };
  const buttons = Object.keys(made).map((name) => h("button", { role: "tab", onclick: () => pick(name) }, name));
  put(place, h("div", { class: "tall" }, h("div", { class: "bar" }, h("h1", {}, "Lake"), h("span", { role: "tablist", class: "row-of" }, buttons)), panel));
  const shown = trajectories(query, app);
  made.Trajectories = shown.element;
  const pick = tried(async (name) => {
    tab = name;
    buttons.forEach((button) => button.setAttribute("aria-selected", String(button.textContent === name)));
    made[name] ??= name === "Turns" ? turns(query) : await images();
    put(panel, made[name]);
    page.list = name === "Trajectories" ? shown.list : null;
  });
  const page = { list: shown.list, keys: { g: () => shown.list.select(0), x: () => shown.mark() }, close() { stop(); shown.list.close(); } };
  const stop = listen({ run: "*" }, { state: app.live, again: shown.news, told: (news) => { if (news.runs) shown.news(); } });
  await pick(made[tab] === undefined ? "Trajectories" : tab);
  await shown.load();
  return page;
}

function trajectories(query, app) {
  let total = 0, sort = "moved", descending = true, rows = new Map(), pages = [], asked = 0;
  const loading = new Set(), marked = new Set();
  const where = h("input", { type: "search", "data-search": "", class: "mono", value: query.get("where") ?? "", placeholder: "score >= 0.5 and env = 'terminal'", "aria-label": "Condition on trajectories", size: "44" });
  const text = h("input", { type: "search", value: query.get("text") ?? "", placeholder: "words in task, run or failure", "aria-label": "Words in trajectories" });
  const said = h("span", { class: "soft", role: "status", "aria-label": "Trajectories found" });
  const scores = h("input", { type: "search", class: "mono", value: query.get("scores") ?? "", placeholder: "recall >= 0.5, turns < 10", "aria-label": "Conditions on any score", size: "26" });
  let metrics = [];
  // The columns' widths, as many as there are metrics.
  const wide = (row) => { row.style.gridTemplateColumns = `${WIDTHS}${" minmax(64px, 1fr)".repeat(metrics.length)}`; return row; };
  const head = h("div", { class: "tr head" });
  function drawHead() {
    put(head, [...COLUMNS, ...metrics.map((name) => [name, name])].map(([name, label]) => h("button", { title: label, "aria-label": sort === name ? `${label}, sorted ${descending ? "down" : "up"}` : `Sort by ${label}`, onclick: () => { descending = sort === name ? !descending : true; sort = name; load(); } }, label, sort === name ? (descending ? " ▾" : " ▴") : "")));
    wide(head);
  }
  drawHead();
  const list = new List({
    label: "Trajectories", estimate: 30, fixed: true,
    render(i) {
      const row = rows.get(i);
      if (!row) { more(Math.floor(i / PAGE)); return h("div", { class: "tr" }, h("span", {}, "…")); }
      const line = h("div", { class: "tr", "aria-label": `trajectory ${row.task} ${row.slot} of ${row.run}${marked.has(row.id) ? ", marked" : ""}` },
        h("span", { title: row.task }, marked.has(row.id) ? "✓ " : "", row.task || row.tree.slice(0, 8), h("span", { class: "soft" }, ` ${row.slot}`)), h("span", {}, row.run),
        h("span", { class: row.status === "failed" ? "bad" : row.status === "running" ? "good" : "", title: row.failure || row.why || false }, row.state && row.state !== "working" ? state(row) : row.status), h("span", { class: "num" }, decimal(row.score)), h("span", { class: "num" }, decimal(row.safety)),
        h("span", { class: "num" }, row.turns), h("span", { class: "num" }, count(row.tokens)), h("span", { class: "num" }, row.usd ? `$${row.usd.toFixed(2)}` : "–"), h("span", { class: "soft" }, ago(row.moved)), metrics.map((name) => h("span", { class: "num" }, decimal(row.metrics?.[name] ?? null, 3))));
      return wide(line);
    },
    opened: (i) => { const row = rows.get(i); if (row) app.go(`#/run/${encodeURIComponent(row.run)}/${encodeURIComponent(row.id)}`); },
  });
  const given = () => ({ where: where.value.trim(), text: text.value.trim(), scores: scores.value.trim(), sort, descending: descending ? 1 : 0 });
  const take = (page, answer) => {
    answer.rows.forEach((row, i) => rows.set(page * PAGE + i, row));
    pages = [...pages.filter((each) => each !== page), page];
    while (pages.length > HELD) { const old = pages.shift(); for (let i = old * PAGE; i < (old + 1) * PAGE; i++) rows.delete(i); }
    total = answer.total;
    if (answer.metrics.join("\n") !== metrics.join("\n")) { metrics = answer.metrics; list.refresh(); }
    drawHead();
    put(said, `${count(total)} trajectories`);
  };
  const load = tried(async () => {
    const mine = ++asked;
    const answer = await ask("attempts", { ...given(), offset: 0, limit: PAGE });
    if (mine !== asked) return; // another condition was asked for meanwhile
    rows = new Map(); pages = [];
    take(0, answer);
    list.setCount(total);
    list.refresh();
  });
  const more = tried(async (page) => {
    if (loading.has(page)) return;
    loading.add(page);
    const mine = asked;
    try {
      const answer = await ask("attempts", { ...given(), offset: page * PAGE, limit: PAGE });
      if (mine === asked) take(page, answer);
    } finally { loading.delete(page); }
    list.refresh();
  });
  for (const field of [where, text, scores]) { field.addEventListener("keydown", (event) => { if (event.key === "Enter") { load(); field.blur(); } }); field.addEventListener("search", load); }
  const news = seldom(() => { if (list.element.scrollTop < 40 && !where.value && !scores.value) load(); }, 2000);
  function mark() {
    const row = rows.get(list.at);
    if (!row) return;
    if (!marked.delete(row.id)) marked.add(row.id);
    list.refresh(list.at);
    put(pair, marked.size ? `${marked.size} marked` : "", marked.size === 2 && h("a", { href: `#/compare/${[...marked].map(encodeURIComponent).join("/")}` }, " compare them"));
  }
  const pair = h("span", { class: "soft" });
  const name = h("input", { placeholder: "name", "aria-label": "Name of the data set", size: "14" });
  const part = h("select", { "aria-label": "Part" }, ["train", "dev", "test"].map((each) => h("option", { value: each }, each)));
  const keep = tried(async () => {
    const saved = await order("dataset", { name: name.value.trim(), where: where.value.trim(), part: part.value });
    tell(`${saved.entries} trajectories saved in ${saved.path}`);
  });
  const may = app.me.role !== "viewer";
  const element = h("div", { class: "tall attempts" },
    h("div", { class: "bar" }, where, text, scores, h("button", { onclick: load }, "Filter"), said, h("button", { onclick: mark, title: "x marks the chosen row" }, "Mark"), pair,
      may && h("details", {}, h("summary", {}, "Save as a data set"), h("div", { class: "row-of" }, name, part, h("button", { onclick: keep }, "Save data set"), h("span", { class: "soft" }, "what the condition finds and has ended")))),
    head, h("div", { class: "fill" }, list.element));
  return { element, list, load, news, mark };
}

function turns(query) {
  const words = h("input", { type: "search", "data-search": "", placeholder: "words in turns", "aria-label": "Words in turns", value: query.get("words") ?? "" });
  const where = h("input", { type: "search", class: "mono", placeholder: "author = 'person'", "aria-label": "Condition on turns", size: "34" });
  const found = h("div", { class: "scroll" }), said = h("span", { class: "soft", role: "status" });
  const look = tried(async () => {
    const answer = await ask("turns", { text: words.value.trim(), where: where.value.trim() });
    put(said, `${answer.turns.length} turns`);
    put(found, answer.turns.map((node) => h("article", { class: `turn ${node.author} entry` }, h("div", { class: "who" }, h("b", {}, node.author), h("span", {}, node.run), h("a", { href: `#/walk/${node.tree}/${node.id}` }, `depth ${node.depth}`)), h("div", { class: "brief" }, node.text))));
  });
  for (const field of [words, where]) field.addEventListener("keydown", (event) => { if (event.key === "Enter") look(); });
  return h("div", { class: "tall" }, h("div", { class: "bar" }, words, where, h("button", { onclick: look }, "Find turns"), said), found);
}

async function images() {
  const found = (await ask("images")).images;
  return h("div", { class: "scroll" }, found.length ? h("div", { class: "grid" }, found.map((image) => h("figure", {}, h("img", { src: `/blob/${image.id}`, alt: `image ${image.id.slice(0, 12)}`, loading: "lazy", width: "280" }), h("figcaption", { class: "soft mono" }, image.id.slice(0, 12))))) : h("p", { class: "soft" }, "The lake holds no image."));
}
