// The page: what is chosen, observed and shown, and the run that answers. All text from the model goes in as text.

import { follow, get, post, Refused } from "/assets/asking.js";
import { asked, read, toggled, write } from "/assets/evidence.js";
import { Graph } from "/assets/graph.js";
import { drawBest, drawChanges, drawChips, drawCurves, figure, List, seconds } from "/assets/panels.js";
import { States } from "/assets/states.js";

const FEW = 12, NEAR = 24, LISTED = 30, CHIPS = 40, MOST_STATES = 200, CHANGES = 10, BEST = 0.5, AGAIN = 1500;
const MANY = 200_000;  // states from which on the best joint state is searched on demand only, as its set-up takes seconds
const $ = (id) => document.getElementById(id);
const session = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const page = {
  model: null, evidence: new Map(), chosen: null, near: null, listed: [], next: null, nStates: FEW, found: [],
  marginals: new Map(), labels: new Map(), names: new Map(), moments: [], best: null, run: null, depth: 0, retry: 0, last: null,
};
const seen = (name) => page.evidence.has(name);
const graph = new Graph($("graph"), choose);
const list = new List($("list"), choose);
const states = new States($("states"), (state, not) => change(toggled(page.evidence, page.chosen.name, state, not)));

function say(text, kind = "") {
  if ($("status").textContent !== text) $("status").textContent = text;
  $("run").className = kind;
}

// ---------------------------------------------------------------- what is shown
function wanted() {
  const shown = new Map();
  const add = (variable, count, also = []) => {
    const before = shown.get(variable);
    if (!before) shown.set(variable, { variable, states: count, also });
    else { before.states = Math.max(before.states, count); before.also = [...new Set([...before.also, ...also])]; }
  };
  if (page.chosen) {
    const here = page.evidence.get(page.chosen.name);
    const count = page.found.length ? 1 : Math.min(page.nStates, page.chosen.n_states);
    add(page.chosen.index, count, [...(here ? here.states : []), ...page.found].slice(0, MOST_STATES));
  }
  for (const { index } of page.near ? page.near.variables : []) add(index, 1);
  for (const { index } of page.listed.slice(0, 120)) add(index, 1);
  for (const [name, { states: also }] of [...page.evidence].slice(0, CHIPS)) add(page.names.get(name) ?? name, 1, also);
  return [...shown.values()].slice(0, 200);
}

function take(shown) {
  for (const each of shown) {
    page.names.set(each.name, each.index);
    each.states.forEach((state, k) => page.labels.set(`${each.index} ${state}`, each.labels[k]));
    const before = page.marginals.get(each.index);
    if (!before || before.at !== shown || before.states.length < each.states.length) page.marginals.set(each.index, Object.assign(each, { at: shown }));
  }
}

function draw() {
  const here = page.chosen && page.marginals.get(page.chosen.index);
  if (here) {
    states.draw(here, page.evidence.get(page.chosen.name));
    const hidden = here.n_states - here.states.length;
    $("rest").textContent = hidden > 0 ? `${hidden.toLocaleString("en")} more states have ${figure(here.rest)} together.` : "";
    $("more-states").hidden = hidden <= 0 || page.nStates >= MOST_STATES || page.found.length > 0;
  }
  graph.mark(page.marginals, seen);
  list.mark(page.marginals, page.chosen && page.chosen.index, seen);
  const labelOf = (name, state) => page.labels.get(`${page.names.get(name)} ${state}`) ?? `state ${state}`;
  drawChips($("chips"), page.evidence, labelOf, chooseName, (name) => {
    const left = new Map(page.evidence);
    left.delete(name);
    change(left);
  });
  $("hint").hidden = page.evidence.size > 0;
  $("clear").disabled = page.evidence.size === 0;
  $("undo").disabled = page.depth === 0;
}

// ---------------------------------------------------------------- runs
async function run() {
  if (page.run) page.run.abort();
  clearTimeout(page.retry);
  const mine = page.run = new AbortController(), body = { session, evidence: asked(page.evidence), show: wanted(), changes: CHANGES };
  page.moments = [];
  say("Running", "busy");
  $("stop").hidden = false;
  $("moving").textContent = "";
  const started = performance.now();
  let ended = false;
  try {
    await follow("/stream", body, mine.signal, (kind, data) => {
      if (page.run !== mine) return;
      if (kind === "waiting") say("Waiting for other runs", "busy");
      else if (kind === "problem") { ended = true; say(data.detail, "wrong"); }
      else if (kind === "snapshot" || kind === "result") { ended = kind === "result"; show(kind, data, started); }
    });
    if (page.run !== mine) return;
    if (!ended) throw new TypeError("the stream has broken off");
    finish(mine);
  } catch (error) {
    if (page.run !== mine || error.name === "AbortError") return;
    finish(mine);
    failed(error);
  }
}

