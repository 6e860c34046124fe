// A small curve in a cell of a table.

import { svg } from "ui/dom.js";

const WIDTH = 96, HEIGHT = 22;

export function spark(points, label) {
  const [xs, ys] = points ?? [];
  const pairs = (xs ?? []).map((x, index) => [x, ys[index]]).filter(([, y]) => y !== null);
  if (pairs.length < 2) return "";
  const values = pairs.map(([, y]) => y);
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const log = low > 0 && high / low > 30;
  const at = (y) => (log ? Math.log(y) : y);
  [low, high] = [at(low), at(high)];
  const [first, last] = [pairs[0][0], pairs[pairs.length - 1][0]];
  const path = pairs.map(([x, y]) => {
    const across = ((x - first) / (last - first || 1)) * (WIDTH - 2) + 1;
    const up = HEIGHT - 2 - ((at(y) - low) / (high - low || 1)) * (HEIGHT - 4);
    return `${across.toFixed(1)} ${up.toFixed(1)}`;
  }).join("L");
  return svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": label },
    svg("path", { d: `M${path}` }));
}
