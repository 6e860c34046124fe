// Panels of curves: one chart for each metric. Zooming fetches the range again, with all its points where they are few.

import { get } from "ui/api.js";
import { chart, plain } from "ui/chart.js";
import { el } from "ui/dom.js";
import { words } from "ui/format.js";
import { color, faded } from "ui/theme.js";

export const AXES = [["step", "Step"], ["seconds", "Time"], ["samples", "Samples"]];
const TITLES = { step: "step", seconds: "seconds", samples: "samples" };

// The metrics in the order of interest: loss, what validation measures, then the rest.
export function metricsOf(names) {
  const metrics = new Map();
  for (const name of names) {
    const [kind, metric] = [name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)];
    if (kind === "layers" || kind === "test" || metric === "seconds" || metric === "epoch") continue;
    if (!metrics.has(metric)) metrics.set(metric, []);
    metrics.get(metric).push(kind);
  }
  const rank = (metric) => metric === "loss" ? 0 : metrics.get(metric).includes("valid") ? 1 : ["lr", "gradient_norm"].includes(metric) ? 2 : 3;
  return [...metrics.keys()].sort((left, right) => rank(left) - rank(right)).map((metric) => ({ metric, kinds: metrics.get(metric) }));
}

function isWide(values) {
  const known = values.filter((value) => typeof value === "number" && value > 0);
  return known.length > 1 && known.length === values.filter((value) => value !== null).length && Math.max(...known) / Math.min(...known) >= 30;
}

// A panel. `source(key)` gives { x, y, smooth } of `kind/metric`; `marks` are [{ x, text, open }] on the training loss.
export async function panel(grid, { metric, kinds, view, fetchRange, marks = () => [], color: base = 0 }) {
  const state = { data: {}, log: null, range: null };
  const toggle = el("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => {
    state.log = !isLog();
    drawing.update();
  } }, "log");
  const body = el("div", { class: "plot", role: "img", "aria-label": `curve of ${words(metric)}` });
  const note = el("span", { class: "soft note" });
  grid.append(el("section", { class: "panel" }, el("header", {}, el("h2", {}, words(metric)), note, toggle), body));

  function isLog() {
    if (state.log !== null) return state.log;
    return metric !== "lr" && isWide(kinds.flatMap((kind) => state.data[`${kind}/${metric}`]?.y ?? []));
  }

  function traces() {
    const lines = [];
    kinds.forEach((kind) => {
      const found = state.data[`${kind}/${metric}`];
      if (!found) return;
      const tone = kind === "valid" ? "c1" : "c0";
      const name = kind === "train" ? "training" : kind === "valid" ? "validation" : kind;
      const mode = found.x.length < 80 ? "lines+markers" : "lines";
      const common = { type: "scatter", mode, x: found.x, connectgaps: false, marker: { size: 5 } };
      if (found.smooth) {
        lines.push({ ...common, y: found.y, name: plain(name), hoverinfo: "skip", line: { width: 1, color: faded(tone, 0.3) }, mode: "lines" });
        lines.push({ ...common, y: found.smooth, name: plain(name), line: { width: 2, color: color(tone) } });
      } else lines.push({ ...common, y: found.y, name: plain(name), line: { width: 1.8, color: color(tone) } });
    });
    const loss = state.data[`train/${metric}`];
    const here = metric === "loss" && loss ? marks() : [];
    if (here.length) lines.push({
      type: "scatter", mode: "markers", name: "finding", x: here.map((mark) => mark.x), y: here.map((mark) => near(loss, mark.x)),
      text: here.map((mark) => plain(mark.text)), hovertemplate: "%{text}<extra></extra>", customdata: here.map((_, index) => index),
      marker: { symbol: "diamond", size: 12, color: here.map((mark) => color(mark.tone)), line: { color: color("card"), width: 1.5 } },
    });
    return lines;
  }

  function layout() {
    toggle.setAttribute("aria-pressed", String(isLog()));
    const bad = kinds.flatMap((kind) => state.data[`${kind}/${metric}`]?.bad ?? []).slice(0, 20);
    return {
      xaxis: { title: { text: TITLES[view.x], font: { size: 12, color: color("soft") }, standoff: 6 }, ...(state.range ? { range: [...state.range] } : { autorange: true }) },
      yaxis: { type: isLog() ? "log" : "linear", autorange: true },
      shapes: bad.map((at) => ({ type: "line", x0: at, x1: at, yref: "paper", y0: 0, y1: 1, line: { color: color("error"), width: 1, dash: "dot" } })),
      showlegend: kinds.filter((kind) => state.data[`${kind}/${metric}`]).length > 1, uirevision: view.x,
    };
  }

  async function load() {
    const asked = await fetchRange(kinds.map((kind) => `${kind}/${metric}`), state.range);
    state.data = asked.series;
    const total = Object.values(asked.series).reduce((sum, each) => sum + each.total, 0);
    const drawn = Object.values(asked.series).reduce((sum, each) => sum + each.x.length, 0);
    note.textContent = !asked.complete ? "a sample; the rest is being read" : drawn < total ? `${total.toLocaleString("en-US")} points` : "";
  }

  await load();
  const drawing = await chart(body, traces, layout);
  body.on("plotly_relayout", async (change) => {
    const range = "xaxis.range[0]" in change ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : change["xaxis.autorange"] ? null : undefined;
    if (range === undefined) return;
    state.range = range;
    await load();
    await drawing.update();
  });
  body.on("plotly_click", (click) => {
    const point = click.points.find((each) => each.data.name === "finding");
    if (point) marks()[point.customdata].open();
  });
  return {
    reload: async (reset) => { if (reset) state.range = null; await load(); await drawing.update(); },
    leave: drawing.leave,
  };
}

function near(curve, at) {
  let best = null, distance = Infinity;
  curve.x.forEach((x, index) => {
    if (curve.y[index] !== null && Math.abs(x - at) < distance) [best, distance] = [curve.y[index], Math.abs(x - at)];
  });
  return best;
}

export function fetcher(run, view) {
  return (series, range) => get("curves", {
    run, series, x: view.x, smooth: view.smooth || undefined, from: range?.[0], to: range?.[1], points: 1200,
  });
}
