import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { ServeProcess } from '../a2a/server/serve-process.ts';
import { eventually } from '../eventually.ts';
import { type ChatSettings, ClientProcess, type Shown } from '../openai-clients/client-process.ts';
import { RecordingProxy } from '../openai-clients/recording-proxy.ts';
import { describeReal, realPart } from './real-part.ts';

const python = realPart('openai-agents-python').bin;
const kinds = [
  ...['openai', 'ai-sdk-6', 'ai-sdk-7', 'langchain', 'agents'],
  ...(python === undefined ? [] : ['agents-python']),
];
type Way = Pick<ChatSettings, 'endpoint' | 'stream'>;
const ways = (['chat', 'responses'] as const).flatMap((endpoint) =>
  [false, true].map((stream): [string, Way] => [`${endpoint} ${stream ? 'streamed' : 'whole'}`, { endpoint, stream }]),
);
const responses = ways.filter(([, { endpoint }]) => endpoint === 'responses');
const clerk = fileURLToPath(new URL('../openai-clients/clerk.mjs', import.meta.url));
const keyOf = (kind: string) => `the-key-of-${kind}-0123456`;
const sdks = ['ai-sdk-6', 'ai-sdk-7'];

/** For each client the same, or what it alone has. */
function forEach<T>(same: T, others: Readonly<Record<string, T>> = {}): Readonly<Record<string, T>> {
  return Object.fromEntries(kinds.map((kind) => [kind, others[kind] ?? same]));
}

const failed = 'Something went wrong.';
const ended =
  'ModelBehaviorError - -: OpenAI Responses request ended with unsuccessful terminal state "response.failed".';
const endedInPython =
  "ModelBehaviorError - -: Responses stream ended with terminal event `response.failed`. status=failed; error=ResponseError(code='PROVIDER_FAILED', message='Something went wrong.', misalignment=None, param=None, type='server_error').";

/** What users are shown of a turn that fails: name, status and code of the error, and its message. */
const shownFailures: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'chat whole': forEach(`Error 400 PROVIDER_FAILED: 400 ${failed}`, {
    'ai-sdk-6': `AI_APICallError 400 -: ${failed}`,
    'ai-sdk-7': `AI_APICallError 400 -: ${failed}`,
    'agents-python': `BadRequestError 400 PROVIDER_FAILED: Error code: 400 - ${failed}`,
  }),
  'chat streamed': forEach(`Error - PROVIDER_FAILED: ${failed}`, {
    'ai-sdk-6': `- - PROVIDER_FAILED: ${failed}`,
    'ai-sdk-7': `AI_StreamProviderError 500 PROVIDER_FAILED: ${failed}`,
    'agents-python': `APIError - PROVIDER_FAILED: ${failed}`,
  }),
  'responses whole': forEach(`failed - PROVIDER_FAILED: ${failed}`, {
    'ai-sdk-6': `AI_APICallError 400 -: ${failed}`,
    'ai-sdk-7': `AI_APICallError 400 -: ${failed}`,
    langchain: `PROVIDER_FAILED - -: ${failed}`,
    agents: ended,
    'agents-python': endedInPython,
  }),
  'responses streamed': forEach(`failed - PROVIDER_FAILED: ${failed}`, {
    'ai-sdk-6': `- 500 PROVIDER_FAILED: ${failed}`,
    'ai-sdk-7': `AI_StreamProviderError 500 PROVIDER_FAILED: ${failed}`,
    // It reads no response.failed in a stream.
    langchain: '',
    agents: ended,
    'agents-python': endedInPython,
  }),
};

function errorOf({ error }: Shown): string {
  return error ? `${error.name ?? '-'} ${error.status ?? '-'} ${error.code ?? '-'}: ${error.message}` : '';
}

/** What a client has done in the end. */
interface Done {
  readonly shown: readonly Shown[];
  /** What the tools wrote. */
  readonly effects: readonly string[];
  /** To its requests. */
  readonly answers: readonly (number | 'broken')[];
}

