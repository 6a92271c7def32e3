// The TypeScript SDK 1.x, which most clients in the field are built on.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { env, headers, tour } from './mcp_tour.mjs';

const client = new Client({ name: 'tour-ts-1', version: '1.0.0' }, { capabilities: { elicitation: {} } });
const heard = [];
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: { word: 'yes' } }));
client.setNotificationHandler(ResourceUpdatedNotificationSchema, (note) => { heard.push(note.params.uri); });
const transport = new StreamableHTTPClientTransport(new URL(env.url), { requestInit: { headers } });
await client.connect(transport);
const seen = await tour(client, { heard, watch: (uri) => client.subscribeResource({ uri }) });
await transport.terminateSession();
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
