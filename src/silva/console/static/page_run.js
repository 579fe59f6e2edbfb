// Run: choose a task; the trajectory; terminals, files, searches, branches; what to say.
import { h, put, decimal, count, seldom } from "./dom.js";
import { ask, order, listen, tell, tried } from "./api.js";
import { List } from "./list.js";
import { line, isAction } from "./turn.js";
import { call, plain } from "./rendered.js";
import { state } from "./state.js";
import { chooser } from "./chooser.js";
import { side } from "./side.js";
import { sayer } from "./say.js";

const BODIES = 400; // unfolded turns kept; the rest are asked for again
const LINES = 600; // of what came while the page was open, lines kept at the end; earlier ones are asked for when seen

export async function run(place, { where, given, query }, app) {
  let name = where === "run" ? given[0] ?? "" : "", id = where === "run" ? given[1] ?? "" : "";
  const spot = where === "walk" ? { tree: given[0], leaf: given[1] } : null;
  if (where === "run" && !name) {
    const { runs } = await ask("runs");
    name = runs.find((each) => each.live || each.ended)?.id ?? "";
    if (!name) { put(place, h("h1", {}, "Run"), h("p", { class: "soft" }, "There is no run with attempts yet: silva rollout makes one.")); return { close() {} }; }
  }
  if (where === "run" && !id) {
    const first = (await ask("attempts", { run: name, limit: 1 })).rows[0];
    if (first) { history.replaceState(null, "", `#/run/${encodeURIComponent(name)}/${encodeURIComponent(first.id)}`); app.last = location.hash; id = first.id; }
  }
  const choosing = where === "run" ? chooser({ run: name, id, app }) : null;
  const question = () => spot ?? { id };
  let walk = id || spot ? await ask("walk", question()) : { nodes: [], head: null, tree: "", attempts: [], judged: {}, attacked: {}, run: name };
  name = walk.run || name;
  const nodes = walk.nodes, numbers = [], bodies = new Map(), open = new Set(), wanted = new Set();
  let all = false, found = [], judged = walk.judged, struck = walk.attacked, turns = 0, row = walk.head, lightened = 0;

  const ids = new Map();
  function number(from) {
    for (let i = from; i < nodes.length; i++) { if (isAction(nodes[i])) turns += 1; numbers[i] = turns; ids.set(nodes[i].id, i); }
  }
  number(0);
  // A page that stays open for days holds no more of the turns before than what it finds them by.
  function lighten() {
    for (; lightened < nodes.length - LINES; lightened++) { const { id, role, author } = nodes[lightened]; nodes[lightened] = { id, role, author, text: "…", light: true }; }
  }

  const list = new List({
    label: "Trajectory", estimate: 58,
    render(i) {
      const { id, light } = nodes[i], unfolded = open.has(id) !== all;
      const body = bodies.get(id), node = light && body ? body : nodes[i];
      if ((unfolded || light) && !body) { wanted.add(id); fetchBodies(); }
      const element = line(node, numbers[i], { open: unfolded, body, judged: judged[node.id], attacked: struck[node.id], actions: unfolded && body ? actions(i, node) : [] });
      if (found.includes(node.id)) element.classList.add("found");
      return element;
    },
    opened: (i) => toggle(i),
    chosen: (i) => { say?.turn(numbers[i] ?? 0, nodes[i]); },
  });
  list.follow = true;

  const fetchBodies = seldom(tried(async () => {
    while (wanted.size) {
      const some = [...wanted].slice(0, 60);
      for (const each of some) wanted.delete(each);
      const { nodes: full } = await ask("nodes", { tree: walk.tree, ids: some.join(",") });
      for (const node of full) { bodies.set(node.id, { ...node }); }
      while (bodies.size > BODIES) bodies.delete(bodies.keys().next().value);
      for (const node of full) list.refresh(ids.get(node.id));
    }
  }), 30);

  function toggle(i) {
    const node = nodes[i];
    if (!node) return;
    if (!open.delete(node.id)) open.add(node.id);
    const body = bodies.get(node.id);
    if (body) Object.assign(body, {});
    list.refresh(i);
  }
  function toggleAll() { all = !all; open.clear(); list.setCount(nodes.length, { keep: false }); if (list.at >= 0) list.show(list.at); }

  function actions(i, node) {
    const made = [];
    if (isAction(node)) made.push(h("button", { onclick: tried(() => showContext(node.id)) }, "Context"));
    if (app.me.role !== "viewer") {
      for (const verdict of ["good", "bad"]) if (isAction(node)) made.push(h("button", { onclick: tried(() => judge(node, verdict, i)) }, verdict === "good" ? "Good" : "Bad"));
      if (row?.status !== "running") for (const verdict of ["keep", "mask"]) made.push(h("button", { onclick: tried(() => judge(node, verdict, i)) }, verdict === "keep" ? "Keep" : "Mask"));
      if (isAction(node) && row?.status === "running") made.push(h("button", { onclick: () => say.back(numbers[i]) }, "Back to here"));
    }
    if (node.snapshot) made.push(h("button", { onclick: () => work.workspace(node.id) }, "Files then"));
    made.push(h("a", { href: `#/walk/${walk.tree}/${node.id}` }, "Link"));
    return made;
  }
  async function judge(node, verdict, i) {
    if (row?.status === "running" && (verdict === "good" || verdict === "bad")) await order("say", { run: name, kind: verdict, to: row.id, turn: numbers[i] });
    else await order("label", { run: node.run, node: node.id, verdict });
    tell(`${verdict}: turn ${numbers[i]}`);
    if (row?.status !== "running") { (judged[node.id] ??= []).push({ verdict, source: "person", by: app.me.name, reason: "" }); list.refresh(i); }
  }

  async function showContext(node) {
    const seen = await ask("context", { tree: walk.tree, node });
    const box = h("dialog", { "aria-label": "Exact context" },
      h("h2", {}, `What the model saw before turn ${numbers[ids.get(node)] ?? ""}`),
      h("p", { class: "soft" }, `${seen.messages.length} messages, ${count(seen.characters)} characters, ${count(seen.prompt_tokens)} prompt tokens; ${seen.summary ? "a summary stands for earlier turns, " : ""}${seen.ids === null ? "the exact ids are not known" : `${count(seen.ids)} exact ids`}`),
      h("details", {}, h("summary", {}, `${seen.tools.length} tools in force`), seen.tools.map((tool) => h("pre", {}, `${tool.name}: ${tool.description}\n${JSON.stringify(tool.parameters)}`))),
      seen.messages.map((message, i) => h("article", { class: message.role === "assistant" ? "turn policy" : "turn" }, h("div", { class: "who" }, h("b", {}, message.role), h("span", {}, `${i + 1}`)),
        message.parts.map(plain), message.tool_calls.map(call))),
      h("button", { onclick: () => box.close() }, "Close"));
    box.addEventListener("close", () => box.remove());
    document.body.append(box);
    box.showModal();
  }

  // Search and jump
  const hits = h("span", { class: "soft", role: "status", "aria-label": "Places found" });
  const search = h("input", { type: "search", "data-search": "", placeholder: "Search the trajectory", "aria-label": "Search the trajectory", value: query.get("find") ?? "" });
  const look = tried(async () => {
    found = search.value.trim() ? (await ask("find", { ...question(), text: search.value.trim() })).found : [];
    put(hits, search.value.trim() ? `${found.length} found` : "");
    list.refresh();
    if (found.length) next(0);
  });
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") { look(); search.blur(); list.element.focus(); } });
  search.addEventListener("search", look);
  let hit = -1;
  function next(by) {
    if (!found.length) return;
    hit = by === 0 ? 0 : (hit + by + found.length) % found.length;
    const index = ids.get(found[hit]);
    if (index === undefined) return;
    put(hits, `${hit + 1} of ${found.length}`);
    list.select(index, { show: false });
    list.show(index, "start");
  }
  const jump = h("input", { type: "number", min: "1", placeholder: "turn", "aria-label": "Jump to turn", size: "5" });
  function jumpTo() {
    const index = numbers.findIndex((each, i) => each === Number(jump.value) && isAction(nodes[i]));
    if (index < 0) { tell(`There is no turn ${jump.value}: there are ${turns}.`, true); return; }
    list.select(index, { show: false });
    list.show(index, "start");
    jump.blur();
    list.element.focus();
  }
  jump.addEventListener("keydown", (event) => { if (event.key === "Enter") jumpTo(); });

  // The areas
  const head = h("div", { class: "bar", "aria-label": "Trajectory in figures" });
  function drawHead() {
    const later = row && (walk.attempts ?? []).filter((each) => each.run === row.run && each.slot.split(".")[0] === row.slot.split(".")[0] && Number(each.slot.split(".")[1]) > Number(row.slot.split(".")[1])).pop();
    put(head, h("h1", {}, row ? row.task || row.id.slice(0, 12) : `branch to ${spot?.leaf?.slice(0, 12) ?? ""}`),
      row && h("span", { class: row.status === "running" ? "tag good" : row.status === "failed" ? "tag bad" : "tag", "aria-label": "Status" }, row.status), row?.state && row.state !== "working" ? [state(row), h("span", { class: "soft" }, row.why)] : "", row && h("span", { class: "soft" }, `try ${row.slot}`),
      h("span", { class: "soft", "aria-label": "Turns" }, `${turns} turns`), row?.score !== null && row && h("span", {}, `score ${decimal(row.score)}`), row?.safety !== null && row && h("span", {}, `safety ${decimal(row.safety)}`),
      row?.failure && h("span", { class: "bad" }, row.failure), later && h("a", { href: `#/run/${encodeURIComponent(later.run)}/${later.id}` }, `goes on as try ${later.slot}`),
      row && row.status !== "running" && row.status !== "cut off" && h("a", { href: `#/trained/${encodeURIComponent(row.run)}/${row.id}` }, "what will be trained"), row && h("a", { href: `#/timeline/${encodeURIComponent(row.run)}` }, "timeline of the run"),
      h("span", { class: "soft", title: "keys: j k next, Enter unfolds, g jump, / search, c context, s say, ? all" }, "? for keys"));
  }
  const work = side({ walk: () => walk, question, current: () => nodes.at(-1)?.id ?? "", numbers: (node) => numbers[ids.get(node)], jump: (node) => { const i = ids.get(node); if (i !== undefined) { list.select(i, { show: false }); list.show(i, "start"); } } });
  const say = sayer({ run: () => name, row: () => row, app });
  const tasks = await choosing;
  put(place, h("div", { class: "five" },
    tasks?.element ?? h("section", { class: "choose", "aria-label": "Tasks" }, h("p", { class: "soft" }, "One branch of a tree."), (walk.attempts ?? []).map((each) => h("p", {}, h("a", { href: `#/run/${encodeURIComponent(each.run)}/${each.id}` }, `${each.task} ${each.slot}`), ` ${each.status}`))),
    h("section", { class: "walk", "aria-label": "Trajectory and its turns" }, head,
      h("div", { class: "bar" }, search, hits, jump, h("button", { onclick: toggleAll }, "Unfold or fold all")),
      walk.task?.instruction ? h("details", {}, h("summary", {}, "Task"), h("pre", {}, walk.task.instruction)) : "",
      h("div", { class: "fill" }, list.element)),
    work.element, say.element));
  drawHead();
  list.setCount(nodes.length);
  const asked = query.get("turn") ? nodes.findIndex((node, i) => isAction(node) && numbers[i] === Number(query.get("turn"))) : -1;
  if (query.get("find")) look(); else if (asked >= 0) { list.select(asked, { show: false }); list.show(asked, "start"); } else list.select(row?.status === "running" ? nodes.length - 1 : 0, { tell: false });
  work.update();
  say.update();
  tasks?.show();

  // Live: what grows at the end of this walk is appended; nothing is sent twice.
  function append(fresh) {
    const start = nodes.length, early = (list.ended && list.pinned) || list.at < 0;
    for (const node of fresh) if (!ids.has(node.id) && (!nodes.length || node.parent === nodes.at(-1).id)) { nodes.push(node); number(nodes.length - 1); }
    if (nodes.length === start) return;
    lighten();
    list.setCount(nodes.length);
    if (early) list.select(nodes.length - 1, { tell: false }); // the turn that a person chose stays chosen
    drawHead();
    work.later();
  }
  const follows = !spot;
  const again = tried(async () => {
    if (!follows || !walk.tree) return;
    const fresh = await ask("walk", { ...question(), after: nodes.at(-1)?.id });
    row = fresh.head; walk.attempts = fresh.attempts;
    const held = list.pinned ? "" : nodes[list.at]?.id; // what a person went to, when all is told anew
    if (fresh.from === 0 && nodes.length) { nodes.length = 0; numbers.length = 0; ids.clear(); turns = lightened = 0; judged = fresh.judged; bodies.clear(); list.setCount(0); }
    append(fresh.nodes); // what the stream brought meanwhile is there already
    if (held && ids.has(held) && nodes[list.at]?.id !== held) { list.select(ids.get(held), { show: false, tell: false }); list.show(list.at, "start"); }
    judged = fresh.judged; struck = fresh.attacked;
    list.refresh();
    drawHead(); work.later(); say.update(); tasks?.update([]);
  });
  const afresh = seldom(again, 1000);
  const stop = name ? listen({ run: name, tree: walk.tree }, {
    state: app.live, again,
    told(news) {
      const mine = follows && row ? (news.nodes ?? []).filter((node) => node.run === row.run && node.slot === row.slot && node.author !== "summariser") : [];
      if (mine.length) { append(mine); if (mine.some((node) => !ids.has(node.id))) afresh(); }
      for (const each of news.judged ?? []) if (ids.has(each.node)) { (judged[each.node] ??= []).push(each); list.refresh(ids.get(each.node)); }
      for (const each of news.rows ?? []) {
        if (row && each.id === row.id) { row = each; drawHead(); }
        if (walk.attempts && each.tree === walk.tree && !walk.attempts.some((known) => known.id === each.id)) { walk.attempts.push(each); drawHead(); work.forked(); }
      }
      if (news.rows) tasks?.update(news.rows);
      if (news.words || news.judged) say.update();
    },
  }) : () => {};

  return {
    list, close() { stop(); list.close(); tasks?.close(); },
    keys: {
      g: () => jump.focus(), n: () => next(1), N: () => next(-1), O: toggleAll, s: () => say.focus(), b: () => work.pick("Branches"),
      c: () => { const node = nodes[list.at]; if (node && isAction(node)) return showContext(node.id); return tell("Choose a turn of the agent.", true); },
      "[": () => tasks?.move(-1), "]": () => tasks?.move(1),
    },
  };
}
