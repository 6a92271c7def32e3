// The Vercel AI SDK's anthropic provider through an endpoint: plain, streamed, own tool, structured, thinking, our tools,
// and a second turn on what came before.
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { url, key } = JSON.parse(process.env.TOUR);
const anthropic = createAnthropic({ baseURL: `${url}/v1`, apiKey: key });
const model = anthropic("any");
const ours = createAnthropic({ baseURL: `${url}/v1`, apiKey: key, headers: { "X-Xerotier-Tools": "calculator" } })("any");
const settings = { maxRetries: 0, maxOutputTokens: 2000, onError: ({ error }) => { throw error; } };
const weather = tool({
  description: "The weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `Rain in ${city}.`,
});
const seen = {};

const plain = await generateText({ ...settings, model, prompt: "plain" });
seen.plain = [plain.text, plain.usage.inputTokens > 0, plain.usage.outputTokens > 0, plain.finishReason];

const stream = streamText({ ...settings, model, prompt: "stream" });
const deltas = [];
for await (const delta of stream.textStream) deltas.push(delta);
seen.streamed = [deltas.join(""), deltas.length > 1, (await stream.totalUsage).totalTokens > 0];

const messages = [{ role: "user", content: "weather" }];
const first = await generateText({ ...settings, model, messages, tools: { weather }, stopWhen: stepCountIs(3) });
seen.tool = [first.text, first.steps.flatMap((step) => step.toolResults.map((each) => each.output))];
messages.push(...first.responseMessages, { role: "user", content: "plain" });
seen.second = (await generateText({ ...settings, model, messages, tools: { weather } })).text;

const shaped = await generateText({
  ...settings,
  model,
  prompt: "person",
  output: Output.object({ schema: z.object({ name: z.string(), age: z.number() }) }),
});
seen.structured = shaped.output;

const thought = await generateText({
  ...settings,
  model,
  prompt: "plain",
  providerOptions: { anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } } },
});
seen.thought = thought.text;

const mixed = streamText({ ...settings, model: ours, prompt: "both", tools: { weather }, stopWhen: stepCountIs(3) });
const parts = [];
for await (const part of mixed.fullStream) {
  if (part.type === "error") throw part.error;
  parts.push(part.type);
}
seen.mixed = [await mixed.text, parts.includes("tool-call"), parts.includes("tool-result")];
const history = [{ role: "user", content: "both" }, ...(await mixed.responseMessages), { role: "user", content: "plain" }];
seen.after = (await generateText({ ...settings, model: ours, messages: history, tools: { weather } })).text;

try {
  await generateText({ ...settings, model: createAnthropic({ baseURL: `${url}/v1`, apiKey: "xero_wrong" })("any"), prompt: "plain" });
} catch (error) {
  seen.refused = [error.statusCode, error.message];
}
console.log(JSON.stringify(seen));
