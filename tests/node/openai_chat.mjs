// The official OpenAI client for Node, sent through an endpoint: models, whole answers, streams with events, errors.
import OpenAI from "openai";

const { url, key } = JSON.parse(process.env.TOUR);
const client = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 });
const messages = [{ role: "user", content: "What is 6 * 7?" }];
const web_search_options = { x_tools: ["calculator"] };
const seen = { models: [], events: [], streamed: "", usage: null };

for await (const model of client.models.list()) seen.models.push(model.id);

const whole = await client.chat.completions.create({ model: "any", messages });
seen.whole = whole.choices[0].message.content;

const plain = await client.chat.completions.create({
  model: "any",
  messages,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of plain) {
  seen.streamed += chunk.choices[0]?.delta?.content ?? "";
  if (chunk.usage) seen.usage = chunk.usage.total_tokens;
}

seen.tooled = "";
const tooled = await client.chat.completions.create({ model: "any", messages, stream: true, web_search_options });
for await (const chunk of tooled) {
  if (chunk.type) seen.events.push(chunk.type);
  else seen.tooled += chunk.choices[0]?.delta?.content ?? "";
}

const helper = client.chat.completions.stream({ model: "any", messages, web_search_options });
seen.helped = await helper.finalContent();

const embedded = await client.embeddings.create({ model: "any", input: ["a", "b"] });
seen.embeddings = embedded.data.length;

try {
  await new OpenAI({ baseURL: url, apiKey: "xero_wrong", maxRetries: 0 }).models.list();
} catch (error) {
  seen.refused = [error.constructor.name, error.status, error.code];
}
console.log(JSON.stringify(seen));
