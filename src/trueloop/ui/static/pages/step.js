// The recorded step as a graph, from the model down to the operation; who trains what.

import { get } from "ui/api.js";
import { el, replace, segments, svg } from "ui/dom.js";
import { count } from "ui/format.js";
import { layered } from "ui/layered.js";
import { gap } from "ui/text.js";

const LEVELS = [["model", "Models"], ["layer", "Layers"], ["operation", "Operations"]];
const WORDS = { input: "from the loader", outside: "a tensor from before the step", model: "model", layer: "layer", operation: "operation", loss: "backward", optimizer: "optimizer" };
const TRAINERS = { optimizer: "an optimizer", elsewhere: "other code", nobody: "nobody", "": "unknown" };
const SMALLEST = 0.92; // below it text would be under 11 px, and is hidden

export async function show(root, route) {
  const view = { level: route.query.get("level") ?? "model", phase: "", zoom: 1, chosen: null };
  let data = await get("step", { run: route.run, level: view.level });
  if (!data.recorded) {
    root.append(gap("No step was recorded. `trueloop check` records what a few steps of a script compute, and this page draws it.", `trueloop check ${data.script || "train.py"}`));
    return;
  }
  const controls = el("div", { class: "controls" });
  const about = el("p", { class: "soft" });
  const frame = el("div", { class: "graph", tabindex: "0", role: "region", "aria-label": "graph of the step; scrolls" });
  const details = el("section", { class: "panel", "aria-live": "polite" });
  const table = el("section");
  root.append(controls, about, el("div", { class: "graph-box" }, frame, details), table);
  let drawing = null;

  async function load() {
    data = await get("step", { run: route.run, level: view.level, phase: view.phase });
    view.chosen = null;
    draw();
  }

  function zoom(by) {
    const fit = Math.min(1, (frame.clientWidth - 4) / drawing.width);
    view.zoom = by === 0 ? fit : Math.max(Math.min(fit, SMALLEST), Math.min(3, view.zoom * by));
    drawing.node.setAttribute("width", drawing.width * view.zoom);
    drawing.node.setAttribute("height", drawing.height * view.zoom);
    drawing.node.classList.toggle("tiny", view.zoom < SMALLEST);
  }

  function draw() {
    const level = segments("Level", LEVELS, view.level, (value) => { view.level = value; load(); });
    const phase = data.phases.length > 1 ? segments("Phase", data.phases.map((each) => [each, each]), data.phase, (value) => { view.phase = value; load(); }) : null;
    const buttons = el("div", { class: "control" }, el("span", {}, "Size"), el("div", { class: "segments", role: "group", "aria-label": "Size" },
      [["−", 1 / 1.25, "smaller"], ["+", 1.25, "larger"], ["Fit", 0, "fit the width"]].map(([text, by, label]) => el("button", { type: "button", "aria-label": label, onclick: () => zoom(by) }, text))));
    replace(controls, level, phase, buttons);
    const graph = data.graph;
    replace(about, `One ${data.phase === "training" ? "training step" : "evaluation"}${data.step === null ? "" : `, recorded at step ${count(data.step)}`}: ${count(data.operations)} operations.`,
      data.complete ? "" : " It had more operations than are recorded.", graph.left_out ? ` ${count(graph.left_out)} of them are not drawn.` : "");
    drawing = drawGraph(graph, choose);
    replace(frame, drawing.node);
    view.zoom = 1;
    frame.scrollLeft = Math.max(0, (drawing.width - frame.clientWidth) / 2);
    choose(graph.nodes.findIndex((node) => node.kind === "model" || node.kind === "layer" || node.kind === "operation"));
    drawTable();
  }

  function choose(index) {
    view.chosen = index;
    drawing.node.querySelectorAll(".node").forEach((node, at) => node.setAttribute("aria-pressed", String(at === index)));
    drawing.node.querySelectorAll(".edge").forEach((edge, at) => edge.classList.toggle("near", data.graph.edges[at][0] === index || data.graph.edges[at][1] === index));
    const node = data.graph.nodes[index];
    if (!node) { replace(details); return; }
    const [file, line] = node.place ?? [];
    const facts = [["kind", WORDS[node.kind] ?? node.kind], node.note ? [node.kind === "operation" ? "result" : "about", node.note] : null,
      node.operations > 1 ? ["operations", count(node.operations)] : null,
      line ? ["line", el("a", { href: `#/run/${route.run}/source?line=${line}` }, `${data.files[file] ?? ""}:${line}`)] : null].filter(Boolean);
    const into = data.graph.edges.filter((edge) => edge[1] === index), out = data.graph.edges.filter((edge) => edge[0] === index);
    const list = (title, edges, end) => edges.length ? [el("dt", {}, title), el("dd", {}, edges.slice(0, 12).map((edge, at) => [at ? el("br") : null, `${data.graph.nodes[edge[end]].label} `, el("span", { class: "soft" }, edge[2])]))] : null;
    replace(details, el("h2", {}, node.label), el("dl", {}, facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]), list("reads", into, 0), list("goes to", out, 1)),
      node.parameters.length ? el("details", { open: node.parameters.length < 9 }, el("summary", {}, `${node.parameters.length} parameters`), el("ul", { class: "weights" }, node.parameters.map(([name, shape, trainer]) =>
        el("li", { class: `trainer-${trainer || "unknown"}` }, el("b", {}, name), " ", el("span", { class: "soft" }, shape), el("span", {}, `trained by ${TRAINERS[trainer] ?? trainer}`))))) : null,
      (node.kind === "model" || node.kind === "layer") && view.level !== "operation" ? el("button", { type: "button", onclick: () => { view.level = node.kind === "model" ? "layer" : "operation"; load(); } }, node.kind === "model" ? "Show its layers" : "Show its operations") : null);
  }

  function drawTable() {
    const groups = ["nobody", "elsewhere", "optimizer", ""].map((trainer) => [trainer, data.parameters.filter((each) => each[3] === trainer)]).filter(([, all]) => all.length);
    if (!groups.length) { replace(table); return; }
    const names = data.optimizers.length ? ` (${data.optimizers.join(", ")})` : "";
    replace(table, el("h2", {}, "Who trains what"), groups.map(([trainer, all]) => el("details", { class: `trainer-${trainer || "unknown"}`, open: trainer === "nobody" || trainer === "elsewhere" },
      el("summary", {}, el("b", {}, trainer === "optimizer" ? `An optimizer${names}` : trainer === "elsewhere" ? "Other code" : trainer === "nobody" ? "Nobody" : "Not known"),
        ` ${count(all.length)} parameters, ${count(all.reduce((sum, each) => sum + each[2], 0))} numbers`),
      el("ul", { class: "weights" }, all.slice(0, 400).map(([name, shape]) => el("li", {}, el("b", {}, name || "(no name)"), " ", el("span", { class: "soft" }, shape)))))));
  }

  draw();
}

