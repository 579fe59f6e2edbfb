// The workspace at a turn, from the snapshot kept after it: its files, what changed since the one before, their content.
import { h, put, count } from "./dom.js";
import { ask, tried } from "./api.js";
import { diff, visible } from "./rendered.js";

export function files({ question, numbers }) {
  const element = h("div", { class: "tall" });
  let at = "", path = "", whole = false;
  const draw = tried(async () => {
    const found = await ask("workspace", { ...question(), node: at, path });
    const places = found.snapshots.map((each) => h("option", { value: each.node }, `turn ${numbers(each.node) ?? "0"} · ${each.id}`));
    const choose = h("select", { "aria-label": "Snapshot", value: found.at, onchange: () => { at = choose.value; draw(); } }, places);
    const shown = found.files.filter((file) => whole || file.change || found.files.every((each) => !each.change));
    put(element,
      h("div", { class: "bar" }, found.snapshots.length ? h("label", {}, "After ", choose) : "",
        found.files.some((file) => file.change) ? h("button", { "aria-pressed": String(whole), onclick: () => { whole = !whole; draw(); } }, `all ${count(found.of)} files`) : ""),
      found.note ? h("p", { class: "soft" }, found.note) : "",
      found.at ? h("div", { class: "workspace" },
        h("ul", { class: "files", "aria-label": "Files of the workspace", tabindex: "0" }, shown.map((file) => h("li", {}, h("button", { "aria-current": file.path === path && "true", onclick: () => { path = file.path; draw(); } }, h("span", { class: `change ${{ "+": "plus", "-": "minus", "~": "same" }[file.change] ?? ""}`, "aria-label": { "+": "new", "-": "removed", "~": "changed", "": "unchanged" }[file.change] }, file.change || " "), visible(file.path), file.link ? h("span", { class: "soft" }, ` → ${file.link}`) : h("span", { class: "soft" }, ` ${count(file.size)}`))))),
        found.file ? h("section", { class: "content scroll", tabindex: "0", "aria-label": `Content of ${path}` }, h("h2", {}, path), found.file.note ? h("p", { class: "soft" }, found.file.note) : "",
          found.file.diff.length ? [h("h3", {}, "Since the snapshot before"), diff(found.file.diff, true)] : "", found.file.text ? h("pre", { class: "code" }, visible(found.file.text)) : "") : h("p", { class: "soft" }, "Choose a file.")) : "");
  });
  return { element, draw, go(node) { at = node; return draw(); } };
}
