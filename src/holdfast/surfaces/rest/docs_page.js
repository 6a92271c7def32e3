// Shows the OpenAPI document and sends what is filled in. Text from the server becomes text on the page, never markup.
"use strict";

const page = {
  spec: null,
  session: null, // of GET /api/session, where somebody is signed in
  remembered: {}, // what was typed for a part of a path, by its name: workspace_id is asked for on every second form
};

function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

const followed = (schema) => (schema && schema.$ref ? page.spec.components.schemas[schema.$ref.split("/").pop()] : schema);

// Something that fits the schema, to be edited: what has a default or must be there.
function example(schema, depth = 0) {
  schema = followed(schema) || {};
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const choice = (schema.anyOf || schema.oneOf || schema.allOf || []).find((each) => each.type !== "null");
  if (choice) return example(choice, depth);
  if (schema.type === "object" || schema.properties) {
    const required = new Set(schema.required || []);
    const fields = Object.entries(schema.properties || {}).filter(([name]) => required.has(name) || depth === 0);
    return Object.fromEntries(
      fields.map(([name, field]) => [name, required.has(name) ? example(field, depth + 1) : optional(field)]).filter(([, value]) => value !== undefined),
    );
  }
  return { array: [], integer: schema.minimum || 0, number: schema.minimum || 0, boolean: false, string: "" }[schema.type] ?? "";
}

function optional(field) {
  const value = followed(field)?.default;
  return value === null || value === undefined || (Array.isArray(value) && !value.length) ? undefined : value;
}

function field(parameter) {
  const schema = (parameter.schema.anyOf || [parameter.schema]).find((each) => each.type !== "null") || {};
  const choices = schema.enum || (schema.type === "boolean" ? ["true", "false"] : null);
  const id = `p${field.count++}`;
  const label = make("label", { htmlFor: id, className: parameter.required ? "needed" : "" }, make("code", {}, parameter.name), ` in ${parameter.in}`);
  const shown = parameter.schema.default ?? schema.default;
  const input = choices
    ? make("select", { id, name: parameter.name }, make("option", { value: "" }, shown === undefined || shown === null ? "" : `(${shown})`), ...choices.map((each) => make("option", { value: each }, each)))
    : make("input", { id, name: parameter.name, required: parameter.required, placeholder: shown === undefined || shown === null ? "" : String(shown) });
  if (parameter.in === "path") input.value = page.remembered[parameter.name] || "";
  const told = parameter.schema.description || schema.description;
  return { parameter, input, nodes: [label, input, told ? make("p", { className: "hint" }, told) : ""] };
}
field.count = 0;

function operation(path, method, op) {
  const body = make("div");
  const shown = make(
    "details",
    { className: "operation" },
    make("summary", {}, make("span", { className: "method" }, method.toUpperCase()), make("code", { className: "path" }, path), op.summary),
    body,
  );
  shown.dataset.words = `${method} ${path} ${op.summary} ${op.tags[0]}`.toLowerCase();
  // Filled when it is opened: a hundred forms at once would make the page slow.
  shown.addEventListener("toggle", () => {
    if (shown.open && !body.childNodes.length) body.append(...filled(path, method, op));
  });
  return shown;
}

function filled(path, method, op) {
  const fields = (op.parameters || []).map(field);
  const form = make("form", { noValidate: false });
  for (const each of fields) form.append(...each.nodes.filter((node) => node !== ""));
  let content = null;
  for (const [type, media] of Object.entries(op.requestBody?.content || {})) {
    const id = `p${field.count++}`;
    const isFile = type !== "application/json";
    const input = isFile
      ? make("input", { id, type: "file", required: true })
      : make("textarea", { id, spellcheck: false, value: JSON.stringify(example(media.schema), null, 2) });
    form.append(make("label", { htmlFor: id }, "Body ", make("code", {}, type)), input);
    content = { type, input, isFile };
  }
  const send = make("button", { className: method === "delete" ? "changes" : "" }, "Send");
  const stop = make("button", { type: "button", hidden: true }, "Stop");
  form.append(make("p", { className: "send" }, send, stop));
  const answer = make("div", { className: "answer", role: "status" });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt({ path, method, fields, content, send, stop, answer });
  });
  return [make("p", { className: "hint" }, op.description), form, answer, described(op)];
}

function described(op) {
  const inside = make("pre");
  const shown = make("details", {}, make("summary", { className: "hint" }, "Fields of the request and of the answers"), inside);
  shown.addEventListener("toggle", () => {
    const said = { parameters: op.parameters };
    const all = (content) => Object.values(content || {}).map((each) => followed(each.schema));
    if (op.requestBody) said.body = all(op.requestBody.content);
    said.answers = Object.fromEntries(Object.entries(op.responses).map(([code, each]) => [code, each.content && code < 300 ? all(each.content) : each.description]));
    inside.textContent = JSON.stringify(said, null, 2);
  });
  return shown;
}

function request({ path, method, fields, content }) {
  const query = new URLSearchParams();
  let filledPath = path;
  for (const { parameter, input } of fields) {
    const value = input.value.trim();
    if (parameter.in === "path") {
      filledPath = filledPath.replace(`{${parameter.name}}`, encodeURIComponent(value));
      page.remembered[parameter.name] = value;
    } else if (value !== "") query.append(parameter.name, value);
  }
  const headers = {};
  const key = document.getElementById("key").value.trim();
  if (key) headers.Authorization = `Bearer ${key}`;
  else if (page.session && method !== "get") headers["X-CSRF-Token"] = page.session.csrf_token;
  let body;
  if (content && content.isFile) {
    const file = content.input.files[0];
    if (content.type === "multipart/form-data") {
      body = new FormData();
      body.append("file", file);
    } else {
      body = file;
      headers["Content-Type"] = content.type;
    }
  } else if (content) {
    body = JSON.stringify(JSON.parse(content.input.value));
    headers["Content-Type"] = "application/json";
  }
  const url = filledPath + (query.size ? `?${query}` : "");
  return { url, key, options: { method: method.toUpperCase(), headers, body, credentials: key ? "omit" : "same-origin" } };
}

