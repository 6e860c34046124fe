// Charts by plotly.js, in the colors of the style sheet. It is loaded when the first chart is drawn.

import { number } from "ui/format.js";
import { color, onTheme } from "ui/theme.js";

let loading;

export function plotly() {
  loading ??= window.Plotly ? Promise.resolve(window.Plotly) : new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = "/static/plotly.min.js";
    script.onload = () => done(window.Plotly);
    script.onerror = () => failed(new Error("plotly.js could not be loaded."));
    document.head.append(script);
  });
  return loading;
}

// Text for plotly, which reads a little HTML in names and labels: here it is shown as it is.
export function plain(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("%{", "%&#123;");
}

function axis(given) {
  return {
    gridcolor: color("line"), zerolinecolor: color("line"), linecolor: color("line"), automargin: true,
    tickfont: { size: 12, color: color("soft") }, exponentformat: "e", ...given,
  };
}

// The vertical axis of these values. plotly writes the small digits of a logarithmic one below 11 px, so we choose them.
export function valueAxis(values, log) {
  const known = values.filter((value) => value > 0);
  if (!log || !known.length) return { type: "linear", autorange: true };
  const [low, high] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const factors = last - first > 4 ? [1] : [1, 2, 5];
  const powers = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  const every = Math.ceil(powers.length / 12);
  const ticks = powers.filter((_, index) => index % every === 0).flatMap((power) => factors.map((factor) => factor * 10 ** power));
  return { type: "log", autorange: true, tickvals: ticks, ticktext: ticks.map((value) => number(value, 3)) };
}

function complete(layout) {
  return {
    margin: { l: 56, r: 12, t: 8, b: 36 }, height: 260, showlegend: false,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", size: 12, color: color("ink") },
    hovermode: "x unified", dragmode: "zoom",
    hoverlabel: { bgcolor: color("card"), bordercolor: color("line"), font: { size: 12, color: color("ink") } },
    ...layout,
    legend: { orientation: "h", y: -0.2, font: { size: 12, color: color("soft") }, ...layout.legend },
    xaxis: axis(layout.xaxis ?? {}), yaxis: axis(layout.yaxis ?? {}),
  };
}

// Draws into an element. `traces` and `layout` are functions, so that a change of the theme draws again in its colors.
// Returns { update(), element, leave() }: `update` draws what the functions give now.
export async function chart(element, traces, layout) {
  const Plotly = await plotly();
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  const draw = () => Plotly.react(element, traces(), complete(layout()), config);
  await draw();
  const forget = onTheme(draw);
  return { element, update: draw, leave: () => { forget(); Plotly.purge(element); } };
}
