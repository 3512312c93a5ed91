// Draws every figure to the width of the page, also in sections that are still closed, so that a page is ready to print.
(function () {
  "use strict";
  const AXIS = 90, GAP = 24, LEAST = 120, NARROW = 560;
  const main = document.querySelector("main");
  const boxes = Array.from(document.querySelectorAll("div.chart"));

  // On a narrow page legends get fewer columns and axes fewer labels.
  function narrowed(part, share) {
    if (!part || typeof part !== "object") return;
    if (part.legend && part.legend.columns) part.legend.columns = Math.max(1, Math.round(part.legend.columns * share));
    if (part.axis && part.axis.tickCount > 4) part.axis.tickCount = 4;
    Object.keys(part).filter((key) => key !== "datasets" && key !== "data").forEach((key) => narrowed(part[key], share));
  }

  // Panels share the width there is: as many columns as asked for, or a divisor of that when the page is narrow.
  function fitted(spec, width) {
    const made = JSON.parse(JSON.stringify(spec)), meta = made.usermeta || {};
    if (width < NARROW) narrowed(made, (width - AXIS) / 480);
    if (made.facet) {
      const wanted = meta.columns || made.columns || 1, labels = meta.labels || 0; // of rows, where each panel has its own
      const room = (n) => Math.floor((width - AXIS - (n - 1) * GAP) / n) - labels;
      if (made.facet.row || made.facet.column) { // a grid keeps its columns, however narrow
        made.spec.width = Math.max(80, Math.min(room(wanted), 520));
        delete made.columns;
        return made;
      }
      const least = wanted > 2 ? LEAST : 230;
      let columns = wanted;
      while (columns > 1 && (room(columns) < least || wanted % columns)) columns -= 1;
      made.columns = columns;
      made.spec.width = Math.max(110, Math.min(room(columns), 520));
      if (columns === 1 && meta.square) made.spec.height = Math.min(made.spec.width, 280);
    } else if (!meta.fixed) {
      made.width = width;
      made.autosize = { type: "fit-x", contains: "padding" };
    }
    return made;
  }

  function width() {
    const style = getComputedStyle(main);
    return Math.floor(main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
  }

  function draw(box) {
    const spec = JSON.parse(box.nextElementSibling.textContent);
    box.dataset.width = width();
    return vegaEmbed(box, fitted(spec, width()), {
      mode: "vega-lite", renderer: "svg", tooltip: { theme: "custom" },
      actions: { export: true, source: false, compiled: false, editor: false },
    }).then(() => { box.dataset.drawn = "1"; recolor(box); }, (error) => { box.textContent = String(error); console.error(error); });
  }

  // In the dark a colour keeps its hue and turns its lightness around. Figures stay as they were drawn: a style sheet
  // names both colours, so that the theme changes, and paper stays white, without drawing anything again.
  const sheet = document.head.appendChild(document.createElement("style")).sheet, known = new Set();

  function inverted(color) {
    const dot = document.createElement("canvas").getContext("2d");
    dot.fillStyle = color;
    const rgb = dot.fillStyle.match(/[\da-f]{2}/gi).slice(0, 3).map((part) => parseInt(part, 16) / 255);
    const high = Math.max(...rgb), low = Math.min(...rgb), span = high - low, light = (high + low) / 2;
    const turned = 0.94 - 0.854 * light, grey = span < 0.03; // nearly white is paper, not a deep blue
    const saturation = grey ? 0.12 : span / (1 - Math.abs(2 * turned - 1));
    const [r, g, b] = rgb;
    const hue = grey ? 210 : 60 * (high === r ? ((g - b) / span + 6) % 6 : high === g ? (b - r) / span + 2 : (r - g) / span + 4);
    return `hsl(${hue.toFixed(0)} ${(100 * Math.min(saturation, 0.85)).toFixed(0)}% ${(100 * turned).toFixed(1)}%)`;
  }

  function recolor(box) {
    for (const name of ["fill", "stroke", "stop-color"]) {
      for (const part of box.querySelectorAll(`svg.marks [${name}]`)) {
        const color = part.getAttribute(name);
        if (known.has(name + color) || !/^(#|rgb\(|white|black)/.test(color)) continue;
        known.add(name + color);
        sheet.insertRule(`svg.marks [${name}="${color}"] { ${name}: light-dark(${color}, ${inverted(color)}); }`);
      }
    }
  }

  // What can be seen comes first; the rest follows while the page is already there.
  async function drawAll(which) {
    const seen = (box) => (box.checkVisibility ? box.checkVisibility() : box.offsetParent !== null);
    for (const box of [...which.filter(seen), ...which.filter((b) => !seen(b))]) {
      await draw(box);
      await new Promise((go) => setTimeout(go));
    }
  }
  drawAll(boxes).then(() => { document.documentElement.dataset.ready = "1"; });

  let waiting;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => drawAll(boxes.filter((b) => +b.dataset.width !== width())), 150);
  });
})();
