// Runs side by side: one curve of each over one axis, a band for each group, what differs, and from which step on.

import { get } from "ui/api.js";
import { chart, plain, valueAxis } from "ui/chart.js";
import { AXES, AXIS_TITLES, isWide } from "ui/curves.js";
import { choice, el, replace, segments } from "ui/dom.js";
import { diff } from "ui/finding.js";
import { count, duration, field, number, words } from "ui/format.js";
import { color, faded } from "ui/theme.js";

const COLORS = 10;

export async function show(root, route) {
  root.append(el("h1", {}, "Compare"));
  if (route.runs.length < 2) {
    root.append(el("p", { class: "empty" }, "Choose two runs or more in the ", el("a", { href: "#/runs" }, "table of runs"), "."));
    return;
  }
  const view = { series: "train/loss", x: "step", smooth: 0, log: null, group: route.query.get("group") ?? "", range: null };
  let data = await get("compare", { run: route.runs, group: view.group });
  let bands;
  const names = new Map(data.runs.map((run) => [run.id, run.name]));
  if (!data.series.includes(view.series)) view.series = data.series[0] ?? view.series;

  const body = el("div", { class: "plot tall", role: "img", "aria-label": "curves of the runs" });
  const verdict = el("section");
  const toggle = el("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => { view.log = !isLog(); draw(); } }, "log");
  const slider = el("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: 0, "aria-label": "Smoothing",
    oninput: () => { view.smooth = Number(slider.value); load(); } });
  const title = (key) => `${words(key.slice(key.indexOf("/") + 1))}, ${key.startsWith("train/") ? "training" : "validation"}`;
  root.append(el("div", { class: "controls" },
    choice("Curve", data.series.map((key) => [key, title(key)]), view.series, (key) => { view.series = key; view.log = null; load(); }),
    choice("Band over", [["", "no group"], ...data.fields], view.group, async (name) => {
      view.group = name;
      data = await get("compare", { run: route.runs, group: name });
      drawVerdict();
      load();
    }),
    segments("x axis", AXES, view.x, (x) => { view.x = x; view.range = null; load(); }),
    el("label", { class: "control" }, el("span", {}, "Smoothing"), slider), toggle),
  el("section", { class: "panel" }, body), verdict);

  const values = () => Object.values(bands.runs ?? {}).flatMap((each) => each.y).concat(Object.values(bands.groups ?? {}).flatMap((each) => each.mean));
  const isLog = () => view.log ?? (view.series !== "train/lr" && isWide(values()));

  function traces() {
    if (bands.groups) {
      return Object.entries(bands.groups).flatMap(([value, each], index) => {
        const tone = `c${index % COLORS}`;
        const name = plain(`${view.group} = ${value} (n = ${each.n})`);
        const edge = { type: "scatter", mode: "lines", x: each.x, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
        // A logarithmic axis has no place for what is not positive.
        const low = isLog() ? each.low.map((y, at) => (y > 0 ? y : each.mean[at])) : each.low;
        return [{ ...edge, y: low }, { ...edge, y: each.high, fill: "tonexty", fillcolor: faded(tone, 0.18) },
          { type: "scatter", mode: "lines", x: each.x, y: each.mean, name, line: { width: 2, color: color(tone) } }];
      });
    }
    return Object.entries(bands.runs).map(([id, each], index) => ({
      type: "scatter", mode: each.x.length < 80 ? "lines+markers" : "lines", x: each.x, y: each.y, name: plain(names.get(id) ?? id),
      marker: { size: 5 }, line: { width: 1.6, color: color(`c${index % COLORS}`), dash: index >= COLORS ? "dot" : "solid" },
    }));
  }

  function layout() {
    const first = view.x === "step" ? data.losses.map((each) => each.step).filter((step) => step !== null) : [];
    const at = first.length && view.series.endsWith("/loss") && !view.group ? Math.min(...first) : null;
    return {
      height: 420, showlegend: route.runs.length <= 20 || Boolean(view.group), hovermode: route.runs.length <= 12 ? "x unified" : "closest",
      xaxis: { tickformat: view.x === "seconds" ? "" : ",d", title: { text: AXIS_TITLES[view.x], font: { size: 12, color: color("soft") }, standoff: 6 }, ...(view.range ? { range: [...view.range] } : { autorange: true }) },
      yaxis: valueAxis(values(), isLog()), legend: { y: -0.16 },
      shapes: at === null ? [] : [{ type: "line", x0: at, x1: at, yref: "paper", y0: 0, y1: 1, line: { color: color("soft"), width: 1, dash: "dot" } }],
      annotations: at === null ? [] : [{ x: at, xanchor: "left", y: 1, yref: "paper", yanchor: "top", showarrow: false, text: `first difference: step ${count(at)}`, font: { size: 12, color: color("soft") } }],
    };
  }

  let drawing;
  async function load() {
    bands = await get("bands", { run: route.runs, series: view.series, x: view.x, smooth: view.smooth || undefined, group: view.group, from: view.range?.[0], to: view.range?.[1] });
    await draw();
  }
  async function draw() {
    toggle.setAttribute("aria-pressed", String(isLog()));
    if (drawing) return drawing.update();
    drawing = await chart(body, traces, layout);
    body.on("plotly_relayout", (change) => {
      if ("xaxis.range[0]" in change) view.range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      else if (change["xaxis.autorange"]) view.range = null;
      else return;
      load();
    });
    body.dataset.drawn = "yes";
  }

  function drawVerdict() {
    const groups = [...data.groups].sort((left, right) => (left.mean === null) - (right.mean === null) || (left.higher ? right.mean - left.mean : left.mean - right.mean));
    const table = groups.length ? el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Groups" }, el("table", {},
      el("thead", {}, el("tr", {}, [view.group, "metric"].map((text) => el("th", { scope: "col" }, text)), ["n", "mean", "± std"].map((text) => el("th", { scope: "col", class: "number" }, text)))),
      el("tbody", {}, groups.map((group) => el("tr", {}, el("th", { scope: "row" }, group.value), el("td", {}, group.metric),
        [count(group.n), number(group.mean), number(group.std, 2)].map((text) => el("td", { class: "number" }, text))))))) : null;
    const sentences = data.losses.slice(0, 12).map((each) => el("li", {}, each.sentence));
    const more = data.losses.length - sentences.length;
    replace(verdict, el("h2", {}, "Verdict"), table, data.verdict.text ? el("p", { class: "message" }, data.verdict.text) : null,
      [data.verdict.advice, data.verdict.method].filter(Boolean).map((text) => el("p", { class: "soft" }, text)),
      el("ul", { class: "sentences" }, sentences, more > 0 ? el("li", { class: "soft" }, `and ${count(more)} more runs`) : null),
      data.cut.length ? el("p", { class: "soft" }, `Only a part of ${data.cut.join(", ")} was compared: it is very long.`) : null);
  }

  drawVerdict();
  for (const [name, each] of [["Recipe", data.recipe], ["Results", data.results], ["Machine", data.machine]]) root.append(differences(name, each, data.labels));
  for (const [name, text] of Object.entries(data.code)) root.append(el("section", {}, el("h2", {}, name), diff(text)));
  await load();
  return () => drawing?.leave();
}

function differences(title, values, labels) {
  const rows = Object.entries(values);
  const shown = (name, value) => name === "seconds" && value !== null ? duration(value) : typeof value === "number" ? number(value) : field(value);
  return el("section", {}, el("h2", {}, title), !rows.length ? el("p", { class: "soft" }, "The same.")
    : el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": title }, el("table", {},
      el("thead", {}, el("tr", {}, el("td", {}), labels.map((label) => el("th", { scope: "col", class: "number" }, label)))),
      el("tbody", {}, rows.map(([name, each]) => el("tr", {}, el("th", { scope: "row" }, name === "seconds" ? "time" : name),
        each.map((value) => el("td", { class: "number" }, shown(name, value)))))))));
}
