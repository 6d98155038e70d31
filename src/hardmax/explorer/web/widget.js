// The explorer as a widget of a notebook (anywidget): the same page in a frame; questions go on to Python.

export default {
  render({ model, el }) {
    const frame = document.createElement("iframe");
    frame.title = "hardmax explorer";
    frame.setAttribute("sandbox", "allow-scripts allow-downloads"); // it reaches nothing of the notebook but by messages
    frame.style.cssText = "width: 100%; height: 900px; border: 0";
    frame.srcdoc = model.get("page");
    const hear = event => { if (event.source === frame.contentWindow) model.send(event.data); };
    const tell = answer => frame.contentWindow?.postMessage(answer, "*");
    window.addEventListener("message", hear);
    model.on("msg:custom", tell);
    el.append(frame);
    return () => { window.removeEventListener("message", hear); model.off("msg:custom", tell); };
  },
};
