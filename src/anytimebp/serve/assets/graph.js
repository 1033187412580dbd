// A neighbourhood as a drawing: a ring around each variable shows how probable its likeliest state is.

import { probability } from "/assets/states.js";

const SVG = "http://www.w3.org/2000/svg";
const RADIUS = 11, TURN = 2.399963, ROUNDS = 260, MARGIN = 46, LONGEST = 18;

function drawn(tag, attributes, text = null) {
  const found = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  if (text !== null) found.textContent = text;
  return found;
}

const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

export class Graph {
  constructor(svg, choose) {
    this.svg = svg;
    this.choose = choose;
    this.nodes = [];
    this.places = new Map();
    this.near = null;
    this.marked = null;
    svg.addEventListener("keydown", (event) => this.move(event));
    new ResizeObserver(() => { if (this.near && svg.clientWidth !== this.width) { this.places.clear(); this.show(this.near); } }).observe(svg);
  }

  // Draws variables (the first is the chosen one) and the factors between them.
  show(near) {
    this.near = near;
    const svg = this.svg;
    const width = this.width = svg.clientWidth || 600, height = width < 480 ? 400 : 430;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.style.height = `${height}px`;
    const wide = near.factors.filter((factor) => factor.variables.length > 2);
    const points = this.arranged(near, wide, width, height);
    const n = near.variables.length;
    const lines = near.factors.filter((factor) => factor.variables.length === 2).map((factor) => factor.variables);
    wide.forEach((factor, k) => factor.variables.forEach((variable) => lines.push([n + k, variable])));
    const edges = drawn("g", { class: "edges", "aria-hidden": "true" });
    for (const [a, b] of lines) {
      edges.append(drawn("line", { x1: points[a].x, y1: points[a].y, x2: points[b].x, y2: points[b].y }));
    }
    wide.forEach((_, k) => edges.append(drawn("rect", { x: points[n + k].x - 3, y: points[n + k].y - 3, width: 6, height: 6 })));
    this.nodes = near.variables.map((variable, k) => this.node(variable, points[k], k));
    this.links = near.variables.map((_, k) => this.linked(k));
    const had = svg.contains(document.activeElement);
    svg.replaceChildren(edges, ...this.nodes.map((node) => node.group));
    if (had && this.nodes.length) this.nodes[0].group.focus();
    near.variables.forEach((variable, k) => this.places.set(variable.index, points[k]));
    if (this.marked) this.mark(...this.marked);
  }

  linked(k) {
    return [...new Set(this.near.factors.filter((f) => f.variables.includes(k)).flatMap((f) => f.variables))].filter((j) => j !== k);
  }

  node(variable, point, k) {
    const group = drawn("g", {
      class: k ? "node" : "node chosen", tabindex: k ? -1 : 0, role: "button", transform: `translate(${point.x} ${point.y})`,
      "data-index": variable.index, "aria-label": variable.name,
    });
    const ring = drawn("circle", { class: "ring", r: RADIUS, pathLength: 1, "stroke-dasharray": "0 1", transform: "rotate(-90)" });
    const name = drawn("text", { class: "name", y: RADIUS + 14 }, short(variable.name));
    const label = drawn("text", { class: "top", y: RADIUS + 27 });
    group.append(drawn("title", {}, variable.name), drawn("circle", { class: "back", r: RADIUS }), ring, drawn("circle", { class: "dot", r: 4.5 }), name, label);
    group.addEventListener("click", () => this.choose(variable.index));
    return { group, ring, label, variable, point };
  }

  // Shows marginals, by index; `seen` tells whether there is evidence on a name.
  mark(marginals, seen) {
    this.marked = [marginals, seen];
    for (const { group, ring, label, variable } of this.nodes) {
      const found = marginals.get(variable.index);
      if (!found || !found.states.length) continue;
      const p = found.probabilities[0];
      ring.setAttribute("stroke-dasharray", `${Math.min(1, p)} 1`);
      label.textContent = short(found.labels[0]);
      group.classList.toggle("seen", seen(found.name));
      group.setAttribute("aria-label", `${variable.name}: ${found.labels[0]} ${probability(p)}${seen(found.name) ? ", observed" : ""}`);
    }
  }

