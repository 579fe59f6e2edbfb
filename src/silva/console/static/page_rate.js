// Rate pairs of steps, blind: two steps behind one node, side by side, by keyboard; and how far those who rate agree.
import { h, put, count, decimal, percent } from "./dom.js";
import { ask, order, tell, tried } from "./api.js";
import { call, cut, part, visible } from "./rendered.js";

const WORDS = { left: "the left one is better", right: "the right one is better", equal: "neither is better" };

const turn = (one) => h("div", { class: `turn ${one.author}` }, h("div", { class: "who" }, h("b", {}, one.author), one.role), h("div", {}, one.parts.map((each) => each.kind === "image" || each.lines ? part(each) : h("div", {}, h("pre", { class: each.kind }, visible(each.text)), cut(each))), one.tool_calls.map(call)));

const side = (name, step, mine) => h("section", { class: `card side-of${mine === name ? " mine" : ""}`, "aria-label": `${name} step` }, h("h2", {}, name === "left" ? "Left" : "Right", " ", h("kbd", {}, name === "left" ? "1" : "2")),
  turn(step.action), h("h3", {}, "What came back"), step.back.length ? step.back.map(turn) : h("p", { class: "soft" }, "Nothing is known of it."));

async function choices(place) {
  const [{ loops }, { runs }] = await Promise.all([ask("loops"), ask("runs")]);
  put(place, h("h1", {}, "Rate pairs"), h("p", { class: "soft" }, "Two steps behind one turn: which is better? Nobody is told what a verifier said."),
    h("section", { class: "card" }, h("h2", {}, "Of loops"), h("ul", {}, loops.filter((each) => !each.fault && each.here).map((each) => h("li", { class: "row-of" }, h("a", { href: `#/rate/loop/${each.id}` }, visible(each.name)))))),
    h("section", { class: "card" }, h("h2", {}, "Of runs"), h("ul", {}, runs.slice(0, 100).map((each) => h("li", { class: "row-of" }, h("a", { href: `#/rate/run/${encodeURIComponent(each.id)}` }, each.id))))));
  return { close() {} };
}

export async function rate(place, { given }, app) {
  const [kind, name] = given;
  if (!name) return choices(place);
  const of = `${kind}/${name}`, may = app.me && app.me.role !== "viewer";
  const title = h("h1", {}, "Rate pairs"), told = h("p", { role: "status", "aria-label": "In short" }), body = h("div", { class: "stack" }), judged = h("section", { class: "card" });
  const why = h("input", { "aria-label": "Why", placeholder: "why, if you like (kept with the record)", size: "40" });
  put(place, h("div", { class: "stack" }, h("div", {}, title, told), body, judged));
  let now = null, busy = false;

  const show = tried(async (at = "") => {
    now = await ask("rating", { of, at });
    const pair = now.pair;
    put(told, pair ? `Pair ${now.place + 1} of ${count(now.total)}; you have rated ${count(now.rated)}. ${pair.mine ? `You said: ${WORDS[pair.mine]}.` : "Which step is better, in this place?"}`
      : now.total ? `You have rated all ${count(now.total)} pairs. Thank you.` : "There are no pairs here: no turn of it has siblings that were judged differently.");
    why.value = pair?.reason ?? "";
    put(body, pair ? [h("section", { class: "card" }, h("h2", {}, visible(pair.task)), pair.asked.map(turn), pair.between > 0 && h("p", { class: "soft" }, `… ${count(pair.between)} turns between are not shown`), pair.turns.map(turn)),
      h("div", { class: "pair-of" }, side("left", pair.left, pair.mine), side("right", pair.right, pair.mine)),
      may ? h("div", { class: "row-of" }, h("button", { class: "main", onclick: () => say("left") }, "Left is better ", h("kbd", {}, "1")), h("button", { class: "main", onclick: () => say("right") }, "Right is better ", h("kbd", {}, "2")), h("button", { onclick: () => say("equal") }, "Neither ", h("kbd", {}, "0")), h("button", { disabled: !now.after, onclick: next }, "Later ", h("kbd", {}, "n")), h("button", { disabled: !now.before, onclick: back }, "Back ", h("kbd", {}, "b")), why) : h("p", { class: "soft" }, "Rating takes the role guide."),
    ] : [now.total ? h("p", {}, h("button", { disabled: !now.before, onclick: back }, "Back ", h("kbd", {}, "b"))) : ""]);
  });
  const say = tried(async (better) => {
    if (!now?.pair || busy || !may) return;
    busy = true;
    try {
      await order("rate", { of, pair: now.pair.key, better, ...(why.value.trim() ? { reason: why.value.trim() } : {}) });
      tell(WORDS[better]);
      await show(now.pair.mine ? now.after : "");
    } finally { busy = false; } // a key that comes before the next pair is seen rates nothing
    await compare();
  });
  const next = tried(async () => { if (now?.after) await show(now.after); });
  const back = tried(async () => { if (now?.before) await show(now.before); });
  const compare = tried(async () => {
    const found = await ask("agreement", { of });
    const share = (value) => value === null ? "–" : percent(value);
    put(judged, h("h2", {}, "Agreement"), h("p", { class: "soft" }, found.people.length ? found.people.map((each) => `${each.name} rated ${count(each.rated)}`).join(" · ") : "Nobody has rated a pair yet."),
      found.held && h("p", { class: "soft" }, "How far you agree with others and with the verifier is shown once you have rated all pairs: figures that move with each answer would tell what was said of it."),
      found.agreement.length ? h("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Agreement" }, h("table", { class: "still", "aria-label": "Agreement" }, h("thead", {}, h("tr", {}, ["Who", "And", "Pairs", "Agree", "Kappa", "Where both prefer one"].map((each, i) => h("th", { scope: "col", class: i > 1 && "num" }, each)))),
        h("tbody", {}, found.agreement.map((each) => h("tr", {}, h("td", {}, visible(each.left)), h("td", {}, visible(each.right)), h("td", { class: "num" }, count(each.pairs)), h("td", { class: "num" }, share(each.agree), each.low === null ? "" : h("small", { class: "soft" }, ` [${(100 * each.low).toFixed(1)}, ${(100 * each.high).toFixed(1)}]`)), h("td", { class: "num" }, decimal(each.kappa, 3)), h("td", { class: "num" }, `${share(each.agree_decided)} of ${count(each.decided)}`)))))) : "");
  });
  show().then(compare); // not waited for: a key that is pressed as the first pair is seen must count
  return { keys: { 1: () => say("left"), ArrowLeft: () => say("left"), 2: () => say("right"), ArrowRight: () => say("right"), 0: () => say("equal"), "=": () => say("equal"), n: next, b: back }, close() {} };
}
