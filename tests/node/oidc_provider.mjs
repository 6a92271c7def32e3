// A real OpenID provider for tests: says where it listens, then reads the client's redirect URI and serves until it is stopped.
// It keeps its defaults: PKCE, single-use codes, and an ID token without the address, which it tells at its userinfo endpoint.
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import Provider from 'oidc-provider'

let handle = (_, answer) => { answer.statusCode = 503; answer.end() }
const server = createServer((request, answer) => handle(request, answer))
await new Promise((ready) => server.listen(0, '127.0.0.1', ready))
const issuer = `http://127.0.0.1:${server.address().port}`
console.log(JSON.stringify({ issuer }))

const [redirect] = await new Promise((read) => createInterface({ input: process.stdin }).once('line', (line) => read([line])))
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const provider = new Provider(issuer, {
  clients: [{
    client_id: 'holdfast',
    client_secret: 'a secret of the client',
    redirect_uris: [redirect],
    token_endpoint_auth_method: 'client_secret_post',
  }],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  cookies: { keys: [randomBytes(32).toString('hex')] },
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'RS256' }] },
  pkce: { required: () => true },
  ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: id, email: `${id}@example.com`, email_verified: id !== 'unverified' }),
  }),
})
handle = provider.callback()
console.log(JSON.stringify({ ready: true }))
