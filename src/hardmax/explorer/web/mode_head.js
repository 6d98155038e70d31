// The page's first mode: one head, its keys and their cells.

import { corners, inside, shownPart } from "./polygons.js";
import { headCells } from "./head.js";
import { css, mixed } from "./draw.js";
import { blend, clearPart, marginNeeded, winnerAt } from "./softmax.js";
import { counted, named, shownNumber, snapped } from "./words.js";
import { LIMITS } from "./state.js";

const picture = typeof document === "undefined" ? null : document.createElement("canvas");
const isSoft = state => state.rule === "hardmax" && state.temperature > 0;
const keyOf = id => Number(id.slice(1));
const replaced = (state, j, key) => ({ ...state, keys: state.keys.map((one, i) => (i === j ? key : one)) });
// the slider is logarithmic; its left end is temperature zero
const LOWEST = -2, HIGHEST = 1;

// Cells with what is seen of them, found once per result.
export function shapesOf(result, half) {
  if (result.shownIn !== half) {
    result.shownIn = half;
    result.shapes = result.cells.flatMap(cell => {
      const part = shownPart(cell.polygon, half * 1.02);
      return part ? [[cell, corners(part), part.edges]] : [];
    });
  }
  return result.shapes;
}

function greyKeys({ state, result }) {
  if (state.rule === "hardmax") return new Set([...result.beaten].filter(([, why]) => why.by).map(([j]) => j));
  const used = new Set(result.cells.flatMap(cell => cell.set));
  return new Set(state.keys.map((_, j) => j).filter(j => !used.has(j)));
}

// Why a key has no cell of its own, in words.
function reason({ state, result }, j) {
  const why = result.beaten.get(j);
  if (!why) return "";
  if (why.same !== undefined) return `Key ${j} is the same as key ${why.same}: they win together and count once.`;
  if (state.rule !== "hardmax" && result.cells.some(cell => cell.set.includes(j))) return `Key ${j} never wins alone, but it shares cells with others.`;
  const rivals = named("key", why.by);
  const flat = state.scores === "attention" && state.keys.every(([, , b]) => b === 0);
  return flat
    ? `Key ${j} never wins: it lies in the convex hull of ${rivals}, so one of them always scores at least as much.`
    : `Key ${j} never wins: wherever it could, ${why.by.length === 1 ? "" : "one of "}${rivals} scores at least as much.`;
}

