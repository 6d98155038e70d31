// The second mode: several heads, their common refinement, and the Minkowski sum of their Newton polygons.

import { inside } from "./polygons.js";
import { shapesOf } from "./mode_head.js";
import { headsCells, hull, mostCells, neighbours, sumPoint } from "./heads.js";
import { css, mixed } from "./draw.js";
import { counted, shownNumber, snapped } from "./words.js";
import { LIMITS } from "./state.js";

const parts = id => id.slice(1).split("k").map(Number);
const replaced = (state, h, keys) => ({ ...state, heads: state.heads.map((one, i) => (i === h ? keys : one)) });
const colourOf = (palette, keys) => mixed(keys.map((j, h) => palette.fill(h + 7 * j)));
const size = points => Math.max(1e-6, ...points.flat().map(Math.abs));

function drawPlane(board, paint, { state, result, palette, hover }) {
  const walls = state.heads.map(() => []);
  for (const [cell, shape, edges] of shapesOf(result, state.half)) {
    const fill = css(colourOf(palette, cell.keys));
    paint.polygon(shape, { fill, stroke: fill, width: 0.7 });
    edges.forEach((edge, i) => {
      if (edge.label !== null) walls[edge.label.head].push([shape[(i + shape.length - 1) % shape.length], shape[i]]);
    });
  }
  walls.forEach((list, h) => paint.segments(list, { stroke: palette.heads[h], width: 1.8 }));
  const lit = hover?.cell && shapesOf(result, state.half).find(([cell]) => cell === hover.cell);
  if (lit) paint.polygon(lit[1], { stroke: palette.ink, width: 3.2 });
}

function drawKeys(board, paint, { state, palette, hover }) {
  paint.segments([[[-board.half, 0], [board.half, 0]], [[0, -board.half], [0, board.half]]], { stroke: palette.rule, width: 1 });
  state.heads.forEach((keys, h) => {
    const outline = hull(keys.map(key => key.slice(0, 2)));
    paint.polygon(outline, { fill: palette.heads[h], alpha: 0.14 });
    paint.polygon(outline, { stroke: palette.heads[h], width: 1.8 });
  });
  hover?.cell?.keys.forEach((j, h) => paint.dot(state.heads[h][j].slice(0, 2), 12, { stroke: palette.ink, width: 2.4 }));
}

function drawSum(board, paint, { state, result, palette, hover }) {
  const points = result.cells.map(cell => sumPoint(state.heads, cell.keys));
  paint.segments([[[-board.half, 0], [board.half, 0]], [[0, -board.half], [0, board.half]]], { stroke: palette.rule, width: 1 });
  paint.polygon(hull(points), { fill: palette.soft, alpha: 0.14 });
  paint.segments(neighbours(result.cells).map(([a, b]) => [points[a], points[b]]), { stroke: palette.soft, width: 1 });
  points.forEach((at, i) => paint.dot(at, result.cells.length > 150 ? 3 : 5, { fill: css(colourOf(palette, result.cells[i].keys)), stroke: palette.ink, width: 1.1 }));
  if (hover?.cell) paint.dot(sumPoint(state.heads, hover.cell.keys), 9, { fill: css(colourOf(palette, hover.cell.keys)), stroke: palette.ink, width: 3 });
}

