// The shell: addresses, navigation, theme. Pages are modules of `pages/`, loaded when they are opened.

import { get } from "ui/api.js";
import { el, replace } from "ui/dom.js";
import { apply, setTheme, theme } from "ui/theme.js";

const content = document.getElementById("content");
const bar = document.getElementById("bar");
let pages = [], folder = "", only = null, leave = null, visit = 0;

// #/runs, #/compare?run=a&run=b, #/run/a (its tab `run`), #/run/a/source?line=3
function route() {
  const [path, search] = (location.hash.replace(/^#\/?/, "") || home()).split("?");
  const parts = path.split("/");
  const query = new URLSearchParams(search ?? "");
  // Ids of runs stay as they are: a name that is not UTF-8 could not be encoded again.
  const runs = (search ?? "").split("&").filter((each) => each.startsWith("run=")).map((each) => each.slice(4));
  if (parts[0] === "run") return { page: parts[2] || "run", run: parts[1], runs, query };
  return { page: parts[0], run: null, runs, query };
}

function home() {
  return only === null ? "runs" : `run/${only}`;
}

function nameOf(run) {
  try {
    return decodeURIComponent(run);
  } catch {
    return run; // not UTF-8: its bytes stay as they are
  }
}

function drawBar(here) {
  const links = pages.filter((page) => page.place === "top").map((page) =>
    el("a", { href: `#/${page.name}`, "aria-current": page.name === here.page && !here.run ? "page" : null }, page.title));
  const next = theme() === "dark" ? "light" : "dark";
  const button = el("button", { class: "quiet", type: "button", title: `Switch to ${next}`, "aria-label": `Switch to ${next} colors`,
    onclick: () => { setTheme(next); drawBar(route()); } }, next === "light" ? "☀" : "☾");
  replace(bar, el("a", { class: "brand", href: `#/${home()}` }, "trueloop"), el("nav", { "aria-label": "Pages" }, links),
    el("span", { class: "folder", title: folder }, el("bdi", {}, folder)), button);
}

function tabs(here) {
  const own = pages.filter((page) => page.place === "run");
  const links = own.map((page) => el("a", {
    href: `#/run/${here.run}${page.name === "run" ? "" : `/${page.name}`}`,
    "aria-current": page.name === here.page ? "page" : null,
  }, page.name === "run" ? "Overview" : page.title));
  return el("div", { class: "run-head" },
    el("p", { class: "crumbs" }, only === null ? [el("a", { href: "#/runs" }, "Runs"), " / "] : null),
    el("h1", {}, nameOf(here.run)),
    own.length > 1 ? el("nav", { class: "tabs", "aria-label": "Pages of this run" }, links) : null);
}

async function open() {
  const number = ++visit;
  const here = route();
  if (leave) leave();
  leave = null;
  drawBar(here);
  const root = el("div", { class: `page page-${here.page}` });
  replace(content, here.run ? tabs(here) : null, root);
  const page = pages.find((each) => each.name === here.page);
  document.title = `${here.run ? nameOf(here.run) : page?.title ?? "?"} · trueloop`;
  try {
    if (!page || !page.title) throw new Error(`There is no page ${here.page}.`);
    const module = await import(`ui/pages/${page.name}.js`);
    const after = await module.show(root, here);
    if (number === visit) leave = after ?? null;
    else if (after) after();
    root.dataset.ready = "yes";
  } catch (error) {
    if (number === visit) replace(root, el("p", { class: "problem", role: "alert" }, error.message));
    root.dataset.ready = "failed";
  }
}

async function start() {
  apply();
  ({ pages, folder, only } = await get("pages"));
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); content.focus(); });
  addEventListener("hashchange", () => { open(); scrollTo(0, 0); });
  await open();
}

start();