  // Arrow keys go to the linked variable that lies best in that direction.
  move(event) {
    const at = this.nodes.findIndex((node) => node.group === document.activeElement);
    if (at < 0) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.choose(this.nodes[at].variable.index);
      return;
    }
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (!way) return;
    event.preventDefault();
    const from = this.nodes[at].point;
    let best = -1, most = 0;
    this.nodes.forEach(({ point }, k) => {
      const x = point.x - from.x, y = point.y - from.y, far = Math.hypot(x, y) || 1;
      const ahead = (x * way[0] + y * way[1]) / far;
      const worth = ahead <= 0.3 ? 0 : ahead * (this.links[at].includes(k) ? 2 : 1) / Math.sqrt(far);
      if (worth > most) { most = worth; best = k; }
    });
    if (best < 0) return;
    this.nodes.forEach(({ group }, k) => group.setAttribute("tabindex", k === best ? 0 : -1));
    this.nodes[best].group.focus();
  }

  // Springs along factors, everything else pushed apart; the same picture every time, from the same start.
  arranged(near, wide, width, height) {
    const n = near.variables.length, total = n + wide.length, step = Math.sqrt((width * height) / Math.max(1, total));
    const points = Array.from({ length: total }, (_, k) => {
      const known = k < n && this.places.get(near.variables[k].index), far = step * 0.6 * Math.sqrt(k);
      return known ? { ...known } : { x: width / 2 + far * Math.cos(TURN * k), y: height / 2 + far * Math.sin(TURN * k) };
    });
    const springs = near.factors.filter((f) => f.variables.length === 2).map((f) => [...f.variables, 1]);
    wide.forEach((f, k) => f.variables.forEach((v) => springs.push([n + k, v, 0.7])));
    for (let round = 0; round < ROUNDS; round += 1) {
      const heat = 0.12 * step * (1 - round / ROUNDS) + 0.2;
      const push = points.map(() => ({ x: 0, y: 0 }));
      for (let a = 0; a < total; a += 1) {
        for (let b = 0; b < a; b += 1) {
          const x = points[a].x - points[b].x + 0.01 * (a - b), y = points[a].y - points[b].y + 0.01;
          const strength = (step * step * (a < n && b < n ? 0.55 : 0.2)) / (x * x + y * y + 1);
          push[a].x += x * strength; push[a].y += y * strength;
          push[b].x -= x * strength; push[b].y -= y * strength;
        }
      }
      for (const [a, b, length] of springs) {
        const x = points[b].x - points[a].x, y = points[b].y - points[a].y;
        const pull = Math.hypot(x, y) / (step * length) * 0.5;
        push[a].x += x * pull; push[a].y += y * pull;
        push[b].x -= x * pull; push[b].y -= y * pull;
      }
      points.forEach((point, k) => {
        const x = push[k].x + (width / 2 - point.x) * 0.08, y = push[k].y + (height / 2 - point.y) * 0.14;
        const far = Math.hypot(x, y) || 1, go = Math.min(far, heat);
        point.x += (x / far) * go; point.y += (y / far) * go;
      });
    }
    return apart(fitted(points, width, height), n, height);
  }
}

// Names need room: variables whose names would overlap move up and down.
function apart(points, n, height) {
  for (let round = 0; round < 60; round += 1) {
    for (let a = 0; a < n; a += 1) {
      for (let b = 0; b < a; b += 1) {
        const y = points[a].y - points[b].y || 0.1, room = 44 - Math.abs(y);
        if (room <= 0 || Math.abs(points[a].x - points[b].x) > 88) continue;
        const go = (room / 4) * Math.sign(y);
        points[a].y = Math.min(height - 46, Math.max(18, points[a].y + go));
        points[b].y = Math.min(height - 46, Math.max(18, points[b].y - go));
      }
    }
  }
  return points;
}

function fitted(points, width, height) {
  const spread = (values, room, before, after) => {
    const low = Math.min(...values), high = Math.max(...values), scale = (room - before - after) / Math.max(1, high - low);
    const used = Math.min(scale, 1.6), left = (room - before - after - used * (high - low)) / 2 + before;
    return values.map((value) => Math.round(10 * (left + used * (value - low))) / 10);
  };
  const x = spread(points.map((point) => point.x), width, MARGIN, MARGIN);
  const y = spread(points.map((point) => point.y), height, 18, 46);
  return points.map((_, k) => ({ x: x[k], y: y[k] }));
}
