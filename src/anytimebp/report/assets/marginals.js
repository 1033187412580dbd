
// Cards of marginals: searched, sorted and drawn a page at a time.

const PAGE = 60; // cards drawn at once
const LONG = 60; // characters that may not fit into a closed card

const shown = read("marginals");
const cards = shown.cards.map(([name, nStates, nActive, labels, probabilities, rest, restClosed], index) => (
  { index, name, nStates, nActive, labels, probabilities, rest, restClosed, opened: false }
));
const folded = (text) => text.normalize("NFC").toLowerCase();
const foldedNames = cards.map((card) => folded(card.name));
const foldedTexts = shown.texts.map(folded);
const compareNames = new Intl.Collator("en", { numeric: true, sensitivity: "base" }).compare;

const ORDERS = {
  uncertain: () => shown.by_uncertainty.map((i) => cards[i]),
  certain: () => shown.by_uncertainty.map((i) => cards[i]).reverse(),
  name: () => [...cards].sort((a, b) => compareNames(a.name, b.name) || a.index - b.index),
  order: () => cards,
};
const orders = {}; // made when first asked for
const view = { wanted: "", hits: new Set(), found: cards, drawn: 0 };

function search() {
  const wanted = folded(place("search").value.trim());
  const sort = place("sort").value;
  orders[sort] = orders[sort] || ORDERS[sort]();
  view.wanted = wanted;
  view.hits = new Set();
  if (wanted) foldedTexts.forEach((text, i) => text.includes(wanted) && view.hits.add(i));
  view.found = orders[sort].filter((card) => !wanted || matchesName(card) || matchesState(card));
  place("cards").replaceChildren();
  view.drawn = 0;
  drawMore();
  place("count").textContent = countText();
}

const matchesName = (card) => foldedNames[card.index].includes(view.wanted);
const matchesState = (card) => card.labels.some((label) => view.hits.has(label));
const variables = (n) => `${count(n)} variable${n === 1 ? "" : "s"}`;

function countText() {
  if (!view.wanted) return variables(cards.length);
  const byName = view.found.filter(matchesName).length;
  const byState = view.found.filter(matchesState).length;
  return `${count(view.found.length)} of ${variables(cards.length)}: ${count(byName)} by name, ${count(byState)} by a listed state`;
}

function drawMore() {
  const next = view.found.slice(view.drawn, view.drawn + PAGE);
  place("cards").append(...next.map(drawCard));
  view.drawn += next.length;
  const left = view.found.length - view.drawn;
  place("more").hidden = left === 0;
  place("more").textContent = `Show ${Math.min(PAGE, left)} more of ${count(left)}`;
}

function drawCard(card) {
  const item = make("li", { class: "card" });
  fillCard(item, card);
  return item;
}

function fillCard(item, card) {
  const needed = card.labels.some((label, k) => k >= shown.n_closed && view.hits.has(label)); // a match further down
  const many = card.labels.length > shown.n_closed + 1;
  const whole = card.opened || needed || !many;
  const uncut = card.opened || needed;
  const rows = card.labels.slice(0, whole ? card.labels.length : shown.n_closed).map((_, k) => drawState(card, k, uncut));
  const head = make("div", { class: "card-head" }, make("h3", {}, named(card.name, uncut, matchesName(card))));
  if (mark(card)) head.append(make("span", { class: "mark" }, mark(card)));
  item.replaceChildren(head, make("p", { class: "sub" }, sizeText(card)), make("ol", { class: "bars" }, ...rows));
  const rest = restText(card.nStates - rows.length, whole ? card.rest : card.restClosed);
  if (rest) item.append(make("p", { class: "rest" }, rest));
  if ((many || isLong(card)) && !needed) item.append(opener(item, card, many));
}

const isLong = (card) => card.name.length > LONG || card.labels.some((label) => shown.texts[label].length > LONG);

function opener(item, card, many) {
  const text = card.opened ? "Show less" : many ? `Show ${card.labels.length} states` : "Show in full";
  const button = make("button", { type: "button", "aria-expanded": String(card.opened), "aria-label": `${text} of ${card.name}` }, text);
  button.addEventListener("click", () => {
    card.opened = !card.opened;
    fillCard(item, card);
    item.querySelector("button").focus();
  });
  return button;
}

function mark(card) {
  if (card.nActive !== 1) return "";
  return card.nStates === 1 || run.explored ? "fixed" : "one active state";
}

function sizeText(card) {
  const all = `${count(card.nStates)} state${card.nStates === 1 ? "" : "s"}`;
  return card.nActive === card.nStates ? all : `${count(card.nActive)} of ${all} active`;
}

function restText(left, together) {
  if (left <= 0) return "";
  if (left === 1) return `and 1 more state with ${together}`;
  return together === "0" ? `and ${count(left)} more states with 0` : `and ${count(left)} more states with ${together} together`;
}

// A name in an element of its own direction; in a closed card, long ones are cut after two lines.
function named(text, uncut, hit) {
  const inner = make("bdi", {}, ...(hit ? highlighted(text) : [text]));
  return make("span", uncut ? {} : { class: "clamp", title: text }, inner);
}

function highlighted(text) {
  const start = view.wanted ? text.toLowerCase().indexOf(view.wanted) : -1;
  if (start < 0 || text.toLowerCase().length !== text.length) return [text];
  const end = start + view.wanted.length;
  return [text.slice(0, start), make("mark", {}, text.slice(start, end)), text.slice(end)];
}

function drawState(card, k, uncut) {
  const label = card.labels[k];
  const probability = card.probabilities[k];
  const size = Number(probability.replace("> ", ""));
  const fill = make("span", { class: size === 0 ? "fill none" : "fill" });
  fill.style.width = `${100 * size}%`;
  return make(
    "li", {},
    make("span", { class: "label" }, named(shown.texts[label], uncut, view.hits.has(label))),
    make("span", { class: "track", "aria-hidden": "true" }, fill),
    make("span", { class: "probability" }, probability),
  );
}

place("search").addEventListener("input", search);
place("sort").addEventListener("change", search);
place("more").addEventListener("click", drawMore);
search();
if (!cards.length) place("cards").append(make("li", { class: "hint" }, "The model has no variables."));
