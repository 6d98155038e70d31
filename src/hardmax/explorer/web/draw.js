// Colours, and two painters with the same methods: one for the canvas, one that writes SVG for export.

// OKLCH to sRGB, so that colours of different hue look equally light.
function rgb(lightness, chroma, hue) {
  const a = chroma * Math.cos(hue * Math.PI / 180), b = chroma * Math.sin(hue * Math.PI / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map(x => Math.round(255 * Math.min(1, Math.max(0, x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055))));
}

export const css = ([r, g, b]) => `rgb(${r},${g},${b})`;
export const mixed = colours => [0, 1, 2].map(i => Math.round(colours.reduce((sum, c) => sum + c[i], 0) / colours.length));

// The colours of a theme. Keys get hues a golden angle apart, so neighbours in number differ most.
export function paletteOf(dark) {
  const hue = j => (240 + 137.508 * j) % 360;
  const fills = [], strongs = [];
  const kept = (list, j, make) => (list[j] ??= make(hue(j)));
  const heads = dark ? ["#86b8e6", "#f0955c", "#5fc9a3", "#d795c6", "#d9c257", "#a6adb6"] : ["#1f5a91", "#b8480f", "#1a7a5a", "#8c3f78", "#7d6608", "#565d66"];
  return {
    dark,
    paper: dark ? "#14171b" : "#ffffff", ink: dark ? "#e9ebee" : "#16191d", soft: dark ? "#a6adb6" : "#565d66",
    rule: dark ? "#363c44" : "#d9dce0", grey: dark ? "#8d949d" : "#b4b9c0", wash: dark ? "#1c2026" : "#f4f5f6",
    heads,
    fill: j => kept(fills, j, h => (dark ? rgb(0.4, 0.075, h) : rgb(0.875, 0.075, h))),
    strong: j => kept(strongs, j, h => (dark ? rgb(0.78, 0.12, h) : rgb(0.5, 0.13, h))),
    // from low to high outputs; the middle is the paper, so that zero is seen as an edge between two hues
    scale: dark ? [[63, 140, 206], [35, 64, 93], [28, 32, 38], [94, 55, 26], [226, 128, 62]] : [[31, 90, 145], [152, 187, 217], [248, 248, 247], [244, 192, 152], [196, 84, 24]],
  };
}

// A colour for a value between -1 and 1.
export function heat(palette, value) {
  const { scale } = palette, at = (Math.min(1, Math.max(-1, value)) + 1) / 2 * (scale.length - 1);
  const low = Math.min(scale.length - 2, Math.floor(at)), t = at - low;
  return scale[low].map((x, i) => Math.round(x + t * (scale[low + 1][i] - x)));
}

const FONT = '"Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif';

// An affine function a x + b y + c as a colour gradient: where it is -1 and where it is +1 (in pixels).
function ends({ gradient: [a, b, c], place }) {
  const size = a * a + b * b;
  const at = value => place([a * (value - c) / size, b * (value - c) / size]);
  return [at(-1), at(1)];
}
const isFlat = ({ gradient: [a, b] }) => a * a + b * b < 1e-12;
const flatColour = (style, palette) => css(heat(palette, style.gradient[2]));
const STOPS = [0, 0.25, 0.5, 0.75, 1];

export class CanvasPainter {
  constructor(context, place, palette) { Object.assign(this, { context, place, palette }); }

  _paint(path, style) {
    const { context } = this;
    context.globalAlpha = style.alpha ?? 1;
    if (style.gradient) {
      if (isFlat(style)) context.fillStyle = flatColour(style, this.palette);
      else {
        const [[x0, y0], [x1, y1]] = ends({ ...style, place: this.place });
        const gradient = context.createLinearGradient(x0, y0, x1, y1);
        STOPS.forEach((at, i) => gradient.addColorStop(at, css(this.palette.scale[i])));
        context.fillStyle = gradient;
      }
      context.fill(path);
    } else if (style.fill) { context.fillStyle = style.fill; context.fill(path, style.rule ?? "nonzero"); }
    if (style.stroke) {
      context.strokeStyle = style.stroke;
      context.lineWidth = style.width ?? 1;
      context.setLineDash(style.dash ?? []);
      context.lineJoin = "round";
      context.stroke(path);
    }
    context.globalAlpha = 1;
  }

  // Rings of points; with the rule "evenodd" an inner ring is a hole.
  rings(rings, style) {
    const path = new Path2D();
    for (const ring of rings) {
      ring.forEach((point, i) => { const [x, y] = this.place(point); if (i) path.lineTo(x, y); else path.moveTo(x, y); });
      path.closePath();
    }
    this._paint(path, style);
  }

  polygon(points, style) { this.rings([points], style); }

  segments(list, style) {
    const path = new Path2D();
    for (const [a, b] of list) { path.moveTo(...this.place(a)); path.lineTo(...this.place(b)); }
    this._paint(path, style);
  }

  dot(point, r, style) {
    const path = new Path2D(), [x, y] = this.place(point);
    path.arc(x, y, r, 0, 7);
    this._paint(path, style);
  }

  words(point, text, { size = 12, colour, anchor = "center", weight = 400, dx = 0, dy = 0 } = {}) {
    const { context } = this, [x, y] = this.place(point);
    context.font = `${weight} ${size}px ${FONT}`;
    context.textAlign = anchor;
    context.textBaseline = "middle";
    context.fillStyle = colour;
    context.fillText(text, x + dx, y + dy);
  }

  // A picture of the whole square |x| <= half.
  image(source, half) {
    const [x0, y0] = this.place([-half, half]), [x1, y1] = this.place([half, -half]);
    this.context.imageSmoothingEnabled = true;
    this.context.imageSmoothingQuality = "high";
    this.context.drawImage(source, x0, y0, x1 - x0, y1 - y0);
  }
}

const escaped = text => String(text).replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
const short = x => Number(x.toFixed(2));

export class SvgPainter {
  constructor(width, height, place, palette) {
    Object.assign(this, { width, height, place, palette, parts: [], defs: [] });
  }

  _style(style) {
    let fill = style.fill ?? "none";
    if (style.gradient && isFlat(style)) fill = flatColour(style, this.palette);
    else if (style.gradient) {
      const [[x0, y0], [x1, y1]] = ends({ ...style, place: this.place }), name = `g${this.defs.length}`;
      const stops = STOPS.map((at, i) => `<stop offset="${at}" stop-color="${css(this.palette.scale[i])}"/>`).join("");
      this.defs.push(`<linearGradient id="${name}" gradientUnits="userSpaceOnUse" x1="${short(x0)}" y1="${short(y0)}" x2="${short(x1)}" y2="${short(y1)}">${stops}</linearGradient>`);
      fill = `url(#${name})`;
    }
    const stroke = style.stroke ? ` stroke="${style.stroke}" stroke-width="${style.width ?? 1}" stroke-linejoin="round"` : "";
    const dash = style.dash ? ` stroke-dasharray="${style.dash.join(" ")}"` : "";
    return `fill="${fill}"${style.rule ? ` fill-rule="${style.rule}"` : ""}${stroke}${dash}${style.alpha === undefined ? "" : ` opacity="${style.alpha}"`}`;
  }

  _at(point) { return this.place(point).map(short).join(" "); }

  rings(rings, style) {
    const d = rings.map(ring => `M${ring.map(point => this._at(point)).join("L")}Z`).join("");
    this.parts.push(`<path d="${d}" ${this._style(style)}/>`);
  }

  polygon(points, style) { this.rings([points], style); }

  segments(list, style) {
    this.parts.push(`<path d="${list.map(([a, b]) => `M${this._at(a)}L${this._at(b)}`).join("")}" ${this._style(style)}/>`);
  }

  dot(point, r, style) {
    const [x, y] = this.place(point);
    this.parts.push(`<circle cx="${short(x)}" cy="${short(y)}" r="${r}" ${this._style(style)}/>`);
  }

  words(point, text, { size = 12, colour, anchor = "center", weight = 400, dx = 0, dy = 0 } = {}) {
    const [x, y] = this.place(point), anchors = { center: "middle", left: "start", right: "end" };
    this.parts.push(`<text x="${short(x + dx)}" y="${short(y + dy)}" font-family="Helvetica, Arial, sans-serif" font-size="${size}" font-weight="${weight}" text-anchor="${anchors[anchor]}" dominant-baseline="central" fill="${colour}">${escaped(text)}</text>`);
  }

  image(source, half) {
    const [x0, y0] = this.place([-half, half]), [x1, y1] = this.place([half, -half]);
    this.parts.push(`<image x="${x0}" y="${y0}" width="${x1 - x0}" height="${y1 - y0}" preserveAspectRatio="none" href="${source.toDataURL("image/png")}"/>`);
  }

  toString() {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}"><defs>${this.defs.join("")}<clipPath id="all"><rect width="${this.width}" height="${this.height}"/></clipPath></defs><rect width="100%" height="100%" fill="${this.palette.paper}"/><g clip-path="url(#all)">${this.parts.join("\n")}</g></svg>\n`;
  }
}
