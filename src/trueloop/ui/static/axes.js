// Axes for plotly. On a logarithmic one we choose the numbers: plotly prints those between powers of ten too small to read.

import { number } from "ui/format.js";

export function logAxis(values, wanted) {
  const known = values.filter((value) => typeof value === "number" && value > 0);
  if (!wanted || !known.length) return { type: "linear" };
  const [low, high] = [Math.floor(Math.log10(Math.min(...known))), Math.ceil(Math.log10(Math.max(...known)))];
  if (high - low > 3) return { type: "log", dtick: Math.ceil((high - low) / 8) };
  const ticks = Array.from({ length: high - low + 2 }, (_, index) => 10 ** (low + index)).flatMap((power) => [power, 2 * power, 5 * power]);
  return { type: "log", tickvals: ticks, ticktext: ticks.map((value) => number(value, 2)) };
}
