// A heat map on a canvas: rows with names (buttons, which choose a row), columns with numbers, the numbers on hover.

import { el, replace } from "ui/dom.js";
import { count } from "ui/format.js";
import { color, onTheme, theme } from "ui/theme.js";

const ROW = 24;
const LIGHT = ["#f6f3e6", "#bfd8c2", "#5fa8b5", "#2b5f9e", "#25205f"];
const DARK = ["#1d2036", "#2b4a86", "#2f92a6", "#86d29b", "#fbf3b4"];

function rgb(text) {
  const hex = /^#(..)(..)(..)$/.exec(text);
  return hex ? hex.slice(1).map((part) => parseInt(part, 16)) : text.match(/[\d.]+/g).slice(0, 3).map(Number);
}

// A share between 0 and 1 as a color.
function scale(signed) {
  const stops = (signed ? [color("c3"), color("code"), color("c0")] : theme() === "dark" ? DARK : LIGHT).map(rgb);
  return (share) => {
    const at = Math.max(0, Math.min(1, share)) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(at));
    return `rgb(${stops[low].map((part, index) => Math.round(part + (stops[low + 1][index] - part) * (at - low))).join(" ")})`;
  };
}

// `view()` gives { rows, columns, values, share(value), signed, ticks: [[share, text]], words(value), chosen, choose(row) }.
// A value that is text is not finite, and is marked; null is a hole.
export function heat(root, view) {
  const names = el("ol", { class: "heat-names" });
  const canvas = el("canvas", { "aria-hidden": "true" });
  const axis = el("div", { class: "heat-axis", "aria-hidden": "true" });
  const tip = el("div", { class: "heat-tip", hidden: true, "aria-hidden": "true" });
  const legend = el("div", { class: "heat-legend" });
  const field = el("div", { class: "heat-field" }, canvas, axis, tip);
  root.append(legend, el("div", { class: "heat-body" }, names, field));
  let here = view();

  function draw() {
    here = view();
    const { rows, columns, values } = here;
    const paint = scale(here.signed);
    const width = field.clientWidth, ratio = devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(rows.length * ROW * ratio));
    canvas.style.height = `${rows.length * ROW}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const wide = width / columns.length, hole = wide > 6 ? 1 : 0;
    const lost = color("error");
    values.forEach((row, y) => row.forEach((value, x) => {
      if (value === null) return;
      const share = typeof value === "number" ? here.share(value) : null;
      context.fillStyle = typeof value === "string" ? lost : share === null ? color("line") : paint(share);
      context.fillRect(x * wide, y * ROW, Math.max(1, wide - hole), ROW - 1);
    }));
    drawNames();
    drawAxis(width, wide);
    replace(legend, el("span", { class: "soft" }, here.title), el("span", { class: "heat-bar" },
      Array.from({ length: 48 }, (_, index) => el("i", { style: { background: paint(index / 47) } }))),
    el("span", { class: "heat-ticks" }, here.ticks.map(([, text]) => el("span", {}, text))),
    values.some((row) => row.some((value) => typeof value === "string")) ? el("span", { class: "heat-lost" }, "NaN or Inf") : null);
  }

  // The end of a name tells layers apart: "…mlp.weight".
  const short = (row) => innerWidth < 640 && row.length > 13 ? `…${row.slice(-12)}` : row;

  function drawNames() {
    const focused = names.contains(document.activeElement) ? here.rows[[...names.children].indexOf(document.activeElement.parentElement)] : null;
    replace(names, here.rows.map((row) => el("li", {}, el("button", { type: "button", title: row, "aria-pressed": String(row === here.chosen), onclick: () => here.choose(row) }, short(row)))));
    if (focused) names.children[here.rows.indexOf(focused)]?.firstChild.focus();
  }

  function drawAxis(width, wide) {
    const most = Math.max(2, Math.floor(width / 70)), every = Math.max(1, Math.ceil(here.columns.length / most));
    replace(axis, here.columns.map((step, index) => index % every ? null
      : el("span", { style: { left: `${Math.min(width - 34, (index + 0.5) * wide)}px` } }, count(step))));
  }

  function cell(event) {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * here.columns.length), y = Math.floor((event.clientY - box.top) / ROW);
    return here.values[y]?.[x] === undefined ? null : { x, y, value: here.values[y][x] };
  }

  canvas.addEventListener("mousemove", (event) => {
    const at = cell(event);
    tip.hidden = !at || at.value === null;
    if (tip.hidden) return;
    replace(tip, el("b", {}, here.words(at.value)), el("span", {}, here.rows[at.y]), el("span", {}, `step ${count(here.columns[at.x])}`));
    const box = field.getBoundingClientRect();
    tip.style.left = `${Math.max(0, Math.min(box.width - tip.offsetWidth, event.clientX - box.left + 14))}px`;
    tip.style.top = `${event.clientY - box.top + 16}px`;
  });
  canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
  canvas.addEventListener("click", (event) => { const at = cell(event); if (at) here.choose(here.rows[at.y]); });
  let width = 0;
  const observer = new ResizeObserver(() => { if (field.clientWidth !== width) { width = field.clientWidth; draw(); } });
  observer.observe(field);
  const forget = onTheme(draw);
  draw();
  return { update: draw, leave: () => { observer.disconnect(); forget(); } };
}
