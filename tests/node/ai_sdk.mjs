// The Vercel AI SDK through an endpoint, by one of its three ways: plain, streamed, own tool, structured, our tools, and
// a second turn on what came before.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { url, key, way } = JSON.parse(process.env.TOUR);
const openai = createOpenAI({ baseURL: url, apiKey: key });
// What our own fields need is put into the body, as the SDK's users do.
const research = { web_search_options: { x_tools: ["calculator"] } };
const asked = async (input, init) => fetch(input, { ...init, body: JSON.stringify({ ...JSON.parse(init.body), ...research }) });
const compatible = (more) =>
  createOpenAICompatible({ name: "holdfast", baseURL: url, apiKey: key, includeUsage: true, supportsStructuredOutputs: true, ...more });
const ways = {
  compatible: { model: compatible()("any"), ours: compatible({ fetch: asked })("any") },
  chat: { model: openai.chat("any"), ours: createOpenAI({ baseURL: url, apiKey: key, fetch: asked }).chat("any") },
  responses: { model: openai("any"), ours: openai("any") },
};
const { model, ours } = ways[way];
const tools = way === "responses" ? { file_search: openai.tools.fileSearch({ vectorStoreIds: [await storeWithFile()] }) } : {};
const settings = { maxRetries: 0, onError: ({ error }) => { throw error; } };
const seen = {};
const weather = tool({
  description: "The weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `Rain in ${city}.`,
});

const plain = await generateText({ ...settings, model, prompt: "Hello?" });
seen.plain = [plain.text, plain.usage.totalTokens, plain.finishReason];

const stream = streamText({ ...settings, model, prompt: "Streamed?" });
const deltas = [];
for await (const delta of stream.textStream) deltas.push(delta);
seen.streamed = [deltas.join(""), deltas.length > 1, (await stream.totalUsage).totalTokens];

// Two turns: the person asks, the tool is called and its result sent back, then the person asks on.
const messages = [{ role: "user", content: "What is the weather in Oslo?" }];
const first = await generateText({ ...settings, model, messages, tools: { weather }, stopWhen: stepCountIs(3) });
seen.tool = [first.text, first.steps.flatMap((step) => step.toolResults.map((each) => each.output))];
messages.push(...first.responseMessages, { role: "user", content: "And tomorrow?" });
seen.second = (await generateText({ ...settings, model, messages, tools: { weather } })).text;

const shaped = await generateText({
  ...settings,
  model,
  prompt: "Who?",
  output: Output.object({ schema: z.object({ name: z.string(), age: z.number() }) }),
});
seen.structured = shaped.output;

// A tool of ours, then one of theirs, streamed; and a second turn on all of it.
const mixed = streamText({
  ...settings,
  model: ours,
  prompt: "What is 6 * 7, and the weather?",
  tools: { ...tools, weather },
  stopWhen: stepCountIs(3),
});
const parts = [];
for await (const part of mixed.fullStream) {
  if (part.type === "error") throw part.error;
  parts.push(part.type);
}
seen.mixed = [await mixed.text, parts.filter((type) => type === "tool-input-delta").length > 1];
seen.usage = (await mixed.totalUsage).totalTokens;
const history = [
  { role: "user", content: "What is 6 * 7, and the weather?" },
  ...(await mixed.responseMessages),
  { role: "user", content: "Thanks. And now?" },
];
seen.after = (await generateText({ ...settings, model: ours, messages: history, tools: { ...tools, weather } })).text;

if (way === "responses") {
  const conversation = await (await fetch(`${url}/conversations`, { method: "POST", headers: { authorization: `Bearer ${key}` } })).json();
  const kept = { openai: { conversation: conversation.id } };
  const one = await generateText({ ...settings, model, prompt: "Remember blue.", providerOptions: kept });
  seen.kept = [one.text, (await generateText({ ...settings, model, prompt: "Which?", providerOptions: kept })).text];
  const bare = { openai: { store: false } };
  const said = [{ role: "user", content: "Nothing kept." }];
  const once = await generateText({ ...settings, model, messages: said, providerOptions: bare });
  said.push(...once.responseMessages, { role: "user", content: "And again." });
  seen.bare = (await generateText({ ...settings, model, messages: said, providerOptions: bare })).text;
}
console.log(JSON.stringify(seen));

async function storeWithFile() {
  const headers = { authorization: `Bearer ${key}` };
  const form = new FormData();
  form.append("purpose", "assistants");
  form.append("file", new Blob(["Six times seven is 42."]), "sums.txt");
  const file = await (await fetch(`${url}/files`, { method: "POST", headers, body: form })).json();
  const body = JSON.stringify({ name: "Sums", file_ids: [file.id] });
  return (await (await fetch(`${url}/vector_stores`, { method: "POST", headers, body })).json()).id;
}
