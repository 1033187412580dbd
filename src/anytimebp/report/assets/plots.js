
// Plots of the figures of a run, drawn as SVG. One moment is read out at a time, in all of them.

const HEIGHT = 210;
const FEW = 30; // moments that are shown as dots

const run = read("run");
const timings = read("timings");

// The horizontal axis: time or work

const AXES = {
  seconds: {
    values: timings.points,
    say: (value) => `at ${duration(value)}`,
    unit: (most) => (most < 1e-3 ? [1e6, "microseconds"] : most < 1 ? [1e3, "milliseconds"] : [1, "seconds"]),
  },
  work: {
    values: run.points.work,
    say: (value) => `at work ${count(value)}`,
    unit: () => [1, "work (table entries)"],
  },
};

const last = run.points.work.length - 1;
let axis = AXES.seconds;
let chosen = null; // the moment that is read out; null for the last one

// Panels

const everything = run.all_states;
const mostActive = Math.max(0, ...run.points.states.filter(known));
const PANELS = [
  {
    title: "Active states",
    about: "states that take part",
    series: [{ name: "active", values: run.points.states, stepped: true }],
    rule: { name: "all", value: everything, text: count(everything) },
    say: count,
    fromZero: true,
    ruleShown: mostActive === 0 || everything <= 40 * mostActive,
    absent: "No moment was recorded.",
  },
  {
    title: "Residuals",
    about: "how far messages still move, in nats",
    series: [
      { name: "largest", values: run.points.max_residual },
      { name: "mean", values: run.points.mean_residual },
    ],
    rule: { name: "tolerance", value: run.tolerance, text: known(run.tolerance) ? String(run.tolerance) : "none" },
    say: (value) => figure(value, 3),
    log: true,
    ruleShown: known(run.tolerance),
    absent: run.points.max_residual.some(known)
      ? "No residual above zero was recorded: there was nothing to settle, or it settled at once."
      : "No residual is known: not every message had been computed once.",
  },
  {
    title: "log Z",
    about: "estimate on the active states, in nats",
    series: [{ name: "log Z", values: run.points.log_z }],
    say: (value) => figure(value, 8),
    absent: "log Z was not computed at any recorded moment.",
  },
  {
    title: "Estimated distance to BP",
    about: "of the marginals, and belief left out",
    series: [
      { name: "distance", values: run.points.estimated_error, joined: true },
      { name: "unexplored mass", values: run.points.unexplored_mass, joined: true },
    ],
    say: probability,
    log: true,
    absent: run.points.estimated_error.some(known)
      ? "No distance above zero was estimated at any moment where it was looked at: the marginals are those of BP, or exact."
      : "No distance could be estimated: not every message had been computed once, or hard zeros hide what is missing.",
  },
];

const drawable = (panel, value) => known(value) && (!panel.log || value > 0);

function verticalAxis(panel) {
  const values = panel.series.flatMap((series) => series.values).filter((value) => drawable(panel, value));
  if (panel.rule && panel.ruleShown) values.push(panel.rule.value);
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  if (panel.log) return logAxis(low, high, 5);
  if (panel.fromZero) return linearAxis(0, high * 1.06 || 1, 5, 1);
  const pad = (high - low) * 0.06;
  return linearAxis(low - pad, high + pad, 5);
}

function horizontalAxis(width) {
  const most = axis.values.filter(known).reduce((a, b) => Math.max(a, b), 0);
  const [factor, name] = axis.unit(most);
  const scale = linearAxis(0, (most || 1) * factor * (last === 0 ? 1.25 : 1), Math.max(2, Math.floor(width / 90)));
  return { at: (value) => scale.at(value * factor), ticks: scale.ticks, name };
}

// Runs of neighbouring moments whose figure can be drawn; others leave a gap, unless the line is joined.
function stretches(panel, series) {
  const found = [[]];
  series.values.forEach((value, i) => {
    if (drawable(panel, value) && known(axis.values[i])) found[found.length - 1].push(i);
    else if (!series.joined && found[found.length - 1].length) found.push([]);
  });
  return found.filter((stretch) => stretch.length);
}

