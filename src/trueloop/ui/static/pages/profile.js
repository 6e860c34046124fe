// Where the time and the memory of a step go: phases, a timeline to zoom into, the roofline, memory over a step.

import { get } from "ui/api.js";
import { chart, plain } from "ui/chart.js";
import { el } from "ui/dom.js";
import { isExported } from "ui/exported.js";
import { count, number } from "ui/format.js";
import { gap, prose } from "ui/text.js";
import { color } from "ui/theme.js";

const TONES = { data: "c3", copy: "c7", forward: "c2", backward: "c0", optimizer: "c5", communication: "c4", device: "c6", python: "c1", saving: "c8", evaluating: "c9" };
const LANES = ["copy", "device", "operations", "modules", "host"];
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export function seconds(value) {
  if (!isNumber(value)) return "";
  if (value < 1e-3) return `${number(value * 1e6, 3)} µs`;
  return value < 1 ? `${number(value * 1e3, 3)} ms` : `${number(value, 3)} s`;
}

export function bytes(value) {
  if (!isNumber(value)) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < 4) { value /= 1000; at++; }
  return `${number(value, 3)} ${units[at]}`;
}

export async function show(root, route) {
  const data = await get("profile", { run: route.run });
  const leaves = [];
  if (!data.profile) {
    root.append(gap("This run was not profiled yet. This writes a profile and a trace into its folder; both appear here:", data.command));
    return;
  }
  const profile = data.profile;
  if (data.problem) root.append(el("p", { class: "problem" }, data.problem));
  if (profile.verdict?.sentence) root.append(el("p", { class: "lead verdict" }, prose(profile.verdict.sentence)));
  tiles(root, profile);
  if (profile.steps?.phases) phases(root, profile, data.phases);
  const draw = async (title, note, traces, layout, height) => {
    const plot = el("div", { class: "plot", role: "img", "aria-label": title, style: { height: `${height}px` } });
    root.append(el("section", { class: "panel" }, el("header", {}, el("h2", {}, title), el("span", { class: "soft note" }, note)), plot));
    leaves.push((await chart(plot, traces, layout)).leave);
  };
  await timeline(draw, profile, data);
  await roofline(draw, profile);
  await memory(draw, root, profile, data.memory);
  advice(root, profile, route.run);
  tables(root, profile, route.run);
  handOver(root, data, route.run);
  return () => leaves.forEach((leave) => leave());
}

