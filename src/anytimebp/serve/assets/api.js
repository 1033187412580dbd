// The OpenAPI document as a page.

import { get } from "/assets/asking.js";
import { made } from "/assets/states.js";

function named(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.type === "array") return `list of ${named(schema.items) || "values"}`;
  if (schema.enum) return schema.enum.join(" or ");
  return [schema.type || ""].flat().join(" or ");
}

// A text of ours, with what stands between backquotes as code.
function worded(tag, text, attributes = {}) {
  const found = made(tag, attributes);
  text.split("`").forEach((part, k) => found.append(k % 2 ? made("code", {}, part) : part));
  return found;
}

function members(title, rows) {
  const table = made("table"), caption = made("caption", { class: "soft" }, title);
  table.append(caption, ...rows.map(([name, schema, words]) => {
    const row = made("tr");
    row.append(made("th", { scope: "row" }, name), made("td", {}, named(schema)), worded("td", words || schema.description || "", { class: "words" }));
    return row;
  }));
  return table;
}

const described = (schema) => Object.entries(schema.properties || {}).map(([name, each]) => [name, each]);

const api = await get("/openapi.json");
document.getElementById("about").replaceWith(worded("p", api.info.description));
const main = document.getElementById("paths");
for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, each] of Object.entries(methods)) {
    const section = made("section"), ok = each.responses["200"], [kind, { schema }] = Object.entries(ok.content)[0];
    section.append(made("h2", {}, `${method.toUpperCase()} ${path}`), worded("p", each.summary));
    if (each.parameters) section.append(members("In the address", each.parameters.map((one) => [one.name, one.schema, one.description])));
    if (each.requestBody) {
      const asked = each.requestBody.content["application/json"];
      section.append(members("Request", described(asked.schema)), made("pre", {}, JSON.stringify(asked.example)));
    }
    section.append(worded("p", `Answer (${kind}): ${ok.description}`));
    if (schema.properties) section.append(members("Members of the answer", described(schema)));
    main.append(section);
  }
}
for (const [name, schema] of Object.entries(api.components.schemas)) {
  const section = made("section");
  section.append(made("h2", {}, name), worded("p", schema.description || ""), members("Members", described(schema)));
  main.append(section);
}
