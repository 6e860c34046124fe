// Panels of curves of one run: a chart for each metric, drawn when it comes into view. One request fetches all of them;
// a zoomed panel fetches its range alone, with every point where they are few.

import { get } from "ui/api.js";
import { chart, plain, plotly, valueAxis } from "ui/chart.js";
import { el, replace } from "ui/dom.js";
import { words } from "ui/format.js";
import { color, faded } from "ui/theme.js";

export const AXES = [["step", "Step"], ["seconds", "Time"], ["samples", "Samples"]];
export const AXIS_TITLES = { step: "step", seconds: "seconds", samples: "samples" };
const KINDS = { train: ["training", "c0"], valid: ["validation", "c1"] };

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

// Is a logarithmic axis the better one? As in the pages of reports: from a ratio of 30 on.
export function isWide(values) {
  const known = values.filter((value) => value !== null);
  return known.length > 1 && known.every((value) => value > 0) && known.reduce((a, b) => Math.max(a, b)) / known.reduce((a, b) => Math.min(a, b)) >= 30;
}

// `view`: { x, smooth }, which the caller changes; `marks()`: [{ x, text, tone, open }] for the curve of the loss.
export function curvePanels(grid, run, view, marks) {
  const panels = new Map();
  let shown = {};
  plotly(); // loads while the data come

  const ask = (more) => get("curves", { run, x: view.x, smooth: view.smooth || undefined, ...more });

  async function load(reset) {
    const answer = await ask({});
    shown = answer;
    const metrics = metricsOf(answer.names);
    for (const { metric, kinds } of metrics) {
      if (!panels.has(metric)) panels.set(metric, panel(grid, metric, view, marks, ask));
      panels.get(metric).kinds = kinds;
    }
    const empty = grid.querySelector(".empty");
    if (!metrics.length && !empty) replace(grid, el("p", { class: "empty" }, "No metrics yet."));
    else if (metrics.length) empty?.remove();
    await Promise.all([...panels.values()].map((each) => each.set(answer, reset)));
  }

  // Is an event of the server news? The first one comes when the page is just drawn.
  const isNews = (event) => event.version !== shown.version || event.complete !== shown.complete;

  return { load, isNews, draw: () => panels.get("loss")?.draw(), leave: () => panels.forEach((each) => each.leave()) };
}

function panel(grid, metric, view, marks, ask) {
  const state = { series: {}, log: null, range: null, drawing: null, seen: false, begun: null };
  const self = { kinds: [], set, draw, leave };
  const toggle = el("button", { type: "button", class: "quiet", "aria-pressed": "false", "aria-label": `logarithmic axis for ${words(metric)}`,
    onclick: () => { state.log = !isLog(); draw(); } }, "log");
  const body = el("div", { class: "plot", role: "img", "aria-label": `curve of ${words(metric)}` });
  const note = el("span", { class: "soft note" });
  grid.append(el("section", { class: "panel" }, el("header", {}, el("h2", {}, words(metric)), note, toggle), body));
  const watcher = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) { state.seen = true; watcher.disconnect(); draw(); }
  }, { rootMargin: "400px" });
  watcher.observe(body);

  const curves = () => self.kinds.map((kind) => [kind, state.series[`${kind}/${metric}`]]).filter(([, found]) => found);

  function isLog() {
    return state.log ?? (metric !== "lr" && isWide(curves().flatMap(([, found]) => found.y)));
  }

  function traces() {
    const lines = curves().flatMap(([kind, found]) => {
      const [name, tone] = KINDS[kind] ?? [kind, "c2"];
      const mode = found.x.length < 80 ? "lines+markers" : "lines";
      const common = { type: "scatter", mode, x: found.x, y: found.y, name: plain(name), marker: { size: 5 }, line: { width: 1.8, color: color(tone) } };
      if (!found.smooth) return [common];
      return [{ ...common, mode: "lines", hoverinfo: "skip", showlegend: false, line: { width: 1, color: faded(tone, 0.3) } }, { ...common, mode: "lines", y: found.smooth, line: { width: 2, color: color(tone) } }];
    });
    const loss = state.series[`train/${metric}`];
    const here = metric === "loss" && loss ? marks() : [];
    if (here.length) lines.push({
      type: "scatter", mode: "markers", name: "finding", x: here.map((mark) => mark.x), y: here.map((mark) => near(loss, mark.x)),
      text: here.map((mark) => plain(mark.text)), hovertemplate: "%{text}<extra></extra>", customdata: here.map((_, index) => index),
      marker: { symbol: "diamond", size: 12, color: here.map((mark) => color(mark.tone)), line: { color: color("card"), width: 1.5 } },
    });
    return lines;
  }

  function layout() {
    const bad = curves().flatMap(([, found]) => found.bad).slice(0, 20);
    return {
      xaxis: { tickformat: view.x === "seconds" ? "" : ",d", title: { text: AXIS_TITLES[view.x], font: { size: 12, color: color("soft") }, standoff: 6 }, ...(state.range ? { range: [...state.range] } : { autorange: true }) },
      yaxis: valueAxis(curves().flatMap(([, found]) => found.y), isLog()),
      shapes: bad.map((at) => ({ type: "line", x0: at, x1: at, yref: "paper", y0: 0, y1: 1, line: { color: color("error"), width: 1, dash: "dot" } })),
      showlegend: curves().length > 1,
    };
  }

  function take(answer) {
    state.series = answer.series;
    const all = curves().map(([, found]) => found);
    const [total, drawn] = [all.reduce((sum, each) => sum + each.total, 0), all.reduce((sum, each) => sum + each.x.length, 0)];
    note.textContent = !answer.complete ? "a sample; the rest is being read" : drawn < total ? `${total.toLocaleString("en-US")} points; zoom for all` : "";
  }

  async function set(answer, reset) {
    if (reset) state.range = null;
    take(state.range ? await zoomed() : answer);
    await draw();
  }

  const zoomed = () => ask({ series: self.kinds.map((kind) => `${kind}/${metric}`), from: state.range[0], to: state.range[1] });

  async function draw() {
    toggle.setAttribute("aria-pressed", String(isLog()));
    if (!state.seen) return;
    if (state.begun) { await state.begun; await state.drawing.update(); return; }
    state.begun = chart(body, traces, layout).then((drawing) => { state.drawing = drawing; listen(); });
    await state.begun;
  }

  function listen() {
    body.on("plotly_relayout", async (change) => {
      if ("xaxis.range[0]" in change) state.range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      else if (change["xaxis.autorange"]) state.range = null;
      else return;
      take(state.range ? await zoomed() : await ask({}));
      await draw();
      body.dataset.points = String(curves().reduce((sum, [, found]) => sum + found.x.length, 0));
    });
    body.on("plotly_click", (click) => {
      const point = click.points.find((each) => each.data.name === "finding");
      if (point) marks()[point.customdata].open();
    });
    body.dataset.drawn = "yes";
  }

  function leave() {
    watcher.disconnect();
    state.drawing?.leave();
  }

  return self;
}

function near(curve, at) {
  let best = null, distance = Infinity;
  curve.x.forEach((x, index) => {
    if (curve.y[index] !== null && Math.abs(x - at) < distance) [best, distance] = [curve.y[index], Math.abs(x - at)];
  });
  return best;
}
