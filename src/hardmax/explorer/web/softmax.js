// What a temperature does to a head: probabilities, and the band in which the margin guarantees nothing.

import { makeLine } from "./arithmetic.js";
import { clipAll, square } from "./polygons.js";
import { lineBetween } from "./head.js";

export const TOLERANCE = 0.01;

// The least margin at which softmax surely puts 99 % on the winner (hm.temperature.margin_needed).
export function marginNeeded(n, temperature) {
  return n < 2 ? 0 : Math.max(0, temperature * Math.log((n - 1) * (1 - TOLERANCE) / TOLERANCE));
}

// Scores at a point, the winner, its margin and its probability.
export function winnerAt(head, x, y, temperature) {
  const values = head.scores.map(({ f }) => f[0] * x + f[1] * y + f[2]);
  let best = 0;
  values.forEach((value, j) => { if (value > values[best]) best = j; });
  const margin = values.reduce((least, value, j) => (j === best ? least : Math.min(least, values[best] - value)), Infinity);
  const total = temperature > 0 ? values.reduce((sum, value) => sum + Math.exp((value - values[best]) / temperature), 0) : 1;
  return { best, margin, probability: 1 / total };
}

// The queries of a cell, in the square that is shown, at which its key wins by the margin: the cell with its
// edges moved inwards. Null if there are none.
export function clearPart(head, cell, margin, half) {
  const moved = cell.polygon.edges.filter(edge => edge.label !== null).map(edge => {
    const { f, m } = lineBetween(head, cell.set[0], edge.label, edge.label);
    return makeLine([f[0], f[1], f[2] - margin], [m[0], m[1], m[2] + margin], null, edge.label);
  });
  return clipAll(square(half, false), moved, false);
}

// A small picture of blended colours: every pixel mixes the colours of the keys as softmax weighs them.
export function blend(canvas, head, half, temperature, colourOf, pixels) {
  canvas.width = canvas.height = pixels;
  const context = canvas.getContext("2d"), image = context.createImageData(pixels, pixels);
  const n = head.scores.length, a = new Float64Array(n), b = new Float64Array(n), c = new Float64Array(n);
  const colours = new Float64Array(3 * n), values = new Float64Array(n);
  head.scores.forEach(({ f }, j) => { [a[j], b[j], c[j]] = f; colours.set(colourOf(j), 3 * j); });
  const step = 2 * half / pixels, faint = -12 * temperature; // below e^-12 a weight is not seen
  for (let row = 0, at = 0; row < pixels; row++) {
    const y = half - (row + 0.5) * step;
    for (let column = 0; column < pixels; column++, at += 4) {
      const x = -half + (column + 0.5) * step;
      let top = -Infinity;
      for (let j = 0; j < n; j++) { const v = a[j] * x + b[j] * y + c[j]; values[j] = v; if (v > top) top = v; }
      let total = 0, red = 0, green = 0, blue = 0;
      for (let j = 0; j < n; j++) {
        const gap = values[j] - top;
        if (gap < faint) continue;
        const weight = gap === 0 ? 1 : Math.exp(gap / temperature);
        total += weight; red += weight * colours[3 * j]; green += weight * colours[3 * j + 1]; blue += weight * colours[3 * j + 2];
      }
      image.data[at] = red / total; image.data[at + 1] = green / total; image.data[at + 2] = blue / total; image.data[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}
