// A board: a canvas for what is drawn, and above it handles that pointer, finger and keyboard move.

import { CanvasPainter, SvgPainter } from "./draw.js";

const SVG = "http://www.w3.org/2000/svg";

export class Board {
  // `acts` is told about move(id, point), drop(id), pick(id), press(id, event), add(point), hover(point or null).
  constructor(host, { name, label, square = true }, acts) {
    Object.assign(this, { name, acts, square, half: 1, width: 300, height: 300, shown: [] });
    this.element = document.createElement("div");
    this.element.className = `board ${name}`;
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.layer = document.createElementNS(SVG, "svg");
    this.layer.setAttribute("role", "group");
    this.layer.setAttribute("aria-label", `${label}: handles`);
    this.element.append(this.canvas, this.layer);
    host.append(this.element);
    this._listen();
  }

  place = ([x, y]) => [this.width / 2 + x / this.half * this.width / 2, this.height / 2 - y / this.half * this.width / 2];

  world = ([px, py]) => [(px - this.width / 2) / (this.width / 2) * this.half, (this.height / 2 - py) / (this.width / 2) * this.half];

  get halfHeight() { return this.half * this.height / this.width; }

  _point(event) {
    const box = this.element.getBoundingClientRect();
    return this.world([event.clientX - box.left - this.element.clientLeft, event.clientY - box.top - this.element.clientTop]);
  }

  _listen() {
    const { element, layer, acts } = this;
    element.addEventListener("pointermove", event => { if (!this.dragged) acts.hover(this._point(event)); });
    element.addEventListener("pointerleave", () => acts.hover(null));
    element.addEventListener("click", event => { if (!event.target.closest(".handle")) acts.hover(this._point(event)); });
    element.addEventListener("dblclick", event => { if (!event.target.closest(".handle")) acts.add(this._point(event)); });
    layer.addEventListener("pointerdown", event => {
      const handle = event.target.closest(".handle");
      if (!handle || event.button) return;
      event.preventDefault();
      handle.focus({ preventScroll: true });
      handle.setPointerCapture(event.pointerId);
      this.dragged = { id: handle.dataset.id, pointer: event.pointerId, moved: false };
      acts.pick(handle.dataset.id);
    });
    layer.addEventListener("pointermove", event => {
      if (!this.dragged || event.pointerId !== this.dragged.pointer) return;
      this.dragged.moved = true;
      acts.move(this.dragged.id, this._point(event));
    });
    for (const end of ["pointerup", "pointercancel"]) {
      layer.addEventListener(end, event => {
        if (!this.dragged || event.pointerId !== this.dragged.pointer) return;
        const { id, moved } = this.dragged;
        this.dragged = null;
        if (moved) acts.drop(id);
      });
    }
    layer.addEventListener("keydown", event => {
      const handle = event.target.closest(".handle");
      if (handle) acts.press(handle.dataset.id, event);
    });
    layer.addEventListener("focusin", event => {
      const handle = event.target.closest(".handle");
      if (handle && !this.dragged) acts.pick(handle.dataset.id);
    });
  }

  // Fit the canvas to its place on the page and to the pixels of the screen.
  fit() {
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    this.width = Math.max(1, this.element.clientWidth);
    this.height = Math.max(1, this.element.clientHeight);
    const w = Math.round(this.width * ratio), h = Math.round(this.height * ratio);
    if (this.canvas.width !== w || this.canvas.height !== h) { this.canvas.width = w; this.canvas.height = h; }
    this.ratio = ratio;
    this.layer.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
  }

  painter(palette) {
    const context = this.canvas.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = palette.paper;
    context.fillRect(0, 0, this.width, this.height);
    return new CanvasPainter(context, this.place, palette);
  }

  svgPainter(palette) { return new SvgPainter(this.width, this.height, this.place, palette); }

  // Handles: {id, at, text, colour, label, grey, shape}. Elements are kept, so that focus and dragging survive.
  handles(list, selected) {
    const { layer } = this;
    while (layer.children.length > list.length) layer.lastChild.remove();
    while (layer.children.length < list.length) layer.append(newHandle());
    const tabbable = list.some(one => one.id === selected) ? selected : list[0]?.id;
    list.forEach((one, i) => {
      const handle = layer.children[i], [x, y] = this.place(one.at);
      const before = this.shown[i] ?? {};
      handle.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      if (before.id !== one.id) handle.dataset.id = one.id;
      const classes = `handle${one.grey ? " grey" : ""}${one.id === selected ? " selected" : ""}${one.small ? " small" : ""}`;
      if (before.classes !== classes) handle.setAttribute("class", classes);
      if (before.label !== one.label) handle.setAttribute("aria-label", one.label);
      const tab = one.id === tabbable ? "0" : "-1";
      if (before.tab !== tab) handle.setAttribute("tabindex", tab);
      if (before.colour !== one.colour) handle.children[1].setAttribute("fill", one.colour);
      if (before.text !== one.text) handle.children[2].textContent = one.text;
      this.shown[i] = { id: one.id, classes, label: one.label, tab, colour: one.colour, text: one.text };
    });
    this.shown.length = list.length;
  }

  focus(id) { [...this.layer.children].find(handle => handle.dataset.id === id)?.focus(); }
}

function newHandle() {
  const handle = document.createElementNS(SVG, "g");
  handle.setAttribute("role", "button");
  const parts = [["circle", { r: 18, class: "touch" }], ["circle", { r: 6, class: "knob" }], ["text", { x: 9, y: -9 }]];
  for (const [name, attributes] of parts) {
    const part = document.createElementNS(SVG, name);
    Object.entries(attributes).forEach(([key, value]) => part.setAttribute(key, value));
    handle.append(part);
  }
  return handle;
}
