// Choosing a text, sorting, the light and dark switch, and saving figures and numbers. Plain script, no
// network; without it the page is complete, with all its texts one below the other.
(function () {
  "use strict";

  var data = JSON.parse(document.getElementById("data").textContent);
  var said = document.getElementById("said");

  // Sorting -------------------------------------------------------------------------------------------------
  Array.prototype.forEach.call(document.querySelectorAll("table.heads"), function (table) {
    var heads = Array.prototype.slice.call(table.querySelectorAll("thead th[aria-sort]"));
    var body = table.tBodies[0];
    heads.forEach(function (head, column) {
      head.querySelector("button").addEventListener("click", function () {
        // numbers fall at first, because large ones are looked for; layer and head rise
        var first = head.classList.contains("pin") ? "ascending" : "descending";
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
  });

  // One of several texts at a time; what it shows is made when it is chosen ---------------------------------
  var views = [], shown = 0;
  function prefixOf(index) { return data.texts[index].prefix; }
  function openText(index) {
    var text = data.texts[index];
    if (!views[index] && text.attention) {
      views[index] = RoutesView(text.prefix, text);
      linkHeads(document.getElementById(text.prefix + "verdict"), text.attention.heads,
        views[index].leadTo);
    }
  }
  function chooseText(index) {
    shown = index;
    Array.prototype.forEach.call(document.querySelectorAll(".one-text"), function (one, i) {
      one.hidden = i !== index;
    });
    Array.prototype.forEach.call(document.querySelectorAll("nav .of-text a"), function (link) {
      link.setAttribute("href", "#" + prefixOf(index) + link.getAttribute("data-section"));
    });
    openText(index);
    boxes.forEach(hidden);
  }
  var chooser = document.getElementById("text-choice");
  if (chooser) {
    chooser.addEventListener("change", function () { chooseText(Number(chooser.value)); });
    Array.prototype.forEach.call(document.querySelectorAll("[data-choose]"), function (button) {
      button.hidden = false;
      button.addEventListener("click", function () {
        chooser.value = button.getAttribute("data-choose");
        chooseText(Number(chooser.value));
        document.getElementById("one-text").scrollIntoView();
        chooser.focus({ preventScroll: true });
      });
    });
    document.getElementById("choose-row").hidden = false;
    if (data.heads) { // the verdict over all texts leads into the text that is shown
      linkHeads(document.getElementById("verdict"), data.heads, function (layer, head) {
        if (views[shown]) { views[shown].leadTo(layer, head); }
      });
    }
  }

  // Sections that are collapsed open when they are asked for ------------------------------------------------
  function unfold() {
    var named = /^#[\w-]+$/.test(location.hash) ? document.querySelector(location.hash) : null;
    var text = named && named.closest(".one-text");
    if (text && text.hidden) { // a link into another text
      var all = Array.prototype.slice.call(document.querySelectorAll(".one-text"));
      chooser.value = String(all.indexOf(text));
      chooseText(all.indexOf(text));
      named.scrollIntoView();
    }
    var inside = named && named.querySelector(":scope > details");
    if (inside) { inside.open = true; }
  }
  window.addEventListener("hashchange", unfold);
  Array.prototype.forEach.call(document.querySelectorAll("nav a"), function (link) {
    link.addEventListener("click", function () { setTimeout(unfold, 0); });
  });

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
  chooseText(0);
  unfold();

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
        one[rows[0][i]] = value === "" && !/^sink(_token)?$/.test(rows[0][i]) ? null : value;
      });
      return one;
    });
  }
  Array.prototype.forEach.call(document.querySelectorAll("[data-save]"), function (button) {
    button.hidden = false;
    button.addEventListener("click", function () {
      var what = button.getAttribute("data-save");
      var csv = button.dataset.text === undefined ? data.csv : data.texts[Number(button.dataset.text)].csv;
      if (what === "csv") { save("heads.csv", "text/csv;charset=utf-8", csv); return; }
      if (what === "json") {
        save("heads.json", "application/json", JSON.stringify(rowsOf(csv), null, 1));
        return;
      }
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
