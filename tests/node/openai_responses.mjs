// The official OpenAI client for Node on the Responses API of an endpoint: whole, streamed, continued, background, files.
import OpenAI, { toFile } from "openai";

const { url, key } = JSON.parse(process.env.TOUR);
const client = new OpenAI({ baseURL: url, apiKey: key, maxRetries: 0 });
const tools = [{ type: "web_search_preview", x_tools: ["calculator"] }];
const seen = { events: [], streamed: "" };

const first = await client.responses.create({ model: "any", input: "What is 6 * 7?" });
seen.whole = first.output_text;

const stream = await client.responses.create({ model: "any", input: "And now?", tools, stream: true });
for await (const event of stream) {
  seen.events.push(event.type);
  if (event.type === "response.output_text.delta") seen.streamed += event.delta;
}

seen.wrapped = [];
const helper = client.responses.stream({ model: "any", input: "Again?", tools });
helper.on("event", (event) => {
  if (event.x_event) seen.wrapped.push(event.x_event.type);
});
seen.helped = (await helper.finalResponse()).output_text;

const next = await client.responses.create({ model: "any", input: "More?", previous_response_id: first.id });
seen.continued = next.output_text;

let later = await client.responses.create({ model: "any", input: "Later.", background: true });
const until = Date.now() + 60000;
while (["queued", "in_progress"].includes(later.status) && Date.now() < until) {
  await new Promise((resolve) => setTimeout(resolve, 50));
  later = await client.responses.retrieve(later.id);
}
seen.later = [later.status, later.output_text];
await client.responses.delete(later.id);

const file = await client.files.create({ file: await toFile(Buffer.from("Some text."), "a.txt"), purpose: "assistants" });
const store = await client.vectorStores.create({ name: "Store", file_ids: [file.id] });
seen.stored = [store.object, store.file_counts.total];
const named = { type: "function", name: "read", parameters: { type: "object" }, strict: false };
const mixed = [{ type: "file_search", vector_store_ids: [store.id] }, named];
const searching = client.responses.stream({ model: "any", input: "Search and read.", tools: mixed });
seen.mixed = (await searching.finalResponse()).output.map((item) => [item.type, item.status]);
try {
  await client.responses.retrieve("resp_missing");
} catch (error) {
  seen.refused = [error.constructor.name, error.status];
}
console.log(JSON.stringify(seen));
