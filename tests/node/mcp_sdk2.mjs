// The TypeScript SDK 2.x, in the era that the test names.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { env, headers, tour } from './mcp_tour.mjs';

const mode = env.era === 'legacy' ? 'legacy' : { pin: env.era };
const client = new Client(
  { name: 'tour-ts-2', version: '2.0.0' },
  { capabilities: { elicitation: {} }, versionNegotiation: { mode } },
);
const heard = [];
client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { word: 'yes' } }));
client.setNotificationHandler('notifications/resources/updated', (note) => { heard.push(note.params.uri); });
await client.connect(new StreamableHTTPClientTransport(new URL(env.url), { requestInit: { headers } }));
const watch = (uri) =>
  env.era === 'legacy' ? client.subscribeResource({ uri }) : client.listen({ resourceSubscriptions: [uri] });
const seen = await tour(client, { heard, watch });
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
