// Who reads whom, computed from what the page keeps of the attention (kept_attention.py). Nothing here
// touches
// the page, so that the same functions can be run and checked outside of a browser.
//
// A place is a column (how many layers were passed, 0 to depth) and a token. A token of column c + 1
// reads, in
// layer c, some keys of column c, and keeps what it has.
var Routes = (function () {
  "use strict";

  function bytes(text) {
    var raw = atob(text), found = new Uint8Array(raw.length);
    for (var i = 0; i < raw.length; i++) { found[i] = raw.charCodeAt(i); }
    return found;
  }

  function numbers(text, wide) {
    var raw = bytes(text);
    if (!wide) { return raw; }
    var found = new Uint16Array(raw.length / 2);
    for (var i = 0; i < found.length; i++) { found[i] = raw[2 * i] + 256 * raw[2 * i + 1]; }
    return found;
  }

  // The data of the page with its arrays decoded.
  function open(data) {
    var starts = [], total = 0, odd = {};
    data.heads.forEach(function (n) { starts.push(total); total += n; });
    data.odd.forEach(function (one) { odd[one.slice(0, 3).join()] = one[3]; });
    return {
      heads: data.heads, starts: starts, rows: total, depth: data.heads.length,
      nKeys: data.nKeys, nullKeys: data.nullKeys || 0, nQueries: data.nQueries, kept: data.kept, stops: data.stops, tops: data.tops,
      order: numbers(data.order, data.wide), roots: bytes(data.roots), masses: numbers(data.masses,
        data.wide),
      odd: odd, readable: data.readable, present: data.present === null ? null : bytes(data.present),
        masks: data.masks,
      columns: data.columns, scores: bytes(data.scores), low: data.low, step: data.step,
      margins: bytes(data.margins), marginStep: data.marginStep, cut: data.cut
    };
  }

  // How many of the kept keys a rule reads for a query of a head.
  function count(m, stop, row, query, layer) {
    if (stop < m.tops.length) {
      var other = m.odd[stop + "," + row + "," + query];
      return other === undefined ? Math.min(m.tops[stop], m.readable[layer][query], m.kept) : other;
    }
    return m.masses[((stop - m.tops.length) * m.rows + row) * m.nQueries + query];
  }

  // May a query of a layer read a key?
  function may(m, layer, query, key) {
    if (m.present === null) { return true; }
    var bit = ((m.masks === 1 ? 0 : layer) * m.nQueries + query) * m.nKeys + key; // one mask may serve all
    return (m.present[bit >> 3] >> (bit & 7) & 1) === 1;
  }

  function probability(m, row, query, place) {
    var root = m.roots[(row * m.nQueries + query) * m.kept + place] / 255;
    return root * root;
  }

  // The keys that a token reads in a layer, with the largest probability that a head gives and that head, the
  // strongest first; of one head alone where one is named.
  function reads(m, layer, query, stop, only) {
    var best = {}, found = [];
    for (var h = 0; h < m.heads[layer]; h++) {
      if (only !== undefined && only !== null && only !== h) { continue; }
      var row = m.starts[layer] + h, n = count(m, stop, row, query, layer);
      for (var i = 0; i < n; i++) {
        var key = m.order[(row * m.nQueries + query) * m.kept + i], p = probability(m, row, query, i);
        if (best[key] === undefined) { best[key] = { key: key, p: p, head: h }; found.push(best[key]); }
        else if (p > best[key].p) { best[key].p = p; best[key].head = h; }
      }
    }
    return found.sort(function (a, b) { return b.p - a.p || a.key - b.key; });
  }

  // Everything that is read under a rule: for each layer and token the list of reads.
  function table(m, stop) {
    var found = [];
    for (var layer = 0; layer < m.depth; layer++) {
      var one = [];
      for (var t = 0; t < m.nQueries; t++) { one.push(reads(m, layer, t, stop)); }
      found.push(one);
    }
    return found;
  }

  function none(m) {
    var found = [];
    for (var c = 0; c <= m.depth; c++) { found.push(new Array(m.nQueries).fill(false)); }
    return found;
  }

  // From which places something can reach a place, columns 0 to its own.
  function sources(m, read, column, token) {
    var on = none(m);
    on[column][token] = true;
    for (var c = column; c > 0; c--) {
      for (var t = 0; t < m.nQueries; t++) {
        if (!on[c][t]) { continue; }
        on[c - 1][t] = true;
        read[c - 1][t].forEach(function (one) { on[c - 1][one.key] = true; });
      }
    }
    return on;
  }

  // Where something of a place can get to, from its own column on.
  function targets(m, read, column, token) {
    var on = none(m);
    on[column][token] = true;
    for (var c = column; c < m.depth; c++) {
      for (var t = 0; t < m.nQueries; t++) {
        on[c + 1][t] = on[c][t] || read[c][t].some(function (one) { return on[c][one.key]; });
      }
    }
    return on;
  }

  // The paths through a place: `to` are places between it and the read-out at the end, `from` those that lead
  // to it. Both are lists of tokens per column; `reaches` says whether the read-out is reached at all.
  function paths(m, read, column, token, readOut) {
    var lead = sources(m, read, m.depth, readOut), go = targets(m, read, column, token);
    var from = sources(m, read, column, token), to = none(m), reaches = go[m.depth][readOut];
    for (var c = column; c <= m.depth; c++) {
      for (var t = 0; t < m.nQueries; t++) { to[c][t] = reaches && lead[c][t] && go[c][t]; }
    }
    return { to: to, from: from, reaches: reaches };
  }

  function tokens(on) {
    var found = [];
    on.forEach(function (is, t) { if (is) { found.push(t); } });
    return found;
  }

  // Power diagrams ------------------------------------------------------------------------------------------

  // The scores of a query against the kept keys of a head, in temperatures.
  function scoresOf(m, row, query) {
    var n = m.columns[row].length, at = (row * m.nQueries + query) * n, found = [];
    for (var j = 0; j < n; j++) { found.push(m.low[row] + m.step[row] * m.scores[at + j]); }
    return found;
  }

  function dot(a, b) { return a.reduce(function (sum, v, i) { return sum + v * b[i]; }, 0); }
  function plus(a, b, by) { return a.map(function (v, i) { return v + by * b[i]; }); }

  function centred(a) {
    var mean = a.reduce(function (sum, v) { return sum + v; }, 0) / a.length;
    return a.map(function (v) { return v - mean; });
  }

  // Cut a convex polygon by a x + b y + c >= 0.
  function clip(polygon, a, b, c) {
    var found = [];
    for (var i = 0; i < polygon.length; i++) {
      var p = polygon[i], q = polygon[(i + 1) % polygon.length];
      var u = a * p[0] + b * p[1] + c, v = a * q[0] + b * q[1] + c;
      if (u >= 0) { found.push(p); }
      if ((u > 0 && v < 0) || (u < 0 && v > 0)) {
        var s = u / (u - v);
        found.push([p[0] + s * (q[0] - p[0]), p[1] + s * (q[1] - p[1])]);
      }
    }
    return found;
  }

  // The power diagram of a head on the plane through the queries of three tokens, and all queries in it.
  //
  // Scores on the plane are affine combinations of the three rows of scores. Distances are root mean squares
  // of differences of scores, so a token stands where its scores are matched best. Keys and masks are
  // those of
  // the token of the three that may read most. Null where the three lie on a line.
  function diagram(m, layer, head, three) {
    var row = m.starts[layer] + head, readable = m.readable[layer];
    var lead = three.slice().sort(function (s, t) { return readable[t] - readable[s] || s - t; })[0];
    var which = [];
    m.columns[row].forEach(function (key, j) { if (may(m, layer, lead, key)) { which.push(j); } });
    if (which.length < 2) { return null; }
    function take(t) {
      var all = scoresOf(m, row, t);
      return centred(which.map(function (j) { return all[j]; }));
    }
    var unit = Math.sqrt(which.length);
    var a = take(three[0]), e = plus(take(three[1]), a, -1), f = plus(take(three[2]), a, -1);
    var size = Math.sqrt(dot(e, e));
    if (!(size > 1e-9)) { return null; }
    e = e.map(function (v) { return v / size; });
    var whole = Math.sqrt(dot(f, f));
    f = plus(f, e, -dot(e, f));
    var high = Math.sqrt(dot(f, f));
    if (!(high > 1e-6 * whole) || !(high > 1e-9)) { return null; }
    f = f.map(function (v) { return v / high; });
    function scoreAt(j, x, y) { return a[j] + unit * (x * e[j] + y * f[j]); }
    var places = [], holds = [], shown = [];
    var low = [Infinity, Infinity], top = [-Infinity, -Infinity];
    for (var t = 0; t < m.nQueries; t++) {
      if (!readable[t] && three.indexOf(t) < 0) { places.push(null); holds.push(false); continue; }
      var off = plus(take(t), a, -1), x = dot(off, e) / unit, y = dot(off, f) / unit;
      places.push(readable[t] ? [x, y] : null); // a token that reads nothing may span the plane all the same
      low = [Math.min(low[0], x), Math.min(low[1], y)];
      top = [Math.max(top[0], x), Math.max(top[1], y)];
      var own = m.order[(row * m.nQueries + t) * m.kept], best = -Infinity, mine = -Infinity;
      for (var j = 0; j < which.length; j++) {
        var s = scoreAt(j, x, y);
        best = Math.max(best, s);
        if (m.columns[row][which[j]] === own) { mine = s; }
      }
      holds.push(mine >= best - 1e-9);
    }
    var room = [0.12 * (top[0] - low[0]), 0.12 * (top[1] - low[1])];
    low = [low[0] - room[0], low[1] - room[1]];
    top = [top[0] + room[0], top[1] + room[1]];
    var frame = [[low[0], low[1]], [top[0], low[1]], [top[0], top[1]], [low[0], top[1]]];
    for (var i = 0; i < which.length; i++) {
      var polygon = frame;
      for (var k = 0; k < which.length && polygon.length > 2; k++) {
        if (k !== i) { polygon = clip(polygon, unit * (e[i] - e[k]), unit * (f[i] - f[k]), a[i] - a[k]); }
      }
      if (polygon.length > 2) { shown.push({ key: m.columns[row][which[i]], polygon: polygon }); }
    }
    return {
      cells: shown, places: places, holds: holds, low: low, high: top, lead: lead,
      nKeys: which.length, score: scoreAt, keys: which.map(function (j) { return m.columns[row][j]; })
    };
  }

  return {
    open: open, count: count, reads: reads, table: table, paths: paths, tokens: tokens, diagram: diagram,
    probability: probability, may: may
  };
})();
if (typeof module === "object" && module.exports) { module.exports = Routes; }
