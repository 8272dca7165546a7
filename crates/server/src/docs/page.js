// Builds the page from /openapi.json. Text of answers is only ever set as text.
"use strict";
const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

const example = (schema, all) => {
  // `true` is the schema of anything.
  if (!schema || schema === true) return null;
  if (schema.$ref) return example(all[schema.$ref.split("/").pop()], all);
  if (schema.examples) return schema.examples[0];
  if ("const" in schema) return schema.const;
  if (schema.enum) return schema.enum[0];
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return example(choices[0], all);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "object") {
    const needed = schema.required || [];
    return Object.fromEntries(needed.map((key) => [key, example(schema.properties?.[key], all)]));
  }
  if (type === "array") return [example(schema.items, all)];
  return { string: "", integer: 0, number: 0, boolean: false }[type] ?? null;
};

const field = (parameter) => {
  const input = make("input", { name: parameter.name, "data-in": parameter.in });
  if (parameter.required) input.required = true;
  return make("label", {}, `${parameter.name} — ${parameter.description}`, input);
};

const send = async (form, method, path, output) => {
  const query = new URLSearchParams();
  const headers = {};
  let url = path;
  for (const input of form.querySelectorAll("input[data-in]")) {
    if (!input.value) continue;
    const where = input.dataset.in;
    if (where === "path") url = url.replace(`{${input.name}}`, encodeURIComponent(input.value));
    if (where === "query") query.set(input.name, input.value);
    if (where === "header") headers[input.name] = input.value;
  }
  const key = document.getElementById("key").value;
  if (key) headers.Authorization = `Bearer ${key}`;
  const body = form.querySelector("textarea")?.value ?? form.querySelector("input[type=file]")?.files[0];
  if (typeof body === "string") headers["Content-Type"] = "application/json";
  if ([...query].length) url += `?${query}`;
  output.textContent = "…";
  try {
    const answer = await fetch(url, { method: method.toUpperCase(), headers, body });
    output.textContent = `${answer.status} ${answer.headers.get("content-type") ?? ""}\n`;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      output.textContent += piece.value;
    }
  } catch (error) {
    output.textContent += String(error);
  }
};

const route = (path, method, about, all) => {
  const form = make("form");
  for (const parameter of about.parameters ?? []) form.append(field(parameter));
  const content = about.requestBody?.content ?? {};
  if (content["application/json"]) {
    const text = make("textarea", { name: "body", "aria-label": "body" });
    text.value = JSON.stringify(example(content["application/json"].schema, all), null, 2);
    form.append(text);
  } else if (about.requestBody) {
    form.append(make("input", { type: "file", "aria-label": "file" }));
  }
  const output = make("pre", { "aria-live": "polite" });
  form.append(make("button", {}, "Send 보내기"), output);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, method, path, output);
  });
  const summary = make("summary", {}, make("b", {}, method.toUpperCase()), make("code", {}, path));
  summary.append(make("span", {}, about.summary));
  return make("details", {}, summary, form);
};

fetch("/openapi.json")
  .then((answer) => answer.json())
  .then((api) => {
    const main = document.getElementById("routes");
    for (const { name } of api.tags) {
      main.append(make("h2", {}, name));
      for (const [path, methods] of Object.entries(api.paths)) {
        for (const [method, about] of Object.entries(methods)) {
          if (about.tags.includes(name)) main.append(route(path, method, about, api.components.schemas));
        }
      }
    }
  });
