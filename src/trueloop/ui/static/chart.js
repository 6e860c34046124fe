// Charts by plotly.js, in the colors of the style sheet. It is loaded when the first chart is drawn.

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
