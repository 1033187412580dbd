// The panels around the graph: the list, evidence, what has changed, the best joint state, and curves.

import { made, probability } from "/assets/states.js";

const SVG = "http://www.w3.org/2000/svg";

export function seconds(value) {
  return value < 1 ? `${Math.max(1, Math.round(1000 * value))} ms` : `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

export const figure = (value) => (value === null ? "unknown" : value === 0 ? "0" : value < 0.001 || value >= 1000 ? value.toExponential(1) : value.toPrecision(2));

export class List {
  constructor(list, choose) {
    this.list = list;
    this.choose = choose;
    this.items = new Map();
  }

  show(variables) {
    this.items.clear();
    this.list.replaceChildren(...variables.map(({ index, name, n_states: size }) => {
      const item = made("li"), button = made("button", { type: "button", "data-index": index });
      const fill = made("span", { class: "fill" }), track = made("span", { class: "track", "aria-hidden": "true" });
      const top = made("span", { class: "top" }, `${size} states`);
      track.append(fill);
      button.append(made("span", { class: "label" }, name), top, track);
      button.addEventListener("click", () => this.choose(index));
      item.append(button);
      this.items.set(index, { button, fill, top });
      return item;
    }));
  }

  mark(marginals, chosen, seen) {
    for (const [index, { button, fill, top }] of this.items) {
      button.setAttribute("aria-current", index === chosen);
      const found = marginals.get(index);
      if (!found || !found.states.length) continue;
      fill.style.width = `${100 * found.probabilities[0]}%`;
      top.textContent = `${found.labels[0]} ${probability(found.probabilities[0])}`;
      button.classList.toggle("seen", seen(found.name));
    }
  }
}

export function drawChips(list, evidence, labelOf, choose, drop) {
  list.replaceChildren(...[...evidence].map(([name, { not, states }]) => {
    const item = made("li"), words = states.map((state) => labelOf(name, state)).join(", ");
    const text = `${name} ${not ? "≠" : "="} ${words}`;
    const go = made("button", { type: "button", class: "go", title: text }, text);
    const away = made("button", { type: "button", class: "drop", "aria-label": `Take back ${text}` }, "×");
    go.addEventListener("click", () => choose(name));
    away.addEventListener("click", () => drop(name));
    item.append(go, away);
    return item;
  }));
}

function row(cells, choose) {
  const found = made("tr");
  cells.forEach(([text, kind], k) => {
    const cell = made(k ? "td" : "th", k ? { class: kind } : { scope: "row" });
    if (k) cell.textContent = text;
    else {
      const button = made("button", { type: "button", class: "link" }, text);
      button.addEventListener("click", choose);
      cell.append(button);
    }
    found.append(cell);
  });
  return found;
}

export function drawChanges(table, note, changes, choose) {
  const largest = changes ? changes.largest : [];
  note.textContent = !changes ? "Nothing yet: observe or exclude a state."
    : !changes.compared ? "The model has too many states to compare all marginals."
      : changes.changed === 0 ? "No marginal has changed."
        : `${changes.changed.toLocaleString("en")} of the marginals moved; the distance is the total variation.`;
  table.replaceChildren(...largest.map(({ index, name, distance, before, now }) => {
    const same = before[0] === now[0];
    const words = `${before[0]} ${probability(before[1])} → ${same ? "" : `${now[0]} `}${probability(now[1])}`;
    return row([[name], [words, "words"], [probability(distance), "number"]], () => choose(index));
  }));
}

export function drawBest(table, note, best, marginals, choose) {
  if (!best) { note.textContent = ""; table.replaceChildren(); return; }
  const sure = best.exact ? "No joint state is better." : best.upper_bound === null ? best.advice : `No joint state is above ${best.upper_bound.toFixed(3)}.`;
  note.textContent = best.log_score === null ? best.advice : `Log score ${best.log_score.toFixed(3)}. ${sure}`;
  table.replaceChildren(...best.states.map(({ index, name, label }) => {
    const found = marginals.get(index), other = found && found.states.length && found.labels[0] !== label;
    const line = row([[name], [label, "words"], [other ? `alone: ${found.labels[0]}` : "", "words"]], () => choose(index));
    line.classList.toggle("other", Boolean(other));
    return line;
  }));
}

// Curves of what falls over time, on a logarithmic axis; nothing where there are no two points.
export function drawCurves(box, note, moments, last) {
  const curves = [["Estimated distance to BP", 2], ["Largest residual, in nats", 1]];
  const plots = curves.map(([title, place]) => [title, moments.filter((m) => m[place] > 0).map((m) => [m[0], m[place]])]);
  box.replaceChildren(...plots.filter(([, points]) => points.length > 1).map(([title, points]) => plot(title, points)));
  if (!last) return;
  const cost = `${last.updates.toLocaleString("en")} updates, ${seconds(last.seconds)}, log Z = ${last.log_z === null ? "unknown" : last.log_z.toFixed(3)}.`;
  note.textContent = `${last.exact ? "The marginals are exact: there is no error to follow. " : ""}${cost}`;
}

function plot(title, points) {
  const width = 300, height = 96, left = 42, bottom = 16, top = 6;
  const logs = points.map(([, y]) => Math.log10(y)), end = points.at(-1)[0] || 1e-9;
  const low = Math.floor(Math.min(...logs)), high = Math.max(low + 1, Math.ceil(Math.max(...logs)));
  const x = (time) => left + (width - left - 8) * (time / end), y = (log) => top + (height - top - bottom) * ((high - log) / (high - low));
  const figure = made("figure"), svg = document.createElementNS(SVG, "svg");
  const add = (tag, attributes, text) => {
    const found = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
    if (text) found.textContent = text;
    svg.append(found);
  };
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${title}: from ${points[0][1].toExponential(1)} to ${points.at(-1)[1].toExponential(1)} in ${seconds(end)}`);
  for (const log of [low, high]) {
    add("line", { class: "grid", x1: left, x2: width - 8, y1: y(log), y2: y(log) });
    add("text", { x: left - 6, y: y(log) + 4, "text-anchor": "end" }, `1e${log}`);
  }
  add("text", { x: width - 8, y: height - 2, "text-anchor": "end" }, seconds(end));
  add("text", { x: left, y: height - 2 }, "0");
  add("path", { class: "curve", d: points.map(([time], k) => `${k ? "L" : "M"}${x(time).toFixed(1)} ${y(logs[k]).toFixed(1)}`).join("") });
  figure.append(made("figcaption", {}, title), svg);
  return figure;
}
