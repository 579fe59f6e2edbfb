// A panel that stays at its end while it grows, or is made smaller, until a person scrolls up; at the end it follows again.
const NEAR = 30; // pixels

export function following(panel) {
  let pinned = true, top = 0;
  const end = () => panel.scrollTop + panel.clientHeight >= panel.scrollHeight - NEAR;
  const go = () => { if (pinned) { panel.scrollTop = panel.scrollHeight; top = panel.scrollTop; } };
  panel.addEventListener("scroll", () => {
    if (end()) pinned = true;
    else if (panel.scrollTop < top - 1 && panel.clientHeight) pinned = false;
    top = panel.scrollTop;
  }, { passive: true });
  new ResizeObserver(go).observe(panel);
  return { go, get pinned() { return pinned; }, pin() { pinned = true; go(); } };
}
