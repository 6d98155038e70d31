// The fourth mode: information flow. Tokens as dots, who reads whom, and what the read-out token CLS still knows.

import { bilinear, informationFlow } from "./flow.js";
import { css } from "./draw.js";
import { named, shownNumber } from "./words.js";
import { LIMITS } from "./state.js";

const tokenOf = id => Number(id.slice(1));
const UNIT = 100; // tokens are kept in hundredths
const names = list => (list.length ? `{${list.map(t => `x${t + 1}`).join(", ")}}` : "{}");

// Places on the board of layers: tokens from left to right with CLS last, layers from bottom to top.
function placesOf(state, board) {
  const n = state.tokens.length, top = board.halfHeight;
  const across = t => (n === 0 ? 0 : -0.86 + 1.72 * t / n);
  return (t, layer) => [across(t), top * (-0.72 + 0.68 * layer)];
}

function arrow(paint, from, to, style) { paint.segments([[from, to]], style); }

function drawTokens(board, paint, { state, result, palette, hover }) {
  paint.segments([[[-board.half, 0], [board.half, 0]], [[0, -board.half], [0, board.half]]], { stroke: palette.rule, width: 1 });
  const at = t => state.tokens[t].map(x => x / UNIT);
  result.needed.forEach((needed, h) => {
    if (needed.length === 2) paint.segments([[at(needed[0]), at(needed[1])]], { stroke: palette.heads[h], width: 6, alpha: 0.3 });
    else needed.forEach(t => paint.dot(at(t), 14, { fill: palette.heads[h], alpha: 0.3 }));
  });
  if (hover?.token !== undefined) result.reads.forEach((winners, h) => {
    if (winners && winners[hover.token] !== hover.token) arrow(paint, at(hover.token), at(winners[hover.token]), { stroke: palette.heads[h], width: 2.2 });
  });
  result.known.forEach(t => paint.dot(at(t), 12, { stroke: palette.ink, width: 2.2 }));
}

function drawLayers(board, paint, { state, result, palette, hover }) {
  const n = state.tokens.length, place = placesOf(state, board), few = n <= 12;
  const text = { size: few ? 12 : 9, colour: palette.ink };
  const colour = t => css(palette.strong(t));
  const used = new Set(result.cls.filter(t => t !== null));
  const lit = t => hover?.token === undefined ? used.has(t) : hover.token === t;
  for (let t = 0; t < n; t++) paint.segments([[place(t, 0), place(t, 1)]], { stroke: palette.grey, width: lit(t) ? 2.4 : 1.2, alpha: lit(t) ? 1 : 0.5 });
  result.reads.forEach((winners, h) => winners?.forEach((from, t) => {
    if (from !== t) arrow(paint, place(from, 0), place(t, 1), { stroke: palette.heads[h], width: lit(t) ? 2.6 : 1.1, alpha: lit(t) ? 1 : 0.35 });
  }));
  result.cls.forEach((t, h) => { if (t !== null) arrow(paint, place(t, 1), place(n, 2), { stroke: palette.heads[h], width: 2.6 }); });
  const ring = { stroke: palette.ink, width: 2.2 };
  for (let t = 0; t < n; t++) {
    const needed = result.active.includes(t), got = result.known.includes(t);
    paint.dot(place(t, 0), few ? 13 : 9, { fill: needed ? (got ? colour(t) : palette.paper) : palette.wash, stroke: needed ? colour(t) : palette.grey, width: needed ? 2.6 : 1.2, dash: needed && !got ? [3, 3] : undefined });
    paint.words(place(t, 0), `x${t + 1}`, { ...text, colour: needed && got ? palette.paper : palette.ink, weight: needed ? 700 : 400, size: few ? 11 : 8 });
    paint.dot(place(t, 1), few ? 6 : 4, { fill: used.has(t) ? palette.ink : palette.soft });
    if (few) paint.words(place(t, 1), result.sets[t].map(s => s + 1).join(" "), { ...text, size: 12, anchor: "left", dx: 10, dy: -3, colour: used.has(t) ? palette.ink : palette.soft, weight: used.has(t) ? 700 : 400 });
  }
  paint.dot(place(n, 2), 15, { fill: palette.paper, ...ring });
  paint.words(place(n, 2), "CLS", { ...text, size: 11, weight: 700 });
  paint.words(place(n, 2), `knows ${names(result.known)}`, { ...text, anchor: "right", dx: -24, size: 13, weight: 700 });
  ["input", "after layer 1", "after layer 2"].forEach((word, layer) => paint.words([-0.98, place(0, layer)[1]], word, { size: 11, colour: palette.soft, anchor: "left", dy: layer === 2 ? 0 : -26 }));
}

const switched = (list, i, value) => list.map((x, j) => (i === j ? value : x));

