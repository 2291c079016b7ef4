// The map of a vault, the graph around a memory, and the search of a graph file or static site.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  // A graph file and a static site contain the data; otherwise it is requested from the server.
  const own = $("data") ? JSON.parse($("data").textContent) : window.memvaultSite || null;
  const source = document.currentScript.src;
  const base = source.replace(/[^/]*$/, "");
  const { Sigma, UndirectedGraph, louvain, inferSettings, graphToByteArrays } = window.memvaultGraph || {};
  const PALETTES = {
    light: ["#3451c6", "#c2491d", "#1a7f4b", "#a8348c", "#a06b00", "#00798c", "#7a4fd0", "#b3261e", "#4f6d1b", "#5b616c"],
    dark: ["#93a8ff", "#ff9d6b", "#7fd6a4", "#f2a0de", "#f0bd6a", "#6fd3e3", "#c7a8ff", "#ff9d94", "#b9d67a", "#9ba3b0"],
  };
  const isDark = matchMedia("(prefers-color-scheme: dark)");
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const palette = () => PALETTES[isDark.matches ? "dark" : "light"];
  const ROUNDS = 500;
  const SECONDS = 15;
  const MAX_LISTED = 50;
  const MAX_AVOIDED = 400;
  const MAX_STRICT = 100;

  /** Return a color between two `#rrggbb` colors. */
  const mix = (one, other, share) => {
    const parts = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
    const [from, to] = [parts(one), parts(other)];
    return `#${from.map((part, at) => Math.round(part + (to[at] - part) * share).toString(16).padStart(2, "0")).join("")}`;
  };
  const hex = (color) => (color.length === 4 ? `#${[...color.slice(1)].map((digit) => digit + digit).join("")}` : color);

  /** A drawing of a graph; `data` has `nodes` and `edges`, pairs of indexes of nodes. */
  class GraphView {
    constructor(container, data, { onSelect = () => {}, small = false } = {}) {
      this.data = data;
      this.small = small;
      this.onSelect = onSelect;
      this.matches = null;
      this.until = "";
      this.hovered = this.selected = null;
      this.boxes = [];
      this.nodeBoxes = null;
      this.colorBy = new Set(data.nodes.map((node) => node.type)).size > 1 || small ? "type" : "community";
      this.connect(data.edges);
      this.renderer = new Sigma(this.graph, container, this.settings());
      this.renderer.on("beforeRender", () => { this.boxes = []; this.nodeBoxes = null; });
      this.renderer.on("enterNode", ({ node }) => this.hover(node));
      this.renderer.on("leaveNode", () => this.hover(null));
      this.renderer.on("clickNode", ({ node }) => onSelect(Number(node)));
      this.renderer.on("clickStage", () => onSelect(null));
      isDark.addEventListener("change", () => {
        this.theme();
        this.renderer.setSettings(this.settings());
      });
    }

    /** Replace the edges, find the communities of linked nodes, and place the nodes by community. */
    connect(edges) {
      const graph = (this.graph = new UndirectedGraph());
      this.data.nodes.forEach((node, number) => graph.addNode(number, { x: 0, y: 0, label: node.title }));
      for (const [one, other] of edges) if (one !== other) graph.mergeEdge(one, other);
      const linked = graph.filterNodes((node) => graph.degree(node));
      this.linked = new Set(linked);
      const count = graph.order;
      this.hubs = Math.max(24, Math.sqrt(count) * 1.5);
      // A link to or from a hub says less about where a memory belongs.
      this.weight = (one, other) => Math.min(1, (this.hubs / Math.max(graph.degree(one), graph.degree(other))) ** 2);
      const getEdgeWeight = (_edge, _attributes, one, other) => this.weight(one, other);
      const groups = graph.size ? louvain(graph, { rng: this.random(), getEdgeWeight }) : {};
      this.communities = new Map(linked.map((node) => [node, groups[node]]));
      const scale = this.small ? 1.4 : Math.max(0.4, Math.min(1.2, 22 / Math.sqrt(count || 1)));
      graph.updateEachNodeAttributes((node, attributes) => {
        const degree = graph.degree(node);
        return { ...attributes, size: scale * Math.min(16, 3 + 1.5 * Math.sqrt(degree)) };
      });
      this.arrange();
      this.theme();
      this.renderer?.setGraph(graph);
    }

    random() {
      let state = 7;
      return () => (state = (state * 16807) % 2147483647) / 2147483647;
    }

    /** Set the start of the layout: communities in a spiral, each node near its own. */
    arrange() {
      const sizes = new Map();
      for (const group of this.communities.values()) sizes.set(group, (sizes.get(group) || 0) + 1);
      const order = [...sizes.keys()].sort((one, other) => sizes.get(other) - sizes.get(one) || one - other);
      const rank = new Map(order.map((group, number) => [group, number]));
      const placed = new Map();
      const spiral = (number, space) => [Math.sqrt(number + 0.5) * space * Math.cos(number * 2.39996), Math.sqrt(number + 0.5) * space * Math.sin(number * 2.39996)];
      for (const [node, group] of this.communities) {
        const within = placed.get(group) || 0;
        placed.set(group, within + 1);
        const [cx, cy] = spiral(rank.get(group), 120);
        const [x, y] = spiral(within, 6);
        this.graph.mergeNodeAttributes(node, { x: cx + x, y: cy + y });
      }
      this.ring();
    }

    /** Place the nodes without edges around the others, by type. */
    ring() {
      let radius = 1;
      this.linked.forEach((node) => {
        const { x, y } = this.graph.getNodeAttributes(node);
        radius = Math.max(radius, Math.hypot(x, y));
      });
      const alone = this.graph.filterNodes((node) => !this.linked.has(node));
      alone.sort((one, other) => this.data.nodes[one].type.localeCompare(this.data.nodes[other].type) || one - other);
      const gap = (radius * 2.4) / Math.max(14, Math.sqrt(this.graph.order) * 1.6);
      let number = 0;
      for (let turn = 0; number < alone.length; turn++) {
        const distance = this.linked.size ? radius * 1.12 + turn * gap : turn * gap;
        const room = Math.max(1, Math.floor((2 * Math.PI * distance) / gap));
        const share = Math.min(room, alone.length - number);
        for (let at = 0; at < share; at++, number++) {
          const angle = (2 * Math.PI * at) / share;
          this.graph.mergeNodeAttributes(alone[number], { x: distance * Math.cos(angle), y: distance * Math.sin(angle) });
        }
      }
    }

    /** Run the force layout in a worker; a page without a server runs it in slices of a frame. */
    async layout() {
      const number = (this.running = (this.running || 0) + 1);
      this.worker?.terminate();
      const nodes = [...this.linked];
      if (nodes.length < 2) return;
      const part = new UndirectedGraph();
      nodes.forEach((node) => {
        const { x, y } = this.graph.getNodeAttributes(node);
        part.addNode(node, { x, y });
      });
      this.graph.forEachEdge((_edge, _attributes, one, other) => part.addEdge(one, other));
      const arrays = graphToByteArrays(part, (_edge, _attributes, one, other) => this.weight(one, other));
      const settings = { ...inferSettings(nodes.length), outboundAttractionDistribution: true, gravity: 0.08 };
      const apply = (array) => {
        nodes.forEach((node, place) => this.graph.mergeNodeAttributes(node, { x: array[place * 10], y: array[place * 10 + 1] }));
        this.ring();
      };
      const rounds = this.small ? 150 : ROUNDS;
      if (!this.small && !own) {
        await new Promise((done) => {
          this.worker = new Worker(`${base}vendor/layout.js`);
          this.worker.onerror = done;
          this.worker.onmessage = ({ data }) => {
            apply(data.nodes);
            if (data.done) done();
          };
          this.worker.postMessage({ settings, ...arrays, rounds, seconds: SECONDS });
        });
        return;
      }
      const end = Date.now() + SECONDS * 1000;
      for (let done = 0; done < rounds && number === this.running && Date.now() < end;) {
        const slice = Date.now() + (this.small ? 60 : 24);
        do window.memvaultLayout(settings, arrays.nodes, arrays.edges, 1);
        while (++done < rounds && Date.now() < slice);
        apply(arrays.nodes);
        await new Promise(requestAnimationFrame);
      }
    }

    /** The groups of nodes by color, largest first: name, color and count. */
    groups() {
      const counts = new Map();
      const names = new Map();
      this.graph.forEachNode((node) => {
        const key = this.group(node);
        if (key === undefined) return;
        counts.set(key, (counts.get(key) || 0) + 1);
        const best = names.get(key);
        if (best === undefined || this.graph.degree(node) > this.graph.degree(best)) names.set(key, node);
      });
      const ordered = [...counts].sort((one, other) => other[1] - one[1]);
      return ordered.map(([key, count], number) => ({
        key,
        count,
        name: this.colorBy === "type" ? key : this.data.nodes[names.get(key)].title,
        color: palette()[Math.min(number, palette().length - 1)],
      }));
    }

    group(node) {
      return this.colorBy === "type" ? this.data.nodes[node].type : this.communities.get(node);
    }

    /** Set the colors of nodes and edges. */
    theme() {
      const back = hex(token("--card"));
      const colors = new Map(this.groups().map(({ key, color }) => [key, color]));
      const plain = palette().at(-1);
      const { graph } = this;
      graph.updateEachNodeAttributes((node, attributes) => ({ ...attributes, color: colors.get(this.group(node)) || plain }));
      const strength = this.small ? 0.5 : graph.size > 4000 ? 0.22 : 0.4;
      graph.updateEachEdgeAttributes((_edge, attributes, one, other) => {
        const isHub = Math.max(graph.degree(one), graph.degree(other)) > this.hubs;
        const color = mix(back, graph.getNodeAttribute(graph.degree(one) > graph.degree(other) ? other : one, "color"), isHub ? strength / 2.2 : strength);
        return { ...attributes, color, size: isHub ? 0.5 : 0.9 };
      });
      this.faded = { node: mix(back, plain, 0.22), edge: mix(back, plain, 0.06) };
    }

    settings() {
      return {
        allowInvalidContainer: true,
        labelFont: getComputedStyle(document.body).fontFamily,
        labelSize: 12,
        labelColor: { color: token("--fore") },
        labelDensity: this.small ? 3 : 0.9,
        labelGridCellSize: 90,
        labelRenderedSizeThreshold: this.small ? 0 : 5,
        defaultDrawNodeLabel: (context, node, settings) => this.label(context, node, settings),
        defaultDrawNodeHover: (context, node, settings) => this.label(context, node, settings, true),
        hideEdgesOnMove: this.graph.size > 20_000,
        zIndex: true,
        stagePadding: this.small ? 45 : 30,
        minCameraRatio: 0.02,
        maxCameraRatio: 3,
        nodeReducer: (node, attributes) => this.node(node, attributes),
        edgeReducer: (edge, attributes) => this.edge(edge, attributes),
      };
    }

    /** Return the bounding boxes of the nodes in pixels; empty if there are many nodes. */
    boxesOfNodes() {
      if (!this.renderer || this.graph.order > MAX_AVOIDED) return [];
      return this.graph.nodes().map((node) => {
        const shown = this.renderer.getNodeDisplayData(node);
        const { x, y } = this.renderer.framedGraphToViewport(shown);
        const radius = this.renderer.scaleSize(shown.size);
        return [x - radius, y - radius, x + radius, y + radius];
      });
    }

    /** Draw a label beside, below or above its node, where it overlaps no label and the fewest nodes. */
    label(context, node, settings, always = false) {
      if (!node.label) return;
      const text = node.label.length > 42 ? `${node.label.slice(0, 40)}…` : node.label;
      const size = settings.labelSize;
      context.font = `${always ? 650 : 500} ${size}px ${settings.labelFont}`;
      const width = context.measureText(text).width;
      const last = context.canvas.clientWidth - 4 - width;
      const [after, before, middle] = [node.x + node.size + 4, node.x - node.size - 4 - width, Math.max(4, Math.min(last, node.x - width / 2))];
      const [level, below, above] = [node.y + size / 3, node.y + node.size + size + 3, node.y - node.size - 7];
      const spots = [[after, level], [before, level], [middle, below], [middle, above]].filter(([x]) => x >= 4 && x <= last);
      const boxOf = ([x, y]) => [x - 3, y - size, x + width + 3, y + 4];
      const covered = (spot, taken) => {
        const box = boxOf(spot);
        return taken.filter(([left, top, right, bottom]) => left < box[2] && right > box[0] && top < box[3] && bottom > box[1]).length;
      };
      this.nodeBoxes ??= this.boxesOfNodes();
      const free = spots.filter((spot) => !covered(spot, this.boxes)).map((spot) => [covered(spot, this.nodeBoxes), spot]);
      const [count, best] = free.reduce((one, other) => (other[0] < one[0] ? other : one), free[0] || [0, always && (spots[0] || [4, below])]);
      const mayCover = this.small || always || node.forceLabel || this.graph.order > MAX_STRICT;
      if (!best || (count && !mayCover)) return;
      const [x, y] = best;
      this.boxes.push(boxOf(best));
      if (always) {
        context.beginPath();
        context.arc(node.x, node.y, node.size + 3, 0, 7);
        context.lineWidth = 2;
        context.strokeStyle = settings.labelColor.color;
        context.stroke();
      }
      context.lineJoin = "round";
      context.lineWidth = 4;
      context.strokeStyle = token("--card");
      context.strokeText(text, x, y);
      context.fillStyle = settings.labelColor.color;
      context.fillText(text, x, y);
    }

    focus() {
      return this.hovered ?? this.selected;
    }

    node(node, attributes) {
      const focus = this.focus();
      if (this.until && this.data.nodes[node].day > this.until) return { ...attributes, hidden: true };
      const near = focus === null || node === focus || this.graph.areNeighbors(node, focus);
      const fits = !this.matches || this.matches.has(Number(node));
      if (focus !== null ? !near : !fits) return { ...attributes, color: this.faded.node, label: "", zIndex: 0 };
      const forced = node === focus || (focus === null && this.matches && this.matches.size < 60);
      return { ...attributes, zIndex: 1, forceLabel: forced || (focus !== null && this.graph.degree(focus) < 40) };
    }

    edge(edge, attributes) {
      const focus = this.focus();
      const [one, other] = this.graph.extremities(edge);
      if (this.until && [one, other].some((node) => this.data.nodes[node].day > this.until)) return { ...attributes, hidden: true };
      if (focus !== null) {
        const near = one === focus || other === focus;
        const color = near ? this.graph.getNodeAttribute(focus, "color") : this.faded.edge;
        return { ...attributes, color, size: near ? 1.4 : attributes.size, zIndex: near ? 1 : 0 };
      }
      return this.matches ? { ...attributes, color: this.faded.edge } : attributes;
    }

    hover(node) {
      this.hovered = node;
      this.refresh();
    }

    refresh() {
      this.renderer.refresh({ skipIndexation: true });
    }

    /** Select a node, and move to it if it was not selected in the drawing. */
    select(number, moves = false) {
      this.selected = number === null ? null : String(number);
      this.refresh();
      if (moves && number !== null) {
        const { x, y } = this.renderer.getNodeDisplayData(this.selected);
        this.renderer.getCamera().animate({ x, y, ratio: Math.min(0.35, this.renderer.getCamera().ratio) });
      }
    }

    neighbors(number) {
      const found = this.graph.neighbors(number).map(Number);
      return found.sort((one, other) => this.graph.degree(other) - this.graph.degree(one));
    }
  }

  const address = (node) => node.address || (own ? "#" : `${base}m/${encodeURIComponent(node.id)}`);
  const drawable = () => {
    try {
      return Boolean(Sigma && document.createElement("canvas").getContext("webgl2"));
    } catch {
      return false;
    }
  };

  const local = $("local");
  if (local && drawable()) {
    fetch(local.dataset.source).then(async (answer) => {
      const data = answer.ok ? await answer.json() : { nodes: [] };
      if (data.nodes.length < 2) return;
      local.parentElement.hidden = false;
      const view = new GraphView(local, data, { small: true, onSelect: (number) => number && location.assign(address(data.nodes[number])) });
      view.select(0);
      view.layout();
    });
  }

  const frame = $("map-frame");
  if (!frame && !(own && $("find"))) return;
  const results = $("results");
  const unsearched = results?.innerHTML;
  let data = { nodes: [], edges: [] };
  let view = null;
  let found = null;

  const element = (tag, text = "", attributes = {}) => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.textContent = text;
    return made;
  };
  /** A link to a memory, which a graph file shows in its own page. */
  const link = (number) => {
    const node = data.nodes[number];
    const made = element("a", node.title, { href: address(node) });
    if (own && !node.address) {
      made.addEventListener("click", (event) => {
        event.preventDefault();
        read(number);
      });
    }
    return made;
  };
  const read = (number, anchor = "") => {
    const node = data.nodes[number];
    const article = $("reading");
    article.innerHTML = own.texts[node.id] || "";
    for (const image of article.querySelectorAll("img[src^='data:,']")) {
      image.src = own.pictures[parseInt(image.getAttribute("src").slice(6), 10)];
    }
    article.prepend(element("h1", node.title));
    for (const link of article.querySelectorAll("a[href^='/']")) {
      const [id, part = ""] = link.getAttribute("href").replace(/^\/m\//, "").split("#").map(decodeURIComponent);
      const target = data.nodes.findIndex((other) => other.id === id);
      if (target < 0) link.replaceWith(...link.childNodes);
      link.setAttribute("href", "#");
      link.addEventListener("click", (event) => {
        event.preventDefault();
        read(target, part);
      });
    }
    view?.select(number, true);
    article.focus();
    const place = anchor && document.getElementById(anchor);
    (place || article).scrollIntoView({ block: place ? "start" : "nearest" });
  };
  const show = (number) => {
    const panel = $("node");
    view?.select(number);
    panel.hidden = number === null;
    if (number === null) return;
    const node = data.nodes[number];
    const near = view.neighbors(number);
    const title = element("h2");
    title.append(link(number));
    const close = element("button", "×", { type: "button", className: "close", ariaLabel: "Close" });
    close.addEventListener("click", () => show(null));
    const meta = element("p", "", { className: "meta" });
    meta.append(element("span", node.type), ...node.tags.slice(0, 8).map((tag) => element("span", `#${tag}`)), element("span", node.day));
    const list = element("ul");
    list.append(...near.slice(0, 30).map((other) => {
      const row = element("li");
      row.append(link(other));
      return row;
    }));
    if (near.length > 30) list.append(element("li", `and ${near.length - 30} more`, { className: "empty" }));
    panel.replaceChildren(close, title, meta, list);
  };

  const list = () => {
    if (!results) return;
    if (!found && !own?.texts) {
      results.innerHTML = unsearched;
      return;
    }
    const numbers = found ? [...found] : [...data.nodes.keys()];
    const rows = element("ol", "", { className: "results" });
    rows.append(...numbers.slice(0, MAX_LISTED).map((number) => {
      const row = element("li");
      row.append(link(number), " ", element("small", data.nodes[number].type));
      return row;
    }));
    const none = found && !found.size;
    results.replaceChildren(none ? element("p", "No memories found", { className: "empty" }) : rows);
    results.dispatchEvent(new Event("replaced"));
  };
  const search = (text) => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const named = (node) => (node.named ??= `${node.title} ${node.type} #${node.tags.join(" #")}`.toLowerCase());
    const whole = (node) => {
      const body = own ? (node.text ?? (own.texts[node.id] || "").replace(/<[^>]*>/g, " ")) : "";
      return (node.whole ??= `${named(node)} ${body}`.toLowerCase());
    };
    const fitting = (textOf) => data.nodes.flatMap((node, number) => (words.every((word) => textOf(node).includes(word)) ? [number] : []));
    found = words.length ? new Set([...fitting(named), ...fitting(whole)]) : null;
    list();
    if (view) {
      view.matches = found;
      view.select(null);
      $("node").hidden = true;
    }
  };

  const legend = () => {
    const shown = view.groups().filter(({ count }, number) => number < 9 && (count > 1 || view.colorBy === "type"));
    $("legend").replaceChildren(...shown.map(({ name, count, color }) => {
      const row = element("li");
      row.innerHTML = '<svg viewBox="0 0 8 8"><circle cx="4" cy="4" r="4"/></svg>';
      row.querySelector("circle").setAttribute("fill", color);
      row.append(element("span", name), element("small", count.toLocaleString()));
      return row;
    }));
  };
  const dates = () => {
    const days = [...new Set(data.nodes.map((node) => node.day))].sort();
    const slider = $("until");
    slider.max = String(Math.max(0, days.length - 1));
    slider.value = slider.max;
    slider.disabled = days.length < 2;
    $("until-day").textContent = days.at(-1) || "";
    slider.addEventListener("input", () => {
      const day = days[Number(slider.value)];
      $("until-day").textContent = day;
      view.until = day === days.at(-1) ? "" : day;
      view.refresh();
    });
  };
  const draw = () => {
    $("map-controls").hidden = false;
    if (!drawable()) {
      $("no-map").hidden = false;
      for (const id of ["options", "options-button", "usage"]) $(id)?.setAttribute("hidden", "");
      return;
    }
    frame.hidden = false;
    view = new GraphView($("map"), data, { onSelect: show });
    $("color").value = view.colorBy;
    legend();
    dates();
    $("color").addEventListener("change", () => {
      view.colorBy = $("color").value;
      view.theme();
      view.refresh();
      legend();
    });
    const arrange = async () => {
      const by = $("by").value;
      const pairs = by === "links" ? data.edges : (data.similar ??= await (await fetch(`${base}similar.json`)).json());
      show(null);
      view.connect(pairs);
      legend();
      await view.layout();
      document.body.dataset.arranged = by;
    };
    $("by").addEventListener("change", arrange);
    // If few memories are linked, the links say little about the vault.
    if (view.linked.size < data.nodes.length / 10) {
      $("by").value = "meaning";
      arrange();
    } else {
      view.layout().then(() => { document.body.dataset.arranged = "links"; });
    }
    const camera = view.renderer.getCamera();
    $("zoom-in").addEventListener("click", () => camera.animatedZoom(1.6));
    $("zoom-out").addEventListener("click", () => camera.animatedUnzoom(1.6));
    $("zoom-all").addEventListener("click", () => camera.animatedReset());
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") show(null); });
  };

  $("options-button")?.addEventListener("click", ({ target }) => {
    target.setAttribute("aria-expanded", String(target.getAttribute("aria-expanded") === "false"));
  });
  $("map-controls").addEventListener("submit", (event) => event.preventDefault());
  $("find").addEventListener("input", () => search($("find").value));
  (async () => {
    data = own || (await (await fetch(`${base}map.json`)).json());
    list();
    if (frame) draw();
    document.body.dataset.ready = String(data.nodes.length);
  })();
})();
