
"use strict";

// What the rest is written in: elements, numbers as text, and axes with their ticks.

const SVG = "http://www.w3.org/2000/svg";

const place = (id) => document.getElementById(id);
const read = (id) => JSON.parse(place(id).textContent);

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children); // strings become text, never markup
  return node;
}

function draw(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const known = (value) => typeof value === "number" && Number.isFinite(value);

// Numbers as text

const count = (value) => value.toLocaleString("en");

function figure(value, digits) {
  if (!known(value)) return "unknown";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size < 1e-3 || size >= 1e9 ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
  return text.replace("e+", "e").replace(/^-/, "\u2212");
}

function probability(value) {
  if (value > 0.9995 && value < 1) return "> 0.999";
  return figure(value, 3);
}

function duration(seconds) {
  if (!known(seconds)) return "unknown";
  if (seconds < 1e-3) return `${figure(seconds * 1e6, 3)} \u00b5s`;
  if (seconds < 1) return `${figure(seconds * 1e3, 3)} ms`;
  return seconds < 100 ? `${figure(seconds, 3)} s` : `${count(Math.round(seconds))} s`;
}

// Axes

function steps(low, high, most, least) {
  const raw = Math.max(least, (high - low) / Math.max(1, most));
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((k) => k * power >= raw * (1 - 1e-9));
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) ticks.push(k * step);
  return { ticks, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function tickText(value, decimals) {
  const size = Math.abs(value);
  if (size >= 1e6 && decimals === 0) {
    const [unit, name] = [[1e12, "T"], [1e9, "G"], [1e6, "M"]].find(([least]) => size >= least);
    return `${Number((value / unit).toPrecision(6))}${name}`.replace(/^-/, "\u2212");
  }
  if (decimals > 7) return figure(value, 4);
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals })
    .replace(/^-(?=0(\.0*)?$)/, "").replace(/^-/, "\u2212");
}

function linearAxis(low, high, most, least = 0) {
  if (high === low) {
    const pad = Math.abs(high) * 1e-3 || 1;
    [low, high] = [low - pad, high + pad];
  }
  const { ticks, decimals } = steps(low, high, most, least);
  const at = (value) => (value - low) / (high - low);
  return { at, ticks: ticks.map((value) => ({ at: at(value), text: tickText(value, decimals) })) };
}

function logAxis(low, high, most) {
  let from = Math.floor(Math.log10(low) + 1e-9);
  const to = Math.ceil(Math.log10(high) - 1e-9);
  if (from === to) from -= 1;
  const at = (value) => (Math.log10(value) - from) / (to - from);
  const stride = Math.max(1, Math.ceil((to - from) / most));
  const ticks = [];
  for (let power = to; power >= from; power -= stride) {
    const plain = power >= -2 && power <= 3;
    ticks.push({ at: (power - from) / (to - from), text: plain ? count(10 ** power) : `1e${power}` });
  }
  return { at, ticks };
}
