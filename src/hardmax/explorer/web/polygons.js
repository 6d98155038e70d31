// Convex polygons as cyclic lists of lines, cut by one line after the other.
//
// points[i] is where edges[i] and edges[i + 1] meet. Only points strictly on the positive side keep an edge
// alive, so a polygon without interior is gone, not thin.

import { dyadic } from "./exact.js";
import { coordinates, makeLine, meet, sideOf } from "./arithmetic.js";

// The square |x| <= half, |y| <= half. `half` is a float, or an integer 2^bits that may be beyond floats.
export function square(half, exact) {
  const big = typeof half === "bigint" ? [half, 1n] : (({ integers, bits }) => [integers[0], 1n << BigInt(bits)])(dyadic([half]));
  const size = Number(half);
  const edges = [[1, 0], [0, 1], [-1, 0], [0, -1]].map(([p, q]) =>
    makeLine([p, q, size], [Math.abs(p), Math.abs(q), size], () => [BigInt(p) * big[1], BigInt(q) * big[1], big[0]]));
  return { edges, points: edges.map((edge, i) => meet(edge, edges[(i + 1) % 4], exact)) };
}

// The part on the positive side of a line; null if it has no interior.
export function clip(polygon, line, exact) {
  const { edges, points } = polygon, n = edges.length;
  const sides = new Array(n);
  let some = false, all = true;
  for (let i = 0; i < n; i++) {
    const side = sideOf(line, points[i], exact);
    sides[i] = side;
    if (side > 0) some = true;
    else if (side < 0) all = false;
  }
  if (!some) return null;
  if (all) return polygon;
  let entry = 0;
  while (!(sides[(entry + n - 1) % n] <= 0 && sides[entry] > 0)) entry++;
  const cut = { edges: [], points: [] };
  let i = entry;
  do {
    cut.edges.push(edges[i]);
    if (sides[i] <= 0) break;
    cut.points.push(points[i]);
    i = (i + 1) % n;
  } while (i !== entry);
  const before = (entry + n - 1) % n;
  cut.points.push(sides[i] === 0 ? points[i] : meet(edges[i], line, exact));
  cut.edges.push(line);
  cut.points.push(sides[before] === 0 ? points[before] : meet(line, edges[entry], exact));
  return cut;
}

// What is left of a polygon after cuts; null if nothing is.
export function clipAll(polygon, lines, exact) {
  for (const line of lines) {
    polygon = clip(polygon, line, exact);
    if (polygon === null) return null;
  }
  return polygon;
}

// The two edges at the vertex where a line is largest: if it is not positive there, these two half-planes and
// the line's have no interior in common.
export function tightest(polygon, line, exact) {
  const [p, q, r] = exact ? line.big() : line.f;
  let best = 0, most = null;
  polygon.points.forEach((point, i) => {
    const [x, y, w] = exact ? point.big() : point.f;
    const value = p * x + q * y + r * w;
    if (most === null || value * most[1] > most[0] * w) { most = [value, w]; best = i; }
  });
  return [polygon.edges[best], polygon.edges[(best + 1) % polygon.edges.length]];
}

export const corners = polygon => polygon.points.map(coordinates);

// What of a cell lies in the square that is shown. It is cut anew in floats: corners far outside would cost all
// precision. Edges on the border of the square have no label. Null if nothing is seen.
export function shownPart(polygon, half) {
  return clipAll(square(half, false), polygon.edges.filter(edge => edge.label !== null), false);
}

export function inside(list, x, y) {
  let odd = false;
  list.forEach((b, i) => {
    const a = list[(i + list.length - 1) % list.length];
    if ((a[1] > y) !== (b[1] > y) && x < a[0] + (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1])) odd = !odd;
  });
  return odd;
}
