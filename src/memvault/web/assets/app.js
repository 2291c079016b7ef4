// Search as you type, keys, code colors and the chart. Without scripts, every page can be read.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  // The base URL of the server: the folder of this script.
  const base = document.currentScript.src.replace(/[^/]*$/, "");
  const form = $("search");
  const results = $("results");
  let latest = 0;
  let chosen = -1;

  if (form) {
    let timer = 0;
    const search = async () => {
      const number = ++latest;
      const filled = [...new FormData(form)].filter(([, value]) => value);
      const asked = new URLSearchParams(filled).toString();
      const answer = await fetch(`${base}results?${asked}`).catch(() => null);
      if (number !== latest || !answer?.ok) return;
      results.innerHTML = await answer.text();
      chosen = -1;
      history.replaceState(null, "", `${base}?${asked}`);
    };
    form.addEventListener("input", (event) => {
      clearTimeout(timer);
      timer = setTimeout(search, event.target.id === "q" ? 80 : 0);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(timer);
      search();
    });
  }

  // In a large vault, the types and tags are counted after the first page is shown.
  const complete = async () => {
    const answer = await fetch(location.href).catch(() => null);
    const page = new DOMParser().parseFromString(answer?.ok ? await answer.text() : "", "text/html");
    const filters = page.querySelector("#filters:not([data-incomplete])");
    if (filters) $("filters").replaceWith(filters);
    else setTimeout(complete, 2000);
  };
  if ($("filters")?.hasAttribute("data-incomplete")) setTimeout(complete, 1000);

  const choose = (step) => {
    const entries = [...document.querySelectorAll(".results li")];
    if (!entries.length) return;
    chosen = Math.max(0, Math.min(entries.length - 1, chosen + step));
    entries.forEach((entry, number) => entry.classList.toggle("chosen", number === chosen));
    entries[chosen].querySelector("a, button").focus();
  };
  const visit = (page) => document.querySelector(`nav a[data-page=${page}]`)?.click();
  results?.addEventListener("replaced", () => { chosen = -1; });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing) event.target.blur();
    if (event.key === "ArrowDown" && event.target === $("q")) {
      event.preventDefault();
      choose(1);
    }
    if (typing) return;
    const keys = {
      "/": () => ($("q") || $("find") || { focus: () => visit("search") }).focus(),
      j: () => choose(1),
      k: () => choose(-1),
      g: () => visit("map"),
      t: () => visit("tags"),
      o: () => visit("overview"),
      "?": () => $("keys")?.showModal(),
    };
    if (Object.hasOwn(keys, event.key)) {
      event.preventDefault();
      keys[event.key]();
    }
  });

  const review = document.querySelector("#review a[data-page=review]");
  if (review) {
    fetch(review.href).then(async (answer) => {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (answer.ok) $("review").replaceChildren(...page.getElementById("review").childNodes);
    });
  }

  const MAX_CODE = 20_000;
  for (const code of document.querySelectorAll("pre code[class^=language-]")) {
    const language = code.className.slice("language-".length);
    const known = globalThis.memvaultHighlight?.getLanguage(language);
    if (known && code.textContent.length < MAX_CODE) globalThis.memvaultHighlight.highlightElement(code);
  }

  // A block must be focusable to be scrolled by keyboard.
  for (const block of document.querySelectorAll("pre, .text table")) if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;

  const growth = $("growth");
  if (growth && globalThis.uPlot) {
    const cells = [...document.querySelectorAll("#months tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
    const months = cells.map(([name]) => Date.UTC(...name.split("-").map((part, place) => Number(part) - place)) / 1000);
    const counts = cells.map(([, count]) => Number(count));
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 } };
    const options = {
      width: growth.clientWidth,
      height: 230,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      cursor: { points: { size: 8 } },
      scales: { y: { range: (_, _least, most) => [0, Math.max(1, most * 1.08)] } },
      axes: [axis, { ...axis, size: 64, values: (_, values) => values.map((value) => value.toLocaleString()), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5] }],
      series: [
        { label: "month", value: (_, seconds) => new Date((seconds ?? months.at(-1)) * 1000).toISOString().slice(0, 7) },
        { label: "memories", stroke: color("--accent"), fill: color("--accent-soft"), width: 2, points: { show: true, size: 6 }, value: (_, count) => (count ?? counts.at(-1)).toLocaleString() },
      ],
    };
    const plot = new uPlot(options, [months, counts], growth);
    addEventListener("resize", () => plot.setSize({ width: growth.clientWidth, height: 230 }));
  }
})();
