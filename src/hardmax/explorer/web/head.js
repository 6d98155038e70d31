// One head: which keys win where. Scores are affine functions s_j(x) = a_j . x + b_j of the query (P1 section IV).
//
// Three ways to read a key (x, y, weight): "attention", s = key . q + weight; "power", the site of least
// |q - key|^2 - weight; "voronoi", the nearest key. Three rules: the best key wins (hardmax), the two best win
// together (top-2), or all keys within reach of the best share (sparsemax). Every cell is convex and
// neighbours meet edge to edge, so the cells of sets are found by walking across edges.

import { bitLength, dyadic } from "./exact.js";
import { EPSILON, TINY, makeLine, middle, sideOf, vanishes } from "./arithmetic.js";
import { clip, clipAll, square, tightest } from "./polygons.js";

export const MOST_CELLS = 4000;

// The scores of a head, in floats with magnitudes and, when asked, in integers on one scale. The temperature
// is on the same scale, because the cells of sparsemax depend on it.
export function scoresOf(keys, kind, temperature = 0) {
  const weights = keys.map(([, , w]) => (kind === "voronoi" ? 0 : w));
  const powers = kind !== "attention";
  let kept = null;
  const integers = () => {
    if (kept) return kept;
    const { integers: all, bits } = dyadic([temperature, ...keys.flatMap(([x, y], j) => [x, y, weights[j]])]);
    const rows = keys.map((_, j) => all.slice(3 * j + 1, 3 * j + 4));
    const shift = BigInt(bits);
    kept = powers
      ? { temperature: all[0] << (shift + 1n), rows: rows.map(([x, y, w]) => [x << (shift + 1n), y << (shift + 1n), (w << shift) - x * x - y * y]) }
      : { temperature: all[0], rows };
    return kept;
  };
  const scores = keys.map(([x, y], j) => {
    const w = weights[j], square = x * x + y * y;
    return powers
      ? { f: [x, y, (w - square) / 2], m: [Math.abs(x), Math.abs(y), (Math.abs(w) + square) / 2], key: j }
      : { f: [x, y, w], m: [Math.abs(x), Math.abs(y), Math.abs(w)], key: j };
  });
  // keys with the same score win together; the first stands for all of them
  const first = new Map(), groups = [];
  keys.forEach(([x, y], j) => {
    const name = `${x + 0},${y + 0},${weights[j] + 0}`; // -0 + 0 is 0
    if (!first.has(name)) { first.set(name, groups.length); groups.push([]); }
    groups[first.get(name)].push(j);
  });
  return { scores, integers, groups, temperature };
}

const minus = (s, t) => s.map((x, i) => x - t[i]);
const plus = (s, t) => s.map((x, i) => x + t[i]);

// Where key i beats key l.
export function lineBetween(head, i, l, label) {
  const s = head.scores[i], t = head.scores[l];
  return makeLine(minus(s.f, t.f), plus(s.m, t.m), () => minus(head.integers().rows[i], head.integers().rows[l]), label);
}

// A square that holds every vertex of every diagram whose lines are differences of these scores: coordinates are
// quotients of 2 x 2 determinants, at most twice the square of the largest integer.
export function wholePlane(heads, exact, extra = 1) {
  if (!exact) {
    const size = Math.max(1, ...heads.flatMap(head => head.scores.flatMap(s => s.m)));
    return square(2 ** 24 * size, false);
  }
  let bits = 1;
  for (const head of heads) {
    const { rows, temperature } = head.integers();
    for (const row of [...rows, [temperature]]) for (const value of row) bits = Math.max(bits, bitLength(value));
  }
  const factor = bitLength(BigInt(extra)) + 2; // lines are sums of up to `extra` differences
  return square(1n << BigInt(2 * (bits + factor) + 2), true);
}

// Hardmax -------------------------------------------------------------------------------------------------

// One record per group of equal keys: its polygon, or the keys that beat it everywhere.
export function winners(head, exact, start = wholePlane([head], exact)) {
  const leaders = head.groups.map(group => group[0]), gap = new Float64Array(head.scores.length);
  return head.groups.map(group => {
    const j = group[0], own = head.scores[j].f;
    leaders.forEach(l => { gap[l] = distance(own, head.scores[l].f); });
    const rivals = leaders.filter(l => l !== j).sort((k, l) => gap[k] - gap[l]); // near keys cut most
    let polygon = start;
    for (const l of rivals) {
      if (surelyBeats(head.scores[j], head.scores[l], polygon.points)) continue;
      const line = lineBetween(head, j, l, l);
      const rest = clip(polygon, line, exact);
      if (rest === null) return { keys: group, polygon: null, beatenBy: beaters(polygon, line, exact) };
      polygon = rest;
    }
    return { keys: group, polygon, beatenBy: null };
  });
}

