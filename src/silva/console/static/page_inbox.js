// Inbox: every action that waits for a person, over all runs; approve, edit or refuse it here.
import { h, put, ago, calmly, seldom } from "./dom.js";
import { ask, order, listen, tell, tried } from "./api.js";
import { call, visible } from "./rendered.js";
import { state } from "./state.js";

export async function inbox(place, _, app) {
  const list = h("div", { class: "inbox" }), title = h("h1", {}, "Inbox");
  const may = app.me.role !== "viewer", drafts = new Map(); // node -> {why, edit}: what is being written survives news
  const draft = (one) => drafts.get(one.node) ?? drafts.set(one.node, { why: "", edit: null }).get(one.node);
  put(place, title, h("p", { class: "soft" }, "Agents that wait for your approval, the longest wait first."), list);

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
  let found = { total: 0, waiting: [] };
  const draw = calmly(() => {
    const at = document.activeElement, kept = at?.closest?.("[data-node]")?.dataset.node, label = at?.getAttribute?.("aria-label"), caret = at?.selectionStart;
    put(title, `Inbox`, found.total ? h("span", { class: "count" }, String(found.total)) : "");
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
  const later = seldom(update, 300);
  const stop = listen({ run: "*" }, { state: app.live, again: later, told: (news) => { if (news.inbox || news.runs) later(); } });
  return { close: stop };
}

function parsed(text) { try { return JSON.parse(text); } catch { return text; } }