function linePath(series, stretch, x, y) {
  return stretch.map((i, k) => {
    const [across, down] = [x(axis.values[i]).toFixed(1), y(series.values[i]).toFixed(1)];
    if (k === 0) return `M${across} ${down}`;
    return series.stepped ? `H${across}V${down}` : `L${across} ${down}`;
  }).join("");
}

function drawFrame(svg, box, across, up) {
  for (const tick of up.ticks) {
    const y = box.bottom - tick.at * (box.bottom - box.top);
    svg.append(draw("line", { class: "grid", x1: box.left, x2: box.right, y1: Math.round(y), y2: Math.round(y) }));
    svg.append(draw("text", { x: box.left - 8, y: y + 4, "text-anchor": "end" }, tick.text));
  }
  for (const tick of across.ticks) {
    const x = box.left + tick.at * (box.right - box.left);
    const anchor = tick.at > 0.97 ? "end" : "middle";
    svg.append(draw("text", { x, y: box.bottom + 17, "text-anchor": anchor }, tick.text));
  }
  svg.append(draw("text", { class: "x-name", x: box.right, y: box.bottom + 34, "text-anchor": "end" }, across.name));
}

function drawSeries(svg, panel, x, y) {
  panel.series.forEach((series, k) => {
    const kind = k ? "second" : "first";
    const all = stretches(panel, series);
    const few = all.reduce((sum, stretch) => sum + stretch.length, 0) < FEW;
    for (const stretch of all) {
      if (stretch.length > 1) svg.append(draw("path", { class: `line ${kind}`, d: linePath(series, stretch, x, y) }));
      for (const i of few || stretch.length === 1 ? stretch : []) {
        svg.append(draw("circle", { class: kind, cx: x(axis.values[i]), cy: y(series.values[i]), r: 2.6 }));
      }
    }
  });
}

function redraw(panel) {
  if (!panel.svg) return;
  const svg = panel.svg;
  const width = Math.max(240, Math.round(panel.figure.clientWidth) || 560);
  const up = verticalAxis(panel);
  const widest = Math.max(...up.ticks.map((tick) => tick.text.length));
  const box = { left: 14 + widest * 6.6, right: width - 6, top: 10, bottom: HEIGHT - 40 };
  const across = horizontalAxis(box.right - box.left);
  const x = (value) => box.left + across.at(value) * (box.right - box.left);
  const y = (value) => box.bottom - up.at(value) * (box.bottom - box.top);
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  drawFrame(svg, box, across, up);
  if (panel.rule && panel.ruleShown) {
    const level = y(panel.rule.value);
    svg.append(draw("line", { class: "rule", x1: box.left, x2: box.right, y1: level, y2: level }));
  }
  drawSeries(svg, panel, x, y);
  panel.cursor = draw("g", { class: "at-cursor" });
  svg.append(panel.cursor);
  Object.assign(panel, { x, y, box, width });
  showMoment(panel);
}

// Reading out one moment

function entry(kind, name, text) {
  return make("span", {}, make("span", { class: `key ${kind}` }), `${name} `, make("b", {}, text));
}

function momentText(i) {
  return chosen === null ? "at the end" : known(axis.values[i]) ? axis.say(axis.values[i]) : "";
}

