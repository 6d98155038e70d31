// Floats as what they are: integers over a power of two. Signs that rounding could change are asked here.

const view = new DataView(new ArrayBuffer(8));

// A float as mantissa * 2^exponent, the mantissa odd or zero.
function parts(value) {
  if (!Number.isFinite(value)) throw new RangeError("a number is not finite");
  if (value === 0) return [0n, 0];
  view.setFloat64(0, value);
  const bits = view.getBigUint64(0);
  const raw = Number((bits >> 52n) & 0x7ffn);
  let mantissa = bits & 0xfffffffffffffn;
  let exponent = (raw || 1) - 1075;
  if (raw) mantissa |= 1n << 52n;
  while (!(mantissa & 1n)) { mantissa >>= 1n; exponent += 1; }
  return [value < 0 ? -mantissa : mantissa, exponent];
}

// Floats on one scale: numbers[i] = integers[i] / 2^bits.
export function dyadic(numbers) {
  const found = Array.from(numbers, parts);
  const bits = found.reduce((most, [, exponent]) => Math.max(most, -exponent), 0);
  return { integers: found.map(([mantissa, exponent]) => mantissa << BigInt(exponent + bits)), bits };
}

export const bigSign = value => (value > 0n ? 1 : value < 0n ? -1 : 0);
export const bigAbs = value => (value < 0n ? -value : value);
export const bitLength = value => bigAbs(value).toString(2).length;
