// The third mode: a small network, layer by layer.

import { corners, inside } from "./polygons.js";
import { networkCells } from "./network.js";
import { mostCells } from "./heads.js";
import { counted, shownNumber, snapped } from "./words.js";

const choose2 = n => n * (n - 1) / 2;
// the most pieces into which one block can cut a cell
const mostPieces = block => (block.kind === "relu" ? 1 + block.w_in.length + choose2(block.w_in.length) : mostCells(block.scores.map(keys => keys.length), true));
const blockName = block => (block.kind === "relu" ? counted(block.w_in.length, "ReLU unit") : `${counted(block.scores.length, "head")} of ${counted(block.scores[0].length, "key")}`);
const partsOf = id => ({ kind: id[0], numbers: id.slice(1).split("k").map(Number) });

// A ReLU unit w . x + b is moved by the foot of its line: the point of the line nearest to the origin.
const foot = (w, b) => { const size = w[0] ** 2 + w[1] ** 2; return size ? [-b * w[0] / size, -b * w[1] / size] : [0, 0]; };

// The sum of the outputs, as (p, q, r): affine on a cell, and it shows every coordinate.
const valueOf = map => [0, 1, 2].map(c => map.f.reduce((sum, row) => sum + row[c], 0));

export const depthMode = {
  title: "Depth",
  boards: [{ name: "plane", label: "The square of inputs, cut by the network; colours show the output" }],
  compute: networkCells,
  half: state => state.half,

  draw(board, paint, { state, result, palette, hover }) {
    const list = result.cells.map(cell => [cell, corners(cell.polygon), valueOf(cell.map)]);
    const largest = Math.max(1e-9, ...list.flatMap(([, shape, [p, q, r]]) => shape.map(([x, y]) => Math.abs(p * x + q * y + r))));
    result.largest = largest;
    const fine = list.length > 1200;
    for (const [, shape, row] of list) paint.polygon(shape, { gradient: row.map(x => x / largest) });
    const folds = [], walls = [];
    for (const [cell, shape] of list) cell.polygon.edges.forEach((edge, i) => {
      if (edge.label) (edge.label.kind === "wall" ? walls : folds).push([shape[(i + shape.length - 1) % shape.length], shape[i]]);
    });
    paint.segments(folds, { stroke: palette.dark ? "#ffffff" : "#4a5058", width: fine ? 0.4 : 0.9, alpha: 0.75 });
    paint.segments(walls, { stroke: palette.ink, width: fine ? 0.7 : 2 });
    if (result.cells[0]?.map.f.length === 1) { // one output: its zero is the decision boundary
      const zeros = [];
      for (const [, shape, [p, q, r]] of list) {
        const ends = [];
        shape.forEach((b, i) => {
          const a = shape[(i + shape.length - 1) % shape.length], va = p * a[0] + q * a[1] + r, vb = p * b[0] + q * b[1] + r;
          if ((va < 0) !== (vb < 0)) { const t = va / (va - vb); ends.push([a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])]); }
        });
        if (ends.length === 2) zeros.push(ends);
      }
      paint.segments(zeros, { stroke: palette.heads[2], width: 3.4 });
    }
    if (hover?.cell && result.cells.includes(hover.cell)) paint.polygon(corners(hover.cell.polygon), { stroke: palette.ink, width: 3.4 });
  },

  handles(board, { state, palette }) {
    const [block] = state.blocks;
    if (state.shown === 0) return [];
    if (block.kind === "relu") return block.w_in.map((w, u) => ({
      id: `u${u}`, at: foot(w, block.b_in[u]), text: `r${u}`, colour: palette.soft, label: `r${u}: fold of ReLU unit ${u}, its point nearest to the origin`,
    }));
    return block.scores.flatMap((keys, h) => keys.map(([x, y], j) => ({
      id: `h${h}k${j}`, at: [x, y], text: block.scores.length > 1 ? `${h}.${j}` : String(j), colour: palette.heads[h],
      label: `${block.scores.length > 1 ? `${h}.${j}: head ${h}, ` : ""}key ${j} of the first layer at ${shownNumber(x)}, ${shownNumber(y)}`,
    })));
  },

  move(state, id, at) {
    const { kind, numbers } = partsOf(id), [block, ...rest] = state.blocks, point = at.map(x => snapped(x, state.half));
    if (kind === "u") {
      const [u] = numbers, w = block.w_in[u], old = foot(w, block.b_in[u]), reach = Math.hypot(...point);
      if (reach < 1e-9) return state;
      const sign = w[0] * old[0] + w[1] * old[1] < 0 ? -1 : 1, length = sign * Math.hypot(...w) / reach;
      const turned = point.map(x => Number((x * length).toPrecision(6)));
      const b = Number((-turned[0] * point[0] - turned[1] * point[1]).toPrecision(6));
      return { ...state, blocks: [{ ...block, w_in: block.w_in.map((row, i) => (i === u ? turned : row)), b_in: block.b_in.map((x, i) => (i === u ? b : x)) }, ...rest] };
    }
    const [h, j] = numbers;
    return { ...state, blocks: [{ ...block, scores: block.scores.map((keys, i) => (i === h ? keys.map((key, l) => (l === j ? point : key)) : keys)) }, ...rest] };
  },
  add: () => null,
  remove: () => null,
  weight(state, id) { const { kind, numbers: [h, j] } = partsOf(id); return kind === "h" ? state.blocks[0].biases?.[h]?.[j] : undefined; },
  weigh(state, id, weight) {
    const { numbers: [h, j] } = partsOf(id), [block, ...rest] = state.blocks;
    return { ...state, blocks: [{ ...block, biases: block.biases.map((row, i) => (i === h ? row.map((b, l) => (l === j ? weight : b)) : row)) }, ...rest] };
  },

  hover(board, [x, y], { state, result }) {
    const cell = result.cells.find(one => inside(corners(one.polygon), x, y));
    if (!cell) return null;
    const [p, q, r] = valueOf(cell.map);
    const words = cell.signature.map((part, l) => (state.blocks[l].kind === "relu" ? `units ${part.join("")}` : `keys ${part.join(", ")}`));
    return { cell, text: `${words.length ? `${words.join("; ")}. ` : ""}Output here: ${shownNumber(p)} x ${q < 0 ? "−" : "+"} ${shownNumber(Math.abs(q))} y ${r < 0 ? "−" : "+"} ${shownNumber(Math.abs(r))}.` };
  },

  headline({ state, result }) {
    const blocks = state.blocks.slice(0, state.shown), bound = blocks.reduce((most, block) => most * mostPieces(block), 1);
    return {
      number: result.count, noun: result.count === 1 ? "cell" : "cells",
      lines: [
        `Block by block: ${result.counts.map(n => n.toLocaleString("en")).join(" → ")}.`,
        blocks.length ? `Bound: at most ${blocks.map(mostPieces).join(" × ")}${blocks.length > 1 ? ` = ${bound.toLocaleString("en")}` : ""}.` : "Nothing is cut yet.",
      ],
    };
  },

  controls(ui, app) {
    ui.slider("Blocks shown", {
      min: 0, max: app.state.blocks.length, step: 1, get: () => app.state.shown,
      show: () => `${app.state.shown} of ${app.state.blocks.length}`,
      set: (shown, moving) => app.commit({ ...app.state, shown }, moving),
    });
    ui.note(() => (app.state.shown ? `Shown: ${app.state.blocks.slice(0, app.state.shown).map(blockName).join(", then ")}.` : "Shown: the input alone."));
    ui.note(() => "Thick lines are walls, where a head changes its key and the output may jump. Thin lines are folds, where a ReLU unit switches and the output bends. Blue is an output below zero, orange above (the sum, where there are several).");
    ui.note(() => (app.state.blocks[0].kind === "relu" ? "Drag a dot to move the fold of that unit of the first layer." : "Drag a dot to move that key of the first layer."));
  },
};
