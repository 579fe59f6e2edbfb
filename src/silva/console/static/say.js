// What to say: words and orders to the agent, who waits for approval, and all that was said.
import { h, put, clock, count, calmly } from "./dom.js";
import { ask, order, tell, tried } from "./api.js";
import { visible } from "./rendered.js";

const KINDS = { say: "Say", back: "Go back", edit: "Edit the action", forbid: "Forbid", allow: "Allow", good: "Good turn", bad: "Bad turn" };

export function sayer({ run, row, app }) {
  let waiting = [], unsure = null;
  const may = app.me.role !== "viewer";
  const kind = h("select", { "aria-label": "Kind of word", onchange: () => shape() }, Object.entries(KINDS).map(([name, text]) => h("option", { value: name }, text)));
  const to = h("select", { "aria-label": "To whom" }, [["this", "this trajectory"], ["task", "this task"], ["*", "all of the run"]].map(([value, text]) => h("option", { value }, text)));
  const text = h("textarea", { "aria-label": "Words", placeholder: "Words for the agent; Ctrl+Enter says them" });
  const turn = h("input", { type: "number", min: "0", "aria-label": "Turn", placeholder: "turn", size: "5" });
  const why = h("input", { "aria-label": "Why", placeholder: "why (kept with the record)" });
  const asks = h("div", { "aria-label": "Waiting for approval", role: "region" }), heard = h("div", { "aria-label": "What was said", role: "log" });
  const body = h("div", {});
  const address = () => {
    if (to.value === "*") return "*";
    const whom = to.value === "task" ? row()?.task : row()?.id;
    if (!whom) throw new Error("This is no trajectory under way: choose one, or say it to all of the run.");
    return whom;
  };

  function shape() {
    const name = kind.value;
    text.placeholder = { say: "Words for the agent; Ctrl+Enter says them", back: "An action as JSON, or words to the agent, or nothing", edit: "The action to take instead: {\"name\": …, \"arguments\": {…}}", forbid: "A regular expression no action may match", allow: "The pattern to take back", good: "Why (optional)", bad: "Why (optional)" }[name];
    turn.hidden = !["back", "edit", "good", "bad"].includes(name);
    if (["back", "good", "bad", "edit"].includes(name)) to.value = "this";
  }
  // A word whose answer never came may have been taken: sent again, it has the same id, and is said once.
  const post = tried(async (fields) => {
    const same = JSON.stringify(fields);
    const long = Math.max(...Object.values(fields).map((each) => [...String(each)].length));
    if (long > app.me.longest) throw new Error(`A word may hold ${count(app.me.longest)} characters, this one has ${count(long)}: put long texts into a file.`);
    if (unsure?.same !== same) unsure = { same, id: [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("") };
    await order("say", { run: run(), id: unsure.id, ...fields });
    unsure = null;
    tell(`said: ${fields.kind}`);
    await update();
    return true;
  });
  const send = tried(async () => {
    const words = text.value.trim(), name = kind.value, fields = { kind: name, to: address() };
    if (why.value.trim()) fields.why = why.value.trim();
    if (!turn.hidden && turn.value) fields.turn = Number(turn.value);
    if (name === "say") fields.text = words;
    else if (name === "forbid" || name === "allow") fields.pattern = words;
    else if (name === "edit") fields.action = words;
    else if (name === "back") { if (/^[[{]/.test(words)) fields.action = words; else fields.text = words; }
    else if (words) fields.why = words;
    if (await post(fields)) { text.value = ""; why.value = ""; }
  });
  text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); send(); } });
  const quick = (name, label) => h("button", { onclick: tried(() => post({ kind: name, to: address(), ...(why.value.trim() ? { why: why.value.trim() } : {}) })) }, label);

  const element = h("section", { class: "say", "aria-label": "What to say" }, asks,
    may ? h("div", {}, h("div", { class: "bar" }, kind, to, turn, quick("pause", "Pause"), quick("resume", "Resume"), quick("stop", "Stop")), text,
      h("div", { class: "bar" }, why, h("button", { class: "main", onclick: send }, "Send"))) : h("p", { class: "soft" }, "You are a viewer here: you see what is said."), heard, body);
  shape();

  function ask1(one) {
    return h("div", { class: "card" }, h("b", {}, `Waits for approval at turn ${one.turn}`), h("span", { class: "soft" }, ` ${one.task_id} · ${(one.reasons ?? []).join(", ")}`), h("pre", { class: "code" }, visible(one.action)),
      may && h("div", { class: "row-of" }, ["approve", "reject"].map((name) => h("button", { class: name === "approve" ? "main" : "", onclick: () => post({ kind: name, to: one.trajectory_id, node: one.node_id, ...(why.value.trim() ? { why: why.value.trim() } : {}) }) }, name === "approve" ? "Approve" : "Reject")),
        h("button", { onclick: tried(() => edit(one)) }, "Edit")));
  }
  async function edit(one) {
    const { nodes: [node] } = await ask("nodes", { tree: row().tree, ids: one.node_id });
    kind.value = "edit"; shape(); to.value = "this"; turn.value = one.turn;
    const calls = node.tool_calls.map((call) => ({ name: call.name, arguments: parsed(call.arguments) }));
    const words = node.parts.filter((part) => part.kind === "text").map((part) => part.text).join("");
    text.value = !calls.length ? words : JSON.stringify(words ? { text: words, tool_calls: calls } : calls, null, 1);
    text.focus();
  }
  let busy = false, more = false;
  const update = tried(async () => {
    if (!run()) return;
    if (busy) { more = true; return; }
    busy = true;
    try {
      do {
        more = false;
        const { words, waiting: now, fates } = await ask("words", { run: run() });
        waiting = now;
        show(words, fates);
      } while (more);
    } finally { busy = false; }
  });
  const show = calmly((words, fates) => {
    const mine = waiting.filter((one) => one.trajectory_id === row()?.id), others = waiting.filter((one) => one.trajectory_id !== row()?.id);
    put(asks, mine.map(ask1), others.length ? h("p", {}, `${others.length} more wait: `, others.slice(0, 8).map((one) => [h("a", { href: `#/run/${encodeURIComponent(run())}/${one.trajectory_id}` }, one.task_id), " "])) : "");
    put(heard, words.length ? words.slice(-60).reverse().map((word) => h("div", { class: "entry" }, h("div", { class: "who soft" }, `${clock(word.at)} · `, h("b", {}, word.by), ` · ${word.kind}${word.turn ? ` turn ${word.turn}` : ""} · to ${word.to === "*" ? "all" : word.to.slice(0, 40)} `, h("span", { class: "tag" }, fates[word.id] || "said")), [word.text, word.pattern, word.action, word.why && `why: ${word.why}`].filter(Boolean).map((each) => h("pre", {}, each)))) : h("p", { class: "soft" }, "Nothing was said to this run."));
  });
  return {
    element, update, focus: () => text.focus(),
    turn: (number, node) => { if (node?.role === "assistant") turn.value = number; },
    back: (number) => { kind.value = "back"; shape(); turn.value = number; text.focus(); },
  };
}

function parsed(text) { try { return JSON.parse(text); } catch { return text; } }
