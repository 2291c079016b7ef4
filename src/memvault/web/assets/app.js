// Live search, keys and the map. Without it every page works except the map, which has a list.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  // A graph file or a page of a static site contains its data; otherwise it is requested from the server.
  const own = $("data") ? JSON.parse($("data").textContent) : window.memvaultSite || null;
  // The folder of all addresses of the server, which is that of this script.
  const base = document.currentScript.src.replace(/[^/]*$/, "");
  const query = $("q");
  const results = $("results");
  let latest = 0;
  let chosen = -1;

  if (query && results && !own) {
    let timer = 0;
    query.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(async () => {
        const number = ++latest;
        const asked = new URLSearchParams(new FormData(query.form)).toString();
        const answer = await fetch(`${base}results?${asked}`);
        const text = await answer.text();
        if (number === latest && answer.ok) {
          results.innerHTML = text;
          chosen = -1;
          history.replaceState(null, "", `${base}?${asked}`);
        }
      }, 80);
    });
  }

  const choose = (step) => {
    const entries = [...document.querySelectorAll(".results li")];
    if (!entries.length) return;
    chosen = Math.max(0, Math.min(entries.length - 1, chosen + step));
    entries.forEach((entry, number) => entry.classList.toggle("chosen", number === chosen));
    entries[chosen].querySelector("a").focus();
  };
  const visit = (page) => document.querySelector(`nav a[data-page=${page}]`)?.click();
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing) return;
    const keys = {
      "/": () => (query || $("find") || { focus: () => visit("search") }).focus(),
      j: () => choose(1),
      k: () => choose(-1),
      g: () => visit("map"),
      "?": () => $("keys") && $("keys").showModal(),
    };
    if (keys[event.key]) {
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

  const canvas = $("map");
  if (!canvas && !(own && $("find"))) return;
  const COLORS = ["#0b57d0", "#b3261e", "#146c2e", "#8f4e00", "#6f43c0", "#00696d", "#a33b6b", "#5f6368"];
  const context = canvas?.getContext("2d");
  const unsearched = results?.innerHTML;
  let data = { nodes: [], edges: [] };
  let by = "links";
  let view = { x: 0, y: 0, scale: 1 };
  let found = null;
  let hovered = -1;

  const size = () => {
    if (!canvas) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  };
  const place = (node) => {
    const half = Math.min(canvas.clientWidth, canvas.clientHeight) / 2.3;
    return [
      canvas.clientWidth / 2 + (node[by][0] * view.scale + view.x) * half,
      canvas.clientHeight / 2 + (node[by][1] * view.scale + view.y) * half,
    ];
  };
  const colors = () => {
    const types = [...new Set(data.nodes.map((node) => node.type))];
    return (node) => COLORS[types.indexOf(node.type) % COLORS.length];
  };
  const draw = () => {
    if (!canvas) return;
    const style = getComputedStyle(document.body);
    const color = colors();
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    const places = data.nodes.map(place);
    context.strokeStyle = style.color;
    context.globalAlpha = 0.15;
    context.beginPath();
    for (const [from, to] of data.edges) {
      context.moveTo(...places[from]);
      context.lineTo(...places[to]);
    }
    context.stroke();
    const radius = Math.max(1.5, Math.min(6, 60 / Math.sqrt(data.nodes.length || 1)) * Math.sqrt(view.scale));
    data.nodes.forEach((node, number) => {
      const fits = !found || found.has(number);
      context.globalAlpha = fits ? 1 : 0.12;
      context.fillStyle = color(node);
      context.beginPath();
      context.arc(...places[number], number === hovered ? radius * 1.8 : radius, 0, 7);
      context.fill();
    });
    context.globalAlpha = 1;
    context.fillStyle = style.color;
    context.font = "12px system-ui, sans-serif";
    const named = found && found.size < 60 ? [...found] : view.scale > 4 || data.nodes.length < 60 ? data.nodes.keys() : [];
    let written = 0;
    for (const number of named) {
      const [x, y] = places[number];
      if (x < 0 || y < 0 || x > canvas.clientWidth || y > canvas.clientHeight || written++ > 150) continue;
      context.fillText(data.nodes[number].title.slice(0, 40), x + radius + 2, y + 4);
    }
  };
  const nearest = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = -1;
    let least = 144;
    data.nodes.forEach((node, number) => {
      const [px, py] = place(node);
      const apart = (px - x) ** 2 + (py - y) ** 2;
      if (apart < least) [best, least] = [number, apart];
    });
    return best;
  };
  const read = (number) => {
    const node = data.nodes[number];
    if (!own || node.address) return location.assign(node.address || `${base}m/${encodeURIComponent(node.id)}`);
    const article = $("reading");
    article.innerHTML = own.texts[node.id] || "";
    for (const image of article.querySelectorAll("img[src^='data:,']")) {
      image.src = own.pictures[parseInt(image.getAttribute("src").slice(6), 10)];
    }
    const title = document.createElement("h2");
    title.textContent = node.title;
    article.prepend(title);
    for (const link of article.querySelectorAll("a[href^='/']")) {
      const id = decodeURIComponent(link.getAttribute("href").replace(/^\/m\//, ""));
      const target = data.nodes.findIndex((other) => other.id === id);
      link.setAttribute("href", "#");
      link.addEventListener("click", (event) => {
        event.preventDefault();
        if (target >= 0) read(target);
      });
    }
    article.focus();
    article.scrollIntoView({ block: "nearest" });
  };
  const list = () => {
    if (!own || !results) return;
    if (!found && !own.texts) {
      results.innerHTML = unsearched;
      return;
    }
    const shown = found ? [...found].slice(0, 50) : data.nodes.keys();
    const rows = document.createElement("ol");
    rows.className = "results";
    let count = 0;
    if (found && !found.size) rows.textContent = "No memory was found";
    for (const number of shown) {
      if (count++ >= 50) break;
      const row = document.createElement("li");
      const link = document.createElement("a");
      link.href = data.nodes[number].address || "#";
      link.textContent = data.nodes[number].title;
      if (!data.nodes[number].address) {
        link.addEventListener("click", (event) => {
          event.preventDefault();
          read(number);
        });
      }
      row.append(link);
      rows.append(row);
    }
    results.replaceChildren(rows);
    chosen = -1;
  };
  const search = (text) => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const named = (node) => `${node.title} ${node.type} #${node.tags.join(" #")}`.toLowerCase();
    const whole = (node) => {
      const body = own ? (node.text ?? (own.texts[node.id] || "").replace(/<[^>]*>/g, " ")) : "";
      return (node.whole ??= `${named(node)} ${body}`.toLowerCase());
    };
    const fitting = (text) => data.nodes.flatMap((node, number) => (words.every((word) => text(node).includes(word)) ? [number] : []));
    found = words.length ? new Set([...fitting(named), ...fitting(whole)]) : null;
    list();
    draw();
  };
  let drag = null;
  canvas?.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { x: event.clientX, y: event.clientY, moved: false };
  });
  canvas?.addEventListener("pointermove", (event) => {
    if (drag) {
      const half = Math.min(canvas.clientWidth, canvas.clientHeight) / 2.3;
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      drag.moved = drag.moved || Math.abs(dx) + Math.abs(dy) > 4;
      view.x += dx / half;
      view.y += dy / half;
      [drag.x, drag.y] = [event.clientX, event.clientY];
    } else {
      hovered = nearest(event);
      $("hover").textContent = hovered >= 0 ? data.nodes[hovered].title : "";
    }
    draw();
  });
  canvas?.addEventListener("pointerup", (event) => {
    const number = drag && !drag.moved ? nearest(event) : -1;
    drag = null;
    if (number >= 0) read(number);
  });
  canvas?.addEventListener("wheel", (event) => {
    event.preventDefault();
    const factor = Math.exp(-event.deltaY / 400);
    view.scale = Math.max(0.3, Math.min(60, view.scale * factor));
    view.x *= factor;
    view.y *= factor;
    draw();
  }, { passive: false });
  $("map-controls").addEventListener("submit", (event) => event.preventDefault());
  $("by")?.addEventListener("change", () => {
    by = $("by").value;
    view = { x: 0, y: 0, scale: 1 };
    draw();
  });
  $("find").addEventListener("input", () => search($("find").value));
  window.addEventListener("resize", () => {
    size();
    draw();
  });
  size();
  (async () => {
    data = own || (await (await fetch(`${base}map.json`)).json());
    document.body.dataset.ready = String(data.nodes.length);
    list();
    draw();
  })();
})();
