// The section "Who reads whom" of one text: the text once per layer with lines to what is read, a slider for
// what counts as read, and a panel for one head. All words are set as text, never as markup. `prefix` stands
// before the ids of the text's elements; what is returned leads to a head from elsewhere in the page.
var RoutesView = function (prefix, data) {
  "use strict";
  function byId(id) { return document.getElementById(prefix + id); }
  var app = byId("routes-app");
  var m = Routes.open(data.attention), words = data.tokens, keyWords = data.keyTokens, readOut = data.readOut;
  var chosen = { stop: 0, column: m.depth, token: readOut, layer: null, head: null, three: null,
    ownThree: false };
  var ROW = 22, WIDE = 134, LABEL = 78, TOP = 26, MOST_LINES = 6000;
  var SVG = "http://www.w3.org/2000/svg";

  function make(tag, attributes, inside) {
    var found = document.createElement(tag);
    Object.keys(attributes || {}).forEach(function (name) { found.setAttribute(name, attributes[name]); });
    if (inside !== undefined) { found.textContent = inside; }
    return found;
  }
  function draw(tag, attributes, inside) {
    var found = document.createElementNS(SVG, tag);
    Object.keys(attributes || {}).forEach(function (name) { found.setAttribute(name, attributes[name]); });
    if (inside !== undefined) { found.textContent = inside; }
    return found;
  }
  function visible(word) {
    var shown = word.replace(/[\u0000-\u001f]/g, function (c) { return String.fromCharCode(0x2400 +
      c.charCodeAt(0)); });
    return shown.trim() === "" ? "␣" : shown;
  }
  function short(word, n) { word = visible(word); return word.length <= n ? word : word.slice(0, n - 1) +
    "…"; }
  // a token in a sentence, as in the verdict; one that occurs more than once with its position
  function quoted(all, t) {
    var word = short(all[t], 20), twice = all.indexOf(all[t]) !== all.lastIndexOf(all[t]);
    return (/^[[<]../.test(word) ? word : "“" + word + "”") + (twice ? " at " + t : "");
  }
  // a colour of the sheet as the browser computes it for light or dark
  var probe = make("span", { hidden: "" });
  app.appendChild(probe);
  function paint(name) { probe.style.color = "var(" + name + ")"; return getComputedStyle(probe).color; }
  function columnName(c) { return c === 0 ? "input" : "layer " + (c - 1); }

  // Arrow keys move inside a block of buttons of which one is in the order of the tab key.
  function roving(block, buttons, wide) {
    buttons.forEach(function (button, i) { button.tabIndex = i === 0 ? 0 : -1; });
    block.addEventListener("keydown", function (event) {
      var at = buttons.indexOf(document.activeElement);
      var by = { ArrowRight: wide[0], ArrowLeft: -wide[0], ArrowDown: wide[1], ArrowUp: -wide[1] }[event.key];
      if (at < 0 || by === undefined) { return; }
      event.preventDefault();
      var next = buttons[at + by];
      if (next) { enter(buttons, next); next.focus(); }
    });
  }
  function enter(buttons, one) { buttons.forEach(function (b) { b.tabIndex = b === one ? 0 : -1; }); }

  // The text, once per layer
  // ----------------------------------------------------------------------------------

  var stage = byId("routes-stage"), canvas = byId("routes-lines"), places = [];
  var wide = WIDE * m.depth + LABEL, tall = TOP + ROW * m.nQueries;
  stage.style.width = wide + "px";
  stage.style.height = tall + "px";
  for (var c = 0; c <= m.depth; c++) {
    var head = make("span", { "class": "column-name" }, columnName(c));
    head.style.left = WIDE * c + "px";
    stage.appendChild(head);
    for (var t = 0; t < m.nQueries; t++) {
      var button = make("button", { type: "button", "class": "place", "data-column": c, "data-token": t,
        "aria-pressed": "false", title: visible(words[t]) + ", position " + t + ", " + columnName(c) },
          short(words[t], 11));
      button.style.left = WIDE * c + "px";
      button.style.top = TOP + ROW * t + "px";
      stage.appendChild(button);
      places.push(button);
    }
  }
  function placeOf(column, token) { return places[column * m.nQueries + token]; }
  roving(stage, places, [m.nQueries, 1]);
  enter(places, placeOf(m.depth, readOut));
  stage.addEventListener("click", function (event) {
    var one = event.target.closest(".place");
    if (!one) { return; }
    chosen.column = Number(one.dataset.column);
    chosen.token = Number(one.dataset.token);
    enter(places, one);
    show();
    if (chosen.head !== null) { showHead(); }
  });

  var table = [];
  function readTable() {
    table = Routes.table(m, chosen.stop);
    if (chosen.head !== null && byId("one-head").checked) {
      for (var t = 0; t < m.nQueries; t++) {
        table[chosen.layer][t] = Routes.reads(m, chosen.layer, t, chosen.stop, chosen.head);
      }
    }
  }

  var lines = []; // what is drawn: column, reader, key, probability, kind
  function show() {
    readTable();
    var found = Routes.paths(m, table, chosen.column, chosen.token, readOut);
    lines = [];
    var leftOut = byId("no-sink") && byId("no-sink").checked; // from the drawing, not from the paths
    for (var c = 0; c < m.depth; c++) {
      var kind = c < chosen.column ? "from" : "to", on = found[kind];
      for (var t = 0; t < m.nQueries; t++) {
        if (!on[c + 1][t]) { continue; }
        if (on[c][t]) { lines.push({ c: c, t: t, s: t, p: 0, kind: "own" }); }
        table[c][t].forEach(function (one) {
          if (on[c][one.key] && !(leftOut && one.key === data.sink)) { lines.push({ c: c, t: t, s: one.key,
            p: one.p, head: one.head, kind: kind });
            }
        });
      }
    }
    places.forEach(function (one) {
      var c = Number(one.dataset.column), t = Number(one.dataset.token);
      var here = c === chosen.column && t === chosen.token;
      one.classList.toggle("from", found.from[c][t] && c < chosen.column);
      one.classList.toggle("to", found.to[c][t] && c > chosen.column);
      one.setAttribute("aria-pressed", String(here));
    });
    drawLines();
    say(found);
  }

  function drawLines() {
    var ratio = Math.min(window.devicePixelRatio || 1, 2);
    canvas.width = wide * ratio;
    canvas.height = tall * ratio;
    canvas.style.width = wide + "px";
    canvas.style.height = tall + "px";
    var pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    var ink = { own: paint("--soft"), to: paint("--line-0"), from: paint("--line-1") };
    lines.slice().sort(function (a, b) { return a.p - b.p; }).slice(-MOST_LINES).forEach(function (one) {
      var x = WIDE * (one.c + 1) - 3, y = TOP + ROW * (one.t + 0.5);
      var u = WIDE * one.c + LABEL + 3, v = TOP + ROW * (one.s + 0.5), bend = (x - u) * 0.45;
      pen.strokeStyle = ink[one.kind];
      pen.globalAlpha = one.kind === "own" ? 0.3 : Math.min(1, 0.16 + 0.84 * Math.sqrt(one.p));
      pen.lineWidth = one.kind === "own" ? 0.7 : 0.5 + 6 * one.p;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.bezierCurveTo(x - bend, y, u + bend, v, u, v);
      pen.stroke();
    });
  }

  // What the picture shows, in words
  // ---------------------------------------------------------------------------

  var MOST = 3;
  function say(found) {
    var name = quoted(words, chosen.token), end = quoted(words, readOut);
    var where = chosen.column === 0 ? "of the input" : "after " + columnName(chosen.column);
    var n = m.nKeys - m.nullKeys; // keys come first; null keys are no tokens
    var known = Routes.tokens(found.from[0]).filter(function (t) { return t < n; }).length;
    var rule = m.stops[chosen.stop];
    var first = "Under " + rule + ", " + name + " " + where;
    first += chosen.column === 0 ? "" : " can hold something of " + known + " of " + n + " positions";
    if (chosen.column < m.depth) {
      first += (chosen.column === 0 ? "" : ", and") + (found.reaches ? " can reach " : " cannot reach ") +
        "the read-out, " + end;
    }
    if (m.cut[chosen.stop] > 0) {
      first += ". For " + percent(m.cut[chosen.stop]) + " of the queries this rule reads more than the " +
        m.kept +
        " keys that are kept, and only these are followed";
    }
    if (lines.length > MOST_LINES) {
      first += ". Of " + lines.length.toLocaleString("en") + " lines the strongest " +
        MOST_LINES.toLocaleString("en") + " are drawn";
    }
    byId("routes-said").textContent = first + ".";
    var list = byId("routes-words");
    list.textContent = "";
    for (var c = m.depth - 1; c >= 0; c--) {
      var here = lines.filter(function (one) { return one.c === c && one.kind !== "own"; });
      here.sort(function (a, b) { return b.p - a.p; });
      if (!here.length) { continue; }
      var parts = here.slice(0, MOST).map(function (one) {
        return quoted(words, one.t) + " reads " + quoted(keyWords, one.s) + " (" + one.p.toFixed(2) +
          ", head " + one.head + ")";
      });
      var more = here.length > MOST ? ", and " + (here.length - MOST) + " weaker" : "";
      var item = make("li", { "class": here[0].kind });
      item.appendChild(make("b", {}, "Layer " + c + ": "));
      item.appendChild(document.createTextNode(parts.join("; ") + more + "."));
      list.appendChild(item);
    }
    if (!list.children.length) {
      list.appendChild(make("li", {}, "Nothing is read on the way: " + name + " only keeps what it has."));
    }
  }
  function percent(share) { return share > 0 && share < 0.01 ? "under 1 %" : Math.round(100 * share) + " %"; }

  // The slider
  // -------------------------------------------------------------------------------------------------

  var slider = byId("rule");
  slider.max = m.stops.length - 1;
  function rule() {
    chosen.stop = Number(slider.value);
    slider.setAttribute("aria-valuetext", m.stops[chosen.stop]);
    byId("rule-name").textContent = m.stops[chosen.stop];
    show();
  }
  slider.addEventListener("input", rule);
  byId("one-head").addEventListener("change", show);
  if (byId("no-sink")) { byId("no-sink").addEventListener("change", show); }

  // Heads
  // ------------------------------------------------------------------------------------------------------

  var grid = byId("heads-grid"), headButtons = [], across = Math.max.apply(null, m.heads);
  grid.style.gridTemplateColumns = "auto repeat(" + across + ", minmax(1.2rem, 2.2rem))";
  m.heads.forEach(function (n, layer) {
    grid.appendChild(make("span", { "class": "grid-name" }, "layer " + layer));
    for (var h = 0; h < across; h++) {
      if (h >= n) { grid.appendChild(make("span")); continue; }
      var hard = data.hardness[layer][h];
      var level = hard === null ? 0 : [0.1, 0.25, 0.5, 0.75, 0.9].filter(function (edge) {
        return hard >= edge; }).length;
      var label = "layer " + layer + ", head " + h + (hard === null ? "" : ", median top probability " +
        hard.toFixed(2));
      var one = make("button", { type: "button", "class": "head-button k" + level, "data-layer": layer,
        "data-head": h,
        "aria-pressed": "false", "aria-label": label, title: label }, String(h));
      grid.appendChild(one);
      headButtons.push(one);
    }
  });
  roving(grid, headButtons, [1, across]);
  grid.addEventListener("click", function (event) {
    var one = event.target.closest(".head-button");
    if (one) { chooseHead(one); }
  });
  function chooseHead(one) {
    chosen.layer = Number(one.dataset.layer);
    chosen.head = Number(one.dataset.head);
    enter(headButtons, one);
    headButtons.forEach(function (b) { b.setAttribute("aria-pressed", String(b === one)); });
    byId("one-head-row").hidden = false;
    showHead();
    if (byId("one-head").checked) { show(); }
  }

  function leadTo(layer, head) {
    if (!(layer < m.depth && head < m.heads[layer])) { return; }
    var one = headButtons[m.starts[layer] + head];
    chooseHead(one);
    byId("head-panel").scrollIntoView();
    one.focus({ preventScroll: true });
  }

  function showHead() {
    var panel = byId("head-panel"), row = m.starts[chosen.layer] + chosen.head;
    panel.hidden = false;
    byId("head-name").textContent = "Layer " + chosen.layer + ", head " + chosen.head;
    drawPattern(row);
    drawMargins(row);
    chooseThree(row);
    drawDiagram();
    var found = Routes.reads(m, chosen.layer, chosen.token, chosen.stop, chosen.head).slice(0,
      5).map(function (one) {
      return quoted(keyWords, one.key) + " (" + one.p.toFixed(2) + ")";
    });
    var name = quoted(words, chosen.token);
    byId("head-said").textContent = found.length ? name + " reads " + found.join(", ") + " here, under " +
      m.stops[chosen.stop] + "."
      : name + " may read nothing in this layer.";
  }

  // The attention pattern
  // ---------------------------------------------------------------------------------------

  var pattern = byId("pattern"), cell = 0, left = 0, above = 0, patternRow = 0;
  var square = null; // query and key at which arrow keys are
  function drawPattern(row) {
    var labels = m.nKeys <= 40, room = Math.min(pattern.parentNode.clientWidth || 360, 520);
    left = labels ? 74 : 4;
    above = labels ? 74 : 4;
    cell = Math.max(2, Math.min(18, Math.floor((room - left - 4) / m.nKeys)));
    patternRow = row;
    var wide = left + cell * m.nKeys + 4, tall = above + cell * m.nQueries + 4;
    var ratio = Math.min(window.devicePixelRatio || 1, 2), pen = pattern.getContext("2d");
    pattern.width = wide * ratio;
    pattern.height = tall * ratio;
    pattern.style.width = wide + "px";
    pattern.style.height = tall + "px";
    pen.scale(ratio, ratio);
    pen.fillStyle = paint("--wash");
    pen.fillRect(left, above, cell * m.nKeys, cell * m.nQueries);
    pen.fillStyle = paint("--accent");
    for (var t = 0; t < m.nQueries; t++) {
      for (var i = 0; i < m.kept; i++) {
        var p = Routes.probability(m, row, t, i);
        if (p === 0) { break; }
        pen.globalAlpha = Math.sqrt(p);
        pen.fillRect(left + cell * m.order[(row * m.nQueries + t) * m.kept + i], above + cell * t, cell,
          cell);
      }
    }
    pen.globalAlpha = 1;
    if (labels) {
      pen.fillStyle = paint("--ink");
      pen.font = Math.min(11, cell) + "px " + getComputedStyle(byId("head-name")).fontFamily;
      pen.textBaseline = "middle";
      for (var q = 0; q < m.nQueries; q++) {
        pen.textAlign = "right";
        pen.fillText(short(words[q], 11), left - 4, above + cell * (q + 0.5));
      }
      for (var k = 0; k < m.nKeys; k++) {
        pen.save();
        pen.translate(left + cell * (k + 0.5), above - 4);
        pen.rotate(-Math.PI / 2);
        pen.textAlign = "left";
        pen.fillText(short(keyWords[k], 11), 0, 0);
        pen.restore();
      }
    }
    if (square) {
      pen.strokeStyle = paint("--ink");
      pen.lineWidth = 1.5;
      pen.strokeRect(left + cell * square[1], above + cell * square[0], cell, cell);
    }
    byId("pattern-said").textContent = "Point at a square, or move with arrow keys, to read its probability.";
  }
  pattern.addEventListener("mousemove", function (event) {
    var box = pattern.getBoundingClientRect();
    var key = Math.floor((event.clientX - box.left - left) / cell),
      query = Math.floor((event.clientY - box.top - above) / cell);
    if (key >= 0 && query >= 0 && key < m.nKeys && query < m.nQueries) { saySquare(query, key); }
  });
  pattern.addEventListener("keydown", function (event) {
    var by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!by) { return; }
    event.preventDefault();
    // the first key goes to the winner of the chosen token
    square = square === null ? [chosen.token, m.order[(patternRow * m.nQueries + chosen.token) * m.kept]]
      : [Math.max(0, Math.min(m.nQueries - 1, square[0] + by[0])),
        Math.max(0, Math.min(m.nKeys - 1, square[1] + by[1]))];
    drawPattern(patternRow);
    saySquare(square[0], square[1]);
  });
  pattern.addEventListener("blur", function () { square = null; drawPattern(patternRow); });
  function saySquare(query, key) {
    var words_ = quoted(words, query) + " reads " + quoted(keyWords, key) + ": ", found = null;
    for (var i = 0; i < m.kept; i++) {
      if (m.order[(patternRow * m.nQueries + query) * m.kept + i] === key) { found = Routes.probability(m,
        patternRow, query, i); }
    }
    byId("pattern-said").textContent = words_ + (found === null ? "less than its " + m.kept +
      " strongest keys, not kept." : found.toFixed(3) + ".");
  }

  // Margins
  // -----------------------------------------------------------------------------------------------------

  function drawMargins(row) {
    var box = byId("margins-of-head"), values = [], top = 1;
    for (var t = 0; t < m.nQueries; t++) {
      var code = m.margins[row * m.nQueries + t];
      values.push(code === 255 ? null : code * m.marginStep);
      if (code !== 255) { top = Math.max(top, code * m.marginStep); }
    }
    box.textContent = "";
    var known = values.filter(function (v) { return v !== null; }).sort(function (a, b) { return a - b; });
    byId("margins-said").textContent = known.length
      ? "The winning key leads by " + known[Math.floor((known.length - 1) / 2)].toFixed(1) +
        " temperatures in the median, by " +
        known[0].toFixed(1) + " to " + known[known.length - 1].toFixed(1) + (known[known.length - 1] >= 25.35
          ? " or more" : "") + "."
      : "Margins of this head were not measured.";
    if (!known.length) { return; }
    var left = 26, bottom = 120, step = Math.min(14, 330 / m.nQueries);
    var svg = draw("svg", { viewBox: "0 0 360 140", role: "img",
      "aria-label": "Margin of the winning key, token by token", "class": "drawing" });
    [0, top / 2, top].forEach(function (v) {
      var y = bottom - 104 * v / top;
      svg.appendChild(draw("line", { x1: left, x2: 358, y1: y, y2: y, "class": "grid" }));
      svg.appendChild(draw("text", { x: left - 4, y: y + 3, "class": "tick", "text-anchor": "end" },
        v.toFixed(v && v < 10 ? 1 : 0)));
    });
    values.forEach(function (v, t) {
      if (v === null) { return; }
      var bar = draw("rect", { x: left + step * t + 0.1 * step, width: 0.8 * step, y: bottom - 104 * v / top,
        height: Math.max(104 * v / top, 0.6), "class": t === chosen.token ? "dot-1" : "dot-0" });
      bar.appendChild(draw("title", {}, visible(words[t]) + ": " + v.toFixed(1)));
      svg.appendChild(bar);
    });
    svg.appendChild(draw("text", { x: left, y: 136, "class": "key" },
      "tokens in order; the chosen one is orange"));
    box.appendChild(svg);
  }

  // The power diagram
  // ---------------------------------------------------------------------------------------------

  var selects = ["three-0", "three-1", "three-2"].map(byId);
  selects.forEach(function (select, i) {
    for (var t = 0; t < m.nQueries; t++) { select.appendChild(make("option", { value: t }, t + ": " +
      short(words[t], 20))); }
    select.addEventListener("change", function () {
      chosen.three[i] = Number(select.value);
      chosen.ownThree = true;
      drawDiagram();
    });
  });
  function chooseThree(row) {
    var exact = data.spanning[chosen.layer];
    if (!chosen.ownThree && exact) { chosen.three = exact.slice(); } // those of the layer's exact picture
    if (!chosen.three) {
      // the read-out, and two tokens that this head sends elsewhere, so that something is seen
      var three = [readOut], keys = [m.order[(row * m.nQueries + readOut) * m.kept]];
      for (var round = 0; round < 2; round++) {
        for (var t = 0; t < m.nQueries && three.length < 3; t++) {
          var key = m.order[(row * m.nQueries + t) * m.kept];
          if (three.indexOf(t) < 0 && (round || keys.indexOf(key) < 0)) { three.push(t); keys.push(key); }
        }
      }
      chosen.three = three;
    }
    selects.forEach(function (select, i) { select.value = String(chosen.three[i]); });
  }

  function drawDiagram() {
    var box = byId("diagram"), said = byId("diagram-said");
    box.textContent = "";
    var found = chosen.three.length === 3 ? Routes.diagram(m, chosen.layer, chosen.head, chosen.three) : null;
    if (!found) {
      said.textContent = "These three tokens do not span a plane for this head; choose others.";
      return;
    }
    var size = [found.high[0] - found.low[0], found.high[1] - found.low[1]];
    var unit = Math.min(356 / size[0], 340 / size[1]), wide = unit * size[0], tall = unit * size[1];
    var svg = draw("svg", { viewBox: "0 0 360 " + (tall + 4).toFixed(0), role: "img", "class": "drawing",
      "aria-label": "Power diagram of layer " + chosen.layer + ", head " + chosen.head });
    function place(p) { return [2 + unit * (p[0] - found.low[0]), 2 + tall - unit * (p[1] - found.low[1])]; }
    var row = m.starts[chosen.layer] + chosen.head, wins = {}, asked = 0;
    for (var t = 0; t < m.nQueries; t++) {
      if (!m.readable[chosen.layer][t]) { continue; }
      var own = m.order[(row * m.nQueries + t) * m.kept];
      wins[own] = (wins[own] || 0) + 1;
      asked += 1;
    }
    found.cells.forEach(function (one) {
      var share = (wins[one.key] || 0) / asked;
      var level = share === 0 ? 0 : share < 0.25 ? 1 : 2; // light ones, so that dots stand out
      var corners = one.polygon.map(function (p) { return place(p).map(function (v) { return v.toFixed(1);
        }).join(","); });
      var cellShape = draw("polygon", { points: corners.join(" "), "class": "heat-" + level + " wall" });
      cellShape.appendChild(draw("title", {}, "Here " + visible(keyWords[one.key]) + " (position " +
        one.key + ") wins; it wins " +
        (wins[one.key] || 0) + " of " + asked + " queries"));
      svg.appendChild(cellShape);
      var middle = [0, 0], xs = one.polygon.map(function (p) { return place(p)[0]; }),
        ys = one.polygon.map(function (p) { return place(p)[1]; });
      one.polygon.forEach(function (p) { var at = place(p); middle[0] += at[0] / one.polygon.length;
        middle[1] += at[1] / one.polygon.length; });
      var word = short(keyWords[one.key], 12);
      if (Math.max.apply(null, xs) - Math.min.apply(null, xs) > 6 * word.length && Math.max.apply(null,
        ys) - Math.min.apply(null, ys) > 14) {
        svg.appendChild(draw("text", { x: middle[0], y: middle[1], "class": "on-" + level + " small",
          "text-anchor": "middle", "pointer-events": "none" }, word));
      }
    });
    var filled = 0, drawn = 0;
    found.places.forEach(function (p, t) {
      if (!p) { return; }
      var at = place(p), three = chosen.three.indexOf(t) >= 0;
      var dot = draw("circle", { cx: at[0], cy: at[1], r: three ? 4 : 2.6, "class": found.holds[t]
        ? "token" : "token hollow" });
      dot.appendChild(draw("title", {}, visible(words[t]) + ", position " + t + (found.holds[t]
        ? "" : ": its own key does not win here")));
      svg.appendChild(dot);
      drawn += 1;
      filled += found.holds[t] ? 1 : 0;
      if (three) {
        svg.appendChild(draw("text", { x: Math.min(at[0] + 6, 300), y: at[1] - 5, "class": "small halo",
          "pointer-events": "none" }, short(words[t], 12)));
      }
    });
    box.appendChild(svg);
    var keys = found.nKeys < m.nKeys ? "the " + found.nKeys + " keys kept for this head, of " + m.nKeys +
      "," : "all " + m.nKeys + " keys";
    said.textContent = found.cells.length + (found.cells.length === 1 ? " cell of " : " cells of ") + keys +
      " in this window. Inside a cell its key wins; tinted cells win queries of this text, strongly " +
      "tinted ones a quarter of them or more. " +
      filled + " of " + drawn +
        " queries are filled: at their place their own key wins. The others are hollow." +
      (m.present === null ? "" : " Masks are those of " + visible(words[found.lead]) + ".") +
      " A token off the plane stands where the scores match its own best.";
    byId("diagram-exact").hidden = String(data.spanning[chosen.layer]) !== String(chosen.three);
    box.dataset.filled = filled;
    box.dataset.cells = found.cells.length;
  }

  // Show all of it
  // ------------------------------------------------------------------------------------------------

  app.hidden = false;
  rule();
  byId("routes").querySelector(".routes").scrollLeft = wide;
  var repaint = function () { drawLines(); if (chosen.head !== null) { drawPattern(m.starts[chosen.layer] +
    chosen.head); } };
  new MutationObserver(repaint).observe(document.documentElement, { attributes: true,
    attributeFilter: ["data-theme"] });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  return { leadTo: leadTo };
};

// Heads that a verdict names become buttons that lead to their panel.
var linkHeads = function (verdict, heads, leadTo) {
  "use strict";
  var named = /layer (\d+) head (\d+)/g;
  var walker = document.createTreeWalker(verdict, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) { texts.push(walker.currentNode); }
  texts.forEach(function (text) {
    var parts = document.createDocumentFragment(), at = 0, found;
    named.lastIndex = 0;
    while ((found = named.exec(text.data)) !== null) {
      var layer = Number(found[1]), head = Number(found[2]);
      if (!(layer < heads.length && head < heads[layer])) { continue; }
      var button = document.createElement("button");
      button.type = "button";
      button.className = "to-head";
      button.dataset.layer = layer;
      button.dataset.head = head;
      button.textContent = found[0];
      parts.appendChild(document.createTextNode(text.data.slice(at, found.index)));
      parts.appendChild(button);
      at = named.lastIndex;
    }
    parts.appendChild(document.createTextNode(text.data.slice(at)));
    if (at) { text.parentNode.replaceChild(parts, text); }
  });
  verdict.addEventListener("click", function (event) {
    var one = event.target.closest(".to-head");
    if (one) { leadTo(Number(one.dataset.layer), Number(one.dataset.head)); }
  });
};
