// The answers of an exported page. What only zooms or smooths is answered from the same curves, as far as they go.

let answers = null;

export function isExported() {
  return Boolean(document.getElementById("trueloop-data"));
}

// `address(parameters)` writes them as the file has them.
export function exported(address, parameters) {
  answers ??= JSON.parse(document.getElementById("trueloop-data").textContent);
  const wanted = { ...parameters };
  if (Array.isArray(wanted.run)) wanted.run = [...wanted.run].sort();
  for (const left of [[], ["from", "to", "points"], ["smooth"], ["group"], ["statistic"], ["line"]]) {
    for (const name of left) delete wanted[name];
    const found = answers[address(wanted)];
    if (found === undefined) continue;
    if (found.error) throw new Error(found.error);
    return parameters?.smooth ? smoothed(found, Number(parameters.smooth)) : structuredClone(found);
  }
  throw new Error("This is not part of the exported page.");
}

// As the server smooths: a moving average without the pull of its first value.
function smooth(values, weight) {
  let sum = 0, total = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    return sum / total;
  });
}

function smoothed(answer, weight) {
  const copy = structuredClone(answer);
  for (const each of Object.values(copy.series ?? {})) each.smooth = smooth(each.y, weight);
  for (const each of Object.values(copy.runs ?? {})) if (each.y) each.y = smooth(each.y, weight);
  return copy;
}