// Whether floats prove that a score is the larger one at all points. Most pairs of keys are far apart and end
// here, before a line is made.
function surelyBeats(s, t, points) {
  const p = s.f[0] - t.f[0], q = s.f[1] - t.f[1], r = s.f[2] - t.f[2];
  const a = s.m[0] + t.m[0], b = s.m[1] + t.m[1], c = s.m[2] + t.m[2];
  for (const { f, m } of points) {
    const size = a * m[0] + b * m[1] + c * m[2];
    if (!(p * f[0] + q * f[1] + r * f[2] > EPSILON * size && size > TINY)) return false;
  }
  return true;
}

const distance = (a, b) => (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2;

function beaters(polygon, line, exact) {
  const labels = [...tightest(polygon, line, exact), line].map(edge => edge.label).filter(label => label !== null);
  return [...new Set(labels)].sort((a, b) => a - b);
}

// Sets of keys --------------------------------------------------------------------------------------------

// A walk over all cells: `linesOf(set)` bounds a cell, `across(set, label)` is a likely neighbour, and
// `at(point, ...directions)` the set that wins at a point after infinitely small steps.
function walk(start, first, linesOf, across, at, exact) {
  const name = set => set.join(",");
  const cells = new Map(), open = [];
  let complete = true;
  const cellOf = set => {
    const lines = linesOf(set);
    return lines === null ? null : clipAll(start, lines, exact);
  };
  const add = (set, polygon) => { cells.set(name(set), { set, polygon }); open.push(set); };
  const begun = cellOf(first);
  if (begun === null) return { cells: [], complete: false }; // floats lost their way; integers do not
  add(first, begun);
  while (open.length) {
    if (cells.size >= MOST_CELLS) { complete = false; break; }
    const { set, polygon } = cells.get(name(open.pop()));
    polygon.edges.forEach((edge, i) => {
      if (edge.label === null) return;
      const n = polygon.points.length;
      const point = middle(polygon.points[(i + n - 1) % n], polygon.points[i]);
      const guess = across(set, edge.label);
      if (guess !== null) {
        if (cells.has(name(guess))) return;
        const lines = linesOf(guess);
        if (lines !== null && lines.every(line => sideOf(line, point, exact) >= 0)) {
          const found = clipAll(start, lines, exact);
          if (found !== null) { add(guess, found); return; }
        }
      }
      const [p, q] = exact ? edge.big() : edge.f; // several keys change places on this edge: look just beyond it
      const set2 = at(point, [-p, -q], [-q, p]);
      if (cells.has(name(set2))) return;
      const found = cellOf(set2);
      if (found !== null) add(set2, found);
      else complete = false;
    });
  }
  return { cells: [...cells.values()], complete };
}

// Scores of all keys at a point and along directions, for comparison term by term: floats or integers.
function jets(head, exact, point, directions) {
  const rows = exact ? head.integers().rows : head.scores.map(score => score.f);
  const [x, y, w] = exact ? point.big() : point.f;
  const zero = exact ? 0n : 0;
  const places = [[x, y, w], ...directions.map(([p, q]) => [p, q, zero])];
  return rows.map(([a, b, c]) => places.map(([u, v, z]) => a * u + b * v + c * z));
}

function compare(s, t, exact) {
  for (let i = 0; i < s.length; i++) {
    const difference = s[i] - t[i];
    if (exact ? difference !== 0n : Math.abs(difference) > 1e-9 * (Math.abs(s[i]) + Math.abs(t[i]))) return difference > 0 ? 1 : -1;
  }
  return 0;
}

const origin = exact => (exact ? { big: () => [0n, 0n, 1n], f: [0, 0, 1] } : { f: [0, 0, 1], big: null });
const axes = exact => (exact ? [[1n, 0n], [0n, 1n]] : [[1, 0], [0, 1]]);

// The cells of the pairs of best keys. Equal keys stand in the order of their numbers.
export function bestPairs(head, exact, start = wholePlane([head], exact)) {
  const n = head.scores.length;
  if (n < 2) return { cells: [], complete: true };
  const group = new Array(n);
  head.groups.forEach((keys, g) => keys.forEach(j => { group[j] = g; }));
  const linesOf = set => {
    const lines = [];
    for (const i of set) for (let l = 0; l < n; l++) {
      if (set.includes(l)) continue;
      if (group[i] === group[l]) { if (l < i) return null; continue; }
      lines.push(lineBetween(head, i, l, [i, l]));
    }
    return lines;
  };
  const canonical = set => {
    const places = set.map(j => head.groups[group[j]]);
    const chosen = places[0] === places[1] ? places[0].slice(0, 2) : places.map(keys => keys[0]);
    return chosen.length === 2 ? chosen.sort((a, b) => a - b) : null;
  };
  const across = (set, [i, l]) => canonical([set[0] === i ? set[1] : set[0], l]);
  const at = (point, ...directions) => {
    const values = jets(head, exact, point, directions);
    const order = values.map((_, j) => j).sort((i, l) => compare(values[l], values[i], exact) || i - l);
    return order.slice(0, 2).sort((a, b) => a - b);
  };
  return walk(start, at(origin(exact), ...axes(exact)), linesOf, across, at, exact);
}

// The cells of the supports of sparsemax: key j is in the support S when |S| s_j + temperature > sum over S.
export function supports(head, exact, start = wholePlane([head], exact, 2 * head.scores.length)) {
  const leaders = head.groups.map(keys => keys[0]), copies = head.groups.map(keys => keys.length);
  const linesOf = set => {
    const size = set.reduce((sum, g) => sum + copies[g], 0);
    const f = [0, 0, 0], m = [0, 0, 0];
    for (const g of set) for (let i = 0; i < 3; i++) {
      f[i] += copies[g] * head.scores[leaders[g]].f[i];
      m[i] += copies[g] * head.scores[leaders[g]].m[i];
    }
    let total = null; // the sum in integers
    const sums = () => (total ??= [0, 1, 2].map(i => set.reduce((sum, g) => sum + BigInt(copies[g]) * head.integers().rows[leaders[g]][i], 0n)));
    return leaders.map((j, g) => {
      const sign = set.includes(g) ? 1 : -1, { f: a, m: b } = head.scores[j], tau = head.temperature;
      return makeLine(
        [sign * (size * a[0] - f[0]), sign * (size * a[1] - f[1]), sign * (size * a[2] - f[2] + tau)],
        [size * b[0] + m[0], size * b[1] + m[1], size * b[2] + m[2] + tau],
        () => {
          const row = head.integers().rows[j], sum = sums();
          const line = [0, 1, 2].map(i => BigInt(size) * row[i] - sum[i]);
          line[2] += head.integers().temperature;
          return sign > 0 ? line : line.map(x => -x);
        },
        g,
      );
    }).filter((line, g) => set.includes(g) || !vanishes(line, exact)); // weight zero everywhere: not in the support
  };
  const toggled = (set, g) => (set.includes(g) ? set.filter(x => x !== g) : [...set, g].sort((a, b) => a - b));
  const across = (set, g) => { const next = toggled(set, g); return next.length ? next : null; };
  const at = (point, ...directions) => {
    const values = jets(head, exact, point, directions);
    const one = exact ? point.big()[2] : point.f[2];
    const tau = exact ? head.integers().temperature * one : head.temperature * one;
    const number = exact ? BigInt : x => x;
    const order = leaders.map((_, g) => g).sort((g, h) => compare(values[leaders[h]], values[leaders[g]], exact) || g - h);
    const sum = values[0].map(() => number(0));
    let size = 0, taken = [];
    for (const g of order) {
      size += copies[g];
      const value = values[leaders[g]];
      value.forEach((x, i) => { sum[i] += number(copies[g]) * x; });
      const gap = value.map((x, i) => number(size) * x - sum[i]);
      gap[0] += tau;
      if (compare(gap, gap.map(() => number(0)), exact) <= 0) break;
      taken.push(g);
    }
    return taken.sort((a, b) => a - b);
  };
  const found = walk(start, at(origin(exact), ...axes(exact)), linesOf, across, at, exact);
  return { ...found, cells: found.cells.map(({ set, polygon }) => ({ polygon, set: set.flatMap(g => head.groups[g]).sort((a, b) => a - b) })) };
}

// Everything about a head at once, as the page and the tests ask for it.
export function headCells({ keys, scores, rule, temperature }, exact) {
  const head = scoresOf(keys, scores, rule === "sparsemax" ? temperature : 0);
  const alone = winners(head, exact);
  const found = rule === "hardmax" ? null : rule === "top-2" ? bestPairs(head, exact) : supports(head, exact);
  const cells = found ? found.cells : alone.filter(one => one.polygon).map(({ keys: set, polygon }) => ({ set, polygon }));
  const beaten = new Map();
  for (const one of alone) {
    if (one.polygon) one.keys.slice(1).forEach(j => beaten.set(j, { same: one.keys[0] }));
    else one.keys.forEach(j => beaten.set(j, { by: one.beatenBy }));
  }
  return { head, cells, count: cells.length, complete: found ? found.complete : true, beaten };
}
