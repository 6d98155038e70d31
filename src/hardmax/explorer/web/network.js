// Depth: the cells of a small network on a square, layer by layer (P1 section V-B).
//
// On a cell the network so far is one affine map. The heads and ReLU units of the next layer are affine
// functions of it, so the cell is cut by their lines. Maps are composed in floats with magnitudes, and in
// integers over a common denominator when a sign is in doubt. Keys that agree on a whole cell win together with
// the mean of their outputs; a unit that is zero on a whole cell is off.

import { dyadic } from "./exact.js";
import { makeLine, vanishes } from "./arithmetic.js";
import { clip, square } from "./polygons.js";

export const MOST_CELLS = 6000;

// An affine map of the plane: rows (p, q, r) in floats, their magnitudes, and integers over a denominator.
function makeMap(f, m, compute) {
  let kept = null;
  return { f, m, big: () => (kept ??= compute()) };
}

const identity = makeMap([[1, 0, 0], [0, 1, 0]], [[1, 0, 0], [0, 1, 0]], () => ({ rows: [[1n, 0n, 0n], [0n, 1n, 0n]], den: 1n }));

// Rows of weights with a bias each, in floats and, when asked, in integers over a power of two.
function weightsOf(matrix, bias) {
  let kept = null;
  const width = matrix.length ? matrix[0].length : 0;
  return {
    matrix, bias,
    big: () => {
      if (kept) return kept;
      const { integers, bits } = dyadic([...matrix.flat(), ...bias]);
      kept = {
        matrix: matrix.map((_, i) => integers.slice(i * width, (i + 1) * width)),
        bias: integers.slice(matrix.length * width),
        den: 1n << BigInt(bits),
      };
      return kept;
    },
  };
}

// Row i of weights after a map: what a score or a unit is as a function of the input.
function composedRow(weights, i, map) {
  const f = [0, 0, weights.bias[i]], m = [0, 0, Math.abs(weights.bias[i])];
  weights.matrix[i].forEach((w, k) => {
    for (let c = 0; c < 3; c++) { f[c] += w * map.f[k][c]; m[c] += Math.abs(w) * map.m[k][c]; }
  });
  const big = () => {
    const { rows } = map.big(), own = weights.big();
    const row = [0, 1, 2].map(c => own.matrix[i].reduce((sum, w, k) => sum + w * rows[k][c], 0n));
    row[2] += own.bias[i] * map.big().den;
    return row; // over own.den * map.den, both positive
  };
  return makeLine(f, m, big);
}

const difference = (a, b) => makeLine(a.f.map((x, i) => x - b.f[i]), a.m.map((x, i) => x + b.m[i]), () => a.big().map((x, i) => x - b.big()[i]));
const negative = a => makeLine(a.f.map(x => -x), a.m, () => a.big().map(x => -x), a.label);

// The map plus rows of another map, or of constants; `skip` says whether the input is added.
function addedMaps(rowsF, rowsM, rowsBig, map, skip) {
  const f = rowsF.map((row, i) => (skip ? row.map((x, c) => x + map.f[i][c]) : row));
  const m = rowsM.map((row, i) => (skip ? row.map((x, c) => x + map.m[i][c]) : row));
  return makeMap(f, m, () => {
    const { rows, den } = rowsBig();
    if (!skip) return { rows, den };
    const own = map.big();
    return { rows: rows.map((row, i) => row.map((x, c) => x * own.den + own.rows[i][c] * den)), den: den * own.den };
  });
}

// One head cuts a cell: pieces with the keys that win there.
function splitByHead(cell, head, exact) {
  const rows = head.keys.bias.map((_, j) => composedRow(head.keys, j, cell.map));
  const groups = [];
  for (let j = 0; j < rows.length; j++) {
    const group = groups.find(([first]) => vanishes(difference(rows[first], rows[j]), exact));
    if (group) group.push(j);
    else groups.push([j]);
  }
  const pieces = [];
  for (const group of groups) {
    let polygon = cell.polygon;
    for (const other of groups) {
      if (other === group) continue;
      const line = difference(rows[group[0]], rows[other[0]]);
      line.label = head.label;
      polygon = clip(polygon, line, exact);
      if (polygon === null) break;
    }
    if (polygon) pieces.push({ polygon, group });
  }
  return pieces;
}

