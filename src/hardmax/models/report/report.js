// Sorting, the light and dark switch, and saving figures and numbers. Plain script, no network; without it
// the
// page is complete and in the order of the layers.
(function () {
  "use strict";

  // Sorting -------------------------------------------------------------------------------------------------
  var table = document.getElementById("table");
  var said = document.getElementById("said");
  if (table) {
    var heads = Array.prototype.slice.call(table.querySelectorAll("thead th[aria-sort]"));
    var body = table.tBodies[0];
    heads.forEach(function (head, column) {
      head.querySelector("button").addEventListener("click", function () {
        // numbers fall at first, because large ones are looked for; layer and head rise
        var first = column < 2 ? "ascending" : "descending";
        var other = first === "ascending" ? "descending" : "ascending";
        var order = head.getAttribute("aria-sort") === first ? other : first;
        var sign = order === "ascending" ? 1 : -1;
        var rows = Array.prototype.slice.call(body.rows).map(function (row, place) {
          var value = row.cells[column].getAttribute("data-v");
          return { row: row, place: place, value: value === "" ? null : Number(value) };
        });
        rows.sort(function (a, b) {
          if (a.value === null || b.value === null) {
            return (a.value === null) - (b.value === null) || a.place - b.place; // what is absent comes last
          }
          return sign * (a.value - b.value) || a.place - b.place;
        });
        rows.forEach(function (entry) { body.appendChild(entry.row); });
        heads.forEach(function (one) { one.setAttribute("aria-sort", one === head ? order : "none"); });
        said.textContent = "Sorted by " + head.querySelector("button").textContent + ", " + order + ".";
      });
    });
  }

  // Sections that are collapsed open when they are asked for ------------------------------------------------
  function unfold() {
    var named = /^#[\w-]+$/.test(location.hash) ? document.querySelector(location.hash) : null;
    var inside = named && named.querySelector(":scope > details");
    if (inside) { inside.open = true; }
  }
  window.addEventListener("hashchange", unfold);
  Array.prototype.forEach.call(document.querySelectorAll("nav a"), function (link) {
    link.addEventListener("click", function () { setTimeout(unfold, 0); });
  });
  unfold();

  // What scrolls says so
  // -------------------------------------------------------------------------------------
  var boxes = Array.prototype.slice.call(document.querySelectorAll(".wide, .routes"));
  function hidden(box) {
    box.classList.toggle("more-right", box.scrollWidth - box.clientWidth - box.scrollLeft > 2);
    box.classList.toggle("more-below", box.scrollHeight - box.clientHeight - box.scrollTop > 2);
  }
  boxes.forEach(function (box) {
    box.addEventListener("scroll", function () { hidden(box); });
    hidden(box);
  });
  window.addEventListener("resize", function () { boxes.forEach(hidden); });

  // Light and dark ------------------------------------------------------------------------------------------
  var root = document.documentElement;
  var lamp = document.getElementById("theme");
  var key = "hardmax-report-theme";
  function isDark() {
    var chosen = root.getAttribute("data-theme");
    return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function show() {
    lamp.setAttribute("aria-pressed", String(isDark()));
    lamp.textContent = isDark() ? "Light" : "Dark";
    lamp.setAttribute("aria-label", isDark() ? "Switch to light" : "Switch to dark");
  }
  try { // some browsers keep nothing for pages from disk
    var kept = window.localStorage.getItem(key);
    if (kept === "dark" || kept === "light") { root.setAttribute("data-theme", kept); }
  } catch (error) { kept = null; }
  lamp.hidden = false;
  lamp.addEventListener("click", function () {
    var next = isDark() ? "light" : "dark";
    root.setAttribute("data-theme", next);
    try { window.localStorage.setItem(key, next); } catch (error) { kept = null; }
    show();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();

  // Saving --------------------------------------------------------------------------------------------------
  function save(name, type, text) {
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: type }));
    link.download = name;
    link.click();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
  }
  var data = JSON.parse(document.getElementById("data").textContent);
  // The table of heads as objects: what is quoted is a word, what is not a number.
  function rowsOf(csv) {
    var rows = [[]], field = /(?:"((?:[^"]|"")*)"|([^,\n]*))(,|\n)/g, found;
    while ((found = field.exec(csv)) !== null) {
      var quoted = found[1] !== undefined;
      rows[rows.length - 1].push(quoted ? found[1].replace(/""/g, '"') : Number(found[2]));
      if (found[3] === "\n") { rows.push([]); }
    }
    return rows.slice(1, -1).map(function (row) {
      var one = {};
      row.forEach(function (value, i) {
        one[rows[0][i]] = value === "" && rows[0][i] !== "sink_token" ? null : value;
      });
      return one;
    });
  }
  Array.prototype.forEach.call(document.querySelectorAll("[data-save]"), function (button) {
    button.hidden = false;
    button.addEventListener("click", function () {
      var what = button.getAttribute("data-save");
      if (what === "csv") { save("heads.csv", "text/csv;charset=utf-8", data.csv); return; }
      if (what === "json") { save("heads.json", "application/json", JSON.stringify(rowsOf(data.csv), null,
        1)); return; }
      var drawing = document.getElementById(what).querySelector("svg").cloneNode(true);
      var box = drawing.getAttribute("viewBox").split(" ");
      drawing.setAttribute("xmlns", "http://www.w3.org/2000/svg");
      drawing.setAttribute("width", box[2]);
      drawing.setAttribute("height", box[3]);
      var style = document.createElementNS("http://www.w3.org/2000/svg", "style");
      style.textContent = data.style;
      drawing.insertBefore(style, drawing.firstChild);
      save(what + ".svg", "image/svg+xml", new XMLSerializer().serializeToString(drawing));
    });
  });
})();