const HIGH = 46;

function drawGraph(graph, choose) {
  const widthOf = (node) => Math.min(300, Math.max(96, 26 + 7.4 * Math.max(node.label.length, node.note.length * 0.9)));
  const cut = (text, width) => { const most = Math.floor((width - 22) / 7.2); return text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text; };
  const sizes = graph.nodes.map((node) => [widthOf(node), node.note ? HIGH : 32]);
  const { places, paths, width, height } = layered(sizes, graph.edges);
  const edges = paths.map((points, index) => svg("path", { class: `edge${graph.edges[index][2] === "gradients" ? " gradients" : ""}`, d: curve(points), "marker-end": "url(#arrow)" },
    svg("title", {}, graph.edges[index][2])));
  const nodes = graph.nodes.map((node, index) => {
    const [wide, high] = sizes[index], [x, y] = places[index];
    const untrained = node.parameters.some(([, , trainer]) => trainer === "nobody");
    const press = () => choose(index);
    return svg("g", { class: `node node-${node.kind}${untrained ? " untrained" : ""}`, transform: `translate(${x - wide / 2} ${y - high / 2})`, tabindex: "0", role: "button", "aria-pressed": "false",
      "aria-label": `${WORDS[node.kind] ?? node.kind} ${node.label} ${node.note}`, onclick: press, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); press(); } } },
    svg("rect", { width: wide, height: high, rx: node.kind === "operation" ? 8 : node.kind === "input" || node.kind === "outside" ? high / 2 : 6 }),
    svg("text", { x: wide / 2, y: node.note ? 19 : high / 2 + 4.5, class: "name" }, cut(node.label, wide)),
    node.note ? svg("text", { x: wide / 2, y: 36, class: "about" }, cut(node.note, wide * 1.12)) : null);
  });
  const node = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "the step" },
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, svg("path", { d: "M0 0L8 4L0 8z", class: "arrow-head" }))),
    edges, nodes);
  return { node, width, height };
}

function curve(points) {
  let path = `M${points[0][0]} ${points[0][1]}`;
  for (let index = 1; index < points.length; index++) {
    const [fromX, fromY] = points[index - 1], [x, y] = points[index], middle = (fromY + y) / 2;
    path += `C${fromX} ${middle} ${x} ${middle} ${x} ${y}`;
  }
  return path;
}
