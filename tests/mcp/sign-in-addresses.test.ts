import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { signInFetch } from 'millrace/internals';
import { mcpTools, memoryAuthStore } from 'millrace/mcp';

const open: ReturnType<typeof createServer>[] = [];
afterEach(() => {
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function listening({
  redirectTo,
  status = 200,
}: {
  readonly redirectTo?: string;
  readonly status?: number;
} = {}) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    if (redirectTo === undefined) response.writeHead(status).end('{}');
    else response.writeHead(307, { location: redirectTo }).end();
  });
  open.push(server);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

const metadata = '/.well-known/oauth-authorization-server';
const issuer = () => undefined;

describe('R-16 the addresses of a sign-in', () => {
  it.each([
    'http://169.254.169.254/latest/meta-data',
    'https://10.0.0.1/token',
    'https://[::1]/token',
    'http://93.184.216.34/token',
    'https://user:pw@93.184.216.34/token',
    'file:///etc/passwd',
    'javascript:alert(1)',
  ])('of a public server are not %s', async (url) => {
    const send = signInFetch({ server: new URL('https://mcp.example/mcp'), issuer });
    await expect(send(new URL(url), { method: 'POST', body: 'x' })).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  });

  it('are on a private host only for metadata, and for what gave it', async () => {
    const [mine, other] = [await listening(), await listening()];
    const send = signInFetch({ server: new URL('http://127.0.0.1:9/mcp'), issuer });
    await send(new URL(mine.origin + metadata), {});
    await send(new URL(`${mine.origin}/register`), { method: 'POST', body: 'x' });
    expect(mine.asked).toEqual([`GET ${metadata}`, 'POST /register']);
    for (const init of [{}, { method: 'POST', body: 'x' }]) {
      await expect(send(new URL(`${other.origin}/admin`), init)).rejects.toThrow(/trustedOrigins/);
    }
    expect(other.asked).toEqual([]);
  });

  it.each([
    '/.well-known/oauth-authorization-server/latest/meta-data',
    '/latest/meta-data/.well-known/openid-configuration',
    '/.well-known/oauth-authorization-server?all=1',
  ])('are on a private host only the well-known ones of an origin, and not %s', async (path) => {
    const other = await listening();
    const send = signInFetch({ server: new URL('http://127.0.0.1:9/mcp'), issuer });
    await expect(send(new URL(other.origin + path), {})).rejects.toThrow(/trustedOrigins/);
    const named = signInFetch({ server: new URL('http://127.0.0.1:9/mcp'), issuer, trustedOrigins: [other.origin] });
    expect((await named(new URL(other.origin + path), {})).ok).toBe(true);
    expect(other.asked).toEqual([`GET ${path}`]);
  });

  it('get no registration where they have given no metadata', async () => {
    const other = await listening({ status: 404 });
    const mcp = createServer((request, response) => {
      const { host } = request.headers;
      if (request.url?.startsWith('/.well-known/oauth-protected-resource'))
        return response.end(JSON.stringify({ resource: `http://${host}/mcp`, authorization_servers: [other.origin] }));
      return response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
    });
    open.push(mcp);
    await new Promise<void>((done) => mcp.listen(0, '127.0.0.1', done));
    const url = `http://127.0.0.1:${(mcp.address() as AddressInfo).port}/mcp`;
    const auth = { redirectUrl: 'http://127.0.0.1:9/callback', store: memoryAuthStore() };
    const tools = mcpTools({ servers: { it: { url, auth, required: true } } });
    await expect(tools.connect()).rejects.toThrow(/trustedOrigins/);
    await tools.close();
    expect(other.asked.filter((each) => !each.startsWith('GET /.well-known/'))).toEqual([]);
  });

  it('are checked again after a redirect, which takes no body along', async () => {
    const thief = await listening();
    const server = await listening({ redirectTo: `${thief.origin}/t` });
    const send = signInFetch({ server: new URL(`${server.origin}/mcp`), issuer });
    await expect(send(new URL(`${server.origin}/token`), { method: 'POST', body: 'code' })).rejects.toThrow(
      /redirects/,
    );
    await expect(send(new URL(server.origin + metadata), {})).rejects.toThrow(/trustedOrigins/);
    expect(thief.asked).toEqual([]);
  });

  it('may be private where the application names them', async () => {
    const own = await listening();
    const send = signInFetch({ server: new URL('https://mcp.example/mcp'), issuer, trustedOrigins: [own.origin] });
    expect((await send(new URL(`${own.origin}/token`), { method: 'POST', body: 'x' })).ok).toBe(true);
  });
});
