(function () {
  "use strict";
  const AXIS = 90, GAP = 24, NARROW = 120;

  // Legends get fewer columns on a narrow page.
  function narrowed(part, share) {
    if (!part || typeof part !== "object") return;
    if (part.legend && part.legend.columns) part.legend.columns = Math.max(1, Math.round(part.legend.columns * share));
    Object.keys(part).filter((key) => key !== "datasets" && key !== "data").forEach((key) => narrowed(part[key], share));
  }

  // Panels share the width there is: as many columns as asked for, or a divisor of that when the page is narrow.
  function fitted(spec, width) {
    const made = JSON.parse(JSON.stringify(spec));
    if (width < 560) narrowed(made, (width - AXIS) / 480);
    if (made.facet) {
      let columns = (made.usermeta && made.usermeta.columns) || made.columns || 1;
      const labels = (made.usermeta && made.usermeta.labels) || 0; // of rows, where every panel has its own
      const room = (n) => Math.floor((width - AXIS - (n - 1) * GAP) / n) - labels;
      const least = columns > 2 ? NARROW : 230;
      while (columns > 1 && (room(columns) < least || made.usermeta.columns % columns)) columns -= 1;
      made.columns = columns;
      made.spec.width = Math.max(110, Math.min(room(columns), 520));
      if (columns === 1 && made.usermeta.square) made.spec.height = Math.min(made.spec.width, 280);
    } else if (!(made.usermeta && made.usermeta.fixed)) {
      made.width = "container";
      made.autosize = { type: "fit-x", contains: "padding" };
    }
    return made;
  }

  function draw(box) {
    const spec = JSON.parse(box.nextElementSibling.textContent);
    const width = box.clientWidth;
    box.dataset.width = width;
    return vegaEmbed(box, fitted(spec, width), {
      mode: "vega-lite", renderer: "svg",
      actions: { export: true, source: false, compiled: false, editor: false },
    }).then(() => { box.dataset.drawn = "1"; }, (error) => { box.textContent = String(error); console.error(error); });
  }

  const boxes = Array.from(document.querySelectorAll("div.chart"));
  Promise.all(boxes.map(draw)).then(() => { document.documentElement.dataset.ready = "1"; });

  let waiting;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => boxes.filter((b) => +b.dataset.width !== b.clientWidth).forEach(draw), 150);
  });
})();
