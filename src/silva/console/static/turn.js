// A turn in the list: a card with who, what it took, and in short what was said; its whole body when it is unfolded.
import { h, decimal, count } from "./dom.js";
import { call, part } from "./rendered.js";

const NAMES = { policy: "agent", environment: "environment", person: "person", attacker: "attacker", summariser: "summary", verifier: "verifier", memory: "memory" };

export const isAction = (node) => node.role === "assistant";

export const seconds = (value) => value < 10 ? `${decimal(value, value < 1 ? 2 : 1)} s` : value < 90 ? `${Math.round(value)} s` : value < 5400 ? `${decimal(value / 60, 1)} min` : `${decimal(value / 3600, 1)} h`;

function spent(node) {
  const taken = node.spent ?? {}, told = [];
  if (taken.model) told.push(h("span", { title: "the model's time" }, seconds(taken.model)));
  if (taken.environment) told.push(h("span", { title: "the environment's time" }, `${isAction(node) ? "env " : ""}${seconds(taken.environment)}`));
  if (taken.read || taken.written) told.push(h("span", { title: `tokens read and written${taken.cached ? `; ${count(taken.cached)} from the cache` : ""}` }, `${count(taken.read ?? 0)} → ${count(taken.written ?? 0)} tok`));
  if (taken.usd) told.push(h("span", { title: "cost" }, `$${taken.usd.toFixed(taken.usd < 0.01 ? 4 : 2)}`));
  return h("span", { class: "spent" }, told);
}

const verdict = { good: "good", keep: "good", bad: "bad", mask: "bad" };

export function line(node, number, { open, body, judged, attacked, actions = [] }) {
  const marks = node.marks ?? {};
  return h("div", { class: `turn ${node.author}${attacked ? " struck" : ""}`, "aria-label": `${number ? `turn ${number} ` : ""}${node.author} ${node.role}`, "data-node": node.id },
    h("div", { class: "who" },
      h("b", {}, NAMES[node.author] ?? node.author), h("span", {}, number && isAction(node) ? `turn ${number}` : node.role),
      marks.refused && h("span", { class: "tag bad" }, "refused"), marks.refuses && h("span", { class: "tag bad" }, "rejects"), marks.asked && h("span", { class: "tag person" }, "waited for approval"),
      marks.instead_of && h("span", { class: "tag person" }, "instead"), node.snapshot && h("span", { class: "tag" }, "snapshot"),
      node.reward !== undefined && h("span", { class: "tag good" }, `reward ${decimal(node.reward)}`),
      (attacked ?? []).map((words) => h("span", { class: "tag bad" }, words)),
      (node.risks ?? []).map((risk) => h("span", { class: "tag bad" }, `risk ${risk}`)),
      (judged ?? []).map((each) => h("span", { class: `tag ${verdict[each.verdict] ?? each.source}`, title: `${each.by}: ${each.reason ?? ""}` }, `${each.verdict} · ${each.by}`)),
      spent(node)),
    open ? (body ? whole(body, judged, actions) : h("p", { class: "soft" }, "…")) : h("div", { class: "brief" }, node.text || "(nothing)"));
}

export function whole(node, judged = [], actions = []) {
  return h("div", { class: "body" },
    node.parts.map(part), node.tool_calls.map(call),
    judged.filter((each) => each.reason).map((each) => h("p", { class: "soft" }, `${each.verdict} by ${each.by} (${each.source}): ${each.reason}`)),
    h("details", {}, h("summary", { class: "soft" }, "Facts"), h("p", { class: "soft" }, facts(node))),
    actions.length ? h("div", { class: "row-of" }, actions) : "");
}

function facts(node) {
  const known = Object.entries(node.facts).filter(([, value]) => value !== null && value !== "" && value !== 0).map(([name, value]) => `${name} ${typeof value === "number" ? decimal(value, 3) : value}`);
  return [...known, node.id.slice(0, 12)].join(" · ");
}
