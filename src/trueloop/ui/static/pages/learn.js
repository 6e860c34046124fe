// The rules and the labs: searched, listed, and one of them as a page.

import { get } from "ui/api.js";
import { el, replace, segments } from "ui/dom.js";
import { blocks, codeBlock, command, gap, prose } from "ui/text.js";

export async function show(root, route) {
  if (route.query.get("rule")) return rulePage(root, await get("learn", { rule: route.query.get("rule") }));
  if (route.query.get("lab")) return labPage(root, await get("learn", { lab: route.query.get("lab") }));
  const data = await get("learn", {});
  const view = { kind: route.query.get("kind") === "labs" ? "labs" : "rules", words: "" };
  const list = el("div");
  const found = el("p", { class: "soft", role: "status" });
  const search = el("input", { type: "search", placeholder: "softmax, GRD, zero_grad …", "aria-label": "Search", oninput: () => { view.words = search.value; draw(); } });
  root.append(el("h1", {}, "Learn"),
    el("div", { class: "controls" }, segments("Show", [["rules", `Rules (${data.rules.length})`], ["labs", `Labs (${data.labs.length})`]], view.kind, (kind) => { view.kind = kind; draw(); }), search),
    found, list);

  function matches(...texts) {
    const text = texts.join(" ").toLowerCase();
    return view.words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
  }

  function draw() {
    const rules = data.rules.filter((rule) => matches(rule.code, rule.name, rule.sentence, rule.severity));
    const labs = data.labs.filter((lab) => matches(lab.name, lab.question, lab.group));
    found.textContent = view.words ? `${view.kind === "rules" ? rules.length : labs.length} found` : view.kind === "rules"
      ? "What `trueloop check` looks for. Each page says what the rule sees, why it hurts and what to write instead.".replaceAll("`", "")
      : "Questions that your own machine answers: code, a measurement, and sentences compared with it.";
    const groups = view.kind === "rules"
      ? data.families.map(([code, words]) => [`${code} ${words}`, rules.filter((rule) => rule.code.startsWith(code)).map(ruleCard)])
      : data.groups.map(([folder, words]) => [words, labs.filter((lab) => lab.group === folder).map(labCard)]);
    const shown = groups.filter(([, cards]) => cards.length);
    replace(list, shown.length ? shown.map(([title, cards]) => el("section", {}, el("h2", {}, title, " ", el("small", {}, String(cards.length))), el("ul", { class: "cards" }, cards)))
      : el("p", { class: "empty" }, "Nothing has all these words."));
  }
  draw();
}

function ruleCard(rule) {
  return el("li", { class: rule.severity }, el("a", { href: `#/learn?rule=${rule.code}` }, el("span", { class: "code" }, rule.code), " ", rule.name),
    el("span", { class: "badge" }, rule.severity), el("p", {}, prose(rule.sentence)));
}

function labCard(lab) {
  const tags = [lab.state === "proven" ? "proven" : lab.state === "stale" ? "stale" : "", lab.exercise ? "exercise" : "", lab.needs].filter(Boolean);
  return el("li", { class: lab.state === "proven" ? "good" : "advice" }, el("a", { href: `#/learn?lab=${encodeURIComponent(lab.name)}` }, lab.name), el("span", { class: "badge" }, tags.join(" · ")), el("p", {}, prose(lab.question)));
}

function back(kind) {
  return el("p", { class: "crumbs" }, el("a", { href: `#/learn?kind=${kind}` }, kind === "rules" ? "Rules" : "Labs"), " /");
}

function rulePage(root, data) {
  const { rule, sections, causes } = data;
  document.title = `${rule.code} ${rule.name} · trueloop`;
  root.append(el("div", { class: `reading ${rule.severity}` }, back("rules"), el("h1", {}, `${rule.code} ${rule.name}`),
    el("p", { class: "lead" }, el("span", { class: "badge" }, rule.severity), prose(rule.sentence)),
    sections.map((section) => el("section", {}, el("h2", {}, section.title), blocks(section.blocks))),
    el("section", {}, el("h2", {}, "Allow it"), el("p", {}, "Where it is meant, write on the line:"), codeBlock(`...  # trueloop: allow[${rule.name}]`)),
    causes.length ? el("p", {}, "It stays quiet where one of its causes has been found: ", causes.map(([code, name], index) => [index ? ", " : "", el("a", { href: `#/learn?rule=${code}` }, name)]), ".") : null));
}

function labPage(root, data) {
  const { lab } = data;
  document.title = `${lab.name} · trueloop`;
  const facts = [lab.group, `at most ${lab.seconds} s`, lab.needs ? `needs ${lab.needs}` : null, lab.state || null].filter(Boolean);
  root.append(el("div", { class: "reading" }, back("labs"), el("h1", {}, lab.question), el("p", { class: "soft" }, `${lab.name} · ${facts.join(" · ")}`),
    blocks(data.blocks),
    el("section", {}, el("h2", {}, "Measure it here"), command(`trueloop lab ${lab.name}`)),
    lab.exercise ? el("section", {}, el("h2", {}, "Exercise"), gap("Write it to a file, solve it, and have it checked:", `trueloop lab ${lab.name} --start exercise.py`, `trueloop lab ${lab.name} exercise.py`)) : null,
    el("section", {}, el("h2", {}, "Its code"), el("details", { open: true }, el("summary", {}, `${data.code.split("\n").length} lines`), codeBlock(data.code)))));
}
