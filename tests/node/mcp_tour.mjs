// What every TypeScript client does with the server, and the JSON of what it saw.
export const env = JSON.parse(process.env.TOUR);

export const headers = { Authorization: `Bearer ${env.key}`, 'X-Xerotier-Workspace': env.workspace };

async function all(list, field) {
  const found = [];
  let cursor;
  do {
    const page = await list(cursor === undefined ? {} : { cursor });
    found.push(...page[field]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}

export async function tour(client, { watch, heard }) {
  const seen = { failed: [] };
  seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
  for (const [name, args] of env.calls) {
    const result = await client.callTool({ name, arguments: args });
    if (result.isError || result.structuredContent === undefined) seen.failed.push([name, result.content]);
  }
  seen.sum = (await client.callTool({ name: 'test.add', arguments: { left: 2, right: 3 } })).structuredContent.total;
  seen.asked = (await client.callTool({ name: 'test.ask', arguments: { question: 'Which?' } })).structuredContent;
  const progress = [];
  const options = { onprogress: (update) => progress.push(update.progress), timeout: 20000 };
  const slow = { name: 'test.slow', arguments: { left: 1 } };
  seen.slow = (await callWith(client, slow, options)).structuredContent.total;
  seen.progress = progress;
  seen.prompts = [];
  for (const prompt of (await client.listPrompts()).prompts) {
    const args = Object.fromEntries((prompt.arguments ?? []).map((argument) => [argument.name, 'barn']));
    const got = await client.getPrompt({ name: prompt.name, arguments: args });
    if (got.messages.length > 0) seen.prompts.push(prompt.name);
  }
  seen.read = 0;
  const resources = await all((params) => client.listResources(params), 'resources');
  for (const resource of resources) {
    const got = await client.readResource({ uri: resource.uri });
    if (got.contents[0].text.length > 0) seen.read += 1;
  }
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.length;
  const ref = { type: 'ref/resource', uri: 'xerotier://memory/{slug}' };
  seen.completed = (await client.complete({ ref, argument: { name: 'slug', value: '' } })).completion.values.length;
  const brief = 'xerotier://workspace/current/brief';
  await watch(brief);
  await client.callTool({ name: 'xerotier.memory.save', arguments: { content: `Saved at ${Date.now()} by a tour.` } });
  for (let waited = 0; !heard.includes(brief) && waited < 10000; waited += 50) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  seen.heard = heard.includes(brief);
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 300);
  seen.cancelled = await callWith(client, { name: 'test.stuck', arguments: { left: 1 } }, { signal: stop.signal })
    .then(() => false, () => true);
  return seen;
}

// The first major version takes a result schema between the parameters and the options.
function callWith(client, params, options) {
  return env.sdk === 1 ? client.callTool(params, undefined, options) : client.callTool(params, options);
}
