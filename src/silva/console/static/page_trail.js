// The trail: who did what. For admins.
import { h, put, clock } from "./dom.js";
import { ask } from "./api.js";

export async function trail(place) {
  const { deeds } = await ask("trail");
  put(place, h("h1", {}, "Trail"), h("p", { class: "soft" }, "Who did what here, the newest first."),
    h("table", { class: "card", "aria-label": "Trail" },
      h("thead", {}, h("tr", {}, ["When", "Who", "Did", "How it went", "What"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, deeds.map(({ at, by, role, did, went, ...more }) => h("tr", {}, h("td", {}, clock(at)), h("td", {}, `${by} (${role})`), h("td", {}, did), h("td", { class: went.startsWith("refused") ? "bad" : "" }, went), h("td", { class: "mono" }, Object.entries(more).map(([name, value]) => `${name}: ${value}`).join(" · ")))))));
  return { close() {} };
}
