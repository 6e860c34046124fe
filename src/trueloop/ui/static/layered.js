// A layered layout: nodes in ranks from top to bottom, so that every edge leads down and few of them cross.

const GAP_X = 26, GAP_Y = 46, SWEEPS = 8;

// `sizes` are [width, height] of the nodes, `edges` [from, to]. Returns { places: [[x, y]], paths: [points], width, height }.
export function layered(sizes, edges) {
  const count = sizes.length;
  const rank = ranks(count, edges);
  // A long edge passes through one empty place in each rank, so that it bends around nodes.
  const nodes = sizes.map(([width, height], id) => ({ id, width, height, rank: rank[id], up: [], down: [] }));
  const routes = edges.map(([from, to]) => {
    const route = [nodes[from]];
    for (let at = rank[from] + 1; at < rank[to]; at++) {
      const node = { id: nodes.length, width: 8, height: 0, rank: at, up: [], down: [] };
      nodes.push(node);
      route.push(node);
    }
    route.push(nodes[to]);
    for (let index = 1; index < route.length; index++) { route[index - 1].down.push(route[index]); route[index].up.push(route[index - 1]); }
    return route;
  });
  const levels = [];
  for (const node of nodes) (levels[node.rank] ??= []).push(node);
  const rows = levels.filter(Boolean);
  order(rows);
  return place(rows, nodes, routes, count);
}

// The longest way from a node without a predecessor; those without one stand right above what needs them.
function ranks(count, edges) {
  const into = Array.from({ length: count }, () => []), out = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) { into[to].push(from); out[from].push(to); }
  const left = into.map((each) => each.length), rank = new Array(count).fill(0);
  const ready = left.flatMap((each, id) => each ? [] : [id]);
  while (ready.length) {
    const id = ready.shift();
    for (const next of out[id]) {
      rank[next] = Math.max(rank[next], rank[id] + 1);
      if (--left[next] === 0) ready.push(next);
    }
  }
  for (let id = 0; id < count; id++) if (!into[id].length && out[id].length) rank[id] = Math.max(0, Math.min(...out[id].map((next) => rank[next])) - 1);
  return rank;
}

function order(rows) {
  rows.forEach((row) => row.forEach((node, index) => { node.at = index; }));
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      for (const node of row) {
        const near = down ? node.up : node.down;
        node.wish = near.length ? near.reduce((sum, each) => sum + each.at, 0) / near.length : node.at;
      }
      row.sort((left, right) => left.wish - right.wish);
      row.forEach((node, index) => { node.at = index; });
    }
  }
}

function place(rows, nodes, routes, count) {
  let top = 0;
  for (const row of rows) {
    const high = Math.max(24, ...row.map((node) => node.height));
    let x = 0;
    for (const node of row) { node.x = x + node.width / 2; node.y = top + high / 2; x += node.width + GAP_X; }
    top += high + GAP_Y;
  }
  // Each node moves towards the middle of its neighbors, as far as the others of its rank let it.
  for (let sweep = 0; sweep < SWEEPS * 2; sweep++) {
    for (const row of sweep % 2 === 0 ? rows : [...rows].reverse()) {
      const near = (node) => (sweep % 2 === 0 ? node.up : node.down);
      row.forEach((node) => { const all = near(node); node.wish = all.length ? all.reduce((sum, each) => sum + each.x, 0) / all.length : node.x; });
      const forward = [], backward = [];
      row.forEach((node, index) => { forward[index] = index ? Math.max(node.wish, forward[index - 1] + apart(row[index - 1], node)) : node.wish; });
      for (let index = row.length - 1; index >= 0; index--) backward[index] = index < row.length - 1 ? Math.min(row[index].wish, backward[index + 1] - apart(row[index], row[index + 1])) : row[index].wish;
      row.forEach((node, index) => { node.x = (forward[index] + backward[index]) / 2; });
      for (let index = 1; index < row.length; index++) row[index].x = Math.max(row[index].x, row[index - 1].x + apart(row[index - 1], row[index]));
    }
  }
  const left = Math.min(...nodes.map((node) => node.x - node.width / 2));
  const right = Math.max(...nodes.map((node) => node.x + node.width / 2));
  const shift = 12 - left;
  return {
    places: nodes.slice(0, count).map((node) => [node.x + shift, node.y + 12]),
    paths: routes.map((route) => route.map((node, index) => [node.x + shift, node.y + 12 + (index === 0 ? node.height / 2 : index === route.length - 1 ? -node.height / 2 : 0)])),
    width: right - left + 24, height: top - GAP_Y + 24,
  };
}

function apart(left, right) {
  return left.width / 2 + right.width / 2 + GAP_X;
}
