// A virtual list: only what is on the screen is in the page. Rows may differ in height and change it; what is above the
// screen then moves nothing that is on it. `render(i)` gives an element for a row; rows are named by their index.
import { h } from "./dom.js";

const BEYOND = 300; // pixels rendered above and below the screen

export class List {
  constructor({ label, estimate = 30, fixed = false, render, chosen = () => {}, opened = () => {}, seen = () => {} }) {
    Object.assign(this, { estimate, fixed, render, chosen, opened, seen });
    this.count = 0;
    this.at = -1;
    this.rows = new Map();
    this.heights = [];
    this.tops = [0];
    this.clean = 0; // tops up to here are right
    this.pinned = false; // the end stays in sight when rows are added; an earlier row that was chosen, or scrolling up, lets go of it
    this.scroll = 0;
    this.inside = h("div", { class: "inside" });
    this.element = h("div", { class: "list", role: "list", tabindex: "0", "aria-label": label }, this.inside);
    this.element.addEventListener("scroll", () => { this.scrolled(); this.later(); }, { passive: true });
    this.sizes = new ResizeObserver((entries) => this.measure(entries));
    this.room = new ResizeObserver(() => this.later());
    this.room.observe(this.element);
  }

  close() { this.sizes.disconnect(); this.room.disconnect(); }

  setCount(count, { keep = true } = {}) {
    const bottom = this.pinned || this.at < 0;
    if (!keep) { this.heights.length = 0; this.clean = 0; this.drop(); }
    if (count < this.count) { this.heights.length = Math.min(this.heights.length, count); this.clean = Math.min(this.clean, count); this.drop(); }
    const grew = count > this.count;
    this.count = count;
    if (this.at >= count) this.at = count - 1;
    this.draw();
    if (grew && bottom && this.follow) this.show(count - 1, "end");
  }

  scrolled() {
    const top = this.element.scrollTop;
    if (top > this.scroll && this.atEnd) this.pinned = true;
    else if (top < this.scroll && !this.atEnd) this.pinned = false;
    this.scroll = top;
  }

  scrollTo(top) { this.element.scrollTop = top; this.scroll = this.element.scrollTop; }

  get atEnd() { const box = this.element; return box.scrollTop + box.clientHeight >= box.scrollHeight - 40; }

  top(index) {
    if (this.fixed) return index * this.estimate;
    for (let i = this.clean; i < index; i++) this.tops[i + 1] = this.tops[i] + (this.heights[i] ?? this.estimate);
    this.clean = Math.max(this.clean, index);
    return this.tops[index];
  }

  indexAt(y) {
    if (this.fixed) return Math.min(this.count - 1, Math.max(0, Math.floor(y / this.estimate)));
    this.top(this.count);
    let low = 0, high = this.count - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (this.tops[middle] <= y) low = middle; else high = middle - 1; }
    return Math.max(0, low);
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const box = this.element, height = box.clientHeight || 600;
    this.inside.style.height = `${this.top(this.count)}px`;
    if (!this.count) { this.drop(); return; }
    const first = this.indexAt(box.scrollTop - BEYOND), last = this.indexAt(box.scrollTop + height + BEYOND);
    for (const [index, row] of this.rows) if (index < first || index > last) this.remove(index, row);
    for (let index = first; index <= last; index++) if (!this.rows.has(index)) this.add(index);
    for (const [index, row] of this.rows) row.style.transform = `translateY(${this.top(index)}px)`;
    this.seen(first, last);
  }

  add(index) {
    const row = this.render(index);
    row.classList.add("item");
    row.setAttribute("role", "listitem");
    row.setAttribute("aria-setsize", this.count);
    row.setAttribute("aria-posinset", index + 1);
    if (index === this.at) row.setAttribute("aria-current", "true");
    row.addEventListener("click", (event) => { if (!event.target.closest("button, a, input, select, .body")) { this.select(index); this.opened(index); } });
    row.index = index;
    this.rows.set(index, row);
    this.inside.append(row);
    if (!this.fixed) this.sizes.observe(row);
  }

  remove(index, row) { this.sizes.unobserve(row); row.remove(); this.rows.delete(index); }
  drop() { for (const [index, row] of this.rows) this.remove(index, row); }

  measure(entries) {
    const box = this.element;
    let moved = 0, changed = false;
    for (const { target } of entries) {
      const index = target.index;
      if (this.rows.get(index) !== target) continue;
      const height = target.offsetHeight, before = this.heights[index] ?? this.estimate;
      if (!height || height === before) continue;
      if (this.top(index) + before <= box.scrollTop) moved += height - before;
      this.heights[index] = height;
      this.clean = Math.min(this.clean, index);
      changed = true;
    }
    if (!changed) return;
    const bottom = this.follow && this.pinned;
    if (moved) this.scrollTo(box.scrollTop + moved);
    this.draw();
    if (bottom) this.scrollTo(box.scrollHeight);
  }

  // Draw a row anew (all of them without an index).
  refresh(index) { this.redraw(index === undefined ? this.rows.keys() : [index]); }

  // Draw some rows anew; of those that are not in sight there is nothing to draw.
  redraw(indices) {
    let some = false;
    for (const index of [...indices]) {
      const row = this.rows.get(index);
      if (row) { this.remove(index, row); some = true; }
    }
    if (some) this.draw();
  }

  select(index, { show = true, tell = true } = {}) {
    if (!this.count) return;
    this.rows.get(this.at)?.removeAttribute("aria-current");
    this.at = Math.max(0, Math.min(this.count - 1, index));
    if (show) this.show(this.at);
    this.rows.get(this.at)?.setAttribute("aria-current", "true");
    this.ended = this.at === this.count - 1;
    if (tell) this.chosen(this.at);
  }

  show(index, how = "near") {
    const box = this.element, top = this.top(index), height = this.heights[index] ?? this.estimate;
    if (how === "end") this.scrollTo(box.scrollHeight);
    else if (how === "start") this.scrollTo(Math.max(0, top - 40));
    else if (top < box.scrollTop) this.scrollTo(Math.max(0, top - 8));
    else if (top + Math.min(height, box.clientHeight) > box.scrollTop + box.clientHeight) this.scrollTo(top + Math.min(height, box.clientHeight - 16) - box.clientHeight + 8);
    this.pinned = index === this.count - 1;
    this.draw();
  }
}
