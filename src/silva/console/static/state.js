// The state of an agent as a mark: a form and a word, never a colour alone.
import { h } from "./dom.js";

const SHOWN = { waiting: ["◆", "waiting for you", "person"], stalled: ["◌", "stalled", "bad"], dead: ["✕", "dead", "bad"], paused: ["‖", "paused", "person"], working: ["●", "working", "good"], left: ["○", "left", ""] };

export const state = (row) => row?.state ? h("span", { class: `tag state ${SHOWN[row.state]?.[2] ?? ""}`, title: row.why || false, "aria-label": "State" }, `${SHOWN[row.state]?.[0] ?? ""} ${SHOWN[row.state]?.[1] ?? row.state}`) : "";

// How many agents of a run are in each state, those who need a person first.
export const states = (counts) => Object.entries(counts ?? {}).map(([name, count]) => h("span", { class: `tag state ${SHOWN[name]?.[2] ?? ""}` }, `${SHOWN[name]?.[0] ?? ""} ${count} ${SHOWN[name]?.[1] ?? name}`));
