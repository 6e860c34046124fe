// A finding as a card: what happened, where, how to fix it, its evidence and its patch.

import { el } from "ui/dom.js";
import { count } from "ui/format.js";

export function findingCard(finding, run) {
  const severity = ["error", "warning", "advice"].includes(finding.severity) ? finding.severity : "advice";
  const line = Number.isInteger(finding.line) ? finding.line : null;
  const place = finding.path ? `${finding.path}${line ? `:${line}` : ""}` : "";
  const source = line ? el("a", { href: `#/run/${run}/source?line=${line}` }, place) : place;
  const code = /^[A-Z]{3}\d{3}$/.test(finding.code ?? "") ? el("a", { href: `#/learn?rule=${finding.code}` }, finding.code) : finding.code ?? "";
  const evidence = Object.entries(finding.evidence ?? {});
  return el("article", { class: `finding ${severity}`, tabindex: "-1", id: null },
    el("header", {}, el("h3", {}, el("span", { class: "badge" }, severity), code, ` ${finding.name ?? ""}`),
      el("span", { class: "soft" }, source)),
    el("p", { class: "message" }, finding.message ?? ""),
    finding.source ? el("pre", { tabindex: "0" }, String(finding.source)) : null,
    finding.fix ? el("p", {}, el("b", {}, "Fix: "), finding.fix) : null,
    el("p", { class: "soft" }, `first seen at step ${count(Number(finding.first_step) || 0)}, ${count(Number(finding.count) || 1)} times`),
    evidence.length ? el("details", {}, el("summary", {}, "Evidence"), el("dl", {}, evidence.map(([name, value]) =>
      [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, typeof value === "string" ? value : JSON.stringify(value))]))) : null,
    finding.diff ? el("details", {}, el("summary", {}, "Patch"), diff(String(finding.diff))) : null);
}

export function diff(text) {
  return el("pre", { class: "diff", tabindex: "0" }, text.split("\n").map((line) =>
    el("span", { class: line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : null }, line)));
}
