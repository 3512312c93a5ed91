// Theme, folded sections, sliders and the copy button. The page can be read without any of this.
(function () {
  "use strict";
  const root = document.documentElement;
  const all = (selector) => Array.from(document.querySelectorAll(selector));

  // The theme: the system's until somebody presses the button.
  const dark = () => root.dataset.theme === "dark" ||
    (root.dataset.theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const button = document.createElement("button");
  button.type = "button";
  button.className = "theme";
  const named = () => {
    button.textContent = dark() ? "☀" : "☾";
    button.title = button.ariaLabel = dark() ? "light" : "dark";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("trimtab-theme", root.dataset.theme); } catch (error) { /* only for this page then */ }
    named();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", named);
  named();
  document.querySelector("main").prepend(button);

  // Folded sections: a link opens its section; printing opens all and closes them again.
  const folds = all("details.folded, details.claim"), unfold = document.querySelector(".unfold");
  const openAt = (hash) => {
    const target = hash.length > 1 && document.getElementById(decodeURIComponent(hash.slice(1)));
    if (target && target.matches("details")) target.open = true;
  };
  all("nav.contents a").forEach((link) => link.addEventListener("click", () => openAt(link.hash)));
  window.addEventListener("hashchange", () => openAt(location.hash));
  openAt(location.hash);
  if (unfold) {
    unfold.hidden = !folds.length;
    const shut = () => folds.some((fold) => !fold.open);
    const label = () => { unfold.textContent = shut() ? "open all" : "close all"; };
    unfold.addEventListener("click", () => { const open = shut(); folds.forEach((fold) => { fold.open = open; }); });
    folds.forEach((fold) => fold.addEventListener("toggle", label));
  }
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = folds.filter((fold) => !fold.open);
    closed.forEach((fold) => { fold.open = true; });
  });
  window.addEventListener("afterprint", () => closed.forEach((fold) => { fold.open = false; }));

  // Sliders: one frame at a time, everything in it at once.
  all("div.slider").forEach((slider) => {
    const input = slider.querySelector("input[type=range]");
    if (!input) return;
    const frames = Array.from(slider.querySelectorAll(":scope > .frame")), output = slider.querySelector("output");
    const show = () => {
      frames.forEach((frame, place) => frame.classList.toggle("shown", place === +input.value));
      output.textContent = frames[+input.value].dataset.label;
    };
    slider.classList.add("live");
    input.addEventListener("input", show);
    show();
  });

  all("button.copy").forEach((copy) => copy.addEventListener("click", () => {
    const code = copy.parentElement.querySelector("code");
    const said = (text) => { copy.textContent = text; setTimeout(() => { copy.textContent = "copy"; }, 1500); };
    const select = () => { getSelection().selectAllChildren(code); said("selected"); };
    if (!navigator.clipboard) return select();
    navigator.clipboard.writeText(code.textContent).then(() => said("copied"), select);
  }));
})();
