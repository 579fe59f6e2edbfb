// Runs: progress, throughput, failures, cost, and safety against completion.
import { h, put, percent, decimal, count, clock, ago, seldom, calmly } from "./dom.js";
import { ask, listen, tried } from "./api.js";
import { scatter, budgets } from "./chart.js";
import { states } from "./state.js";

export async function runs(place, { query }, app) {
  let rows = (await ask("runs")).runs, text = "", chosen = query.get("run") ?? rows[0]?.id ?? "", detail = null;
  const seen = new Map(); // run -> [turns, seconds] some time ago: the rate of now
  const body = h("tbody"), side = h("section", { class: "card", "aria-label": "Run in figures" });
  const search = h("input", { type: "search", "data-search": "", placeholder: "Find a run", "aria-label": "Find a run", oninput: () => { text = search.value.toLowerCase(); draw(); } });
  const shown = () => rows.filter((run) => `${run.id} ${run.model} ${run.envs} ${run.status} ${run.command}`.toLowerCase().includes(text));

  function rate(run) {
    const now = performance.now() / 1000, known = seen.get(run.id);
    if (!known) { seen.set(run.id, { turns: run.turns, at: now, rate: null }); return null; }
    if (now - known.at > 4) seen.set(run.id, { turns: run.turns, at: now, rate: 60 * (run.turns - known.turns) / (now - known.at) });
    return seen.get(run.id).rate;
  }
  const pace = (run) => {
    const now = run.status === "running" ? rate(run) : null;
    const span = run.moved - run.started;
    const mean = span > 5 ? 60 * run.turns / span : null;
    return decimal(now ?? mean, 1);
  };
  const progress = (run) => run.expected
    ? [h("progress", { max: run.expected, value: Math.min(run.ended, run.expected), "aria-label": `${run.ended} of ${run.expected} ended` }), ` ${run.ended}/${run.expected}`]
    : [String(run.ended)];

  function line(run) {
    return h("tr", { "aria-selected": String(run.id === chosen), onclick: () => choose(run.id), ondblclick: () => app.go(`#/run/${encodeURIComponent(run.id)}`) },
      h("td", {}, h("a", { href: `#/run/${encodeURIComponent(run.id)}` }, run.id), h("div", { class: "soft" }, [run.command, run.envs.join(", "), run.model].filter(Boolean).join(" · "))),
      h("td", { class: run.status === "running" ? "good" : "" }, run.status),
      h("td", {}, progress(run), run.live ? h("div", { class: "soft" }, `${run.live} under way`) : "", h("div", { class: "states" }, states(run.states))),
      h("td", { class: "num" }, pace(run)), h("td", { class: "num" }, percent(run.success)), h("td", { class: "num" }, decimal(run.safety)),
      h("td", { class: run.failed ? "num bad" : "num" }, run.failed), h("td", { class: "num" }, count(run.tokens)), h("td", { class: "num" }, run.usd ? `$${run.usd.toFixed(2)}` : "–"),
      h("td", { class: "soft" }, ago(run.moved)));
  }
  const draw = calmly(() => put(body, shown().map(line)));
  let unfolded = false, plotted = null, plot = null, scaled = false, grown = "";
  const growth = h("div", {});
  // It reads every attempt's walk: asked for when somebody looks, and again when another attempt has ended.
  const scale = tried(async () => {
    const of = `${detail.id} ${detail.ended}`;
    if (of === grown) return;
    grown = of;
    const { scaling } = await ask("scaling", { run: detail.id });
    put(growth, scaling ? [h("p", { class: "soft legend" }, h("span", { class: "dot best" }), " best so far  ", h("span", { class: "dot last" }), " last  ", `${scaling.attempts} attempts, ${scaling.told} told a score on the way`),
      budgets(scaling.turns, { name: "turns" }), scaling.seconds.length ? budgets(scaling.seconds, { per: 3600, name: "hours" }) : ""] : h("p", { class: "soft" }, "No attempt was scored yet."));
  });
  const safety = (points) => { if (points !== plotted) { plotted = points; plot = scatter(points); } return plot; };
  const drawSide = calmly(() => {
    if (!detail) { put(side, h("p", { class: "soft" }, rows.length ? "Choose a run." : "No run yet: silva rollout makes one.")); return; }
    put(side, h("h2", {}, detail.id), h("p", {}, h("a", { href: `#/timeline/${encodeURIComponent(detail.id)}` }, "Timeline of the run"), " · ", h("a", { href: `#/lake?text=${encodeURIComponent(detail.id)}` }, "Attempts by every score")),
      h("dl", { class: "facts" }, [["Environments", detail.envs.join(", ")], ["Model", detail.model], ["Agent", detail.agent], ["Started", clock(detail.started)], ["Ended", detail.finished ? clock(detail.finished) : "not yet"], ["Turns", count(detail.turns)], ["Mean score", decimal(detail.score, 3)], ["Code", detail.code]].map(([name, value]) => [h("dt", {}, name), h("dd", {}, value || "–")])),
      h("h2", {}, "Safety against completion"),
      detail.scatter.length ? safety(detail.scatter) : h("p", { class: "soft" }, "No attempt was judged on both."),
      h("details", { open: scaled, ontoggle: (event) => { scaled = event.target.open; if (scaled) scale(); } }, h("summary", {}, "Score against turns and hours"), growth),
      h("h2", {}, "Failures"),
      detail.causes.length ? h("table", {}, h("tbody", {}, detail.causes.map((cause) => h("tr", {}, h("td", {}, cause.boundary), h("td", {}, cause.code), h("td", { class: "num" }, cause.count))))) : h("p", { class: "soft" }, "None."),
      h("details", { open: unfolded, ontoggle: (event) => { unfolded = event.target.open; } }, h("summary", {}, "Configuration"), h("pre", {}, JSON.stringify(detail.config, null, 1))));
    if (scaled) scale();
  });
  const choose = tried(async (id) => { chosen = id; draw(); const found = await ask("run", { run: id }); if (chosen === id) { detail = found; drawSide(); } });
  function move(by) {
    const list = shown(), at = list.findIndex((run) => run.id === chosen);
    const next = list[Math.max(0, Math.min(list.length - 1, at + by))];
    if (next) choose(next.id);
  }

  put(place, h("h1", {}, "Runs"), h("div", { class: "bar" }, search),
    h("div", { class: "split" },
      h("section", { class: "card" }, h("table", { "aria-label": "Runs" }, h("thead", {}, h("tr", {}, ["Run", "Status", "Ended", "Turns/min", "Success", "Safety", "Failed", "Tokens", "Cost", "Moved"].map((name) => h("th", { scope: "col" }, name)))), body)), side));
  draw(); drawSide();
  if (chosen) await choose(chosen);

  // A run that moves all the time is told in its few figures often, and seldom with its plot and failures.
  const fetchChanged = new Set();
  const update = seldom(tried(async () => {
    const names = [...fetchChanged];
    fetchChanged.clear();
    if (names.length > 3 || names.some((name) => !rows.some((run) => run.id === name))) rows = (await ask("runs")).runs;
    else for (const name of names) {
      const fresh = await ask("run", { run: name, brief: 1 });
      rows = rows.map((run) => run.id === name ? fresh : run);
      if (name === chosen && detail?.id === name) { detail = { ...detail, ...fresh }; drawSide(); }
    }
    draw();
  }), 100);
  const whole = seldom(tried(async () => {
    const name = chosen, fresh = await ask("run", { run: name });
    if (name === chosen) { detail = fresh; drawSide(); }
  }), 2000);
  const again = tried(async () => { rows = (await ask("runs")).runs; draw(); if (chosen) await choose(chosen); });
  const stop = listen({ run: "*" }, { state: app.live, again, told: (news) => { for (const name of news.runs ?? []) fetchChanged.add(name); if (fetchChanged.has(chosen)) whole(); if (fetchChanged.size) update(); } });
  return { close: stop, keys: { j: () => move(1), k: () => move(-1), Enter: () => chosen && app.go(`#/run/${encodeURIComponent(chosen)}`), o: () => chosen && app.go(`#/run/${encodeURIComponent(chosen)}`), g: () => move(-1e6), G: () => move(1e6) } };
}
