// Elements from plain values. Text becomes text nodes only; nothing in this console makes markup from a string.
const SVG = "http://www.w3.org/2000/svg";

function filled(element, given, children) {
  for (const [name, value] of Object.entries(given ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "open") continue;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((each) => each !== undefined && each !== null && each !== false).map((each) => each instanceof Node ? each : document.createTextNode(String(each))));
  for (const name of ["value", "checked", "open"]) if (given?.[name] !== undefined) element[name] = given[name]; // a select needs its options first
  return element;
}

export const h = (tag, given, ...children) => filled(document.createElement(tag), given, children);
export const s = (tag, given, ...children) => filled(document.createElementNS(SVG, tag), given, children);
export const put = (place, ...children) => place.replaceChildren(...children.flat(3).filter(Boolean));

export const percent = (value) => value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`;
export const decimal = (value, digits = 2) => value === null || value === undefined ? "–" : Number(value).toFixed(digits).replace(/\.?0+$/, "");
export const count = (value) => value === null || value === undefined ? "–" : Number(value).toLocaleString("en");
export const clock = (at) => at ? new Date(at * 1000).toLocaleString("en-GB", { hour12: false }) : "–";
export function ago(at) {
  if (!at) return "–";
  const seconds = Math.max(0, Date.now() / 1000 - at);
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 129600 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} d ago`;
}

// Drawing that waits while a button of the mouse is down: what is replaced between press and release gets no click.
const LONGEST_PRESS = 1500; // milliseconds; a scroll bar that is held, or a release nobody was told of, holds up nothing
const held = new Map();
let pressed = 0;
function released() {
  pressed = 0;
  setTimeout(() => { for (const [work, given] of [...held]) { held.delete(work); work(...given); } });
}
addEventListener("pointerdown", () => { pressed = performance.now(); setTimeout(() => { if (performance.now() - pressed >= LONGEST_PRESS) released(); }, LONGEST_PRESS); }, true);
addEventListener("pointerup", released, true);
addEventListener("pointercancel", released, true);
export const calmly = (work) => (...given) => { if (pressed) held.set(work, given); else work(...given); };

// Calls the function at once, then at most once in so many milliseconds, with the last call never lost.
export function seldom(work, pause) {
  let due = 0, waiting = 0;
  return (...given) => {
    const now = performance.now();
    clearTimeout(waiting);
    if (now >= due) { due = now + pause; work(...given); }
    else waiting = setTimeout(() => { due = performance.now() + pause; work(...given); }, due - now);
  };
}
