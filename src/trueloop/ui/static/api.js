// The data of pages. An exported page has its answers in itself, and nothing is fetched.

import { exported, isExported } from "ui/exported.js";

function query(parameters) {
  // Runs are given by their id, which is encoded already.
  return Object.entries(parameters ?? {})
    .flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((each) => [name, each]))
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => `${name}=${name === "run" ? value : encodeURIComponent(value)}`)
    .join("&");
}

export async function get(page, parameters) {
  if (isExported()) return exported((asked) => `${page}?${query(asked)}`, parameters);
  const address = `${page}?${query(parameters)}`;
  const answer = await fetch(`/api/${address}`);
  const data = await answer.json();
  if (data && data.error) throw new Error(data.error);
  return data;
}

// Calls changed(event) whenever the files of a run (of the folder, without one) change. Returns what ends it.
export function live(run, changed) {
  if (isExported()) return () => {};
  const source = new EventSource(run ? `/api/live?run=${run}` : "/api/live");
  source.onmessage = (message) => changed(JSON.parse(message.data));
  return () => source.close();
}
