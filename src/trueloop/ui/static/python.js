// Python source in colors: a list of lines, each a list of nodes.

import { el } from "ui/dom.js";

const WORDS = new Set(("False None True and as assert async await break class continue def del elif else except finally for from global " +
  "if import in is lambda match nonlocal not or pass raise return try while with yield").split(" "));
const TOKEN = /(#[^\n]*)|((?:[rbfuRBFU]{0,2})(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(@[A-Za-z_][\w.]*)|([A-Za-z_]\w*)|(\b\d[\w.]*)/g;

function kindOf(match) {
  if (match[1]) return "comment";
  if (match[2]) return "string";
  if (match[3]) return "decorator";
  if (match[4]) return WORDS.has(match[4]) ? "word" : null;
  return match[5] ? "figure" : null;
}

export function python(text) {
  const lines = [[]];
  const add = (piece, kind) => piece.split("\n").forEach((part, index) => {
    if (index) lines.push([]);
    if (part) lines[lines.length - 1].push(kind ? el("span", { class: `py-${kind}` }, part) : part);
  });
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    const kind = kindOf(match);
    if (!kind) continue;
    add(text.slice(at, match.index), null);
    add(match[0], kind);
    at = match.index + match[0].length;
  }
  add(text.slice(at), null);
  return lines;
}
