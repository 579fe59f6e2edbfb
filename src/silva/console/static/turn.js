// A turn in the list: its line, and its whole body when it is unfolded.
import { h, decimal, count } from "./dom.js";

const NAMES = { policy: "agent", environment: "environment", person: "person", attacker: "attacker", summariser: "summary", verifier: "verifier" };

export const isAction = (node) => node.role === "assistant";

export function line(node, number, { open, body, judged, actions = [] }) {
  const marks = node.marks ?? {};
  return h("article", { class: `turn ${node.author}`, "aria-label": `${number ? `turn ${number} ` : ""}${node.author} ${node.role}`, "data-node": node.id },
    h("div", { class: "who" },
      h("b", {}, NAMES[node.author] ?? node.author), h("span", {}, number && isAction(node) ? `turn ${number}` : node.role),
      marks.refused && h("span", { class: "tag bad" }, "refused"), marks.refuses && h("span", { class: "tag bad" }, "rejects"), marks.asked && h("span", { class: "tag person" }, "waited for approval"),
      marks.instead_of && h("span", { class: "tag person" }, "instead"), node.snapshot && h("span", { class: "tag" }, "snapshot"),
      node.reward !== undefined && h("span", { class: "tag good" }, `reward ${decimal(node.reward)}`),
      (node.risks ?? []).map((risk) => h("span", { class: "tag bad" }, `risk ${risk}`)),
      (judged ?? []).map((each) => h("span", { class: `tag ${{ good: "good", keep: "good", bad: "bad", mask: "bad" }[each.verdict] ?? each.source}`, title: `${each.by}: ${each.reason ?? ""}` }, `${each.verdict} · ${each.by}`))),
    open ? (body ? whole(body, judged, actions) : h("p", { class: "soft" }, "…")) : h("div", { class: "brief" }, node.text || "(nothing)"));
}

export function whole(node, judged = [], actions = []) {
  return h("div", { class: "body" },
    node.parts.map((part) => part.kind === "image"
      ? h("img", { src: `/blob/${part.hash}`, alt: `image ${part.hash.slice(0, 12)}`, loading: "lazy" })
      : h("pre", { class: part.kind }, part.text, part.cut ? `\n… ${count(part.cut)} characters more` : "")),
    node.tool_calls.map((call) => h("pre", { class: "call" }, `→ ${call.name}(${pretty(call.arguments)})`)),
    judged.filter((each) => each.reason).map((each) => h("p", { class: "soft" }, `${each.verdict} by ${each.by} (${each.source}): ${each.reason}`)),
    h("p", { class: "soft" }, facts(node)),
    actions.length ? h("div", { class: "row-of" }, actions) : "");
}

function pretty(text) {
  try { const value = JSON.parse(text); return Object.values(value).some((each) => typeof each === "string" && each.includes("\n")) ? Object.entries(value).map(([name, each]) => `\n${name}: ${typeof each === "string" ? each : JSON.stringify(each)}`).join("") + "\n" : JSON.stringify(value); } catch { return text; }
}

function facts(node) {
  const known = Object.entries(node.facts).filter(([, value]) => value !== null && value !== "" && value !== 0).map(([name, value]) => `${name} ${typeof value === "number" ? decimal(value, 3) : value}`);
  return [...known, node.id.slice(0, 12)].join(" · ");
}
