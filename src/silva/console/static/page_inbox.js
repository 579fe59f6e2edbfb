// Inbox: every action that waits for a person, over all runs, and every task that a loop made and nobody has let in yet.
import { h, put, ago, calmly, seldom } from "./dom.js";
import { ask, order, listen, tell, tried } from "./api.js";
import { call, visible } from "./rendered.js";
import { state } from "./state.js";

const PAUSE = 5000; // milliseconds between two looks at tasks: nothing tells of them but looking

// Tasks that loops made: what each asks, what solved it, how it came about.
function born(place, may, counted) {
  const drafts = new Map();
  let before = "";
  const decide = tried(async (one, approved) => {
    const why = (drafts.get(one.task) ?? "").trim();
    await order("admit", { run: one.run, task: one.task, approved, ...(why ? { why } : {}) });
    drafts.delete(one.task);
    tell(`${approved ? "approved" : "refused"}: ${one.task}`);
    await update();
  });
  function card(one) {
    const why = h("input", { "aria-label": `Why, for task ${one.task}`, placeholder: "why (kept with the record)", value: drafts.get(one.task) ?? "", oninput: () => drafts.set(one.task, why.value) });
    return h("article", { class: "card asks", "data-node": one.task, "aria-label": `Task ${one.task} of ${one.run}` },
      h("div", { class: "row-of" }, h("h2", {}, visible(one.task)), h("span", { class: "soft" }, visible(`${one.env} · ${one.run}`)), one.safety.map((found) => h("span", { class: "tag bad" }, visible(found)))),
      h("p", { class: "words" }, visible(one.asks)), one.goal !== one.asks ? h("p", { class: "soft" }, "Goal: ", visible(one.goal)) : "",
      h("details", {}, h("summary", {}, `What solved it: ${one.actions.length + one.more} actions`), h("ol", {}, one.actions.map((action) => h("li", {}, action.text ? h("div", { class: "words" }, visible(action.text)) : "", action.calls.map(call)))), one.more ? h("p", { class: "soft" }, `${one.more} more`) : ""),
      h("dl", { class: "facts" }, Object.entries(one.how).map(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(String(value)))]), one.acted.length ? [h("dt", {}, "made by"), h("dd", {}, visible(one.acted.join(", ")))] : ""),
      may ? h("div", { class: "row-of decide" }, h("button", { class: "main", onclick: () => decide(one, true) }, "Approve"), h("button", { class: "no-way", onclick: () => decide(one, false) }, "Refuse"), why) : "");
  }
  const draw = calmly((found) => {
    const at = document.activeElement, label = place.contains(at) && at.getAttribute("aria-label");
    put(place, found.tasks.length ? [h("h2", {}, "Tasks that wait to be let in"), h("p", { class: "soft" }, "A loop made them, they were carried out, and nothing is learnt on them until somebody says so."), found.tasks.map(card), found.total > found.tasks.length ? h("p", { class: "soft" }, `${found.total - found.tasks.length} more`) : ""] : "");
    if (label) [...place.querySelectorAll("input")].find((each) => each.getAttribute("aria-label") === label)?.focus();
  });
  const update = tried(async () => {
    const found = await ask("admission"), text = JSON.stringify(found);
    if (text === before) return;
    before = text;
    counted(found.total);
    draw(found);
  });
  return update;
}