function showMoment(panel) {
  const i = chosen === null ? last : chosen;
  const entries = panel.series.map((series, k) => {
    const value = series.values[i];
    const text = known(value) ? panel.say(value) : series.joined ? "not known" : "none";
    return entry(k ? "second" : "first", series.name, text);
  });
  if (panel.rule) entries.push(entry("rule", panel.rule.name, panel.rule.text));
  panel.readout.replaceChildren(...entries, make("span", {}, momentText(i)));
  panel.cursor.replaceChildren();
  if (chosen === null || !known(axis.values[i])) return;
  const across = panel.x(axis.values[i]);
  panel.cursor.append(draw("line", { class: "cursor", x1: across, x2: across, y1: panel.box.top, y2: panel.box.bottom }));
  panel.series.forEach((series, k) => {
    if (!drawable(panel, series.values[i])) return;
    panel.cursor.append(draw("circle", { class: k ? "second" : "first", cx: across, cy: panel.y(series.values[i]), r: 4 }));
  });
}

function choose(i) {
  if (i === chosen) return;
  chosen = i;
  for (const panel of PANELS) if (panel.svg) showMoment(panel);
}

function nearest(panel, event) {
  const frame = panel.svg.getBoundingClientRect();
  const across = ((event.clientX - frame.left) / frame.width) * panel.width;
  let best = null;
  axis.values.forEach((value, i) => {
    const gap = known(value) ? Math.abs(panel.x(value) - across) : Infinity;
    if (best === null || gap < best.gap) best = { gap, i };
  });
  return best && best.i;
}

function onKey(event) {
  const now = chosen === null ? last : chosen;
  const stride = event.shiftKey ? Math.max(1, Math.round(last / 20)) : 1;
  const next = { ArrowLeft: now - stride, ArrowRight: now + stride, Home: 0, End: last }[event.key];
  if (event.key === "Escape") choose(null);
  if (next === undefined) return;
  event.preventDefault();
  choose(Math.min(last, Math.max(0, next)));
}

function addPanel(panel) {
  const heading = make("h3", {}, `${panel.title} `, make("small", {}, panel.about));
  const caption = make("figcaption", {}, heading);
  panel.figure = make("figure", { class: "plot", "data-plot": panel.title }, caption);
  place("plots").append(panel.figure);
  if (!panel.series.some((series) => series.values.some((value) => drawable(panel, value)))) {
    panel.figure.append(make("p", { class: "absent" }, panel.absent));
    return;
  }
  panel.readout = make("div", { class: "readout" });
  caption.append(panel.readout);
  panel.svg = draw("svg", {
    role: "img", tabindex: "0", "aria-label": `${panel.title}. Left and right arrow keys read out single moments.`,
  });
  panel.svg.addEventListener("pointermove", (event) => choose(nearest(panel, event)));
  panel.svg.addEventListener("pointerdown", (event) => choose(nearest(panel, event)));
  panel.svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && choose(null));
  panel.svg.addEventListener("keydown", onKey);
  panel.svg.addEventListener("focus", () => panel.readout.setAttribute("aria-live", "polite"));
  panel.svg.addEventListener("blur", () => { panel.readout.removeAttribute("aria-live"); choose(null); });
  panel.figure.append(panel.svg);
}

function courseNote() {
  const notes = [];
  if (run.n_points > last + 1) notes.push(`${count(last + 1)} of ${count(run.n_points)} recorded moments are drawn, evenly spread.`);
  if (last === 0) notes.push("One moment was recorded: the end.");
  if (PANELS[0].svg && !PANELS[0].ruleShown) notes.push(`All ${count(everything)} states would be far above the scale.`);
  if (PANELS[3].svg && PANELS[3].series.some((series) => series.values.includes(null))) {
    notes.push("Distances and unexplored mass are estimated now and then; the lines join these moments.");
  }
  return notes.join(" ");
}

function showTime() {
  const later = timings.stopped > timings.answer * 1.001 ? `, stopped at ${duration(timings.stopped)}` : "";
  place("seconds").textContent = duration(timings.answer) + later;
}

showTime();
PANELS.forEach(addPanel);
place("course-note").textContent = courseNote();
place("x-axis").addEventListener("change", (event) => {
  axis = AXES[event.target.value];
  PANELS.forEach(redraw);
});
new ResizeObserver(() => PANELS.forEach(redraw)).observe(place("plots"));
