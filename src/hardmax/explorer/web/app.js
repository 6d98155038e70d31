// The page: one state, drawn on every change, confirmed when a change is finished.
//
// While something moves, counts are floats and the badge says so. After a release the same cells are computed in
// integers, and where the page was served by hardmax, or stands in a notebook, the library is asked as well.

import { Board } from "./board.js";
import { Controls, element } from "./controls.js";
import { paletteOf } from "./draw.js";
import { headMode } from "./mode_head.js";
import { headsMode } from "./mode_heads.js";
import { depthMode } from "./mode_depth.js";
import { flowMode } from "./mode_flow.js";
import { pythonOf } from "./python.js";
import { History, addressOf, checkedState, stateOfAddress } from "./state.js";
import { snapped } from "./words.js";

const MODES = { head: headMode, heads: headsMode, depth: depthMode, flow: flowMode };
const find = id => document.getElementById(id);

// The answer of the library: {count} or {error}.
async function askServer(state) {
  const answer = await fetch("answer", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(state) });
  return answer.json();
}

// The frame around the page hands questions on to Python, which also learns the state (see widget.js).
function askNotebook(state) {
  return new Promise(done => {
    const id = crypto.getRandomValues(new Uint32Array(1))[0];
    const hear = event => {
      if (event.source !== parent || event.data?.id !== id) return;
      window.removeEventListener("message", hear);
      done(event.data);
    };
    window.addEventListener("message", hear);
    parent.postMessage({ id, state }, "*");
  });
}

class App {
  constructor({ scenes, asks, first }) {
    this.scenes = scenes;
    this.ask = { server: askServer, notebook: askNotebook }[asks];
    this.boards = [];
    this.selected = null;
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    const asked = stateOfAddress(location.hash, scenes);
    if (location.hash && !asked) this.say("The link could not be read; here is the first scene instead.");
    this.state = asked ?? checkedState(first);
    this.history = new History(this.state);
    this._tabs();
    this._sceneList();
    this._buttons();
    this.enter();
    window.addEventListener("hashchange", () => { const next = stateOfAddress(location.hash, scenes); if (next) this.commit(next); });
    window.addEventListener("keydown", event => this._shortcut(event));
    this.dark.addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(find("boards"));
  }

  get mode() { return MODES[this.state.mode]; }

  get palette() { return paletteOf(this.theme ? this.theme === "dark" : this.dark.matches); }

  // Changing the state -----------------------------------------------------------------------------------

  // A finished change is confirmed, kept for undo and written into the address; a moving one is only drawn.
  commit(state, moving = false) {
    const entered = state.mode !== this.state.mode || (state.mode === "depth" && state.blocks.length !== this.state.blocks.length);
    this.state = state;
    this.moving = moving;
    if (!moving) this.history.keep(state);
    if (entered) this.enter();
    else this.draw();
    this.confirmed = null;
    clearTimeout(this.waiting);
    if (!moving) this._finish();
  }

  _finish() {
    // a frame in a notebook has no address of its own
    if (location.protocol !== "about:") window.history.replaceState(null, "", addressOf(this.state, this.scenes));
    this.waiting = setTimeout(() => this.confirm(), 30);
  }

  // Boards and controls of a mode.
  enter() {
    const host = find("boards");
    host.className = `boards ${this.state.mode}`;
    host.replaceChildren();
    this.selected = null;
    this.hovered = null;
    this.boards = this.mode.boards.map(description => {
      const figure = element("figure", { class: `at-${description.name}` });
      host.append(figure);
      const board = new Board(figure, description, this._acts(() => board));
      if (description.caption) figure.append(element("figcaption", {}, description.caption));
      return board;
    });
    this.controls = new Controls(find("controls"));
    this.mode.controls(this.controls, this);
    this._keyControls();
    for (const tab of find("tabs").children) tab.setAttribute("aria-pressed", String(tab.dataset.mode === this.state.mode));
    this.draw();
    this._finish();
  }

  _acts(boardOf) {
    return {
      move: (id, at) => this.commit(this.mode.move(this.state, id, at), true),
      drop: () => this.commit(this.state),
      pick: id => { this.selected = id; this.draw(); },
      add: at => this.add(at, boardOf()),
      hover: at => { this.hovered = at && { board: boardOf(), at }; this.draw(); },
      press: (id, event) => this._press(id, event, boardOf()),
    };
  }

  add(at, board = null) {
    const added = this.mode.add(this.state, at, board, this.selected);
    if (!added) return;
    this.selected = added.id;
    this.commit(added.state);
  }

