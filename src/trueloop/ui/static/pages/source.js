// The source of a run: findings in the margin beside their lines, their patches, the share of step time of each line.

import { get } from "ui/api.js";
import { choice, el, replace } from "ui/dom.js";
import { diff } from "ui/finding.js";
import { count } from "ui/format.js";
import { python } from "ui/python.js";
import { copyButton, gap, prose } from "ui/text.js";

const WIDE = matchMedia("(min-width: 68rem)");
const GAP = 10;

export async function show(root, route) {
  const data = await get("source", { run: route.run });
  const wanted = Number(route.query.get("line")) || null;
  let file = Number(route.query.get("file")) || data.findings.find((each) => each.file >= 0 && (!wanted || each.line === wanted))?.file || 0;
  let leave = null;
  const view = el("div");
  root.append(data.problems.map((text) => el("p", { class: "problem" }, text)).reduce((all, each) => { all.append(each); return all; }, el("div")));
  if (data.files.length > 1) root.append(el("div", { class: "controls" },
    choice("File", data.files.map((each, index) => [String(index), each.name]), String(file), (value) => { file = Number(value); draw(null); })));
  root.append(view);
  const elsewhere = data.findings.filter((finding) => finding.file < 0);
  if (elsewhere.length) root.append(el("section", {}, el("h2", {}, data.files.length ? "Findings in other files" : "Findings"), elsewhere.map((finding) => note(finding, data, null))));

  function draw(line) {
    leave?.();
    leave = null;
    replace(view);
    if (!data.files.length) view.append(gap("This run has no source: `run.json` names no script and keeps no code. A checked script has one.", "trueloop check train.py"));
    else leave = drawFile(view, data, file, line);
  }

  draw(wanted);
  return () => leave?.();
}

function address(data, path, line) {
  const encoded = path.split("/").map(encodeURIComponent).join("/");
  return data.editor.replace("{path}", data.editor.includes("://file/") ? encoded.replace(/^\//, "") : encoded).replace("{line}", line);
}

function drawFile(view, data, number, wanted) {
  const file = data.files[number];
  const findings = data.findings.filter((each) => each.file === number).sort((left, right) => left.line - right.line);
  const shares = new Map(file.shares.map(([line, share, phase]) => [line, { share, phase }]));
  const worst = new Map();
  const rank = { error: 3, warning: 2, advice: 1 };
  for (const each of findings) if ((rank[each.severity] ?? 0) > (rank[worst.get(each.line)] ?? 0)) worst.set(each.line, each.severity);
  const rows = python(file.text).map((nodes, index) => row(nodes, index + 1));

  function row(nodes, line) {
    const share = shares.get(line);
    const shown = file.path && data.editor
      ? el("a", { href: address(data, file.path, line), tabindex: worst.has(line) || share ? null : "-1", "aria-label": `open line ${line} in the editor` }, String(line)) : String(line);
    return el("div", { class: `line${worst.has(line) ? ` marked ${worst.get(line)}` : ""}${line === wanted ? " wanted" : ""}`, id: `line-${line}` },
      el("span", { class: "line-number" }, shown),
      shares.size ? el("span", { class: "share", title: share ? `running in ${(share.share * 100).toFixed(1)} % of the sampled steps (${share.phase})` : null },
        share ? [el("i", { style: { width: `${Math.max(4, Math.min(100, share.share * 100))}%` } }), el("b", {}, `${Math.round(share.share * 100)} %`)] : null) : null,
      el("code", {}, nodes.length ? nodes : "\u200b"));
  }

  const code = el("div", { class: `source${shares.size ? " with-shares" : ""}`, tabindex: "0", role: "region", "aria-label": `source of ${file.name}` }, el("div", { class: "lines" }, rows));
  const margin = el("div", { class: "margin" });
  const notes = findings.map((finding) => ({ finding, node: note(finding, data, file) }));
  const box = el("div", { class: `source-box${findings.length ? "" : " alone"}` }, code, margin);
  const opened = file.path && data.editor ? el("a", { class: "button", href: address(data, file.path, findings[0]?.line ?? 1) }, "Open in the editor") : null;
  view.append(el("div", { class: "source-head" }, el("h2", {}, file.name),
    el("span", { class: "soft" }, findings.length ? `${findings.length} finding${findings.length > 1 ? "s" : ""}` : "no finding in this file",
      shares.size ? "; bars: share of the sampled steps in which a line was running" : ""), opened, copyButton(file.text, "Copy the source")),
  ...(file.note ? [el("p", { class: "problem" }, file.note)] : []), box);

  // Beside the line where there is room, below it elsewhere; notes that would overlap move down.
  function place() {
    const wide = WIDE.matches;
    box.classList.toggle("narrow", !wide);
    let low = 0;
    for (const { finding, node } of notes) {
      const line = rows[Math.min(rows.length, Math.max(1, finding.line)) - 1];
      if (!wide) {
        node.style.top = "";
        let after = line;
        while (after.nextElementSibling?.classList.contains("note")) after = after.nextElementSibling;
        if (node.previousElementSibling !== line && after !== node) after.after(node);
        continue;
      }
      if (node.parentElement !== margin) margin.append(node);
      low = Math.max(low, line.offsetTop);
      node.style.top = `${low}px`;
      low += node.offsetHeight + GAP;
    }
    margin.style.minHeight = wide ? `${low}px` : "";
  }

  place();
  const observer = new ResizeObserver(place);
  notes.forEach(({ node }) => observer.observe(node));
  observer.observe(box);
  const first = wanted ?? null;
  if (first && rows[first - 1]) requestAnimationFrame(() => rows[first - 1].scrollIntoView({ block: "center" }));
  return () => observer.disconnect();
}

function note(finding, data, file) {
  const severity = ["error", "warning", "advice"].includes(finding.severity) ? finding.severity : "advice";
  const place = finding.line ? (file ? `line ${finding.line}` : `${finding.path ?? ""}:${finding.line}`) : finding.path ?? "";
  const link = file?.path && data.editor ? el("a", { href: address(data, file.path, finding.line) }, place) : place;
  const code = /^[A-Z]{3}\d{3}$/.test(finding.code ?? "") ? el("a", { href: `#/learn?rule=${finding.code}` }, finding.code) : finding.code ?? "";
  const patch = finding.diff ? el("details", { open: true }, el("summary", {}, "Patch"), diff(String(finding.diff).replace(/\n$/, "")), copyButton(String(finding.diff), "Copy the patch")) : null;
  return el("article", { class: `note ${severity}` },
    el("header", {}, el("h3", {}, el("span", { class: "badge" }, severity), code, " ", finding.name ?? ""), el("span", { class: "soft" }, link)),
    el("p", { class: "message" }, prose(finding.message)),
    !file && finding.source ? el("pre", { tabindex: "0" }, String(finding.source)) : null,
    finding.fix ? el("p", {}, prose(finding.fix)) : null,
    el("p", { class: "soft" }, `first seen at step ${count(Number(finding.first_step) || 0)}`, Number(finding.count) > 1 ? `, ${count(Number(finding.count))} times` : ""),
    patch);
}
