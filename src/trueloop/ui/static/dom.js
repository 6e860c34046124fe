// Elements without HTML: every string becomes a text node, so a name of a run can never become markup.

const SAFE_ADDRESS = /^(#|\/(?!\/)|(vscode|vscodium|cursor|windsurf|zed):\/\/file\/|(pycharm|idea):\/\/open\?)/;
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else if (name === "href" && !SAFE_ADDRESS.test(value)) throw new Error(`not an address of this page: ${value}`);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

// A select with a label: options are strings or [value, text].
export function choice(label, options, value, changed) {
  const select = el("select", { onchange: () => changed(select.value) },
    options.map((each) => {
      const [key, text] = Array.isArray(each) ? each : [each, each];
      const option = el("option", { value: key }, text);
      option.selected = key === value;
      return option;
    }));
  return el("label", { class: "control" }, el("span", {}, label), select);
}

// Buttons of which one is pressed.
export function segments(label, options, value, changed) {
  const buttons = options.map(([key, text]) =>
    el("button", { type: "button", "aria-pressed": String(key === value), onclick: () => press(key) }, text));
  function press(key) {
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(options[index][0] === key)));
    changed(key);
  }
  return el("div", { class: "control" }, el("span", {}, label), el("div", { class: "segments", role: "group", "aria-label": label }, buttons));
}
