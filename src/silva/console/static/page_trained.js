// What will be trained: the loss of every turn as `silva train samples` writes it, why, and back with a click.
import { h, put, decimal, count, percent } from "./dom.js";
import { ask, order, tell, tried } from "./api.js";
import { visible } from "./rendered.js";

const STATES = { loss: ["trained", "good"], part: ["in part", "person"], masked: ["masked", "bad"], context: ["context", ""] };

export async function trained(place, { given: [run, id], }, app) {
  if (!run) {
    const { runs } = await ask("runs");
    put(place, h("h1", {}, "What will be trained"), h("p", { class: "soft" }, "Choose a run that has ended."), h("ul", {}, runs.filter((each) => each.ended).map((each) => h("li", {}, h("a", { href: `#/trained/${encodeURIComponent(each.id)}` }, each.id), h("span", { class: "soft" }, ` ${each.ended} trajectories`)))));
    return { close() {} };
  }
  if (id) await one(place, run, id, app); else await all(place, run);
  return { close() {} };
}

async function all(place, run) {
  const { rows, total } = await ask("trained", { run });
  const sum = (name) => rows.reduce((made, row) => made + (row[name] ?? 0), 0), refused = rows.filter((row) => row.refused);
  put(place, h("h1", {}, "What will be trained of ", h("a", { href: `#/run/${encodeURIComponent(run)}` }, run)),
    h("p", {}, `${count(sum("loss"))} ids with loss of ${count(sum("drawn"))} drawn and ${count(sum("ids"))} read, in ${sum("samples")} samples`, refused.length ? `; ${refused.length} trajectories give none.` : "."),
    total > rows.length ? h("p", { class: "soft" }, `The first ${rows.length} of ${total} trajectories.`) : "",
    h("section", { class: "card scrolls", tabindex: "0", role: "region", "aria-label": "Trajectories" }, h("table", { "aria-label": "Trajectories and their loss" }, h("thead", {}, h("tr", {}, ["Task", "Try", "Score", "Read", "Drawn", "With loss", "Share", ""].map((name) => h("th", { scope: "col" }, name || "Why none")))),
      h("tbody", {}, rows.map((row) => h("tr", {}, h("td", {}, h("a", { href: `#/trained/${encodeURIComponent(run)}/${row.id}` }, row.task || row.id.slice(0, 12))), h("td", {}, row.slot), h("td", { class: "num" }, decimal(row.score)), h("td", { class: "num" }, count(row.ids)), h("td", { class: "num" }, count(row.drawn)), h("td", { class: "num" }, count(row.loss)),
        h("td", {}, row.drawn ? bar(row.loss, row.drawn) : ""), h("td", { class: "bad" }, row.refused)))))));
}

const bar = (part, of) => h("meter", { min: "0", max: of, value: part, "aria-label": `${percent(part / of)} of what was drawn` }, percent(part / of));

async function one(place, run, id, app) {
  const found = await ask("trained", { id }), { row } = found, may = app.me.role !== "viewer";
  const again = () => one(place, run, id, app);
  const judge = tried(async (turn, verdict) => {
    await order("label", { run: turn.run, node: turn.node, verdict, reason: verdict === "keep" ? "unmasked in the console" : "masked in the console" });
    tell(`${verdict === "keep" ? "unmasked" : "masked"}: turn ${turn.turn}`);
    await again();
  });
  const turns = found.turns, masked = turns.filter((turn) => turn.state === "masked").length;
  put(place, h("h1", {}, "What will be trained of ", h("a", { href: `#/run/${encodeURIComponent(run)}/${id}` }, `${row.task} ${row.slot}`)),
    h("p", {}, found.refused ? h("span", { class: "bad", role: "alert" }, `No sample: ${found.refused}`) : `${count(found.loss)} ids with loss of ${count(found.drawn)} drawn; ${count(found.ids)} read, ${found.samples} ${found.samples === 1 ? "sample" : "samples"}, reward ${decimal(found.reward)}; ${masked} of ${turns.length} turns masked.`, " ", h("a", { href: `#/trained/${encodeURIComponent(run)}` }, "All of the run")),
    h("div", { class: "strip", role: "img", "aria-label": `${turns.length} turns: ${turns.map((turn) => STATES[turn.state][0]).join(", ").slice(0, 400)}` }, turns.map((turn) => h("span", { class: `cell ${turn.state}`, title: `turn ${turn.turn}: ${STATES[turn.state][0]}` }))),
    h("p", { class: "soft legend" }, h("span", { class: "cell loss" }), " trained ", h("span", { class: "cell masked" }), " masked ", h("span", { class: "cell context" }), " context: read, not drawn by the policy. The darker an id, the surer the policy was of it."),
    turns.map((turn) => h("article", { class: `card trained ${turn.state}`, "aria-label": `turn ${turn.turn}: ${STATES[turn.state][0]}` },
      h("div", { class: "row-of" }, h("b", {}, `turn ${turn.turn}`), h("span", { class: `tag ${STATES[turn.state][1]}` }, STATES[turn.state][0]), h("span", { class: "soft" }, turn.drawn ? `${count(turn.loss)} of ${count(turn.drawn)} ids${turn.segment ? ` · sample ${turn.segment + 1}` : ""}` : turn.author),
        may && turn.drawn ? (turn.state === "masked" ? h("button", { class: "main", onclick: () => judge(turn, "keep") }, "Unmask") : h("button", { onclick: () => judge(turn, "mask") }, "Mask")) : ""),
      turn.why ? h("p", { class: "why" }, turn.why) : "",
      turn.judged.length ? h("details", {}, h("summary", { class: "soft" }, `${turn.judged.length} judgement${turn.judged.length === 1 ? "" : "s"}`), turn.judged.map((each) => h("p", { class: "soft" }, h("b", {}, each.verdict), ` by ${each.by} (${each.source})${each.reason ? `: ${each.reason}` : ""}`))) : "",
      h("div", { class: "brief" }, visible(turn.text)),
      turn.ids.length ? h("details", { open: turns.length <= 3 }, h("summary", { class: "soft" }, "Ids"), h("p", { class: "ids" }, turn.ids.map(([number, logprob, loss, words]) => h("span", { class: `id ${loss ? `loss sure${logprob === null ? 1 : Math.min(3, Math.floor(-logprob))}` : "masked"}`, title: `id ${number}${logprob === null ? "" : `, logprob ${logprob}`}` }, words === null ? String(number) : visible(words))), turn.drawn > turn.ids.length ? ` … ${count(turn.drawn - turn.ids.length)} more` : "")) : "")));
}
