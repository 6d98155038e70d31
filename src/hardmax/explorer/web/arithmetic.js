// Lines and points of the plane, and on which side of a line a point lies.
//
// A line is p x + q y + r = 0 with its positive side; a point is where two lines meet, in homogeneous
// coordinates. Every float carries a magnitude that bounds what it was computed from, so that one number,
// EPSILON, bounds all rounding errors (a sum of n products of such numbers errs by less than (n + 9) 2^-53
// magnitudes; no sum here is longer than 1000). A sign beyond the bound is proven. Within it the live
// arithmetic says zero, and the exact one asks integers: the same combinatorics, two judges.

import { bigSign } from "./exact.js";

export const EPSILON = 2 ** -42;
export const TINY = 1e-250; // below, products may have lost bits to underflow

// `big` gives the integer coefficients of the same line, up to a positive factor, when they are needed.
export function makeLine(f, m, big, label = null) {
  return { f, m, big: remembered(big), label };
}

function remembered(compute) {
  let kept = null;
  return () => (kept ??= compute());
}

const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const crossSizes = (a, b) => [a[1] * b[2] + a[2] * b[1], a[2] * b[0] + a[0] * b[2], a[0] * b[1] + a[1] * b[0]];

// Where two lines meet; the last coordinate is positive.
export function meet(k, l, exact) {
  let f = cross(k.f, l.f);
  let m = crossSizes(k.m, l.m);
  const big = remembered(() => {
    const point = cross(k.big(), l.big());
    return point[2] < 0n ? point.map(x => -x) : point;
  });
  const sure = Math.abs(f[2]) > EPSILON * m[2] && m[2] > TINY;
  if (!sure && exact) m = [Infinity, Infinity, Infinity]; // floats may not even know the point's sign
  if (f[2] < 0) f = f.map(x => -x);
  return { f, m, big };
}

// Whether a point is on the positive side (1), on the line (0) or on the other side (-1).
export function sideOf(line, point, exact) {
  const [p, q, r] = line.f, [a, b, c] = line.m, [x, y, w] = point.f, [u, v, z] = point.m;
  const value = p * x + q * y + r * w;
  const size = a * u + b * v + c * z;
  if (Math.abs(value) > EPSILON * size && size > TINY) return value > 0 ? 1 : -1; // false for NaN
  if (!exact) return 0;
  const l = line.big(), o = point.big();
  return bigSign(l[0] * o[0] + l[1] * o[1] + l[2] * o[2]);
}

// Whether a line is no line: p = q = r = 0, so that no point is on a side of it.
export function vanishes(line, exact) {
  if (line.f.some((x, i) => Math.abs(x) > EPSILON * line.m[i])) return false;
  return exact ? line.big().every(x => x === 0n) : true;
}

// The point in the middle of two.
export function middle(s, t) {
  const mix = (a, b, two) => [a[0] * b[2] + b[0] * a[2], a[1] * b[2] + b[1] * a[2], two * a[2] * b[2]];
  return { f: mix(s.f, t.f, 2), m: mix(s.m, t.m, 2), big: remembered(() => mix(s.big(), t.big(), 2n)) };
}

export const coordinates = point => [point.f[0] / point.f[2], point.f[1] / point.f[2]];
