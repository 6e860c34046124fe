// The table of runs: sort, filter, group by a field, choose runs to compare.

import { get, live } from "ui/api.js";
import { choice, el, replace } from "ui/dom.js";
import { count, date, duration, field, number } from "ui/format.js";
import { spark } from "ui/spark.js";

const SIZE = 50; // rows on a page of the table
const CLICKS = { sort: "started", down: true };

// Fixed columns, between the name and the fields that differ.
const COLUMNS = [
  { key: "status", title: "state", value: (run) => run.status, cell: state },
  { key: "findings", title: "findings", value: (run) => weight(run.findings), cell: findings },
  { key: "spark", title: "loss", value: (run) => run.loss, cell: (run) => spark(run.spark, `loss of ${run.name}`) },
  { key: "best", title: "best", number: true, value: (run) => run.best, cell: (run) => number(run.best) },
  { key: "test", title: "test", number: true, value: (run) => run.test, cell: (run) => number(run.test) },
];
const LAST = [
  { key: "step", title: "steps", number: true, value: (run) => run.step, cell: (run) => count(run.step) },
  { key: "seconds", title: "time", number: true, value: (run) => run.seconds, cell: (run) => duration(run.seconds) },
  { key: "started", title: "started", number: true, value: (run) => run.started, cell: (run) => date(run.started) },
];

function state(run) {
  return el("span", { class: `state state-${run.status}`, title: run.message || null }, run.status);
}

function weight(found) {
  return found ? (found.error ?? 0) * 1e6 + (found.warning ?? 0) * 1e3 + (found.advice ?? 0) : null;
}

function findings(run) {
  const kinds = Object.entries(run.findings ?? {});
  if (!kinds.length) return el("span", { class: "soft" }, "–");
  return kinds.map(([severity, many]) => el("span", { class: `count-badge ${severity}`, title: `${many} ${severity}` }, many));
}

function compareValues(left, right) {
  const empty = (value) => value === null || value === undefined || value === "";
  if (empty(left) || empty(right)) return empty(left) - empty(right);
  if (typeof left === "number" && typeof right === "number") return left - right;
  return String(left).localeCompare(String(right), "en", { numeric: true });
}

// "lr=0.01 running": every word must match; name=value asks a field, other words ask everything.
function matches(run, words) {
  return words.every((word) => {
    const [name, value] = word.split("=", 2);
    if (value !== undefined) return name in run.fields && String(run.fields[name]).toLowerCase().includes(value);
    return run.text.includes(word);
  });
}

function prepared(run) {
  run.text = [run.name, run.recipe, run.status, run.group, run.metric, ...Object.values(run.fields)].join(" ").toLowerCase();
  return run;
}