describeReal(['openai-clients', 'a2a'], 'real clients with their default retries against a ledger of effects', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-ledger-'));
  const [ledger, go] = [join(folder, 'ledger'), join(folder, 'go')];
  const clients = new Map(
    kinds.map((kind) => [kind, new ClientProcess(kind, kind === 'agents-python' ? python : undefined)]),
  );
  const open = new RecordingProxy();
  /** Of a server where a caller has one turn at a time, and that hides tools. */
  const narrow = new RecordingProxy();
  const baseURLs = new Map<RecordingProxy, string>();
  const servers = new Map<RecordingProxy, ServeProcess>();
  let cells = 0;

  async function serve(proxy: RecordingProxy): Promise<void> {
    const store = `lmdb:${join(folder, proxy === open ? 'open' : 'narrow')}`;
    const limits = proxy === open ? [] : ['--max-turns', '1', '--openai-tools', 'hidden'];
    const keys = kinds.map((kind) => `${kind}=${keyOf(kind)}`).join(',');
    const env = { LEDGER: ledger, GO: go, MILLRACE_CLIENT_KEYS: keys };
    const server = new ServeProcess(
      ['--agent', clerk, '--store', store, '--lease-ms', '1000', '--openai', ...limits],
      env,
    );
    servers.set(proxy, server);
    proxy.target = Number(new URL(await server.url()).port);
  }

  beforeAll(async () => {
    writeFileSync(ledger, '');
    for (const proxy of [open, narrow]) {
      await serve(proxy);
      baseURLs.set(proxy, `${await proxy.listen()}/v1`);
    }
    await Promise.all([...clients.values()].map((client) => client.ready()));
  });
  beforeEach(() => {
    cells++;
    rmSync(go, { force: true });
  });
  afterAll(async () => {
    await Promise.all([...clients.values()].map((client) => client.close()));
    await Promise.all([...servers.values()].map((server) => server.end('SIGKILL')));
    await Promise.all([open, narrow].map((proxy) => proxy.close()));
    rmSync(folder, { recursive: true, force: true });
  });

  function effectsOf(of: string): readonly string[] {
    const lines = readFileSync(ledger, 'utf8').split('\n');
    return lines.flatMap((line) => (line.startsWith(`${of} `) ? [line.slice(of.length + 1)] : []));
  }

  /** The name in the ledger of a client in this test. */
  const nameOf = (kind: string) => `${kind}-${cells}`;

  /** What the clients do at the same time, each on its own. `texts`: what its user says, or decides, in one chat. */
  async function done(
    chat: Way & { readonly by?: ChatSettings['by']; readonly proxy?: RecordingProxy; readonly headers?: boolean },
    texts: readonly (string | boolean)[],
    besides: (kind: string) => Promise<void> = async () => {},
  ): Promise<Readonly<Record<string, Done>>> {
    const { endpoint, stream, by = 'previous', proxy = open } = chat;
    const all = kinds.map(async (kind): Promise<[string, Done]> => {
      const [name, apiKey] = [nameOf(kind), keyOf(kind)];
      const headers = chat.headers ? { 'Idempotency-Key': name } : {};
      const settings = { name, apiKey, endpoint, stream, by, headers, baseURL: baseURLs.get(proxy) ?? '' };
      const shown: Shown[] = [];
      const besideIt = besides(kind);
      for (const text of texts) {
        const act = typeof text === 'string' ? { say: `${text} of:${name}` } : { decide: text };
        const after = await clients.get(kind)?.act(settings, act);
        if (after) shown.push(after);
        if (after?.error) break;
      }
      await besideIt;
      return [kind, { shown, effects: effectsOf(name), answers: proxy.take(apiKey) }];
    });
    return Object.fromEntries(await Promise.all(all));
  }

  const textsOf = ({ shown }: Done) => shown.map(({ text }) => text);
  const each = <T>(all: Readonly<Record<string, Done>>, of: (done: Done) => T): Readonly<Record<string, T>> =>
    Object.fromEntries(Object.entries(all).map(([kind, one]) => [kind, of(one)]));

  it.each(ways)('R-31 %s: a turn completes', async (_, way) => {
    const all = await done(way, ['pay']);
    const expected = { shown: [{ text: 'pay: paid 5', asks: [] }], effects: ['paid 5'], answers: [200] };
    expect(all).toEqual(forEach(expected));
  });

  it.each(ways)(
    'R-31 %s: a turn that fails after it paid has paid once, and is shown as failed',
    async (title, way) => {
      const all = await done(way, ['pay fail']);
      expect(each(all, ({ effects, answers }) => [effects, answers.length])).toEqual(forEach([['paid 5'], 1]));
      expect(each(all, ({ shown }) => shown.map(errorOf).join())).toEqual(shownFailures[title]);
      expect(JSON.stringify(all)).not.toContain('SECRET');
    },
  );

  it.each(ways)('R-31 %s: one that fails and shows no calls has paid once', async (_, way) => {
    const all = await done({ ...way, proxy: narrow }, ['pay fail']);
    expect(each(all, ({ effects, answers }) => [effects, answers.length])).toEqual(forEach([['paid 5'], 1]));
  });

  it.each(ways)('R-31 %s: a client waits while its user has as many turns as he may', async (_, way) => {
    const keep = async (kind: string) => {
      const body = JSON.stringify({ model: 'clerk', messages: [{ role: 'user', content: `wait of:${nameOf(kind)}` }] });
      const headers = { authorization: `Bearer ${keyOf(kind)}`, 'content-type': 'application/json' };
      const url = `http://127.0.0.1:${narrow.target}/v1/chat/completions`;
      expect((await fetch(url, { method: 'POST', headers, body })).status).toBe(200);
    };
    const kept = kinds.map(keep);
    await eventually(() => kinds.every((kind) => effectsOf(nameOf(kind)).length === 1));
    const refused = async (kind: string) => {
      await eventually(() => narrow.answersOf(keyOf(kind)).length > 0);
      // One turn for all to wait for: the others are refused by then, too.
      await eventually(() => kinds.every((other) => narrow.answersOf(keyOf(other)).length > 0));
      writeFileSync(go, '');
    };
    const all = await done({ ...way, proxy: narrow }, ['pay'], refused);
    await Promise.all(kept);
    expect(each(all, ({ effects }) => effects)).toEqual(forEach(['waits', 'paid 5']));
    expect(each(all, textsOf)).toEqual(forEach(['pay: paid 5']));
    expect(each(all, ({ answers }) => [answers[0], answers.at(-1)])).toEqual(forEach([429, 200]));
  });

  it.each(ways)('R-31 %s: with an Idempotency-Key a turn whose server is killed pays once', async (title, way) => {
    const whole = !way.stream;
    const all = await killed({ ...way, headers: true });
    expect(each(all, ({ effects }) => effects.filter((effect) => effect === 'paid 5'))).toEqual(forEach(['paid 5']));
    // The AI SDK repeats a stream of chat completions that broke before its first output.
    const comesBack = (kind: string) => whole || (title === 'chat streamed' && sdks.includes(kind));
    const expected = Object.fromEntries(kinds.map((kind) => [kind, comesBack(kind) ? 'pay wait: waited' : 'an error']));
    expect(each(all, ({ shown: [last] }) => (last?.error ? 'an error' : last?.text))).toEqual(expected);
  });

  it.each(ways)('R-31 %s: without a key it pays again where the client asks again', async (title, way) => {
    const all = await killed(way);
    const again = (kind: string) => !way.stream || (title === 'chat streamed' && sdks.includes(kind));
    const expected = Object.fromEntries(kinds.map((kind) => [kind, again(kind) ? 2 : 1]));
    expect(each(all, ({ effects }) => effects.filter((effect) => effect === 'paid 5').length)).toEqual(expected);
  });

  /** Kills the server in the middle of the turn of each client, and starts it again. */
  async function killed(chat: Parameters<typeof done>[0]): Promise<Readonly<Record<string, Done>>> {
    let restarted: Promise<void> | undefined;
    const kill = async () => {
      await eventually(() => kinds.every((kind) => effectsOf(nameOf(kind)).includes('waits')));
      restarted ??= (async () => {
        open.target = undefined;
        await servers.get(open)?.end('SIGKILL');
        writeFileSync(go, '');
        await serve(open);
      })();
      await restarted;
    };
    return done(chat, ['pay wait'], kill);
  }

  const histories = [
    ...ways.filter(([, { endpoint }]) => endpoint === 'chat').map(([title, way]) => [title, 'history', way] as const),
    ...responses.flatMap(([title, way]) => (['history', 'previous'] as const).map((by) => [title, by, way] as const)),
  ];

  it.each(histories)('R-32 %s: a conversation by %s', async (_, by, way) => {
    const all = await done({ ...way, by }, ['pay', 'and?']);
    expect(each(all, textsOf)).toEqual(forEach(['pay: paid 5', 'pay, and?: no call']));
    expect(each(all, ({ effects, answers }) => [effects, answers])).toEqual(forEach([['paid 5'], [200, 200]]));
  });

  it.each(responses)('R-32 %s: a conversation of the vendor is refused by its name', async (_, way) => {
    const { langchain: __, ...all } = await done({ ...way, by: 'conversation' }, ['pay']);
    const { langchain: ___, ...expected } = forEach({ effects: [], answers: [400] });
    expect(each(all, ({ effects, answers }) => ({ effects, answers }))).toEqual(expected);
    for (const { shown } of Object.values(all))
      expect(shown[0]?.error?.message).toContain('conversation is not supported');
  });

  it.each(ways.filter(([, { endpoint }]) => endpoint === 'chat'))(
    'R-33 %s: a turn that asks for an approval ends, and the user is told so, once',
    async (_, way) => {
      const all = await done(way, ['pay refund']);
      expect(each(all, ({ effects, answers }) => [effects, answers.length])).toEqual(forEach([['paid 5'], 1]));
      for (const { shown } of Object.values(all))
        expect(shown[0]?.error?.message).toContain('A call of a tool needs an approval');
    },
  );

  const decisions = responses.flatMap(([title, way]) =>
    (['history', 'previous'] as const).flatMap((by) =>
      [true, false].map((decision) => [title, decision ? 'grants' : 'denies', by, way, decision] as const),
    ),
  );

  it.each(decisions)(
    'R-33 R-34 %s: a user %s the approval of a call that he sees, by %s',
    async (_, __, by, way, decision) => {
      const all = await done({ ...way, by }, ['pay refund', decision, 'and?']);
      const answer = `pay refund: ${decision ? 'refunded 7' : 'Tool error: the call was rejected'}`;
      expect(each(all, textsOf)).toEqual(forEach(['', answer, 'pay refund, and?: no call']));
      const asked = (name: string) => [{ name, input: expect.objectContaining({ order: '7' }) }];
      const ofSdk = { 'ai-sdk-6': asked('mcp.refund'), 'ai-sdk-7': asked('mcp.refund') };
      expect(each(all, ({ shown }) => shown[0]?.asks)).toEqual(forEach(asked('refund'), ofSdk));
      const effects = decision ? ['paid 5', 'refunded 7'] : ['paid 5'];
      expect(each(all, (one) => [one.effects, one.answers])).toEqual(forEach([effects, [200, 200, 200]]));
    },
  );

  it.each(responses)(
    'R-31 %s: a message in place of an approval is refused once, and the turn stays',
    async (_, way) => {
      const all = await done(way, ['pay refund', 'and?']);
      expect(each(all, ({ effects, answers }) => [effects, answers])).toEqual(forEach([['paid 5'], [200, 400]]));
      for (const { shown } of Object.values(all))
        expect(shown[1]?.error?.message).toContain('The response waits for an approval');
    },
  );
});
