import { expect, it } from '@jest/globals';
import { httpTransport, loadClientSdk } from 'millrace/internals';
import { eventually } from '../eventually.ts';
import { httpServer } from './http-server.ts';

it('takes up no stream again once it is closed', async () => {
  const server = await httpServer();
  server.odd(({ httpMethod }) => httpMethod === 'GET');
  const sdk = await loadClientSdk();
  const transport = httpTransport({
    sdk,
    server: { url: server.url },
    onHeaders: () => {},
    onFlaw: () => {},
    onStreamEnd: () => {},
  });
  await transport.start();
  const resuming = transport.resumeStream('1');
  await eventually(() => server.requests.length === 1);
  await transport.close();
  // What is rejected is tried again.
  await expect(resuming).resolves.toBeUndefined();
  await expect(transport.resumeStream('1')).resolves.toBeUndefined();
  expect(server.requests).toHaveLength(1);
  await server.close();
});
