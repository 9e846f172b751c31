import { expect, it } from '@jest/globals';
import OpenAI from 'openai';
import { AgentFolder, ServeProcess } from '../a2a/server/serve-process.ts';
import { clientOf, message, serverBench } from '../a2a/server/test-server.ts';
import { runInProcess } from '../cli/run-in-process.ts';
import { eventually } from '../eventually.ts';
import { describeReal } from './real-part.ts';

const on = serverBench();
const keys = { ann: 'the-key-of-ann-0123456', eve: 'the-key-of-eve-0123456' };
const model = 'worker';

function agentFolder(): AgentFolder {
  const folder = new AgentFolder();
  on.after(() => folder.remove());
  return folder;
}

function serve(folder: AgentFolder, ...more: readonly string[]): ServeProcess {
  const args = ['--agent', folder.agent, '--store', folder.store, '--lease-ms', '500', '--openai', ...more];
  const started = new ServeProcess(args, { MILLRACE_CLIENT_KEYS: `ann=${keys.ann},eve=${keys.eve}` });
  on.after(() => started.end('SIGKILL'));
  return started;
}

async function openAI(server: ServeProcess, apiKey: string = keys.ann): Promise<OpenAI> {
  return new OpenAI({ baseURL: `${await server.url()}/v1`, apiKey });
}

const ask = { model, messages: [{ role: 'user' as const, content: 'Do both.' }] };

describeReal(['a2a'], 'millrace serve --openai', () => {
  it('V-16 answers the openai client with the keys of callers, beside A2A, and tells where', async () => {
    const folder = agentFolder();
    folder.go();
    const server = serve(folder);
    const client = await openAI(server);
    expect(server.output).toMatch(/OpenAI http:\S+\/v1, model worker/);
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual([model]);
    const whole = await client.chat.completions.create(ask);
    expect(whole.choices[0]?.message.content).toBe('Both are done.');
    let text = '';
    for await (const { choices } of await client.chat.completions.create({ ...ask, stream: true }))
      text += choices[0]?.delta.content ?? '';
    expect(text).toBe('Both are done.');
    const headers = { authorization: `Bearer ${keys.ann}` };
    const a2a = await clientOf(await server.url(), { headers });
    expect(await a2a.sendMessage(message('Do both.'))).toMatchObject({ status: { state: 3 } });
    const nobody = await openAI(server, 'sk-of-nobody');
    await expect(nobody.models.list()).rejects.toMatchObject({ status: 401, code: 'UNAUTHENTICATED' });
  });

  it('V-11 keeps the responses of callers apart, and the tasks of A2A', async () => {
    const folder = agentFolder();
    folder.go();
    const server = serve(folder);
    const { id } = await (await openAI(server)).responses.create({ model, input: 'Do both.' });
    const eve = await openAI(server, keys.eve);
    const refusal = async (of: string) => {
      const { status, error } = await eve.responses.retrieve(of).then(
        () => ({ status: 200, error: undefined }),
        (thrown: InstanceType<typeof OpenAI.APIError>) => thrown,
      );
      return { status, error };
    };
    const unknown = await refusal(`resp_${'A'.repeat(65)}`);
    expect(unknown.status).toBe(404);
    expect(await refusal(id)).toEqual(unknown);
  });

  it('goes on, after kill -9 in the middle of a tool, with the response, and repeats no finished call', async () => {
    const folder = agentFolder();
    const first = serve(folder);
    const stream = (await openAI(first)).responses.stream({ model, input: 'Do both.' });
    stream.on('error', () => {});
    const created = await stream.emitted('response.created');
    await eventually(() => folder.ledger().length === 2);
    await first.end('SIGKILL');
    const client = await openAI(serve(folder));
    folder.go();
    const { id } = created.response;
    let response = await client.responses.retrieve(id);
    while (response.status === 'in_progress') response = await client.responses.retrieve(id);
    expect(response).toMatchObject({ status: 'completed', output_text: 'Both are done.' });
    expect(folder.ledger().filter((line) => line === 'quick')).toHaveLength(1);
  });

  it('continues a response after kill -9 also where nobody asks for anything', async () => {
    const folder = agentFolder();
    const first = serve(folder);
    const stream = (await openAI(first)).responses.stream({ model, input: 'Do both.' });
    stream.on('error', () => {});
    const { response } = await stream.emitted('response.created');
    await eventually(() => folder.ledger().length === 2);
    await first.end('SIGKILL');
    const second = serve(folder);
    await second.url();
    await eventually(() => folder.ledger().length > 2);
    folder.go();
    const client = await openAI(second);
    let { status } = await client.responses.retrieve(response.id);
    while (status === 'in_progress') ({ status } = await client.responses.retrieve(response.id));
    expect(status).toBe('completed');
  });

  it('cancels the turn of a client that leaves, and refuses more turns than a caller may have', async () => {
    const folder = agentFolder();
    const server = serve(folder, '--max-turns', '1');
    const client = (await openAI(server)).withOptions({ maxRetries: 0 });
    const leaving = new AbortController();
    const slow = client.chat.completions.create(ask, { signal: leaving.signal }).catch((error: unknown) => error);
    await eventually(() => folder.ledger().length === 2);
    const refused = client.chat.completions.create(ask);
    await expect(refused).rejects.toMatchObject({ status: 429, code: 'TURN_LIMIT' });
    leaving.abort();
    expect(await slow).toBeInstanceOf(OpenAI.APIUserAbortError);
    folder.go();
    const isFree = () =>
      client.chat.completions.create(ask).then(
        () => true,
        () => false,
      );
    await eventually(isFree);
  });

  it('drains on a signal: a stream ends with an error, and nothing comes after it', async () => {
    const folder = agentFolder();
    const server = serve(folder);
    const client = await openAI(server);
    const stream = await client.chat.completions.create({ ...ask, stream: true });
    const read = (async () => {
      for await (const _ of stream);
    })();
    read.catch(() => {});
    await eventually(() => folder.ledger().length === 2);
    const ended = server.end('SIGTERM');
    await eventually(() => /shutting down/.test(server.output));
    folder.go();
    await expect(read).rejects.toMatchObject({ code: 'SHUTDOWN' });
    expect(await ended).toBe(0);
  });

  it('answers a page of the web with 403 where callers need no keys', async () => {
    const folder = agentFolder();
    const server = new ServeProcess(['--agent', folder.agent, '--store', folder.store, '--openai']);
    on.after(() => server.end('SIGKILL'));
    const url = await server.url();
    const from = (headers: Record<string, string>) => fetch(`${url}/v1/models`, { headers });
    expect((await from({})).status).toBe(200);
    expect((await from({ origin: 'https://evil.example' })).status).toBe(403);
  });

  it('refuses --queue in one sentence', async () => {
    const { exitCode, stderr } = await runInProcess([
      'serve',
      '--agent',
      'x.mjs',
      '--openai',
      '--queue',
      'redis://localhost',
    ]);
    expect(stderr.replace(/\s+/g, ' ')).toContain('--openai runs its turns here');
    expect(exitCode).toBe(2);
  });
});
