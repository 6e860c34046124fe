// One run: progress, curves with its findings, console, what it was asked for. Live while it runs.

import { get, live } from "ui/api.js";
import { AXES, curvePanels } from "ui/curves.js";
import { el, replace, segments } from "ui/dom.js";
import { findingCard } from "ui/finding.js";
import { count, date, duration, field, number } from "ui/format.js";

export async function show(root, route) {
  const view = { x: "step", smooth: 0 };
  let data;
  const head = el("div", { class: "facts" });
  const notes = el("div");
  const list = el("section", { class: "findings" });
  const grid = el("div", { class: "panels" });
  const console_ = el("section");
  const asked = el("section");
  const slider = el("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: 0, "aria-label": "Smoothing",
    oninput: () => { view.smooth = Number(slider.value); panels.load(); } });
  const controls = el("div", { class: "controls" },
    segments("x axis", AXES, view.x, (x) => { view.x = x; panels.load(true); }),
    el("label", { class: "control" }, el("span", {}, "Smoothing"), slider));
  const panels = curvePanels(grid, route.run, view, marks);
  root.append(notes, head, controls, grid, list, console_, asked);

  async function load() {
    data = await get("run", { run: route.run });
    drawHead();
    drawFindings();
    drawConsole();
    replace(notes, data.problems.map((text) => el("p", { class: "problem" }, text)));
  }

  function drawHead() {
    const row = data.row;
    const share = row.total ? Math.min(1, row.step / row.total) : null;
    const facts = [
      ["state", el("span", { class: `state state-${row.status}` }, row.status)],
      ["step", row.total ? `${count(row.step)} of ${count(row.total)}` : count(row.step)],
      data.eta !== null && data.eta !== undefined ? ["left", `about ${duration(data.eta)}`] : null,
      row.metric && row.best !== null ? [`best ${row.metric}`, number(row.best)] : null,
      row.test !== null && row.test !== undefined ? [`test ${row.metric}`, number(row.test)] : null,
      ["loss", number(data.now.loss ?? row.loss)],
      ["time", duration(row.seconds)],
      ["started", date(row.started)],
    ].filter((fact) => fact && fact[1] !== "");
    const bar = share !== null && row.status === "running"
      ? el("progress", { max: 1, value: share, "aria-label": "Progress" }) : null;
    replace(head, el("dl", { class: "tiles" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))), bar,
      row.message ? el("p", { class: "problem" }, row.message) : null);
  }

  function drawFindings() {
    const open = new Set([...list.querySelectorAll("details[open] > summary")].map((each) => each.textContent));
    if (!data.findings.length) { replace(list); return; }
    replace(list, el("h2", {}, data.findings.length === 1 ? "1 finding" : `${data.findings.length} findings`),
      data.findings.map((finding) => findingCard(finding, route.run)));
    list.querySelectorAll("details > summary").forEach((each) => { if (open.has(each.textContent) && open.size) each.parentElement.open = true; });
  }

  function marks() {
    if (view.x !== "step" || !data) return [];
    return data.findings.map((finding, index) => ({
      x: Number(finding.first_step) || 0, tone: ["error", "warning"].includes(finding.severity) ? finding.severity : "advice",
      text: `${finding.code ?? ""} ${finding.name ?? ""}`,
      open: () => { const card = list.querySelectorAll("article")[index]; card.scrollIntoView({ block: "center" }); card.focus(); },
    }));
  }

  function drawConsole() {
    if (!data.console) { replace(console_); return; }
    const kept = console_.querySelector("pre");
    if (kept) {
      const atEnd = kept.scrollTop + kept.clientHeight >= kept.scrollHeight - 4;
      kept.textContent = data.console.text;
      if (atEnd) kept.scrollTop = kept.scrollHeight;
      return;
    }
    const text = el("pre", { class: "console", tabindex: "0" }, data.console.text);
    replace(console_, el("h2", {}, "Console ", el("small", {}, data.console.file)), text);
    text.scrollTop = text.scrollHeight;
  }

  function drawAsked() {
    const table = (title, values) => Object.keys(values ?? {}).length
      ? el("details", {}, el("summary", {}, title), el("dl", {}, Object.entries(values).map(([name, value]) => [el("dt", {}, name), el("dd", {}, field(value))]))) : null;
    replace(asked, table("Recipe", data.fields), table("Machine", data.machine));
  }

  const curves = panels.load(); // asked for at the same time
  await load();
  drawAsked();
  await curves;
  if (data.findings.length) panels.draw(); // with their marks
  let busy = false, again = false;
  async function changed(event) {
    if (event && !panels.isNews(event) && event.running === (data.row.status === "running")) return;
    again = busy;
    if (busy) return;
    busy = true;
    await load();
    await panels.load();
    busy = false;
    if (again) changed();
  }
  const end = live(route.run, changed);
  return () => { end(); panels.leave(); };
}