function throughAttention(cell, block, exact) {
  let pieces = [{ polygon: cell.polygon, winners: [] }];
  for (const head of block.heads) {
    pieces = pieces.flatMap(piece =>
      splitByHead({ polygon: piece.polygon, map: cell.map }, head, exact).map(({ polygon, group }) => ({ polygon, winners: [...piece.winners, group] })));
  }
  return pieces.map(({ polygon, winners }) => {
    const rowsF = block.outputs[0].matrix[0].map(() => [0, 0, 0]), rowsM = rowsF.map(() => [0, 0, 0]);
    winners.forEach((group, h) => group.forEach(j => block.outputs[h].matrix[j].forEach((v, i) => {
      rowsF[i][2] += v / group.length;
      rowsM[i][2] += Math.abs(v) / group.length;
    })));
    const rowsBig = () => {
      let den = 1n;
      let total = rowsF.map(() => 0n);
      winners.forEach((group, h) => {
        const own = block.outputs[h].big(), size = BigInt(group.length) * own.den;
        const sum = rowsF.map((_, i) => group.reduce((s, j) => s + own.matrix[j][i], 0n));
        total = total.map((x, i) => x * size + sum[i] * den);
        den *= size;
      });
      return { rows: total.map(x => [0n, 0n, x]), den };
    };
    return { polygon, map: addedMaps(rowsF, rowsM, rowsBig, cell.map, block.skip), signature: [...cell.signature, winners.map(group => group[0])] };
  });
}

function throughRelu(cell, block, exact) {
  const rows = block.units.bias.map((_, u) => composedRow(block.units, u, cell.map));
  let pieces = [{ polygon: cell.polygon, on: [] }];
  rows.forEach((row, u) => {
    row.label = { kind: "fold", layer: block.layer, unit: u };
    const off = negative(row);
    const dead = vanishes(row, exact);
    pieces = pieces.flatMap(({ polygon, on }) => {
      if (dead) return [{ polygon, on: [...on, 0] }];
      const low = clip(polygon, off, exact), high = clip(polygon, row, exact);
      return [low && { polygon: low, on: [...on, 0] }, high && { polygon: high, on: [...on, 1] }].filter(Boolean);
    });
  });
  const out = block.out;
  return pieces.map(({ polygon, on }) => {
    const active = on.flatMap((bit, u) => (bit ? [u] : []));
    const sum = (start, term) => active.reduce((total, u) => total + term(u), start);
    const rowsF = out.bias.map((b, i) => [0, 1, 2].map(c => sum(c === 2 ? b : 0, u => out.matrix[i][u] * rows[u].f[c])));
    const rowsM = out.bias.map((b, i) => [0, 1, 2].map(c => sum(c === 2 ? Math.abs(b) : 0, u => Math.abs(out.matrix[i][u]) * rows[u].m[c])));
    const rowsBig = () => {
      const inner = block.units.big().den * cell.map.big().den, own = out.big();
      return {
        rows: out.bias.map((_, i) => [0, 1, 2].map(c => sum(c === 2 ? own.bias[i] * inner : 0n, u => own.matrix[i][u] * rows[u].big()[c]))),
        den: inner * own.den,
      };
    };
    return { polygon, map: addedMaps(rowsF, rowsM, rowsBig, cell.map, block.skip), signature: [...cell.signature, on] };
  });
}

function prepared(block, layer) {
  if (block.kind === "relu") {
    return { ...block, layer, units: weightsOf(block.w_in, block.b_in), out: weightsOf(block.w_out, block.b_out) };
  }
  return {
    ...block, layer,
    heads: block.scores.map((rows, h) => ({ keys: weightsOf(rows, block.biases[h]), label: { kind: "wall", layer, head: h } })),
    outputs: block.outputs.map(rows => weightsOf(rows, [])),
  };
}

// The cells after the first `shown` blocks, with how many there were after each.
export function networkCells({ blocks, half, shown = blocks.length }, exact) {
  let cells = [{ polygon: square(half, exact), map: identity, signature: [] }];
  const counts = [1];
  let complete = true;
  blocks.slice(0, shown).forEach((block, layer) => {
    const ready = prepared(block, layer);
    const through = block.kind === "relu" ? throughRelu : throughAttention;
    const next = [];
    for (const cell of cells) {
      next.push(...through(cell, ready, exact));
      if (next.length > MOST_CELLS) { complete = false; break; }
    }
    cells = next;
    counts.push(cells.length);
  });
  return { cells, counts, count: cells.length, complete };
}
