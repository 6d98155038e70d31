// The few kinds of controls the page has. Each is made once and refreshed after every change.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  Object.entries(attributes).forEach(([key, value]) => {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null) made.setAttribute(key, value);
  });
  made.append(...children);
  return made;
}

let counter = 0;

export class Controls {
  constructor(host) { this.host = host; this.refreshers = []; host.replaceChildren(); }

  refresh() { this.refreshers.forEach(refresh => refresh()); }

  _row(row, when) {
    this.host.append(row);
    if (when) this.refreshers.push(() => { row.hidden = !when(); });
  }

  // One of a few words.
  choice(label, options, get, set, when) {
    const name = `choice${counter++}`;
    const inputs = options.map(([value, text]) => {
      const input = element("input", { type: "radio", name, value, onchange: () => set(value) });
      return [input, element("label", {}, input, element("span", {}, text))];
    });
    this._row(element("fieldset", { class: "choice" }, element("legend", {}, label), element("div", {}, ...inputs.map(([, one]) => one))), when);
    this.refreshers.push(() => inputs.forEach(([input]) => { input.checked = input.value === String(get()); }));
  }

  // A number; `set(value, true)` while it moves and `set(value, false)` when it is released.
  slider(label, { min, max, step, get, set, show, when }) {
    const id = `slider${counter++}`, output = element("output", { for: id });
    const input = element("input", {
      type: "range", id, min, max, step,
      oninput: () => set(Number(input.value), true), onchange: () => set(Number(input.value), false),
    });
    this._row(element("div", { class: "slider" }, element("label", { for: id }, label), output, input), when);
    this.refreshers.push(() => { input.value = get(); output.textContent = show(); input.setAttribute("aria-valuetext", show()); });
  }

  buttons(list, when) {
    const made = list.map(([text, act, enabled]) => {
      const button = element("button", { type: "button", onclick: act }, text);
      if (enabled) this.refreshers.push(() => { button.disabled = !enabled(); });
      return button;
    });
    this._row(element("div", { class: "row" }, ...made), when);
  }

  // Switches, as many as there are at the moment.
  switches(label, count, textOf, get, set) {
    const box = element("div", { class: "switches" });
    this._row(element("fieldset", { class: "choice" }, element("legend", {}, label), box));
    this.refreshers.push(() => {
      while (box.children.length > count()) box.lastChild.remove();
      while (box.children.length < count()) {
        const i = box.children.length;
        const input = element("input", { type: "checkbox", onchange: () => set(i, input.checked) });
        box.append(element("label", {}, input, element("span", {})));
      }
      [...box.children].forEach((one, i) => { one.firstChild.checked = get(i); one.lastChild.textContent = textOf(i); });
    });
  }

  // A sentence that changes.
  note(textOf, className = "note") {
    const line = element("p", { class: className });
    this.host.append(line);
    this.refreshers.push(() => { const text = textOf(); line.textContent = text; line.hidden = !text; });
  }
}
