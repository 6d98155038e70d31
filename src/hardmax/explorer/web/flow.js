// Information flow (P2 section 5): which input tokens are still available at which token, layer by layer.
//
// Tokens are vectors of whole numbers (hundredths), and every score is a whole number far below 2^53, so these
// floats are exact. For each term max_{s,t} x_s' M x_t of the target (P2 equation (6)) there is a head in
// layer 1, with which token s reads the token t of the largest x_s' M x_t, and a head of CLS in layer 2,
// which reads the token whose set holds the best pair. A head that is switched off reads nothing.

export function bilinear(M, x, y) {
  return x[0] * (M[0][0] * y[0] + M[0][1] * y[1]) + x[1] * (M[1][0] * y[0] + M[1][1] * y[1]);
}

const union = (a, b) => [...new Set([...a, ...b])].sort((s, t) => s - t);

function best(values) {
  return values.reduce((top, value, t) => (value > values[top] ? t : top), 0); // the lowest position wins a tie
}

// Who reads whom, what every token holds, and what the target needs.
export function informationFlow({ tokens, forms, first, last }) {
  const positions = tokens.map((_, t) => t);
  const pair = (M, held) => Math.max(...held.flatMap(s => held.map(t => bilinear(M, tokens[s], tokens[t]))));
  const reads = forms.map((M, h) => (first[h] ? positions.map(s => best(positions.map(t => bilinear(M, tokens[s], tokens[t])))) : null));
  const sets = positions.map(t => reads.reduce((held, winners) => (winners ? union(held, [winners[t]]) : held), [t]));
  const cls = forms.map((M, h) => (last[h] ? best(sets.map(held => pair(M, held))) : null));
  const known = cls.reduce((held, t) => (t === null ? held : union(held, sets[t])), []);
  const needed = forms.map(M => {
    const most = pair(M, positions);
    return positions.filter(s => positions.some(t => bilinear(M, tokens[s], tokens[t]) === most || bilinear(M, tokens[t], tokens[s]) === most));
  });
  const all = needed.reduce(union, []);
  return { reads, sets, cls, known, needed, active: all, missing: all.filter(t => !known.includes(t)) };
}
