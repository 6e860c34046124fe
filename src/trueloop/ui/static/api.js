// The data of pages. In an exported page, `data` elements hold the answers, and nothing is fetched.

function query(parameters) {
  // Runs are given by their id, which is encoded already.
  return Object.entries(parameters ?? {})
    .flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((each) => [name, each]))
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => `${name}=${name === "run" ? value : encodeURIComponent(value)}`)
    .join("&");
}

export async function get(page, parameters) {
  const address = `${page}?${query(parameters)}`;
  const kept = document.getElementById("trueloop-data");
  if (kept) {
    const answers = JSON.parse(kept.textContent);
    if (address in answers) return answers[address];
    throw new Error("This is not part of the exported page.");
  }
  const answer = await fetch(`/api/${address}`);
  const data = await answer.json();
  if (data && data.error) throw new Error(data.error);
  return data;
}

// Calls changed(event) whenever the files of a run (of the folder, without one) change. Returns what ends it.
export function live(run, changed) {
  if (document.getElementById("trueloop-data")) return () => {};
  const source = new EventSource(run ? `/api/live?run=${run}` : "/api/live");
  source.onmessage = (message) => changed(JSON.parse(message.data));
  return () => source.close();
}
