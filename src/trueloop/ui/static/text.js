// Prose with `code` in it, code with a button that copies it, and what to type where something is missing.

import { el } from "ui/dom.js";
import { python } from "ui/python.js";

// A sentence: what stands in backticks is code.
export function prose(text) {
  return String(text ?? "").split(/(`[^`]+`)/).map((part) => part.length > 2 && part.startsWith("`") ? el("code", {}, part.slice(1, -1)) : part);
}

export function copyButton(text, label = "Copy") {
  const button = el("button", { type: "button", class: "copy", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy";
    }
    setTimeout(() => { button.textContent = label; }, 1600);
  } }, label);
  return button;
}

// A command line to type.
export function command(text) {
  return el("div", { class: "command" }, el("pre", { tabindex: "0" }, text), copyButton(text));
}

// What is not there, and the commands that would fill it.
export function gap(sentence, ...commands) {
  return el("div", { class: "gap" }, el("p", {}, prose(sentence)), commands.map(command));
}

export function codeBlock(text) {
  return el("pre", { class: "python", tabindex: "0" }, python(text).map((line, index, all) => [line, index < all.length - 1 ? "\n" : null]));
}

// Blocks of a page: [is it code, text]. Items of lists begin with "- ".
export function blocks(list) {
  const nodes = [];
  let items = null;
  for (const [code, text] of list) {
    if (!code && text.startsWith("- ")) {
      if (!items) nodes.push(items = el("ul"));
      items.append(el("li", {}, prose(text.slice(2))));
      continue;
    }
    items = null;
    nodes.push(code ? codeBlock(text) : el("p", {}, prose(text)));
  }
  return nodes;
}