export const headMode = {
  title: "One head",
  boards: [{ name: "plane", label: "The plane of queries, cut into the cells of the keys" }],
  compute: headCells,
  half: state => state.half,

  draw(board, paint, { state, result, palette, hover, selected, moving }) {
    const { half, keys } = state, grey = greyKeys({ state, result }), soft = isSoft(state);
    const colourOf = set => mixed(set.slice(0, 12).map(j => palette.fill(j)));
    if (soft) {
      // while a key moves the picture is coarser, so that many keys stay smooth
      blend(picture, result.head, half, state.temperature, palette.fill, moving ? Math.round(Math.max(48, 160 - keys.length / 2)) : 320);
      paint.image(picture, half);
    }
    const shapes = shapesOf(result, half);
    if (!soft) for (const [cell, shape] of shapes) { const fill = css(colourOf(cell.set)); paint.polygon(shape, { fill, stroke: fill, width: 0.7 }); }
    if (soft) {
      const margin = marginNeeded(keys.length, state.temperature);
      for (const [cell, shape] of shapes) {
        const clear = clearPart(result.head, cell, margin, half * 1.02), inner = clear && corners(clear);
        paint.rings(inner ? [shape, inner] : [shape], { fill: palette.ink, alpha: 0.13, rule: "evenodd" });
        if (inner) paint.polygon(inner, { stroke: palette.ink, width: 1, dash: [4, 4], alpha: 0.55 });
      }
    }
    for (const [, shape] of shapes) paint.polygon(shape, { stroke: palette.ink, width: result.cells.length > 400 ? 0.6 : 1.3, alpha: soft ? 0.8 : 0.9 });
    if (hover?.shape) paint.polygon(hover.shape, { stroke: palette.ink, width: 3.2 });
    if (state.scores === "power") for (const [j, [x, y, w]] of keys.entries()) {
      if (w > 0) paint.dot([x, y], Math.sqrt(w) / half * board.width / 2, { stroke: css(palette.strong(j)), width: 1, dash: [2, 3] });
    }
    if (state.scores === "attention") paint.segments([[[-half * 0.02, 0], [half * 0.02, 0]], [[0, -half * 0.02], [0, half * 0.02]]], { stroke: palette.ink, width: 1 });
    const why = selected && result.beaten.get(keyOf(selected));
    if (why?.by && grey.has(keyOf(selected))) {
      paint.polygon(why.by.map(l => keys[l].slice(0, 2)), { stroke: palette.ink, width: 2, dash: [6, 4] });
      why.by.forEach(l => paint.dot(keys[l].slice(0, 2), 11, { stroke: palette.ink, width: 2 }));
    }
    for (const at of state.points) paint.dot(at, 3.4, { fill: palette.ink, stroke: palette.paper, width: 1.4 });
  },

  handles(board, { state, result, palette }) {
    const grey = greyKeys({ state, result });
    return state.keys.map(([x, y, w], j) => ({
      id: `k${j}`, at: [x, y], text: state.keys.length > 60 ? "" : String(j), small: state.keys.length > 60, grey: grey.has(j),
      colour: grey.has(j) ? palette.grey : css(palette.strong(j)),
      label: `Key ${j} at ${shownNumber(x)}, ${shownNumber(y)}${w ? `, weight ${shownNumber(w)}` : ""}${grey.has(j) ? ", never wins" : ""}`,
    }));
  },

  move: (state, id, at) => replaced(state, keyOf(id), [...at.map(x => snapped(x, state.half)), state.keys[keyOf(id)][2]]),
  add(state, at) {
    if (state.keys.length >= LIMITS.keys) return null;
    return { state: { ...state, keys: [...state.keys, [...at.map(x => snapped(x, state.half)), 0]] }, id: `k${state.keys.length}` };
  },
  remove: (state, id) => (state.keys.length > 1 ? { ...state, keys: state.keys.filter((_, j) => j !== keyOf(id)) } : null),
  weight: (state, id) => state.keys[keyOf(id)]?.[2],
  weigh: (state, id, weight) => replaced(state, keyOf(id), [...state.keys[keyOf(id)].slice(0, 2), weight]),

  hover(board, [x, y], { state, result }) {
    const [cell, shape] = shapesOf(result, state.half).find(one => inside(one[1], x, y)) ?? [];
    if (!cell) return null;
    const { best, margin, probability } = winnerAt(result.head, x, y, state.temperature);
    if (state.rule !== "hardmax") return { shape, text: `Here ${named("key", cell.set)} ${cell.set.length === 1 ? "wins" : "win together"}.` };
    const clear = margin >= marginNeeded(state.keys.length, state.temperature) ? "enough to be sure of 99 %" : "too little to be sure of 99 %";
    return { shape, text: `Here ${named("key", cell.set)} ${cell.set.length === 1 ? "wins" : "win"} by a margin of ${shownNumber(margin)}${isSoft(state) ? `: probability ${(100 * probability).toFixed(1)} %, ${clear}` : ""}.` };
  },

  headline(context) {
    const { state, result } = context, grey = greyKeys(context).size;
    const what = { hardmax: "cell", "top-2": "cell of pairs", sparsemax: "cell of supports" }[state.rule];
    const same = [...result.beaten.values()].filter(why => why.same !== undefined).length;
    const lines = [`${counted(state.keys.length, "key")}${grey ? `; ${grey} ${grey === 1 ? "never wins" : "never win"}` : ", all of them can win"}${same ? `; ${same} the same as another` : ""}.`];
    return { number: result.count, noun: result.count === 1 ? what : what.replace("cell", "cells"), lines };
  },

  controls(ui, app) {
    ui.choice("Scores", [["attention", "Attention"], ["power", "Power"], ["voronoi", "Voronoi"]], () => app.state.scores, scores => app.commit({ ...app.state, scores }));
    ui.note(() => ({
      attention: "A query goes to the key with the largest inner product plus weight. Without weights the cells are cones from the origin, and a key need not lie in its own cell: colours tell which belong together.",
      power: "A query goes to the key of least squared distance minus weight. Circles show the weights.",
      voronoi: "A query goes to the nearest key. Weights are ignored, and no cell is ever lost.",
    })[app.state.scores]);
    ui.choice("Rule", [["hardmax", "Hardmax"], ["top-2", "Top-2"], ["sparsemax", "Sparsemax"]], () => app.state.rule, rule => app.commit({ ...app.state, rule, temperature: rule === "sparsemax" ? app.state.temperature || 0.5 : app.state.temperature }));
    const shown = () => (app.state.temperature ? Math.log10(app.state.temperature) : LOWEST - 0.05);
    ui.slider("Temperature", {
      min: LOWEST - 0.05, max: HIGHEST, step: 0.05, get: shown, show: () => shownNumber(app.state.temperature),
      set: (value, moving) => app.commit({ ...app.state, temperature: value < LOWEST ? (app.state.rule === "sparsemax" ? 0.01 : 0) : Number((10 ** value).toPrecision(3)) }, moving),
      when: () => app.state.rule !== "top-2",
    });
    ui.note(() => (isSoft(app.state) ? `Colours blend as softmax weighs the keys. Shaded: the margin is below ${shownNumber(marginNeeded(app.state.keys.length, app.state.temperature))}, and no bound on it alone promises the winner 99 %.` : app.state.rule === "hardmax" ? "At temperature 0 one key takes all. Raise it to see softmax." : app.state.rule === "top-2" ? "The two best keys share equally." : "Only keys close to the best share; the rest get exactly zero."));
    ui.note(() => (app.selected && app.result ? reason(app, keyOf(app.selected)) : ""), "note reason");
  },
};
