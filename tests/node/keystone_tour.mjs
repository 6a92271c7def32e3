// What a TypeScript client of either SDK does with the Keystone mount, and the JSON of what it saw.
import { Client as First } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as FirstTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client as Second, StreamableHTTPClientTransport as SecondTransport } from '@modelcontextprotocol/client';

const env = JSON.parse(process.env.TOUR);
const info = { name: `keystone-ts-${env.sdk}`, version: '1.0.0' };
const options = { requestInit: { headers: { Authorization: `Bearer ${env.key}` } } };
const mode = env.era === 'legacy' ? 'legacy' : { pin: env.era };
const client = env.sdk === 1 ? new First(info) : new Second(info, { versionNegotiation: { mode } });
const Transport = env.sdk === 1 ? FirstTransport : SecondTransport;
await client.connect(new Transport(new URL(env.url), options));
const seen = { server: client.getServerVersion(), tools: (await client.listTools()).tools.map((tool) => tool.name) };
seen.results = [];
for (const [name, args] of env.calls) {
  const result = await client.callTool({ name, arguments: args });
  seen.results.push({ text: result.content[0].text, structured: result.structuredContent, failed: !!result.isError });
}
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
