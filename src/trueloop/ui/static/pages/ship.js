// Is the model ready to leave? Exports and their verification, quantization, speed, serving, readiness, proofs.

import { get } from "ui/api.js";
import { el } from "ui/dom.js";
import { count, number } from "ui/format.js";
import { bytes, seconds } from "ui/pages/profile.js";
import { command, gap, prose } from "ui/text.js";

const section = (title, ...children) => el("section", {}, el("h2", {}, title), children);
const badge = (tone, text) => el("span", { class: `pill ${tone}` }, text);

export async function show(root, route) {
  const data = await get("ship", { run: route.run });
  data.problems.forEach((text) => root.append(el("p", { class: "problem" }, text)));
  if (!data.trained) root.append(el("p", { class: "problem" }, prose("This is the run of a script: exports, quantization and readiness are for runs of `trueloop train`. A checked script is probed and reviewed as a script.")));
  if (data.running) root.append(el("p", { class: "problem" }, "The run has not ended: what is shown belongs to earlier checkpoints."));
  const holds = data.proofs.filter((each) => each.result === "holds").length, fails = data.proofs.filter((each) => each.result === "fails").length;
  const verdict = /: (ready with risks|not ready|ready)\s*$/.exec(data.readiness.split("\n")[0] ?? "")?.[1] ?? "not reviewed";
  const facts = [["readiness", verdict], ["exports", `${data.exports.filter((each) => each.passed).length} of ${data.exports.length} verified`], ["claims that hold", `${holds} of ${data.proofs.length}`], fails ? ["claims that fail", count(fails)] : null, ["measured speed", data.bench ? `${data.bench.forms.length} forms` : "no"]].filter(Boolean);
  root.append(el("dl", { class: "tiles" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    exports_(data), quantization(data), speed(data), serving(data), readiness(data), proofs(data));
}

function table(label, heads, rows, numbers) {
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, el("table", {}, el("thead", {}, el("tr", {}, heads.map((head, index) => el("th", { scope: "col", class: numbers.has(index) ? "number" : null }, head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, index) => index ? el("td", { class: numbers.has(index) ? "number" : null }, cell) : el("th", { scope: "row" }, cell)))))));
}

function exports_(data) {
  if (!data.exports.length) return section("Exports", gap("Nothing was exported. An export is verified on real samples in a process of its own:", `trueloop export ${data.run} --to onnx`));
  return section("Exports", table("Exports", ["folder", "target", "verified", "largest difference", "different predictions", "metrics", "size", "runtime"], data.exports.map((each) => {
    const tried = each.verification;
    const metrics = Object.entries(tried?.metrics ?? {}).map(([name, pair]) => `${name} ${number(pair?.[0])} → ${number(pair?.[1])}`).join("; ");
    return [each.folder, each.target, each.passed === null ? badge("warning", "not verified") : each.passed ? badge("good", "verified") : badge("error", "differs"),
      tried ? `${number(tried.max_error, 2)} (tolerance ${number(tried.tolerance * tried.scale, 2)})` : "", tried ? `${number(tried.disagreements)} of ${count(tried.samples)}` : "", metrics, bytes(each.bytes), each.runtime];
  }), new Set([3, 4, 6])));
}

function quantization(data) {
  const found = data.quantize;
  if (!found) return section("Quantization", gap("What each layer costs in fewer bits is not recorded here.", `trueloop quantize ${data.run} --scheme int8-weight --format json --output ${data.run}/quantize.json`));
  const worst = Math.max(1e-12, ...found.layers.map((layer) => layer.error || 0));
  return section("Quantization", el("p", {}, badge(found.within ? "good" : "error", found.within ? "within the limit" : "too much is lost"), ` ${found.scheme} as ${found.target}: ${found.metric} ${number(found.before)} → ${number(found.after)}, weights ${bytes(found.size_before)} → ${bytes(found.size_after)} (${number(found.smaller, 3)} times smaller). Each layer alone:`),
    table("Layers", ["layer", "kind", "error of the outputs", "", `drop of ${found.metric}`, "weight", "kept in float"], found.layers.map((layer) => [layer.name, layer.kind, number(layer.error, 2),
      el("span", { class: "meter", "aria-hidden": "true" }, el("i", { style: { width: `${((layer.error || 0) / worst) * 100}%` } })), number(layer.drop, 2), `${bytes(layer.before)} → ${bytes(layer.after)}`, layer.kept || ""]), new Set([2, 4])));
}

function speed(data) {
  if (!data.bench) return section("Speed", gap("Latency and throughput of the forms of this model were not measured.", `trueloop bench ${data.run} --format json --output ${data.run}/bench.json`));
  const fastest = Math.min(...data.bench.forms.flatMap((form) => form.paces.map((pace) => pace.p50)).filter(Number.isFinite));
  return section("Speed", table("Speed", ["form", "batch", "median", "95 %", "99 %", "samples per second", "runtime"], data.bench.forms.flatMap((form) => form.paces.length
    ? form.paces.map((pace) => [form.name, number(pace.batch), pace.p50 === fastest ? el("b", {}, seconds(pace.p50)) : seconds(pace.p50), seconds(pace.p95), seconds(pace.p99), count(pace.per_second), form.runtime]) : [[form.name, "", form.failed || "no numbers", "", "", "", form.runtime]]), new Set([1, 2, 3, 4, 5])));
}

function serving(data) {
  const first = data.exports.find((each) => each.passed)?.folder ?? "onnx";
  if (!data.served) return section("Serving", gap("The load of a server is not recorded here. A server counts it at `/metrics`; this keeps it with the run:", `trueloop serve ${data.run}/export/${first}`, `curl -s 127.0.0.1:8000/metrics > ${data.run}/serve-metrics.txt`));
  return section("Serving", table("Serving", ["counter", "value"], data.served, new Set([1])));
}

function readiness(data) {
  if (!data.readiness) return section("Readiness", gap("No readiness note was written.", `trueloop ready ${data.run}`));
  const lines = data.readiness.split("\n").slice(1).map((line) => {
    if (line.startsWith("## ")) return el("h3", {}, line.slice(3));
    if (line.startsWith("- ")) return el("p", { class: "statement" }, statement(line.slice(2)));
    return line.trim() ? el("p", {}, statement(line)) : null;
  });
  return section("Readiness", el("details", { class: "readiness" }, el("summary", {}, "The note"), lines));
}

// Links of the note lead to files of the run, which the page does not open: their text is shown.
function statement(text) {
  return prose(text.replace(/\[(`[^`\]]+`)\]\([^)]*\)/g, "$1"));
}

function proofs(data) {
  const words = { holds: ["good", "holds"], fails: ["error", "fails"], unproved: ["warning", "not testable here"], "": ["", "not tested"] };
  const open = data.proofs.filter((each) => !each.result);
  return section("Proofs", open.length ? [el("p", { class: "soft" }, `${open.length} of ${data.proofs.length} claims were not tested. This tests all of them:`), command(`trueloop probe ${data.run}`)] : null,
    el("ul", { class: "cards proofs" }, data.proofs.map((each) => el("li", { class: words[each.result][0] || null }, el("b", {}, each.claim), " ", badge(words[each.result][0], words[each.result][1]),
      el("p", {}, prose(each.measured || each.sentence)), each.result ? null : el("p", {}, el("code", {}, `trueloop probe ${data.run} ${each.claim}`))))));
}
