// Anthropic's own client for TypeScript, through an endpoint: whole answers, streams with helpers, tools by hand and by
// the tool runner, the beta namespace, token counts, models, errors and retries.
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { z } from "zod";

const { url, key } = JSON.parse(process.env.TOUR);
const client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
const asked = (text, more = {}) => ({ model: "any", max_tokens: 100, messages: [{ role: "user", content: text }], ...more });
const textOf = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
const tools = [{ name: "weather", description: "The weather", input_schema: { type: "object", properties: { city: { type: "string" } } } }];
const seen = { models: [] };

for await (const model of client.models.list()) seen.models.push(model.id);
seen.counted = (await client.messages.countTokens({ model: "any", messages: asked("Count me.").messages })).input_tokens > 0;

const whole = await client.messages.create(asked("plain"));
seen.whole = [textOf(whole), whole.stop_reason, whole.usage.input_tokens > 0, whole.usage.output_tokens > 0];

const stream = client.messages.stream(asked("stream"));
const pieces = [];
stream.on("text", (text) => pieces.push(text));
const streamed = await stream.finalMessage();
seen.streamed = [pieces.join(""), pieces.length > 1, textOf(streamed), streamed.stop_reason];

const events = [];
for await (const event of await client.messages.create(asked("stream", { stream: true }))) events.push(event.type);
seen.events = events.filter((type, at) => type !== events[at - 1]);

const first = await client.messages.create(asked("weather", { tools }));
const call = first.content.find((block) => block.type === "tool_use");
const result = { type: "tool_result", tool_use_id: call.id, content: `Rain in ${call.input.city}.` };
const again = [...asked("weather").messages, { role: "assistant", content: first.content }, { role: "user", content: [result] }];
seen.tool = [first.stop_reason, textOf(await client.messages.create({ ...asked(""), messages: again, tools }))];

for (const way of [false, true]) {
  const runner = client.beta.messages.toolRunner({
    ...asked("weather"),
    stream: way,
    tools: [betaZodTool({ name: "weather", description: "The weather", inputSchema: z.object({ city: z.string() }), run: ({ city }) => `Rain in ${city}.` })],
  });
  seen[way ? "runnerStreamed" : "runner"] = textOf(await runner.runUntilDone());
}

const beta = await client.beta.messages.create({ ...asked("plain"), betas: ["interleaved-thinking-2025-05-14"] });
seen.beta = textOf(beta);

const served = await client.messages.create(asked("sum", { metadata: { x_tools: ["calculator"] } }));
seen.served = [textOf(served), served.content.map((block) => block.type)];

// What ran on the server, streamed: blocks with their input put together again, and sent back with the next question.
const serving = asked("sum", { metadata: { x_tools: ["calculator"] } });
const ran = await client.beta.messages.stream(serving).finalMessage();
const [used, gave] = ran.content;
seen.servedStreamed = [
  ran.content.map((block) => block.type),
  [used.server_name, used.name, Object.keys(used.input)],
  [gave.tool_use_id === used.id, gave.is_error, gave.content.map((block) => block.type)],
  JSON.stringify(used.input) === JSON.stringify(served.content[0].input),
];
const followed = [...serving.messages, { role: "assistant", content: ran.content }, { role: "user", content: "plain" }];
seen.servedAgain = textOf(await client.beta.messages.create({ ...serving, metadata: {}, messages: followed }));

for (const [name, make] of Object.entries({
  unknown: () => new Anthropic({ baseURL: url, apiKey: "xero_wrong", maxRetries: 0 }).messages.create(asked("plain")),
  invalid: () => client.messages.create({ ...asked("plain"), messages: [{ role: "user", content: [{ type: "odd" }] }] }),
  busy: () => client.messages.create(asked("busy")),
  cut: () => client.messages.stream(asked("cut")).finalMessage(),
})) {
  try {
    await make();
    seen[name] = "no error";
  } catch (error) {
    seen[name] = [error.constructor.name, error.status ?? null, error.error?.error?.type ?? null, Boolean(error.requestID)];
  }
}
seen.retried = textOf(await client.messages.create(asked("busy once"), { maxRetries: 1 }));
console.log(JSON.stringify(seen));
