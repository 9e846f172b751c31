import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { agent, InMemoryStateStore } from 'millrace';
import { type A2AServer, a2aServer, apiKeyAuth, remoteAgent } from 'millrace/a2a';
import { scriptedLLM } from 'millrace/testing';
import { watch } from '../../core/watch-events.ts';
import { eventually } from '../../eventually.ts';
import { ChildPrograms, kill, nextMessage } from '../../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../../stores/lmdb/temporary-stores.ts';

describe('a remote agent of a server with authentication', () => {
  const open: A2AServer[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((server) => server.close()));
  });

  const key = 'a-key-of-sixteen-and-more';
  const transports = ['JSONRPC', 'HTTP+JSON'] as const;

  async function guarded(): Promise<string> {
    const provider = scriptedLLM([{ text: 'Come in.' }]);
    const served = agent({ id: 'door', description: 'Opens.', provider, taskStateStore: new InMemoryStateStore() });
    const server = await a2aServer({ agent: served, auth: apiKeyAuth({ keys: [{ id: 'ada', key }] }) });
    open.push(server);
    return (await server.listen({ port: 0 })).url;
  }

  it.each(transports)('shows who it is by a bearer token over %s', async (transport) => {
    const far = await remoteAgent({ url: await guarded(), auth: { bearer: key }, transports: [transport] });
    expect((await far.run('Knock.')).text).toBe('Come in.');
  });

  it.each(transports)('shows who it is by a header over %s', async (transport) => {
    const auth = { headers: { 'x-api-key': key } };
    const far = await remoteAgent({ url: await guarded(), auth, transports: [transport] });
    expect((await far.run('Knock.')).text).toBe('Come in.');
  });

  it.each(transports)('is told that it is not known over %s', async (transport) => {
    const auth = { bearer: 'another-key-of-sixteen' };
    const asked = { url: await guarded(), auth, transports: [transport], name: 'door', description: 'Opens.' };
    const far = await remoteAgent(asked);
    await expect(far.run('Knock.')).rejects.toMatchObject({
      code: 'PROVIDER_AUTH',
      message: expect.stringMatching(/refuses the credentials: check auth/),
    });
  });
});

describe('a remote agent whose server is killed', () => {
  const programs = new ChildPrograms('tests/a2a/client/children');
  const stores = new TemporaryStores();
  afterAll(() => Promise.all([programs.clear(), stores.clear()]));

  it('finds its task again at the next one, and ends as it does', async () => {
    const path = stores.path();
    const first = programs.start('server', path);
    const [port] = await nextMessage(first);
    const far = await remoteAgent({ url: `http://127.0.0.1:${port}` });
    const turn = far.startTurn('Work.');
    const reader = watch(turn);
    await nextMessage(first);
    await reader.until('artifact-update');
    await kill(first);
    await nextMessage(programs.start('server', path, String(port)));
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'The work is done.' });
    expect(reader.of('internal:tool-start').map(({ toolName }) => toolName)).toEqual(['send_message']);
  });

  it('H-13 sends its message once the next one is there', async () => {
    const path = stores.path();
    const first = programs.start('server', path);
    const [port] = await nextMessage(first);
    const far = await remoteAgent({ url: `http://127.0.0.1:${port}` });
    await kill(first);
    const turn = far.startTurn('Work.');
    const reader = watch(turn);
    await reader.until('internal:tool-start');
    await nextMessage(programs.start('server', path, String(port)));
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'The work is done.' });
  });

  it('H-13 goes on in a process that begins while nobody serves', async () => {
    const path = stores.path();
    const taskStateStore = new InMemoryStateStore();
    const first = programs.start('server', path);
    const [port] = await nextMessage(first);
    const options = {
      url: `http://127.0.0.1:${port}`,
      id: 'far',
      name: 'far',
      description: 'Far away.',
      taskStateStore,
    };
    const leaving = new AbortController();
    const turn = (await remoteAgent({ ...options, shutdown: leaving.signal })).startTurn('Work.', { taskId: 't' });
    await watch(turn).until('artifact-update');
    leaving.abort();
    await expect(turn.result()).rejects.toMatchObject({ code: 'SHUTDOWN' });
    await kill(first);
    let requests = 0;
    const auth = () => {
      requests++;
      return {};
    };
    const resumed = (await remoteAgent({ ...options, auth })).resume('t').result();
    await eventually(() => requests > 2);
    await nextMessage(programs.start('server', path, String(port)));
    expect(await resumed).toMatchObject({ status: 'completed', text: 'The work is done.' });
  });
});