function finish(mine) {
  if (page.run === mine) page.run = null;
  $("stop").hidden = true;
  $("moving").textContent = "";
}

// The server may be restarting: the page tries again, and nothing is lost, as evidence stands in the address.
function failed(error) {
  if (error instanceof Refused && error.status === 401) say("The server has a new token: open the address that it has printed.", "wrong");
  else if (error instanceof Refused && error.status !== 503) say(error.message, "wrong");
  else {
    say(error instanceof Refused ? error.message : "The server does not answer; trying again", "wrong");
    page.retry = setTimeout(start, AGAIN);
  }
}

function show(kind, data, started) {
  const { figures } = data;
  take(data.shown);
  page.moments.push([figures.seconds, figures.max_residual, figures.estimated_error]);
  if (page.moments.length > 400) page.moments.splice(0, 200, ...page.moments.slice(0, 200).filter((_, k) => k % 2 === 0));
  $("moving").textContent = `${seconds(figures.seconds)} · estimated distance to BP ${figure(figures.estimated_error)} · ${figures.active_states.toLocaleString("en")} states`;
  if (kind === "result") {
    if (figures.exact && data.trace.length < 3) page.moments = [];
    else page.moments = [...data.trace, ...page.moments].sort((a, b) => a[0] - b[0]);
    page.last = figures;
    say(ending(figures), figures.exact || figures.stop_reason === "CONVERGED" ? "good" : "early");
    $("run").dataset.milliseconds = Math.round(performance.now() - started);
    page.best = null;
    const asks = page.model.states >= MANY;
    if (asks) drawBest($("best-states"), $("best-note"), null);
    else searchBest();
    $("search-best").hidden = !asks;
  }
  if (data.changes || kind === "result") drawChanges($("changes"), $("changed-note"), data.changes, choose);
  drawCurves($("curves"), $("course-note"), page.moments, figures);
  draw();
}

function ending(figures) {
  const time = seconds(figures.seconds);
  if (figures.exact) return `Exact, after ${time}`;
  if (figures.stop_reason === "CONVERGED") return `Converged to BP, after ${time}`;
  return `${figures.ending} after ${time}; estimated distance to BP ${figure(figures.estimated_error)}`;
}

const bestWanted = () => (page.near ? page.near.variables.map(({ index }) => index) : []);

async function searchBest() {
  const evidence = page.evidence, mine = page.run;
  drawBest($("best-states"), $("best-note"), null);
  $("best-note").textContent = "Searching";
  $("search-best").hidden = true;
  try {
    const best = await post("/best", { session, evidence: asked(evidence), seconds: BEST, variables: bestWanted() });
    if (page.evidence !== evidence || (page.run && page.run !== mine)) return;
    page.best = best;
    drawBest($("best-states"), $("best-note"), best, page.marginals, choose);
  } catch (error) {
    if (page.evidence === evidence) $("best-note").textContent = error instanceof Refused ? error.message : "";
  }
}

// Other marginals of the same answer; where the server does not know it any more, it runs again.
async function look() {
  try {
    const { shown, best } = await post("/look", { session, show: wanted() });
    take(shown);
    if (page.best && best.length) {
      const near = new Set(bestWanted());
      page.best.states = best.filter(({ index }) => near.has(index));
      drawBest($("best-states"), $("best-note"), page.best, page.marginals, choose);
    }
    draw();
  } catch (error) {
    if (error instanceof Refused && error.status === 409) { if (!page.run) run(); } else failed(error);
  }
}