  remove() {
    const next = this.selected && this.mode.remove(this.state, this.selected);
    if (!next) return;
    this.selected = null;
    this.commit(next);
  }

  _press(id, event, board) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (steps && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      const list = this.mode.handles(board, this._context()), at = list.find(one => one.id === id).at;
      const step = board.half * (event.shiftKey ? 0.01 : 0.05);
      this.commit(this.mode.move(this.state, id, at.map((x, i) => x + steps[i] * step)));
    } else if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      this.remove();
      board.layer.querySelector("[tabindex='0']")?.focus();
    } else if (event.key === "+" || event.key === "-") {
      const weight = this.mode.weight(this.state, id);
      if (weight !== undefined) this.commit(this.mode.weigh(this.state, id, snapped(weight + (event.key === "+" ? 1 : -1) * this.state.half / 20, this.state.half)));
    } else if (event.key === "n" || event.key === "p") {
      const list = this.mode.handles(board, this._context()), i = list.findIndex(one => one.id === id);
      board.focus(list[(i + (event.key === "n" ? 1 : list.length - 1)) % list.length].id);
    }
  }

  _shortcut(event) {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
    event.preventDefault();
    this.turn(event.shiftKey ? this.history.redo() : this.history.undo());
  }

  turn(state) {
    if (state) this.commit(state);
  }

  // Drawing ----------------------------------------------------------------------------------------------

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = null; this._draw(); });
  }

  _context() {
    return { state: this.state, result: this.result, palette: this.palette, hover: this.hover, selected: this.selected, moving: this.moving };
  }

  _draw() {
    // computed again only when the state is another one; hovering draws what is there
    if (this.computed !== this.state) {
      this.result = this.mode.compute(this.state, false);
      this.computed = this.state;
      this.confirmed = null;
    }
    const { mode, state, result } = this;
    for (const board of this.boards) {
      board.fit();
      if (!board.dragged) board.half = mode.half(state, board.name, result); // no zoom under the finger
    }
    this.hover = this.hovered && mode.hover(this.hovered.board, this.hovered.at, this._context());
    const context = this._context();
    for (const board of this.boards) {
      mode.draw(board, board.painter(context.palette), context);
      board.handles(mode.handles(board, context), this.selected);
    }
    this.controls.refresh();
    this._headline();
  }

  _headline() {
    const { number, noun, lines } = this.mode.headline(this._context());
    find("count").textContent = `${number.toLocaleString("en")}${this.result.complete ? "" : "+"}`;
    find("noun").textContent = noun;
    find("lines").replaceChildren(...lines.map(line => element("p", {}, line)));
    const badge = find("badge"), told = this.confirmed;
    badge.dataset.state = told ? told.kind : "live";
    badge.textContent = told ? told.text : "live, floating point";
    badge.title = told?.more ?? "While something moves, the count is made with floats and may be wrong where keys tie.";
    find("hover").textContent = this.hover?.text ?? this.mode.hint ?? "Point at a cell to see who wins there.";
    find("undo").disabled = !this.history.past.length;
    find("redo").disabled = !this.history.future.length;
    this._sceneText();
  }

  // Confirming -------------------------------------------------------------------------------------------

  async confirm() {
    const { state } = this;
    if (this.computed !== state) this._draw();
    const live = this.result.count;
    const exact = this.mode.compute(state, true);
    this.result = exact;
    const flow = state.mode === "flow";
    const more = flow ? "All scores are whole numbers, so nothing was rounded." : `Decided in integers, without rounding.${live === exact.count ? "" : ` Floats had said ${live}.`}`;
    this.confirmed = exact.complete ? { kind: "exact", text: "exact", more } : { kind: "partial", text: "incomplete: too many cells", more: "The count was stopped." };
    if (flow) exact.count = exact.known.length;
    this.draw();
    if (!this.ask || !exact.complete) return;
    try {
      const told = await this.ask(state);
      if (this.state !== state) return;
      if (told.error) this.confirmed = { ...this.confirmed, more: `${more} Python: ${told.error}` };
      else if (told.count === exact.count) this.confirmed = { kind: "exact", text: "exact, Python agrees", more: `${more} The library found the same.` };
      else this.confirmed = { kind: "differs", text: `Python counts ${told.count}`, more: "The page and the library differ: please report the link of this page." };
    } catch {
      this.confirmed = { ...this.confirmed, more: `${more} The server does not answer any more.` };
    }
    this.draw();
  }

  // Around the boards ------------------------------------------------------------------------------------

  _tabs() {
    find("tabs").replaceChildren(...Object.entries(MODES).map(([name, mode]) =>
      element("button", { type: "button", "data-mode": name, onclick: () => this.commit(this.scenes.find(scene => scene.state.mode === name).state) }, mode.title)));
  }

  _sceneList() {
    find("scenes").replaceChildren(...this.scenes.map(scene =>
      element("li", {}, element("button", { type: "button", "data-scene": scene.name, onclick: () => { this.scene = scene; this.commit(scene.state); } },
        element("b", {}, scene.title), element("small", {}, scene.from)))));
  }

  // The text of a scene stays while one plays with it, and goes with its mode.
  _sceneText() {
    const text = JSON.stringify(this.state);
    const same = this.scenes.find(scene => JSON.stringify(scene.state) === text);
    if (same) this.scene = same;
    if (this.scene && this.scene.state.mode !== this.state.mode) this.scene = null;
    for (const item of find("scenes").children) {
      const button = item.firstChild;
      if (button.dataset.scene === this.scene?.name) {
        if (!button.hasAttribute("aria-current")) find("scenes").scrollLeft = item.offsetLeft - find("scenes").offsetLeft; // a strip on phones
        button.setAttribute("aria-current", "true");
      } else button.removeAttribute("aria-current");
    }
    find("scene-title").textContent = this.scene?.title ?? this.mode.title;
    find("scene-text").textContent = this.scene?.text ?? "A state of your own. The link of this page holds it.";
    find("scene-question").textContent = this.scene?.question ?? "";
  }

  _keyControls() {
    const weight = () => (this.selected === null || !this.mode.weight ? undefined : this.mode.weight(this.state, this.selected));
    const range = this.state.mode === "flow" ? 1 : this.state.half ** (this.state.scores === "power" ? 2 : 1);
    this.controls.slider("Weight (bias) of the selected key", {
      min: -range, max: range, step: snapped(range / 100, range) || range / 100, get: () => weight() ?? 0, show: () => String(weight() ?? 0),
      set: (value, moving) => this.commit(this.mode.weigh(this.state, this.selected, value), moving), when: () => weight() !== undefined,
    });
    if (this.state.mode === "depth") return;
    const word = this.state.mode === "flow" ? "token" : "key";
    this.controls.buttons([
      [`Add a ${word}`, () => { const board = this.boards.find(one => ["keys", "tokens"].includes(one.name)) ?? this.boards[0]; this.add([0.5, 0.37].map(x => x * board.half * (Math.random() - 0.5) * 2)); }],
      [`Remove the ${word}`, () => this.remove(), () => this.selected !== null],
    ]);
  }

  _buttons() {
    find("undo").addEventListener("click", () => this.turn(this.history.undo()));
    find("redo").addEventListener("click", () => this.turn(this.history.redo()));
    find("python").addEventListener("click", () => this.copy(pythonOf(this.state), "The Python program is in the clipboard."));
    find("link").hidden = location.protocol === "about:";
    find("link").addEventListener("click", () => this.copy(location.href, "The link is in the clipboard."));
    find("svg").addEventListener("click", () => this.saveSvg());
    const lamp = find("theme");
    lamp.addEventListener("click", () => {
      this.theme = this.palette.dark ? "light" : "dark";
      document.documentElement.dataset.theme = this.theme;
      lamp.textContent = this.palette.dark ? "Light" : "Dark";
      this.draw();
    });
    lamp.textContent = this.palette.dark ? "Light" : "Dark";
  }

  say(text) { find("said").textContent = text; }

  async copy(text, done) {
    const shown = find("copied");
    try { await navigator.clipboard.writeText(text); this.say(done); shown.hidden = true; } catch {
      shown.hidden = false; // a page from disk may not be allowed to write to the clipboard
      shown.value = text;
      shown.select();
      this.say("Copy the text below.");
    }
  }

  saveSvg() {
    const board = this.boards[0], context = this._context(), paint = board.svgPainter(context.palette);
    this.mode.draw(board, paint, { ...context, hover: null, moving: false });
    for (const one of this.mode.handles(board, context)) {
      paint.dot(one.at, one.small ? 3 : 6, { fill: one.colour, stroke: context.palette.paper, width: 1.5 });
      if (one.text) paint.words(one.at, one.text, { size: 12, colour: context.palette.ink, anchor: "left", dx: 8, dy: -8 });
    }
    const address = URL.createObjectURL(new Blob([paint.toString()], { type: "image/svg+xml" }));
    element("a", { href: address, download: `hardmax-${this.state.mode}.svg` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
    this.say("The drawing was saved as SVG.");
  }
}

export function start() { return new App(JSON.parse(find("data").textContent)); }
