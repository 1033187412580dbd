// The states of the chosen variable: bars that move, a click to observe, an x to exclude.

export function made(tag, attributes = {}, text = null) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  if (text !== null) found.textContent = text;
  return found;
}

export function probability(value) {
  if (value <= 0) return "0";
  if (value >= 1) return "1";
  if (value > 0.9995) return "> 0.999";
  return value < 0.001 ? value.toExponential(0) : value.toFixed(3);
}

export class States {
  constructor(list, click) {
    this.list = list;
    this.click = click;
    this.rows = new Map();
    this.variable = null;
  }

  // `shown` has states, labels and probabilities; `seen` is the evidence on this variable, if there is any.
  draw(shown, seen) {
    if (this.variable !== shown.index) {
      this.variable = shown.index;
      this.rows.clear();
      this.list.replaceChildren();
    }
    const order = shown.states.map((state, k) => ({ state, label: shown.labels[k], p: shown.probabilities[k] }));
    if (shown.n_states === order.length && shown.n_states <= 30) order.sort((a, b) => a.state - b.state);
    const wanted = new Set(order.map(({ state }) => state));
    for (const [state, row] of this.rows) if (!wanted.has(state)) { row.item.remove(); this.rows.delete(state); }
    order.forEach(({ state, label, p }, place) => {
      const row = this.rows.get(state) || this.row(state, label);
      if (this.list.children[place] !== row.item) this.list.insertBefore(row.item, this.list.children[place] || null);
      const is = Boolean(seen && !seen.not && seen.states.includes(state));
      const out = Boolean(seen && seen.not && seen.states.includes(state));
      row.fill.style.width = `${100 * p}%`;
      row.number.textContent = probability(p);
      row.observe.setAttribute("aria-pressed", is);
      row.exclude.setAttribute("aria-pressed", out);
      row.item.className = is ? "is" : out ? "out" : "";
    });
  }

  row(state, label) {
    const item = made("li");
    const observe = made("button", { type: "button", class: "state", "data-state": state });
    const fill = made("span", { class: "fill" });
    const track = made("span", { class: "track", "aria-hidden": "true" });
    track.append(fill);
    const number = made("span", { class: "number" });
    observe.append(made("span", { class: "label" }, label), track, number);
    const exclude = made("button", { type: "button", class: "not", "aria-label": `Exclude ${label}`, title: "Exclude" }, "×");
    observe.addEventListener("click", () => this.click(state, false));
    exclude.addEventListener("click", () => this.click(state, true));
    item.append(observe, exclude);
    const row = { item, observe, exclude, fill, number };
    this.rows.set(state, row);
    return row;
  }
}
