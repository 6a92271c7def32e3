// What a TypeScript client does at the Zero mount, with either major version of the SDK, and the JSON of what it saw.
const env = JSON.parse(process.env.TOUR);
const requestInit = { headers: { Authorization: `Bearer ${env.key}` } };
const heard = [];

async function connected() {
  if (env.sdk === 1) {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const { ResourceUpdatedNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js');
    const client = new Client({ name: 'zero-ts-1', version: '1.0.0' });
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, (note) => { heard.push(note.params.uri); });
    await client.connect(new StreamableHTTPClientTransport(new URL(env.url), { requestInit }));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const mode = env.era === 'legacy' ? 'legacy' : { pin: env.era };
  const client = new Client({ name: 'zero-ts-2', version: '2.0.0' }, { versionNegotiation: { mode } });
  client.setNotificationHandler('notifications/resources/updated', (note) => { heard.push(note.params.uri); });
  await client.connect(new StreamableHTTPClientTransport(new URL(env.url), { requestInit }));
  return client;
}

const client = await connected();
const seen = { tools: (await client.listTools()).tools.map((tool) => tool.name) };
seen.templates = (await client.listResourceTemplates()).resourceTemplates.map((each) => each.uriTemplate);
const { resources } = await client.listResources();
seen.resources = resources.map((each) => each.uri);
seen.read = JSON.parse((await client.readResource({ uri: resources[0].uri })).contents[0].text).title;
const uri = resources[0].uri;
await (env.era === 'legacy' ? client.subscribeResource({ uri }) : client.listen({ resourceSubscriptions: [uri] }));
const case_id = uri.replace('zero://cases/', '');
const claimed = await client.callTool({ name: 'zero_claim_case', arguments: { case_id } });
const fence = claimed.structuredContent.claim.fence;
for (let waited = 0; !heard.includes(uri) && waited < 10000; waited += 50) {
  // The stream that it hears on opens in its own time: something changes until it does.
  await client.callTool({ name: 'zero_add_proof', arguments: { case_id, kind: 'reported', outcome: 'passed', fence } });
  await new Promise((resolve) => setTimeout(resolve, 50));
}
seen.heard = heard.includes(uri);
const moved = await client.callTool({ name: 'zero_move_case', arguments: { case_id, state: 'PLANNING', fence } });
seen.state = moved.structuredContent.state;
const refused = await client.callTool({ name: 'zero_move_case', arguments: { case_id, state: 'DONE', fence } });
seen.refused = refused.isError === true && refused.content[0].text.includes('IMPLEMENTING');
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