function curl({ url, options }, content) {
  const parts = [`curl -X ${options.method} '${location.origin}${url}' -H "Authorization: Bearer $KEY"`];
  if (content && content.isFile) {
    parts.push(content.type === "multipart/form-data" ? "-F file=@FILE" : `-H 'Content-Type: ${content.type}' --data-binary @FILE`);
  } else if (options.body) parts.push(`-H 'Content-Type: application/json' -d '${options.body.replaceAll("'", "'\\''")}'`);
  return parts.join(" ");
}

async function attempt(call) {
  const { send, stop, answer, content } = call;
  let wanted;
  try {
    wanted = request(call);
  } catch (problem) {
    answer.replaceChildren(make("p", { className: "status failed" }, `The body is not JSON: ${problem.message}`));
    return;
  }
  const ending = new AbortController();
  const text = make("pre");
  const status = make("p", { className: "status" }, "Sending…");
  answer.replaceChildren(status, text, make("p", { className: "hint" }, "The same on a command line, with your key in $KEY:"), make("pre", { className: "curl" }, curl(wanted, content)));
  send.disabled = true;
  stop.hidden = false;
  stop.onclick = () => ending.abort();
  const began = performance.now();
  try {
    const got = await fetch(wanted.url, { ...wanted.options, signal: ending.signal });
    status.textContent = `${got.status} ${got.statusText} after ${Math.round(performance.now() - began)} ms`;
    status.classList.toggle("failed", !got.ok);
    await show(got, text, answer);
  } catch (problem) {
    status.textContent = problem.name === "AbortError" ? `${status.textContent}, stopped` : `No answer: ${problem.message}`;
  }
  send.disabled = false;
  stop.hidden = true;
}

async function show(got, text, answer) {
  const type = (got.headers.get("content-type") || "").split(";")[0];
  if (type === "text/event-stream") {
    const decoder = new TextDecoder();
    for (let reader = got.body.getReader(), part = await reader.read(); !part.done; part = await reader.read()) {
      text.append(decoder.decode(part.value, { stream: true }));
    }
  } else if (type === "application/json" || type.startsWith("text/")) {
    const body = await got.text();
    try {
      text.textContent = JSON.stringify(JSON.parse(body), null, 2);
    } catch {
      text.textContent = body;
    }
  } else if (got.status !== 204) {
    const named = /filename="([^"]+)"/.exec(got.headers.get("content-disposition") || "");
    const link = make("a", { href: URL.createObjectURL(await got.blob()), download: named ? named[1] : "answer" }, `Save ${named ? named[1] : type}`);
    text.replaceWith(make("p", {}, link));
  } else text.remove();
}

async function known() {
  const who = document.getElementById("who");
  const key = document.getElementById("key").value.trim();
  if (key) who.textContent = "The key is used, whoever is signed in.";
  else if (page.session) who.textContent = `Signed in as ${page.session.user.name} (${page.session.organization.name}); what you send is done in your name.`;
  else who.replaceChildren("Paste a key, or ", make("a", { href: "/sign-in" }, "sign in"), ".");
  if (!key && !page.session) return;
  const got = await fetch("/api/workspaces?limit=1", { headers: key ? { Authorization: `Bearer ${key}` } : {}, credentials: key ? "omit" : "same-origin" });
  const first = got.ok ? (await got.json()).items[0] : null;
  if (!first) return;
  page.remembered.workspace_id ||= first.id;
  page.remembered.project_id ||= first.project_id;
  for (const input of document.querySelectorAll("input[name=workspace_id],input[name=project_id]")) input.value ||= page.remembered[input.name];
}

function find(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const section of document.querySelectorAll("#operations section")) {
    let any = false;
    for (const each of section.querySelectorAll("details.operation")) {
      each.hidden = !wanted.every((word) => each.dataset.words.includes(word));
      any ||= !each.hidden;
    }
    section.hidden = !any;
  }
}

async function start() {
  page.spec = await (await fetch("/api/openapi.json")).json();
  const sections = new Map();
  for (const [path, methods] of Object.entries(page.spec.paths)) {
    for (const [method, op] of Object.entries(methods)) {
      if (!sections.has(op.tags[0])) sections.set(op.tags[0], make("section", {}, make("h2", {}, op.tags[0])));
      sections.get(op.tags[0]).append(operation(path, method, op));
    }
  }
  document.getElementById("operations").replaceChildren(...sections.values());
  document.getElementById("filter").addEventListener("input", (event) => find(event.target.value));
  document.getElementById("key").addEventListener("change", known);
  document.getElementById("credential").addEventListener("submit", (event) => {
    event.preventDefault();
    known();
  });
  // Asked only where there is a cookie: to anybody else it would be answered 401.
  if (document.documentElement.dataset.session) {
    const got = await fetch("/api/session");
    page.session = got.ok ? await got.json() : null;
  }
  await known();
}

start().catch((problem) => {
  document.getElementById("operations").textContent = `The description could not be read: ${problem.message}`;
});