export async function show(root, route) {
  const view = { sort: CLICKS.sort, down: CLICKS.down, words: [], group: "", page: 0, status: "" };
  const chosen = new Set();
  let data;

  const summary = el("p", { class: "soft", role: "status" });
  const compare = el("a", { class: "button", href: "#/runs" }, "Compare");
  const filter = el("input", { type: "search", placeholder: "Filter: name, lr=0.01, running …", "aria-label": "Filter runs",
    oninput: () => { view.words = filter.value.toLowerCase().split(/\s+/).filter(Boolean); view.page = 0; draw(); } });
  const grouping = el("div");
  const table = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table of runs" });
  const pager = el("nav", { class: "pager", "aria-label": "Pages of the table" });
  root.append(el("div", { class: "title" }, el("h1", {}, "Runs"), summary),
    el("div", { class: "controls" }, filter, grouping, compare), table, pager);

  async function load() {
    data = await get("runs");
    data.runs.forEach(prepared);
    const names = ["recipe", "group", "status", ...data.fields].filter((name, index, all) => all.indexOf(name) === index);
    replace(grouping, choice("Group by", [["", "nothing"], ...names], view.group, (name) => { view.group = name; view.page = 0; draw(); }));
    draw();
  }

  function fieldColumns() {
    return data.fields.map((name) => ({
      key: `field ${name}`, title: name, field: true, value: (run) => run.fields[name],
      number: data.runs.some((run) => typeof run.fields[name] === "number"), cell: (run) => field(run.fields[name]),
    }));
  }

  function draw() {
    const columns = [...COLUMNS.filter((column) => data.runs.some((run) => !empty(column.value(run)))), ...fieldColumns(), ...LAST];
    const shown = data.runs.filter((run) => matches(run, view.words));
    const many = shown.length === data.runs.length ? count(shown.length) : `${count(shown.length)} of ${count(data.runs.length)}`;
    replace(summary, `${many} ${data.runs.length === 1 ? "run" : "runs"}`);
    drawCompare();
    if (!data.runs.length) {
      replace(table, el("p", { class: "empty" }, "There are no runs in this folder yet. ", el("code", {}, "trueloop train digits"), " starts one."));
    } else if (view.group) drawGroups(shown);
    else drawRuns(shown, columns);
  }

  function empty(value) {
    return value === null || value === undefined || value === "" || value === 0;
  }

  function drawCompare() {
    const ids = [...chosen];
    compare.setAttribute("href", ids.length > 1 ? `#/compare?${ids.map((id) => `run=${id}`).join("&")}` : "#/runs");
    compare.classList.toggle("off", ids.length < 2);
    compare.setAttribute("aria-disabled", String(ids.length < 2));
    replace(compare, ids.length > 1 ? `Compare ${ids.length} runs` : "Choose runs to compare");
  }

  function drawRuns(runs, columns) {
    const name = { key: "name", title: "run", value: (run) => run.name };
    const by = [name, ...columns].find((column) => column.key === view.sort) ?? LAST[2];
    const sorted = [...runs].sort((left, right) => {
      const [a, b] = [by.value(left), by.value(right)];
      const missing = (a === null || a === undefined) - (b === null || b === undefined);
      return missing || (view.down ? compareValues(b, a) : compareValues(a, b));
    });
    const pages = Math.max(1, Math.ceil(sorted.length / SIZE));
    view.page = Math.min(view.page, pages - 1);
    const here = sorted.slice(view.page * SIZE, (view.page + 1) * SIZE);
    const focused = table.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    const head = el("tr", {}, el("th", { class: "pick" }, el("span", { class: "hidden" }, "choose")), [name, ...columns].map(header));
    const body = here.map((run) => el("tr", {},
      el("td", { class: "pick" }, pick(run)),
      el("th", { scope: "row" }, el("a", { href: `#/run/${run.id}`, "data-focus": `run ${run.id}`, title: run.recipe || null }, run.name)),
      columns.map((column) => el("td", { class: column.number ? "number" : null }, column.cell(run)))));
    const left = table.scrollLeft;
    replace(table, el("table", { class: "runs" }, el("thead", {}, head), el("tbody", {}, body)));
    table.scrollLeft = left;
    if (focused) [...table.querySelectorAll("[data-focus]")].find((each) => each.dataset.focus === focused)?.focus();
    drawPager(pages, sorted.length);
  }

  function header(column) {
    const here = view.sort === column.key;
    const button = el("button", { type: "button", class: "sort", "data-focus": `sort ${column.key}`, onclick: () => {
      [view.sort, view.down] = [column.key, here ? !view.down : Boolean(column.number)];
      draw();
    } }, column.title, el("span", { class: "arrow", "aria-hidden": "true" }, here ? (view.down ? "↓" : "↑") : ""));
    return el("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": here ? (view.down ? "descending" : "ascending") : null }, button);
  }

  function pick(run) {
    const box = el("input", { type: "checkbox", checked: chosen.has(run.id), "aria-label": `choose ${run.name}`, "data-focus": `pick ${run.id}`,
      onchange: () => { if (box.checked) chosen.add(run.id); else chosen.delete(run.id); drawCompare(); } });
    return box;
  }

  function drawPager(pages, total) {
    if (pages < 2) { replace(pager); return; }
    const turn = (by) => { view.page += by; draw(); };
    const first = view.page * SIZE;
    replace(pager, el("button", { type: "button", disabled: view.page === 0, onclick: () => turn(-1) }, "Previous"),
      el("span", { class: "soft" }, `${count(first + 1)}–${count(Math.min(total, first + SIZE))} of ${count(total)}`),
      el("button", { type: "button", disabled: view.page === pages - 1, onclick: () => turn(1) }, "Next"));
  }

  // Mean, spread and n of the best metric for each value of a field; runs of different metrics are never mixed.
  function drawGroups(runs) {
    const groups = new Map();
    for (const run of runs) {
      const value = view.group in run.fields ? run.fields[view.group] : run[view.group];
      const key = JSON.stringify([value ?? null, run.metric ?? ""]);
      if (!groups.has(key)) groups.set(key, { value, metric: run.metric, higher: run.higher, runs: [] });
      groups.get(key).runs.push(run);
    }
    const rows = [...groups.values()].map((group) => ({ ...group, ...spread(group.runs.map((run) => run.best)) }));
    rows.sort((left, right) => compareValues(left.value, right.value) || compareValues(left.metric, right.metric));
    const heads = [view.group, "metric", "n", "mean", "± std", "lowest", "highest", ""];
    const numbers = new Set([2, 3, 4, 5, 6]);
    replace(table, el("table", { class: "runs groups" },
      el("thead", {}, el("tr", {}, heads.map((title, index) => el("th", { scope: "col", class: numbers.has(index) ? "number" : null }, title || el("span", { class: "hidden" }, "compare"))))),
      el("tbody", {}, rows.map((group) => el("tr", {}, el("th", { scope: "row" }, field(group.value)), el("td", {}, group.metric ?? ""),
        [count(group.n), number(group.mean), number(group.std, 2), number(group.low), number(group.high)].map((text) => el("td", { class: "number" }, text)),
        el("td", {}, group.runs.length > 1 ? el("a", { href: `#/compare?${group.runs.slice(0, 60).map((run) => `run=${run.id}`).join("&")}` }, "compare") : null))))));
    replace(pager);
    const all = rows.flatMap((group) => group.runs).slice(0, 60);
    if (all.length > 1) replace(pager, el("a", { class: "button", href: `#/compare?group=${encodeURIComponent(view.group)}&${all.map((run) => `run=${run.id}`).join("&")}` }, "Compare the groups"));
  }

  // Some runs changed: their rows are fetched alone, unless runs went or the fields that differ are others now.
  async function update(ids) {
    const known = new Map(data.runs.map((run) => [run.id, run]));
    if (ids.length > 50 || ids.some((id) => !known.has(id))) return load();
    const some = await get("runs", { run: ids });
    if (some.runs.length !== ids.length || JSON.stringify(some.fields) !== JSON.stringify(data.fields)) return load();
    for (const run of some.runs) Object.assign(known.get(run.id), prepared(run));
    draw();
  }

  await load();
  let waiting = false;
  return live(null, async (event) => {
    if (waiting) return;
    waiting = true;
    try { await update(event.changed); } finally { waiting = false; }
  });
}

function spread(values) {
  const known = values.filter((value) => typeof value === "number" && Number.isFinite(value));
  if (!known.length) return { n: 0, mean: null, std: null, low: null, high: null };
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  const squares = known.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { n: known.length, mean, std: known.length > 1 ? Math.sqrt(squares / (known.length - 1)) : null, low: Math.min(...known), high: Math.max(...known) };
}