export const headsMode = {
  title: "Several heads",
  boards: [
    { name: "plane", label: "The plane of queries, cut by all heads together" },
    { name: "keys", label: "Keys of each head and their convex hull, the Newton polygon", caption: "Newton polygons: drag the keys here" },
    { name: "sum", label: "The Minkowski sum of the polygons, one dot for every cell", caption: "Minkowski sum: one dot per cell" },
  ],
  compute: headsCells,

  half(state, board, result) {
    if (board === "plane") return state.half;
    if (board === "keys") return 1.25 * size(state.heads.flat().map(key => key.slice(0, 2)));
    return 1.15 * size(result.cells.map(cell => sumPoint(state.heads, cell.keys)));
  },

  draw(board, paint, context) { ({ plane: drawPlane, keys: drawKeys, sum: drawSum })[board.name](board, paint, context); },

  handles(board, { state, result, palette }) {
    if (board.name !== "keys") return [];
    const winning = result.alone.map(diagram => new Set(diagram.flatMap(one => one.keys)));
    return state.heads.flatMap((keys, h) => keys.map(([x, y, b], j) => ({
      id: `h${h}k${j}`, at: [x, y], text: state.heads.flat().length > 40 ? "" : String(j), small: state.heads.flat().length > 40,
      grey: !winning[h].has(j), colour: winning[h].has(j) ? palette.heads[h] : palette.grey,
      label: `Head ${h}, key ${j} at ${shownNumber(x)}, ${shownNumber(y)}${b ? `, bias ${shownNumber(b)}` : ""}${winning[h].has(j) ? "" : ", never wins"}`,
    })));
  },

  move(state, id, at) {
    const [h, j] = parts(id);
    return replaced(state, h, state.heads[h].map((key, i) => (i === j ? [...at.map(x => snapped(x, state.half)), key[2]] : key)));
  },
  add(state, at, board, selected) {
    const h = selected ? parts(selected)[0] : 0;
    if ((board && board.name !== "keys") || state.heads[h].length >= LIMITS.headKeys) return null;
    return { state: replaced(state, h, [...state.heads[h], [...at.map(x => snapped(x, state.half)), 0]]), id: `h${h}k${state.heads[h].length}` };
  },
  remove(state, id) {
    const [h, j] = parts(id);
    if (state.heads[h].length > 1) return replaced(state, h, state.heads[h].filter((_, i) => i !== j));
    return state.heads.length > 1 ? { ...state, heads: state.heads.filter((_, i) => i !== h) } : null;
  },
  weight: (state, id) => state.heads[parts(id)[0]]?.[parts(id)[1]]?.[2],
  weigh(state, id, weight) {
    const [h, j] = parts(id);
    return replaced(state, h, state.heads[h].map((key, i) => (i === j ? [key[0], key[1], weight] : key)));
  },

  hover(board, at, { state, result }) {
    let cell = null;
    if (board.name === "plane") [cell = null] = shapesOf(result, state.half).find(([, shape]) => inside(shape, ...at)) ?? [];
    if (board.name === "sum") {
      const gaps = result.cells.map(one => sumPoint(state.heads, one.keys)).map(([x, y]) => Math.hypot(x - at[0], y - at[1]));
      const nearest = gaps.indexOf(Math.min(...gaps));
      if (gaps[nearest] < board.half * 0.12) cell = result.cells[nearest];
    }
    if (!cell) return null;
    const [x, y] = sumPoint(state.heads, cell.keys);
    return { cell, text: `${cell.keys.map((j, h) => `head ${h} reads key ${j}`).join(", ")}; the keys add up to (${shownNumber(x)}, ${shownNumber(y)}).` };
  },

  headline({ state, result }) {
    const sizes = state.heads.map(keys => keys.length), tuples = sizes.reduce((a, b) => a * b, 1);
    const most = mostCells(sizes, result.biased);
    return {
      number: result.count, noun: result.count === 1 ? "cell" : "cells",
      lines: [
        `${counted(tuples, "combination")} of keys (${sizes.join(" × ")}), but at most ${most.toLocaleString("en")} can be cells in the plane${result.biased ? "" : " without biases"}.`,
        `Alone the heads have ${result.alone.map(one => one.length).join(", ")} cells.`,
      ],
    };
  },

  controls(ui, app) {
    ui.note(() => "Each head cuts the plane by its own walls (its colour). A cell of all heads together is one choice of a key per head, and the chosen keys add up to one dot of the sum.");
    ui.note(() => (app.result?.biased ? "With biases, dots inside the sum can be cells too: the lines between them are the walls, seen from the other side." : "Without biases the cells are cones, and the dots are exactly the corners of the sum."));
    ui.buttons([
      ["Add a head", () => app.commit({ ...app.state, heads: [...app.state.heads, [[1, 0.3, 0], [-0.6, 0.9, 0], [-0.3, -1, 0]].map(([x, y, b]) => [snapped(x * app.state.half * 0.3, app.state.half), snapped(y * app.state.half * 0.3, app.state.half), b])] }), () => app.state.heads.length < LIMITS.heads],
      ["Remove last head", () => app.commit({ ...app.state, heads: app.state.heads.slice(0, -1) }), () => app.state.heads.length > 1],
      ["Random biases", () => app.commit({ ...app.state, heads: app.state.heads.map(keys => keys.map(([x, y]) => [x, y, Math.round(200 * Math.random() - 100) / 100])) })],
      ["No biases", () => app.commit({ ...app.state, heads: app.state.heads.map(keys => keys.map(([x, y]) => [x, y, 0])) })],
    ]);
  },
};