export const flowMode = {
  title: "Information flow",
  hint: "Point at a token to see what it fetches.",
  boards: [
    { name: "tokens", label: "Tokens as vectors in the plane" , caption: "Tokens: drag the vectors. A thick line joins the pair that a term needs; rings mark what CLS knows." },
    { name: "layers", label: "Which token reads which, layer by layer, up to the read-out token CLS", caption: "Layers, from the bottom up. Beside each token: what it holds after layer 1.", square: false },
  ],
  compute: state => ({ ...informationFlow(state), complete: true }),
  half: (state, board) => (board === "tokens" ? 1.2 * Math.max(1, ...state.tokens.flat().map(x => Math.abs(x) / UNIT)) : 1),

  draw(board, paint, context) { (board.name === "tokens" ? drawTokens : drawLayers)(board, paint, context); },

  handles(board, { state, result, palette }) {
    if (board.name !== "tokens") return [];
    return state.tokens.map(([x, y], t) => ({
      id: `t${t}`, at: [x / UNIT, y / UNIT], text: `x${t + 1}`, colour: css(palette.strong(t)),
      label: `Token x${t + 1} at ${x / UNIT}, ${y / UNIT}${result.active.includes(t) ? ", needed" : ""}${result.known.includes(t) ? ", known to CLS" : ""}`,
    }));
  },

  move: (state, id, at) => ({ ...state, tokens: state.tokens.map((x, t) => (t === tokenOf(id) ? at.map(y => Math.max(-10000, Math.min(10000, Math.round(UNIT * y)))) : x)) }),
  add(state, at, board) {
    if ((board && board.name !== "tokens") || state.tokens.length >= LIMITS.tokens) return null;
    return { state: { ...state, tokens: [...state.tokens, at.map(y => Math.round(UNIT * y))] }, id: `t${state.tokens.length}` };
  },
  remove: (state, id) => (state.tokens.length > 1 ? { ...state, tokens: state.tokens.filter((_, t) => t !== tokenOf(id)) } : null),
  weight: () => undefined,

  hover(board, at, { state, result }) {
    const n = state.tokens.length, place = placesOf(state, board);
    const spots = board.name === "tokens" ? state.tokens.map(([x, y], t) => [t, [x / UNIT, y / UNIT]]) : [...Array(n).keys()].flatMap(t => [[t, place(t, 0)], [t, place(t, 1)]]);
    const near = spots.find(([, [x, y]]) => Math.hypot(x - at[0], y - at[1]) < 0.09 * board.half);
    if (!near) return null;
    const [token] = near;
    const read = result.reads.flatMap((winners, h) => (winners ? [`head ${h} fetches x${winners[token] + 1}`] : []));
    return { token, text: `x${token + 1}: ${read.length ? `${read.join(", ")}; ` : ""}after layer 1 it holds ${names(result.sets[token])}.` };
  },

  headline({ state, result }) {
    const ok = !result.missing.length;
    return {
      number: result.known.length, noun: `of ${state.tokens.length} tokens known to CLS`,
      lines: [
        `The target depends on ${names(result.active)}. ${ok ? "CLS knows them all." : `Lost: ${names(result.missing)}.`}`,
        ...state.forms.map((M, h) => `Term ${h} needs ${names(result.needed[h])}; its value is ${shownNumber(Math.max(...result.needed[h].flatMap(s => result.needed[h].map(t => bilinear(M, state.tokens[s], state.tokens[t])))) / UNIT ** 2)}.`),
      ],
    };
  },

  controls(ui, app) {
    ui.note(() => "The target adds up, term by term, the largest bilinear form x′Mx over all pairs of tokens. In layer 1 every token fetches its best partner; in layer 2 CLS fetches the token that holds the best pair.");
    const label = h => { const [[a, b], [c, d]] = app.state.forms[h]; return `head ${h}: M = (${a} ${b}; ${c} ${d})`; };
    const on = name => [i => app.state[name][i], (i, value) => app.commit({ ...app.state, [name]: switched(app.state[name], i, value) })];
    ui.switches("Heads of layer 1", () => app.state.forms.length, label, ...on("first"));
    ui.switches("Heads of CLS in layer 2", () => app.state.forms.length, label, ...on("last"));
    const forms = [[[-1, 0], [0, -1]], [[0, 1], [-1, 0]], [[1, 0], [0, -1]], [[0, 1], [1, 0]]];
    ui.buttons([
      ["Add a term and its heads", () => app.commit({ ...app.state, forms: [...app.state.forms, forms[app.state.forms.length % forms.length]], first: [...app.state.first, true], last: [...app.state.last, true] }), () => app.state.forms.length < 6],
      ["Remove last term", () => app.commit({ ...app.state, forms: app.state.forms.slice(0, -1), first: app.state.first.slice(0, -1), last: app.state.last.slice(0, -1) }), () => app.state.forms.length > 1],
    ]);
    ui.note(() => (app.result?.missing.length ? `CLS cannot compute the target: ${named("token", app.result.missing.map(t => `x${t + 1}`))} never reach${app.result.missing.length === 1 ? "es" : ""} it.` : ""), "note reason");
  },
};