export async function inbox(place, _, app) {
  const list = h("div", { class: "inbox" }), made = h("div", { class: "inbox" }), title = h("h1", {}, "Inbox");
  const may = app.me.role !== "viewer", drafts = new Map(); // node -> {why, edit}: what is being written survives news
  const draft = (one) => drafts.get(one.node) ?? drafts.set(one.node, { why: "", edit: null }).get(one.node);
  put(place, title, h("p", { class: "soft" }, "Agents that wait for your approval, the longest wait first."), list, made);

  const decide = tried(async (one, kind, more = {}) => {
    const why = draft(one).why.trim();
    await order("say", { run: one.run, kind, to: one.attempt, node: one.node, ...(why ? { why } : {}), ...more });
    drafts.delete(one.node);
    tell(`${{ approve: "approved", reject: "refused", edit: "edited" }[kind]}: turn ${one.turn} of ${one.task}`);
    await update();
  });
  const proposal = (one) => !one.calls?.length ? one.text ?? one.action : JSON.stringify(one.calls.map((each) => ({ name: each.name, arguments: parsed(each.arguments) })), null, 1);

  function card(one) {
    const mine = draft(one), dead = one.state === "dead";
    const why = h("input", { "aria-label": `Why, for turn ${one.turn} of ${one.task}`, placeholder: "why (kept with the record)", value: mine.why, oninput: () => { mine.why = why.value; } });
    const field = mine.edit === null ? null : h("textarea", { class: "mono", rows: "8", "aria-label": "The action to take instead", value: mine.edit, oninput: () => { mine.edit = field.value; } });
    return h("article", { class: "card asks", "data-node": one.node, "aria-label": `Turn ${one.turn} of ${one.task} in ${one.run}` },
      h("div", { class: "row-of" }, h("h2", {}, h("a", { href: `#/run/${encodeURIComponent(one.run)}/${one.attempt}` }, one.task)), h("span", { class: "soft" }, `${one.run} · try ${one.slot} · turn ${one.turn} · waits for ${ago(one.since).replace(" ago", "")}`), dead ? state(one) : "",
        one.reasons.map((reason) => h("span", { class: "tag bad" }, reason))),
      one.text ? h("p", { class: "words" }, visible(one.text)) : "",
      one.calls?.length ? one.calls.map(call) : h("pre", { class: "code" }, visible(one.action)),
      dead ? h("p", { class: "bad" }, one.why) : "",
      may ? [field, h("div", { class: "row-of decide" },
        field ? [h("button", { class: "main", onclick: () => decide(one, "edit", { action: field.value }) }, "Take this instead"), h("button", { onclick: () => { mine.edit = null; draw(); } }, "Do not edit")]
          : [h("button", { class: "main", onclick: () => decide(one, "approve") }, "Approve"), h("button", { onclick: () => { mine.edit = proposal(one); draw(); } }, "Edit"), h("button", { class: "no-way", onclick: () => decide(one, "reject") }, "Refuse")], why)] : "");
  }
  let found = { total: 0, waiting: [] }, tasks = 0;
  const draw = calmly(() => {
    const at = document.activeElement, kept = at?.closest?.("[data-node]")?.dataset.node, label = at?.getAttribute?.("aria-label"), caret = at?.selectionStart;
    const waits = found.total + tasks;
    put(title, `Inbox`, waits ? h("span", { class: "count" }, String(waits)) : "");
    put(list, found.waiting.length ? found.waiting.map(card) : h("section", { class: "card empty" }, h("p", {}, "Nobody waits."), h("p", { class: "soft" }, "A run asks here when it was begun with guidance.approve=risky or all.")));
    const again = kept && [...list.querySelectorAll("[data-node]")].find((each) => each.dataset.node === kept);
    const field = again && label && [...again.querySelectorAll("input, textarea")].find((each) => each.getAttribute("aria-label") === label);
    if (field) { field.focus(); if (caret !== null && caret !== undefined) field.setSelectionRange(caret, caret); }
  });
  const update = tried(async () => {
    const fresh = await ask("inbox");
    if (JSON.stringify(fresh) === JSON.stringify(found) && list.childElementCount) return;
    found = fresh;
    draw();
  });
  await update();
  const look = born(made, may, (total) => { tasks = total; draw(); dispatchEvent(new Event("silva-inbox")); });
  await look();
  const timer = setInterval(look, PAUSE);
  const later = seldom(update, 300);
  const stop = listen({ run: "*" }, { state: app.live, again: later, told: (news) => { if (news.inbox || news.runs) later(); } });
  return { close() { clearInterval(timer); stop(); } };
}

function parsed(text) { try { return JSON.parse(text); } catch { return text; } }