// ---------------------------------------------------------------- choosing and observing
async function choose(index, { quiet = false } = {}) {
  const { variables } = await get("/model/neighbourhood", { index, limit: NEAR }).then(
    (near) => { page.near = near; return near; }, (error) => { failed(error); return { variables: [] }; });
  if (!variables.length) return;
  const whole = await get("/model/states", { index, limit: 1 });
  if (page.near.variables[0].index !== index) return;  // another one was chosen meanwhile
  page.chosen = { index, name: whole.name, n_states: whole.n_states };
  page.names.set(whole.name, index);
  page.nStates = whole.n_states <= 30 ? whole.n_states : FEW;
  page.found = [];
  $("state-search").value = "";
  $("state-search").hidden = whole.n_states <= 30;
  $("chosen-name").textContent = whole.name;
  $("chosen-size").textContent = `${whole.n_states.toLocaleString("en")} states, ${whole.n_factors.toLocaleString("en")} factors with others`;
  const all = !page.near.is_cut && page.near.variables.length === page.model.variables;
  $("near-title").textContent = all ? "Graph" : `Neighbourhood of ${whole.name}`;
  $("legend").textContent = `${all ? "" : `The nearest ${page.near.variables.length} of ${page.model.variables.toLocaleString("en")} variables. `}A ring shows the probability of a variable’s likeliest state; a filled dot is an observed variable.`;
  graph.show(page.near);
  if (quiet) return;
  history.replaceState({ depth: page.depth }, "", write(page.evidence, page.chosen.name));
  draw();
  await look();
}

async function chooseName(name) {
  const index = page.names.get(name) ?? await indexOf(name);
  if (index !== null) await choose(index);
}

async function indexOf(name) {
  try { return (await get("/model/states", { variable: name, limit: 1 })).index; } catch { return null; }
}

function change(evidence) {
  page.evidence = evidence;
  page.depth += 1;
  history.pushState({ depth: page.depth }, "", write(evidence, page.chosen && page.chosen.name));
  draw();
  run();
}

async function restore() {
  const { evidence, chosen } = read(location.hash);
  page.evidence = evidence;
  page.depth = (history.state && history.state.depth) || 0;
  if (!page.chosen || (chosen !== null && chosen !== page.chosen.name)) {
    const index = chosen === null ? 0 : await indexOf(chosen);
    await choose(index ?? 0, { quiet: true });
  }
  draw();
  run();
}

// ---------------------------------------------------------------- lists
async function search(after = 0) {
  const text = $("search").value;
  const { variables, next } = await get("/model/variables", { search: text, after, limit: LISTED });
  if (text !== $("search").value) return;
  page.listed = after ? [...page.listed, ...variables] : variables;
  page.next = next;
  list.show(page.listed);
  $("more-variables").hidden = next === null || page.listed.length >= 120;
  $("found").textContent = !page.listed.length ? "No name contains this."
    : next === null ? "" : `The first ${page.listed.length}${text ? " that match" : ` of ${page.model.variables.toLocaleString("en")}`}.`;
}

async function searchStates() {
  const text = $("state-search").value, index = page.chosen.index;
  const found = text ? (await get("/model/states", { index, search: text, limit: 40 })).states : [];
  if (text !== $("state-search").value || index !== page.chosen.index) return;
  page.found = found.map(({ state }) => state);
  await look();
  if (text && !found.length) $("rest").textContent = "No state has this in its label.";
}

function soon(work) {
  let timer = 0;
  return () => { clearTimeout(timer); timer = setTimeout(() => work().catch(failed), 120); };
}

// ---------------------------------------------------------------- start
async function start() {
  try {
    page.model = await get("/model");
    const { name, variables, factors, states: n, method } = page.model, count = (value) => value.toLocaleString("en");
    document.title = `${name} – anytimebp`;
    $("name").textContent = name;
    $("size").textContent = `${count(variables)} variables, ${count(factors)} factors, ${count(n)} states · method ${method}`;
    if (!page.listed.length) await search();
    await restore();
  } catch (error) { failed(error); }
}

for (const kind of ["csv", "json"]) $(kind).href = `/export?${new URLSearchParams({ session, format: kind })}`;
$("search").addEventListener("input", soon(async () => { await search(); await look(); }));
$("state-search").addEventListener("input", soon(searchStates));
$("more-variables").addEventListener("click", async () => { await search(page.next); await look(); });
$("more-states").addEventListener("click", () => { page.nStates = Math.min(MOST_STATES, 3 * page.nStates); look(); });
$("search-best").addEventListener("click", () => searchBest());
$("undo").addEventListener("click", () => history.back());
$("clear").addEventListener("click", () => change(new Map()));
$("stop").addEventListener("click", () => { if (page.run) { page.run.abort(); finish(page.run); say("Stopped", "early"); } });
$("copy").addEventListener("click", async () => {
  try { await navigator.clipboard.writeText(location.href); say("The link is copied; who opens it needs the token, too"); }
  catch { say("Copy the link from the address bar"); }
});
addEventListener("popstate", () => restore());
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !typing) { event.preventDefault(); $("search").focus(); }
  else if (event.key === "u" && !typing && page.depth) history.back();
  else if (event.key === "Escape" && page.run) $("stop").click();
});
start();
