// A real authorization server, npm's oidc-provider, and an MCP server that takes its tokens. Says where both are.
// Commands on stdin, one a line: `expire` (tokens given from now on live a second), `revoke` (all grants end), `count`.
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import Provider from 'oidc-provider'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'

const listen = async (handle) => {
  const server = createServer((request, answer) => handle.now(request, answer))
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready))
  return `http://127.0.0.1:${server.address().port}`
}
const handles = { provider: { now: () => {} }, resource: { now: () => {} } }
const issuer = await listen(handles.provider)
const resource = `${await listen(handles.resource)}/mcp`
const counts = { refreshes: 0, registrations: 0, calls: 0 }
let lifetime = 600

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const provider = new Provider(issuer, {
  clientDefaults: { token_endpoint_auth_method: 'none' },
  cookies: { keys: [randomBytes(32).toString('hex')] },
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'RS256' }] },
  pkce: { required: () => true },
  scopes: ['openid', 'offline_access', 'tools'],
  features: {
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, indicator) => {
        if (indicator !== resource) throw new Error('unknown resource')
        return { scope: 'tools', audience: resource, accessTokenTTL: lifetime, accessTokenFormat: 'opaque' }
      },
    },
  },
  issueRefreshToken: async () => true,
  rotateRefreshToken: () => true,
  ttl: { AccessToken: () => lifetime, AuthorizationCode: 60, Grant: 600, IdToken: 600, Interaction: 600, RefreshToken: 600, Session: 600 },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  loadExistingGrant: async (context) => {
    const grant = new provider.Grant({ clientId: context.oidc.client.clientId, accountId: context.oidc.session.accountId })
    grant.addOIDCScope('openid offline_access tools')
    grant.addResourceScope(resource, 'tools')
    await grant.save()
    return grant
  },
})
provider.on('registration_create.success', () => { counts.registrations += 1 })
provider.on('grant.success', (context) => { if (context.oidc.params.grant_type === 'refresh_token') counts.refreshes += 1 })
handles.provider.now = provider.callback()

const metadata = { resource, authorization_servers: [issuer], scopes_supported: ['tools'] }
handles.resource.now = async (request, answer) => {
  const json = (status, body, headers = {}) => {
    answer.writeHead(status, { 'content-type': 'application/json', ...headers })
    answer.end(JSON.stringify(body))
  }
  if (request.url === '/.well-known/oauth-protected-resource/mcp') return json(200, metadata)
  if (request.url !== '/mcp') return json(404, {})
  const bearer = (request.headers.authorization ?? '').replace(/^Bearer /, '')
  const token = bearer && await provider.AccessToken.find(bearer)
  if (!token || token.isExpired || token.aud !== resource) {
    const challenge = `Bearer resource_metadata="${new URL(resource).origin}/.well-known/oauth-protected-resource/mcp"`
    return json(401, { error: 'unauthorized' }, { 'www-authenticate': challenge })
  }
  const server = new McpServer({ name: 'behind-oauth', version: '1' })
  server.registerTool('whoami', { description: 'Who is asking' }, async () => {
    counts.calls += 1
    return { content: [{ type: 'text', text: token.accountId }] }
  })
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true })
  await server.connect(transport)
  await transport.handleRequest(request, answer)
}

console.log(JSON.stringify({ issuer, resource }))
createInterface({ input: process.stdin }).on('line', async (line) => {
  if (line === 'expire') lifetime = 1
  if (line === 'lasting') lifetime = 600
  if (line === 'revoke') {
    for (const kind of ['AccessToken', 'RefreshToken']) {
      provider[kind].find = async () => undefined
    }
  }
  console.log(JSON.stringify(counts))
})
