// Numbers and lists in words, and the grid on which things are dragged.

export const counted = (n, word, many = `${word}s`) => `${n.toLocaleString("en")} ${n === 1 ? word : many}`;

export function shownNumber(x) {
  if (!Number.isFinite(x)) return "∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return (size >= 1e4 || size < 1e-2 ? x.toPrecision(2) : Number(x.toPrecision(3)).toString()).replace("-", "−");
}

// "key 3", "keys 1 and 4", "keys 1, 2 and 4".
export function named(word, numbers) {
  if (numbers.length === 1) return `${word} ${numbers[0]}`;
  const first = numbers.slice(0, Math.min(numbers.length - 1, 6)).join(", ");
  return `${word}s ${first} and ${numbers.length > 7 ? `${numbers.length - 6} more` : numbers.at(-1)}`;
}

// Round to about a hundredth of the unit that is shown, so that ties can be made by hand and links stay short.
export function snapped(x, half) {
  const digits = Math.max(0, 2 - Math.floor(Math.log10(half)));
  return Number(x.toFixed(Math.min(12, digits))) + 0;
}