function tiles(root, profile) {
  const { steps, machine, work, memory: used } = profile;
  const facts = [["step", seconds(steps?.seconds)], ["95th percentile", seconds(steps?.p95)], ["steps measured", count(steps?.count)],
    ["FLOP utilization", isNumber(profile.mfu) ? `${number(profile.mfu * 100, 3)} %` : ""], ["device busy", isNumber(profile.busy_share) ? `${number(profile.busy_share * 100, 3)} %` : ""],
    ["operations", count(work?.operations)], ["peak memory", bytes(used?.measured)], ["on", [machine.name, machine.device].filter(Boolean).join(", ")]].filter(([, value]) => value);
  root.append(el("dl", { class: "tiles" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
}

function phases(root, profile, words) {
  const all = Object.entries(profile.steps.phases).filter(([, value]) => isNumber(value) && value > 0);
  const total = all.reduce((sum, [, value]) => sum + value, 0) || 1;
  root.append(el("section", {}, el("h2", {}, "One step"), el("div", { class: "phases", "aria-hidden": "true" }, all.map(([name, value]) =>
    el("i", { title: `${words[name] ?? name}: ${seconds(value)}`, style: { flex: `${value / total} 0 0`, background: `var(--${TONES[name] ?? "c8"})` } }))),
  el("ul", { class: "legend" }, all.map(([name, value]) => el("li", {}, el("i", { style: { background: `var(--${TONES[name] ?? "c8"})` } }), `${words[name] ?? name} `, el("b", {}, seconds(value)), el("span", { class: "soft" }, ` ${Math.round((value / total) * 100)} %`))))));
}

// Bars over time. The trace has operations and modules; without one, only the phases of the host and the kernels.
async function timeline(draw, profile, data) {
  const own = profile.timeline.filter((span) => isNumber(span?.start) && isNumber(span?.end)).map((span) => [span.lane, data.phases[span.name] ?? String(span.name), span.start, span.end, TONES[span.name] ?? "c8"]);
  const traced = data.trace.spans.map(([lane, name, start, end]) => [lane, name, start, end, lane === "modules" ? "c2" : lane === "operations" ? "c0" : "c4"]);
  const all = [...own, ...traced.filter(([lane]) => !["device", "copy"].includes(lane) || !own.some((span) => span[0] === lane))];
  if (!all.length) return;
  const lanes = LANES.filter((lane) => all.some((span) => span[0] === lane));
  const rows = { modules: 3, operations: 4 };
  const order = [];
  const placed = lanes.flatMap((lane) => {
    const mine = all.filter((span) => span[0] === lane).sort((left, right) => left[2] - right[2] || right[3] - left[3]);
    const ends = [];
    const most = rows[lane] ?? 1;
    const shown = mine.map((span) => {
      let depth = ends.findIndex((end) => end <= span[2] + 1e-9);
      if (depth < 0) depth = ends.length;
      ends[Math.min(depth, most)] = span[3];
      for (let at = depth + 1; at < ends.length; at++) ends[at] = 0;
      return [span, depth];
    }).filter(([, depth]) => depth < most);
    const used = Math.max(...shown.map(([, depth]) => depth)) + 1;
    for (let depth = used - 1; depth >= 0; depth--) order.push(`${lane} ${depth}`);
    return shown.map(([span, depth]) => [span, `${lane} ${depth}`]);
  });
  const at = new Map(order.map((name, index) => [name, index]));
  const unit = Math.max(...all.map((span) => span[3])) < 1 ? 1e3 : 1;
  const traces = () => {
    const tones = Object.fromEntries([...new Set(placed.map(([span]) => span[4]))].map((tone) => [tone, color(tone)]));
    return [{ type: "bar", orientation: "h", y: placed.map(([, row]) => at.get(row)), base: placed.map(([span]) => span[2] * unit), x: placed.map(([span]) => (span[3] - span[2]) * unit), width: 0.86,
      marker: { color: placed.map(([span]) => tones[span[4]]), line: { width: 0 } }, text: placed.map(([span]) => plain(span[1])), textposition: "none",
      customdata: placed.map(([span]) => seconds(span[3] - span[2])), hovertemplate: "%{text}: <b>%{customdata}</b><extra></extra>" }];
  };
  const height = 90 + order.length * 26;
  const layout = () => ({ height, hovermode: "closest", bargap: 0.1, dragmode: "zoom", xaxis: { title: { text: unit === 1 ? "seconds" : "milliseconds", font: { size: 12, color: color("soft") }, standoff: 6 } },
    yaxis: { tickvals: order.flatMap((name, index) => name.endsWith(" 0") ? [index] : []), ticktext: order.filter((name) => name.endsWith(" 0")).map((name) => name.slice(0, -2)), showgrid: false, zeroline: false, fixedrange: true } });
  await draw("Timeline", `drag to zoom, double-click for all${data.trace.left_out ? `; the ${count(data.trace.spans.length)} longest spans` : ""}`, traces, layout, height);
}

async function roofline(draw, profile) {
  const { ceilings, work, steps } = profile;
  const tops = Object.entries(ceilings?.flops ?? {}).filter(([, top]) => isNumber(top) && top > 0);
  if (!tops.length || !isNumber(ceilings.bandwidth) || !(ceilings.bandwidth > 0)) return;
  const dots = profile.operations.filter((each) => each.flops > 0 && each.bytes > 0 && each.seconds > 0).map((each) => ({ name: String(each.name), x: each.flops / each.bytes, y: each.flops / each.seconds, seconds: each.seconds }));
  const own = work?.flops > 0 && work?.bytes > 0 && steps?.seconds > 0 ? { x: work.flops / work.bytes, y: work.flops / steps.seconds } : null;
  const xs = [...dots, ...(own ? [own] : [])].map((dot) => dot.x);
  if (!xs.length) return;
  const [low, high] = [Math.min(0.1, ...xs) / 2, Math.max(100, ...xs) * 2];
  const longest = Math.max(...dots.map((dot) => dot.seconds), 1e-12);
  const rate = (value) => `${number(value / 1e9, 3)} GFLOP/s`;
  const traces = () => [
    ...tops.map(([name, top]) => ({ type: "scatter", mode: "lines", name: plain(`${name}: ${rate(top)}`), x: [low, Math.min(high, Math.max(low, top / ceilings.bandwidth)), high], y: [Math.min(top, low * ceilings.bandwidth), Math.min(top, Math.max(low, Math.min(high, top / ceilings.bandwidth)) * ceilings.bandwidth), Math.min(top, high * ceilings.bandwidth)], line: { color: color("soft"), width: 1.6 }, hoverinfo: "name" })),
    { type: "scatter", mode: "markers", name: "operations", x: dots.map((dot) => dot.x), y: dots.map((dot) => dot.y), text: dots.map((dot) => plain(`${dot.name}: ${number(dot.x, 3)} FLOP per byte, ${rate(dot.y)}, ${seconds(dot.seconds)}`)), hovertemplate: "%{text}<extra></extra>",
      marker: { size: dots.map((dot) => 8 + 22 * Math.sqrt(dot.seconds / longest)), color: color("c0"), opacity: 0.7, line: { width: 1, color: color("card") } } },
    ...(own ? [{ type: "scatter", mode: "markers", name: "the whole step", x: [own.x], y: [own.y], text: [plain(`the whole step: ${number(own.x, 3)} FLOP per byte, ${rate(own.y)}`)], hovertemplate: "%{text}<extra></extra>", marker: { symbol: "diamond", size: 14, color: color("c3") } }] : []),
  ];
  const powers = (title) => ({ type: "log", dtick: 1, title: { text: title, font: { size: 12, color: color("soft") }, standoff: 8 } });
  await draw("Roofline", "below the slope: memory-bound; below the flat roof: compute-bound. The larger, the more time", traces, () => ({ height: 380, hovermode: "closest", showlegend: true, xaxis: powers("FLOP per byte"), yaxis: powers("FLOP/s") }), 380);
}

async function memory(draw, root, profile, curve) {
  const used = profile.memory;
  if (!used) return;
  const parts = [["parameters", used.parameters, "c0"], ["gradients", used.gradients, "c5"], ["optimizer state", used.optimizer, "c4"], ["buffers", used.buffers, "c8"], ["activations", used.activations, "c2"]].filter(([, size]) => isNumber(size) && size > 0);
  const total = Math.max(parts.reduce((sum, [, size]) => sum + size, 0), used.measured ?? 0) || 1;
  root.append(el("section", {}, el("h2", {}, "Memory"), el("div", { class: "phases", "aria-hidden": "true" }, parts.map(([name, size, tone]) => el("i", { title: `${name}: ${bytes(size)}`, style: { flex: `${size / total} 0 0`, background: `var(--${tone})` } })),
    el("i", { style: { flex: `${Math.max(0, total - parts.reduce((sum, [, size]) => sum + size, 0)) / total} 0 0`, background: "var(--line)" } })),
  el("ul", { class: "legend" }, parts.map(([name, size, tone]) => el("li", {}, el("i", { style: { background: `var(--${tone})` } }), `${name} `, el("b", {}, bytes(size)))),
    isNumber(used.measured) ? el("li", {}, "measured peak ", el("b", {}, bytes(used.measured)), el("span", { class: "soft" }, ` ${used.how ?? ""}`)) : null)));
  if (!curve) { root.append(el("p", { class: "soft" }, "With a trace (`--trace`) this page also shows the memory over a step.".replaceAll("`", ""))); return; }
  const traces = () => [{ type: "scatter", mode: "lines", x: curve.names.map((_, index) => index), y: curve.bytes, text: curve.names.map((name, index) => plain(`${name}: ${bytes(curve.bytes[index])}`)), hovertemplate: "%{text}<extra></extra>", fill: "tozeroy", line: { shape: "hv", color: color("c2"), width: 2 } }];
  const layout = () => ({ hovermode: "closest", xaxis: { title: { text: "forward, then backward", font: { size: 12, color: color("soft") }, standoff: 6 }, showticklabels: false },
    yaxis: { rangemode: "tozero", tickformat: ".3s", ticksuffix: "B" },
    shapes: isNumber(used.measured) ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: used.measured, y1: used.measured, line: { color: color("c3"), width: 1.4, dash: "dash" } }] : [] });
  await draw("Memory over a step", "computed from what each module keeps for its backward; dashed: the measured peak", traces, layout, 260);
}

function advice(root, profile, run) {
  const all = profile.advice.filter((each) => each && typeof each === "object");
  root.append(el("section", {}, el("h2", {}, "What to change"), all.length ? all.map((each) => el("article", { class: "good" },
    el("header", {}, el("h3", {}, isNumber(each.gain) ? el("span", { class: "badge" }, `${number(each.gain, 3)}x`) : null, prose(each.what)), place(each.place, run)), el("p", { class: "soft" }, `computed from: ${each.computed_from ?? ""}`)))
    : el("p", { class: "soft" }, "Nothing that would gain more than 5 % was found.")));
}

function place(text, run) {
  const line = /:(\d+)$/.exec(String(text ?? ""))?.[1];
  return line ? el("a", { href: `#/run/${run}/source?line=${line}` }, String(text)) : null;
}

function tables(root, profile, run) {
  const total = profile.operations.reduce((sum, each) => sum + (each.seconds || 0), 0) || 1;
  const table = (title, heads, rows) => rows.length ? root.append(el("section", {}, el("details", {}, el("summary", {}, title), el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": title },
    el("table", {}, el("thead", {}, el("tr", {}, heads.map((head, index) => el("th", { scope: "col", class: index ? "number" : null }, head)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, index) => index ? el("td", { class: "number" }, cell) : el("th", { scope: "row" }, cell)))))))))) : null;
  table("Operations", ["operation", "calls", "own time", "share", "traffic"], profile.operations.map((each) => [String(each.name), number(each.calls), seconds(each.seconds), `${Math.round((each.seconds / total) * 100)} %`, bytes(each.bytes)]));
  table("Modules", ["module", "forward", "backward", "kept for backward", "parameters"], profile.modules.map((each) => [`${each.name || "(the model)"} ${each.kind}`, seconds(each.forward), seconds(each.backward), bytes(each.activations), bytes(each.parameters)]));
  table("Lines", ["line", "share of the samples", "phase"], profile.lines.map((each) => [place(each.place, run) ?? String(each.place), `${Math.round(each.share * 100)} %`, String(each.phase)]));
}

function handOver(root, data, run) {
  const size = data.trace.bytes;
  const exported = isExported();
  root.append(el("section", {}, el("h2", {}, "Perfetto"), size ? [el("p", {}, "Perfetto shows every operation and kernel of the trace. Download it, open ", el("b", {}, "ui.perfetto.dev"), " and drop the file there: it is read by your browser and sent nowhere."),
    exported ? el("p", { class: "soft" }, "The trace is not part of this exported page.") : el("a", { class: "button", href: `/api/trace?run=${run}`, download: "trace.json" }, `Download trace.json (${bytes(size)})`)]
    : gap("There is no trace in the folder of this run. `--trace` writes one:", data.command)));
}
