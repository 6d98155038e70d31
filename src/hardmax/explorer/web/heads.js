// Several heads: the common refinement of their cells, their Newton polygons and the Minkowski sum (P1 section V-A).
//
// The cells of all heads together are the vertices of the sum of the polygons: the cell in which keys j_1, ...,
// j_H win is the point a_1 + ... + a_H. With biases the polygons are lifted, and a cell inside the sum is
// a vertex of its mixed subdivision.

import { clipAll } from "./polygons.js";
import { MOST_CELLS, scoresOf, wholePlane, winners } from "./head.js";

export function headsCells({ heads: given }, exact) {
  const heads = given.map(keys => scoresOf(keys, "attention"));
  const start = wholePlane(heads, exact);
  const alone = heads.map(head => winners(head, exact, start).filter(one => one.polygon));
  let cells = [{ keys: [], polygon: start }];
  let complete = true;
  alone.forEach((diagram, h) => {
    // a key is bounded by its neighbours in its own diagram; other keys need not be asked
    const bounded = diagram.map(({ keys, polygon }) => ({
      key: keys[0],
      lines: polygon.edges.filter(edge => edge.label !== null).map(edge => ({ ...edge, label: { head: h, key: edge.label } })),
    }));
    const next = [];
    for (const cell of cells) {
      for (const { key, lines } of bounded) {
        const polygon = clipAll(cell.polygon, lines, exact);
        if (polygon) next.push({ keys: [...cell.keys, key], polygon });
      }
      if (next.length > MOST_CELLS) { complete = false; break; }
    }
    cells = next;
  });
  return { heads, alone, cells, count: cells.length, complete, biased: given.some(keys => keys.some(([, , b]) => b !== 0)) };
}

// The point of the Minkowski sum that belongs to a cell.
export function sumPoint(given, keys) {
  return keys.reduce(([x, y], j, h) => [x + given[h][j][0], y + given[h][j][1]], [0, 0]);
}

// Pairs of cells with a common edge, by number: each wall is an edge of the (subdivided) sum.
export function neighbours(cells) {
  const number = new Map(cells.map(({ keys }, i) => [keys.join(), i]));
  const pairs = [];
  cells.forEach(({ keys, polygon }, i) => {
    for (const { label } of polygon.edges) {
      if (label === null) continue;
      const other = number.get(keys.map((j, h) => (h === label.head ? label.key : j)).join());
      if (other > i) pairs.push([i, other]);
    }
  });
  return pairs;
}

// The corners of the convex hull, counterclockwise (for drawing).
export function hull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const chain = list => {
    const kept = [];
    for (const p of list) {
      while (kept.length > 1 && turn(kept.at(-2), kept.at(-1), p) <= 0) kept.pop();
      kept.push(p);
    }
    return kept.slice(0, -1);
  };
  const corners = [...chain(sorted), ...chain([...sorted].reverse())];
  return corners.length ? corners : sorted.slice(0, 1);
}

// The most cells that heads with so many winning keys can have in the plane (hm.vertex_maximum).
export function mostCells(sizes, biased) {
  const walls = sizes.filter(n => n > 1).map(n => n - 1);
  if (!walls.length) return 1;
  const sum = walls.reduce((a, b) => a + b, 0);
  const pairs = (sum * sum - walls.reduce((a, b) => a + b * b, 0)) / 2;
  return biased ? 1 + sum + pairs : 1 + sum + walls.length - 1;
}
