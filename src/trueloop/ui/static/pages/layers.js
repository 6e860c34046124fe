// Layers x steps: one statistic as a heat map; a click on a row (or the list) draws that layer's curve.

import { get, live } from "ui/api.js";
import { logAxis } from "ui/axes.js";
import { chart, plain } from "ui/chart.js";
import { choice, el, replace } from "ui/dom.js";
import { count, number } from "ui/format.js";
import { heat } from "ui/heat.js";
import { text } from "ui/layer_words.js";
import { gap, prose } from "ui/text.js";
import { color } from "ui/theme.js";

export async function show(root, route) {
  let data = await get("layers", { run: route.run, statistic: route.query.get("statistic") });
  if (!data.statistics.length) {
    root.append(gap("No statistics of layers were recorded. `statistics_every` sets how often `trueloop train` records them; `trueloop check` does not record them yet.",
      "trueloop train digits --set statistics_every=10"));
    return;
  }
  const state = { layer: null, log: null };
  const controls = el("div", { class: "controls" });
  const about = el("p", { class: "soft" });
  const map = el("div", { class: "heat", role: "group" });
  const name = el("h2");
  const curve = el("div", { class: "plot", role: "img", "aria-label": "curve of the chosen layer" });
  const facts = el("span", { class: "soft note" });
  root.append(controls, about, el("section", { class: "panel" }, map), el("section", { class: "panel" }, el("header", {}, name, facts), curve));

  const bounded = () => /zeros/.test(data.statistic);
  const signed = () => /mean/.test(data.statistic);
  const isLog = () => state.log ?? (!bounded() && !signed());
  const finite = (value) => typeof value === "number";
  const at = (value) => !finite(value) ? null : isLog() ? (value > 0 ? Math.log10(value) : null) : value;

  function drawControls() {
    replace(controls,
      choice("Statistic", data.statistics, data.statistic, async (value) => { state.log = null; await load(value); }),
      el("label", { class: "control" }, el("input", { type: "checkbox", checked: isLog(), disabled: signed(), onchange: (event) => { state.log = event.target.checked; redraw(); } }), el("span", {}, "log scale")));
    replace(about, prose(text(data.statistic)), data.left_out ? ` ${count(data.left_out)} more layers are left out.` : "", data.complete ? "" : " A sample; the rest is being read.");
    map.setAttribute("aria-label", `heat map of ${data.layers.length} layers over ${data.steps.length} steps`);
  }

  // What the heat map shows: the share of the color scale that a value has, and the numbers below it.
  function view() {
    const known = data.values.flat().map(at).filter((value) => value !== null);
    let [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
    if (signed()) { high = Math.max(Math.abs(low), Math.abs(high)) || 1; low = -high; }
    if (bounded()) [low, high] = [0, 1];
    const shown = [0, 0.5, 1].map((share) => { const value = low + (high - low) * share; return [share, number(isLog() ? 10 ** value : value, 2)]; });
    return {
      rows: data.layers, columns: data.steps, values: data.values, signed: signed(), ticks: shown, chosen: state.layer,
      title: data.statistics.find(([key]) => key === data.statistic)?.[1] ?? data.statistic, words: (value) => number(value),
      share: (value) => { const place = at(value); return place === null ? null : high > low ? (place - low) / (high - low) : 0.5; },
      choose: (layer) => { state.layer = layer; redraw(); },
    };
  }

  const row = () => data.values[data.layers.indexOf(state.layer)] ?? [];

  function curveTraces() {
    const values = row();
    return [{ type: "scatter", mode: data.steps.length < 80 ? "lines+markers" : "lines", x: data.steps, y: values.map((value) => finite(value) ? value : null), name: plain(state.layer), line: { color: color("c0"), width: 1.8 }, marker: { size: 5 } }];
  }

  function curveLayout() {
    return { xaxis: { title: { text: "step", font: { size: 12, color: color("soft") }, standoff: 6 } }, yaxis: logAxis(row().filter(finite), isLog()) };
  }

  let shown = null, line = null;
  async function drawCurve() {
    const known = row().filter(finite);
    const lost = row().filter((value) => typeof value === "string").length;
    name.textContent = state.layer;
    facts.textContent = known.length ? `${number(Math.min(...known), 3)} to ${number(Math.max(...known), 3)}, last ${number(known[known.length - 1], 3)}${lost ? `; ${lost} non-finite` : ""}` : "nothing finite was recorded";
    if (line) await line.update(); else line = await chart(curve, curveTraces, curveLayout);
  }

  async function redraw() {
    drawControls();
    if (shown) shown.update(); else shown = heat(map, view);
    await drawCurve();
  }

  async function load(statistic) {
    data = await get("layers", { run: route.run, statistic });
    if (!data.layers.includes(state.layer)) state.layer = data.layers[0];
    await redraw();
  }

  state.layer = data.layers[0];
  await redraw();
  let busy = false;
  const end = live(route.run, async () => {
    if (busy) return;
    busy = true;
    try { await load(data.statistic); } finally { busy = false; }
  });
  return () => { end(); shown?.leave(); line?.leave(); };
}
