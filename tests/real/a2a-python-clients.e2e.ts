import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
// jest loses a module that two dynamic imports ask for at once.
import '@bufbuild/protobuf/wire';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { agent, type Extension, InMemoryStateStore, type LLMProvider } from 'millrace';
import { type A2AServer, a2aServer, InMemoryPushStore } from 'millrace/a2a';
import { plainTools } from '../core/plain-tools.ts';
import { describeReal, realPart } from './real-part.ts';

const run = promisify(execFile);

/** Asks once where the message says so, and answers what it was answered. */
const provider: LLMProvider = {
  async call({ messages }) {
    const result = messages.find(({ role }) => role === 'tool');
    if (result) return { message: { role: 'assistant', content: `It was: ${String(result.content)}` } };
    if (!JSON.stringify(messages).includes('Ask')) return { message: { role: 'assistant', content: 'Hello there.' } };
    const call = { id: 'c', type: 'function' as const, function: { name: 'ask', arguments: '{}' } };
    return { message: { role: 'assistant', content: null, toolCalls: [call] } };
  },
};
const tools = plainTools({ ask: ({ ask }) => String(ask({ prompt: 'What?' })) });
const closed: Extension = {
  name: 'closed',
  beforeTurn: ({ state }) =>
    JSON.stringify(state.messages).includes('Reject') ? { fail: { code: 'REJECTED', message: 'Not now.' } } : undefined,
};

const bindings = ['JSONRPC', 'HTTP+JSON', 'GRPC'] as const;
type Binding = (typeof bindings)[number];

const transports = { JSONRPC: 'JsonRpcTransport', 'HTTP+JSON': 'RestTransport', GRPC: 'GrpcTransport' };
const reused = (binding: Binding) => `messageId "${binding.replace('+', '.')}-first" was used for another message`;

/** What comes of the steps of both clients. */
function stepsOf(binding: Binding) {
  const first = [`${binding}-first`, 'Ask'];
  return {
    transport: transports[binding],
    stream: ['completed', 'Hello there.'],
    rejected: ['rejected', 'Not now.'],
    'rejected stream': ['rejected', ''],
    repeated: true,
    answered: ['completed', 'It was: The answer'],
    history: [first, [`${binding}-second`, 'The answer']],
  };
}

/** Of 1.0. */
const currentSteps = (binding: Binding) => ({
  ...stepsOf(binding),
  asked: 'input_required',
  'refused stream': expect.stringMatching(/^TaskNotFoundError: There is no such task/),
  reused: expect.stringMatching(`^InvalidParamsError: .*${reused(binding)}`),
  'no history': [],
  'history of one': [],
  subscribed: expect.stringMatching(/^UnsupportedOperationError: The task is over/),
  push: ['http://127.0.0.1:9/hook', null, 0],
});

/** Errors of 0.3 over HTTP+JSON are statuses to this client. */
function refusedInLegacy(binding: Binding, words: string, status: number) {
  const seen = {
    JSONRPC: `^A2AClientJSONRPCError: .*${words}`,
    'HTTP+JSON': `^A2AClientHTTPError: HTTP Error ${status}`,
  };
  return expect.stringMatching(binding === 'GRPC' ? `details = "${words}` : seen[binding]);
}

const legacySteps = (binding: Binding) => ({
  ...stepsOf(binding),
  asked: 'input-required',
  'refused stream': refusedInLegacy(binding, 'There is no such task', 404),
  reused: refusedInLegacy(binding, reused(binding).replaceAll('"', '.*'), 400),
  // Over gRPC, 0.3 cannot tell 0 from nothing.
  'no history': binding === 'GRPC' ? stepsOf(binding).history : [],
  'history of one': [],
  subscribed: refusedInLegacy(binding, 'The task is over', 400),
  push: [true, 'http://127.0.0.1:9/first'],
  'push without an id': [false, 'http://127.0.0.1:9/second'],
  'push found': 'http://127.0.0.1:9/first',
  'newest push': 'http://127.0.0.1:9/second',
  ...(binding === 'HTTP+JSON' && {
    'push in the other form': 201,
    'push of another task': 400,
    'newest push then': 'http://127.0.0.1:9/third',
    'push deleted': [200, {}],
  }),
});

for (const [part, script, steps] of [
  ['a2a-python-1', 'client_1.py', currentSteps],
  ['a2a-python-0.3', 'client_03.py', legacySteps],
] as const) {
  describeReal([part], 'a2aServer with the client of the official Python SDK', () => {
    let server: A2AServer;
    let url: string;
    beforeAll(async () => {
      const push = { store: new InMemoryPushStore(), allowHttp: true, allowPrivateTargets: true };
      const served = agent({
        id: 'echo',
        description: 'Answers.',
        provider,
        toolProviders: [tools],
        extensions: [closed],
      });
      server = await a2aServer({ agent: served, store: new InMemoryStateStore(), push, grpc: { port: 0 } });
      ({ url } = await server.listen({ port: 0 }));
    });
    afterAll(() => server.close());

    it.each(bindings)('P-14 P-15 P-16 is understood over %s', async (binding) => {
      const path = fileURLToPath(new URL(`a2a-python/${script}`, import.meta.url));
      const { stdout } = await run(realPart(part).bin ?? 'python3', [path, url, binding]);
      expect(JSON.parse(stdout)).toEqual(steps(binding));
    });
  });
}
