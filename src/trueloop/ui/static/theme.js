// Light, dark, or as the system has it; kept in this browser. `onTheme` is told when colors change.

const listeners = new Set();
const system = matchMedia("(prefers-color-scheme: dark)");

export function theme() {
  const kept = localStorage.getItem("trueloop-theme");
  return kept === "light" || kept === "dark" ? kept : system.matches ? "dark" : "light";
}

export function setTheme(name) {
  localStorage.setItem("trueloop-theme", name);
  apply();
}

export function apply() {
  document.documentElement.dataset.theme = theme();
  listeners.forEach((listener) => listener());
}

export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

system.addEventListener("change", apply);

// A color of the style sheet as rgb(...), in the theme of now.
export function color(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export function faded(name, alpha) {
  return color(name).replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
}
