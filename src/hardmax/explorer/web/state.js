// What the page shows, as plain numbers: checked, kept in the address, and undone. See states.py.

export const LIMITS = { keys: 200, headKeys: 60, heads: 6, blocks: 8, units: 32, tokens: 24 };

class Wrong extends Error {}
const wrong = text => { throw new Wrong(text); };
const list = (value, least, most) => (Array.isArray(value) && value.length >= least && value.length <= most ? value : wrong("a list has the wrong length"));
const number = value => (typeof value === "number" && Math.abs(value) <= 1e6 ? value : wrong("a number is not finite or too large")); // NaN fails too
const numbers = (value, least, most = least) => list(value, least, most).map(number);
const rows = (value, columns, least, most) => list(value, least, most).map(row => numbers(row, columns));
const oneOf = (value, allowed) => (allowed.includes(value) ? value : wrong("a word is not known"));
const truth = value => (typeof value === "boolean" ? value : wrong("a switch is neither on nor off"));
const half = value => (number(value) > 1e-6 ? value : wrong("the square that is shown has no size"));
const whole = value => (Number.isInteger(number(value)) && Math.abs(value) <= 10000 ? value : wrong("a number is not whole"));

const checks = {
  head: s => ({
    scores: oneOf(s.scores, ["attention", "power", "voronoi"]),
    rule: oneOf(s.rule, ["hardmax", "top-2", "sparsemax"]),
    temperature: number(s.temperature) >= 0 ? s.temperature : wrong("a temperature is negative"),
    half: half(s.half), keys: rows(s.keys, 3, 1, LIMITS.keys), points: rows(s.points ?? [], 2, 0, LIMITS.keys),
  }),
  heads: s => ({ half: half(s.half), heads: list(s.heads, 1, LIMITS.heads).map(keys => rows(keys, 3, 1, LIMITS.headKeys)) }),
  depth: s => {
    let width = 2;
    const blocks = list(s.blocks, 1, LIMITS.blocks).map(block => {
      if (block.kind === "relu") {
        const w_in = rows(block.w_in, width, 1, LIMITS.units), w_out = rows(block.w_out, w_in.length, 1, LIMITS.units);
        const made = { kind: "relu", w_in, b_in: numbers(block.b_in, w_in.length), w_out, b_out: numbers(block.b_out, w_out.length), skip: truth(block.skip) };
        if (made.skip && w_out.length !== width) wrong("a skip connection changes its width");
        width = w_out.length;
        return made;
      }
      oneOf(block.kind, ["attention"]);
      const scores = list(block.scores, 1, 4).map(keys => rows(keys, width, 1, LIMITS.units));
      return {
        kind: "attention", scores,
        biases: list(block.biases, scores.length, scores.length).map((row, h) => numbers(row, scores[h].length)),
        outputs: list(block.outputs, scores.length, scores.length).map((keys, h) => rows(keys, width, scores[h].length, scores[h].length)),
        skip: truth(block.skip),
      };
    });
    const shown = s.shown ?? blocks.length;
    if (!Number.isInteger(shown) || shown < 0 || shown > blocks.length) wrong("there is no such layer");
    return { half: half(s.half), shown, blocks };
  },
  flow: s => {
    const forms = list(s.forms, 1, 6).map(form => rows(form, 2, 2, 2).map(row => row.map(whole)));
    return {
      tokens: rows(s.tokens, 2, 1, LIMITS.tokens).map(row => row.map(whole)), forms,
      first: list(s.first, forms.length, forms.length).map(truth), last: list(s.last, forms.length, forms.length).map(truth),
    };
  },
};

export function checkedState(given) {
  const mode = oneOf(given?.mode, Object.keys(checks));
  const state = { mode, ...checks[mode](given) };
  if (mode === "head" && state.rule === "sparsemax" && state.temperature === 0) state.temperature = 0.5;
  return state;
}

// The address: "#scene=name" for a scene as it came, "#state=..." (base64url of JSON) for anything else.
export function addressOf(state, scenes) {
  const text = JSON.stringify(state);
  const scene = scenes.find(one => JSON.stringify(one.state) === text);
  if (scene) return `#scene=${scene.name}`;
  return `#state=${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

// The state of an address; null where there is none or it makes no sense.
export function stateOfAddress(hash, scenes) {
  const named = /^#scene=([\w-]{1,40})$/.exec(hash);
  if (named) return scenes.find(one => one.name === named[1])?.state ?? null;
  const coded = /^#state=([\w-]{1,60000})$/.exec(hash);
  if (!coded) return null;
  try {
    return checkedState(JSON.parse(atob(coded[1].replaceAll("-", "+").replaceAll("_", "/"))));
  } catch { return null; }
}

// States that were, and that were undone.
export class History {
  constructor(first) { this.past = []; this.now = JSON.stringify(first); this.future = []; }

  keep(state) {
    const text = JSON.stringify(state);
    if (text === this.now) return;
    this.past.push(this.now);
    if (this.past.length > 200) this.past.shift();
    this.now = text;
    this.future = [];
  }

  undo() { return this._turn(this.past, this.future); }

  redo() { return this._turn(this.future, this.past); }

  _turn(from, to) {
    if (!from.length) return null;
    to.push(this.now);
    this.now = from.pop();
    return JSON.parse(this.now);
  }
}
