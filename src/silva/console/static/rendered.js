// What agents, environments and people wrote, drawn: Markdown, coloured output, calls, diffs. The server sends plain
// values (silva.console.marking); elements are made of a short list of tags, so no text is ever read as markup.
import { h, count } from "./dom.js";

const TAGS = new Set(["p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "s", "table", "thead", "tbody", "tr", "th", "td", "hr", "br"]);
const NAMES = { 0x202a: "left-to-right embedding", 0x202b: "right-to-left embedding", 0x202c: "pop directional formatting", 0x202d: "left-to-right override", 0x202e: "right-to-left override", 0x2066: "left-to-right isolate", 0x2067: "right-to-left isolate", 0x2068: "first strong isolate", 0x2069: "pop directional isolate", 0x200b: "zero width space", 0x200c: "zero width non-joiner", 0x200d: "zero width joiner", 0xfeff: "byte order mark", 0xad: "soft hyphen", 0x1b: "escape" };
// The same letters as in the library: those with no look of their own.
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u3164\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu;

// Text in which nothing hides: characters that draw nothing, or turn the order of others around, by their numbers.
export function visible(text) {
  const made = [];
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    const code = found[0].codePointAt(0), name = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    made.push(text.slice(from, found.index), h("mark", { class: "hidden-letter", title: NAMES[code] ?? name }, name));
    from = found.index + found[0].length;
  }
  if (!made.length) return [text];
  return [...made, text.slice(from)];
}

// A model's headings stand below the page's own.
const block = (one) => {
  if (typeof one === "string") return document.createTextNode(one);
  const children = (one.children ?? []).map(block);
  if (one.tag === "a") return one.href ? h("a", { href: one.href, rel: "noopener noreferrer nofollow", target: "_blank" }, children) : h("span", {}, children);
  if (/^h[1-6]$/.test(one.tag)) return h("p", { class: "heading" }, children);
  if (one.tag === "pre") return h("pre", { class: "code", "data-language": one.language || false }, children);
  if (!TAGS.has(one.tag)) return h("span", {}, children);
  return h(one.tag, {}, children);
};
export const markdown = (blocks) => h("div", { class: "markdown" }, blocks.map(block));

const look = (span) => {
  const names = ["bold", "dim", "italic", "underline", "strike", "reverse"].filter((name) => span[name]);
  if (span.fg !== undefined) names.push(`fg${span.fg}`);
  if (span.bg !== undefined) names.push(`bg${span.bg}`);
  return names.join(" ");
};
export const coloured = (lines) => h("pre", { class: "screen" }, lines.map((spans, i) => [i ? "\n" : "", spans.map((span) => look(span) ? h("span", { class: look(span) }, span.text) : span.text)]));

export const cut = (part) => part.cut ? h("p", { class: "soft" }, `… ${count(part.cut)} characters more`) : "";

export const call = (one) => h("div", { class: "call", role: "group", "aria-label": `call of ${one.name}` },
  h("div", { class: "call-name" }, visible(one.name)),
  one.fields.length ? h("dl", { class: "fields" }, one.fields.map((field) => [
    h("dt", {}, visible(field.name || "as it was said")),
    h("dd", {}, field.kind === "text" ? h("span", { class: "value" }, visible(field.value)) : h("pre", { class: "code" }, visible(field.value)), cut(field)),
  ])) : h("p", { class: "soft" }, "without arguments"));

export function part(one) {
  if (one.kind === "image") return h("img", { src: `/blob/${one.hash}`, alt: `image ${one.hash.slice(0, 12)}`, loading: "lazy" });
  if (one.lines) return h("div", {}, coloured(one.lines), cut(one));
  if (one.blocks) return h("div", { class: one.kind }, markdown(one.blocks), cut(one));
  return h("div", {}, h("pre", { class: one.kind }, one.text), cut(one));
}

// As it was written, nothing drawn and nothing hidden.
export const plain = (one) => one.kind === "image" ? part(one) : h("div", {}, h("pre", { class: one.kind }, visible(one.text)), cut(one));

export const diff = (lines, numbered) => h("div", { class: "diff", role: "table", "aria-label": numbered ? "Change, with line numbers" : "Change" }, lines.map((line) => line.kind === "@" || line.kind === "…"
  ? h("div", { class: "at", role: "row" }, h("span", { role: "cell" }, line.kind === "@" ? "⋯" : line.text))
  : h("div", { class: { "+": "plus", "-": "minus" }[line.kind] ?? "same", role: "row" },
    numbered ? [h("span", { class: "no", role: "cell" }, line.old ?? ""), h("span", { class: "no", role: "cell" }, line.new ?? "")] : "",
    h("span", { class: "sign", role: "cell" }, line.kind), h("span", { class: "text", role: "cell" }, line.text ? visible(line.text) : " "))));
