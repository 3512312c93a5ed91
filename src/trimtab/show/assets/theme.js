// The theme chosen on an earlier page, before anything is drawn; without one, the system's.
(function () {
  try {
    const chosen = localStorage.getItem("trimtab-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch (error) { /* a page from disk may be refused its storage: then the system decides */ }
})();
