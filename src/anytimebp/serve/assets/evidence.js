// What is observed: a map from variable names to { not, states }; and how it stands in the address.
// #v=Paris&Curie=0&Warsaw=!2,5: Paris is chosen, Curie is in state 0, Warsaw is in neither of two.
// A name that is "v", or starts with "=", gets a "=" in front.

const plain = (key) => (key.startsWith("=") ? key.slice(1) : key);
const kept = (name) => (name === "v" || name.startsWith("=") ? `=${name}` : name);

export function read(hash) {
  const evidence = new Map();
  let chosen = null;
  for (const [key, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (key === "v") { chosen = value; continue; }
    const not = value.startsWith("!");
    const states = value.slice(not ? 1 : 0).split(",").filter((text) => /^\d{1,13}$/.test(text)).map(Number);
    if (states.length) evidence.set(plain(key), { not, states: not ? states : states.slice(0, 1) });
  }
  return { evidence, chosen };
}

export function write(evidence, chosen) {
  const found = new URLSearchParams();
  if (chosen !== null) found.set("v", chosen);
  for (const [name, { not, states }] of evidence) found.set(kept(name), (not ? "!" : "") + states.join(","));
  return `#${found}`;
}

export function asked(evidence) {
  return Object.fromEntries(
    [...evidence].map(([name, { not, states }]) => [name, not ? { not_states: states } : { states }]),
  );
}

// Evidence after a click on a state, or on its x: each takes back what it did.
export function toggled(evidence, name, state, not) {
  const found = new Map(evidence);
  const before = found.get(name);
  if (!not) {
    if (before && !before.not && before.states[0] === state) found.delete(name);
    else found.set(name, { not: false, states: [state] });
    return found;
  }
  const out = before && before.not ? before.states : [];
  const states = out.includes(state) ? out.filter((one) => one !== state) : [...out, state].sort((a, b) => a - b);
  if (states.length) found.set(name, { not: true, states });
  else found.delete(name);
  return found;
}
