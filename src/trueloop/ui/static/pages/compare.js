// Runs side by side. The runs are chosen in the table of runs.

import { get } from "ui/api.js";
import { el } from "ui/dom.js";
import { field, number } from "ui/format.js";
import { diff } from "ui/finding.js";

export async function show(root, route) {
  root.append(el("h1", {}, "Compare"));
  if (route.runs.length < 2) {
    root.append(el("p", { class: "empty" }, "Choose two runs or more in the ", el("a", { href: "#/runs" }, "table of runs"), "."));
    return;
  }
  const data = await get("compare", { run: route.runs });
  for (const [title, values] of [["Recipe", data.recipe], ["Results", data.results], ["Machine", data.machine]]) {
    const rows = Object.entries(values);
    root.append(el("section", {}, el("h2", {}, title), rows.length ? el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": title },
      el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, el("span", { class: "hidden" }, "field")), data.labels.map((label) => el("th", { scope: "col" }, label)))),
        el("tbody", {}, rows.map(([name, each]) => el("tr", {}, el("th", { scope: "row" }, name), each.map((value) => el("td", {}, typeof value === "number" ? number(value) : field(value)))))))) : el("p", { class: "soft" }, "The same.")));
  }
  for (const [name, text] of Object.entries(data.code)) root.append(el("section", {}, el("h2", {}, name), diff(text)));
}
