import { describe, expect, it } from '@jest/globals';
import { type Agent, agent, type Extension, InMemoryArtifactStore, tool } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import type { AgentSettings } from 'millrace/types';
import { EMPTY } from 'rxjs';
import { z } from 'zod';
import * as old from 'zod/v3';
import { plainTools } from '../core/plain-tools.ts';
import { agentBench, says, user } from './agent-bench.ts';

const on = agentBench();
/** Zod 3 has no JSON Schema of its own. */
const zod3 = old.object({ a: old.string() });
const count = plainTools({ count: () => 2 });
const countThenSay = [{ toolCalls: [{ name: 'count', id: 'k' }] }, { text: 'Two.' }] as const;

describe('the options of an agent', () => {
  it('S4-05 hands model, prompt, settings, tools and metadata to the provider, and its id and name to the spans', async () => {
    const asked: object[] = [];
    const look: Extension = { name: 'look', beforeLLMCall: (params) => void asked.push({ ...params }) };
    const greet = tool({ name: 'greet', description: 'Greets.', parameters: { type: 'object' }, execute: () => 'hi' });
    const ada = on.agent([{ text: 'Hi.' }], {
      name: 'Ada',
      model: { name: 'small', temperature: 0.9, providerOptions: { top_k: 3 } },
      temperature: 0.2,
      maxTokens: 50,
      systemPrompt: 'Be kind.',
      tools: [greet],
      metadata: { team: 'blue', shift: 'day' },
      extensions: [look],
    });
    await ada.run('Hello', { metadata: { shift: 'night' } });
    expect(asked).toMatchObject([
      {
        model: 'small',
        temperature: 0.2,
        maxTokens: 50,
        providerOptions: { top_k: 3 },
        messages: [{ role: 'system', content: 'Be kind.' }, user('Hello')],
        tools: [{ function: { name: 'greet' } }],
        metadata: { team: 'blue', shift: 'night' },
      },
    ]);
    const [span] = on.bench.spans.spans().filter(({ name }) => name === 'agent.turn');
    expect(span?.attributes).toMatchObject({ 'millrace.agent.id': 'ada', 'gen_ai.agent.name': 'Ada' });
  });

  it('S4-47 keeps to the options that it was made with', async () => {
    const one = on.bench.model([{ text: 'one' }, { text: 'one again' }]);
    const two = on.bench.model([{ text: 'two' }]);
    const options: { -readonly [K in keyof AgentSettings]: AgentSettings[K] } & AgentSettings = {
      id: 'ada',
      provider: one,
      systemPrompt: 'First.',
      metadata: { n: 1 },
      clock: on.bench.clock,
    };
    const first = agent(options);
    await first.run('Who?');
    Object.assign(options, { provider: two, systemPrompt: 'Second.', metadata: { n: 2 } });
    await expect(first.run('Who?')).resolves.toMatchObject({ text: 'one again' });
    expect(one.calls[1]).toMatchObject({ messages: [{ content: 'First.' }, {}, {}, {}], metadata: { n: 1 } });
    await expect(agent(options).run('Who?')).resolves.toMatchObject({ text: 'two' });
    expect([one.calls.length, two.calls.length]).toEqual([2, 1]);
  });

  it('gives an agent with other options its own id, context and memory', async () => {
    const provider = on.bench.model([{ text: 'one' }, { text: 'two' }]);
    const first = agent({ provider, clock: on.bench.clock });
    await first.run('1');
    const second = first.with({ systemPrompt: 'Be brief.' });
    await second.run('2');
    expect(provider.calls[1]?.messages.slice(1)).toEqual([user('1'), says('one'), user('2')]);
    expect([second.id, second.name, second.contextId]).toEqual([first.id, first.name, first.contextId]);
    expect(first.with({ name: 'Bo' })).toMatchObject({ id: 'Bo', name: 'Bo', contextId: first.contextId });
    expect(on.agent([]).with({ name: 'Bo' })).toMatchObject({ id: 'ada', name: 'Bo' });
  });

  it('gives an agent with other tools those alone, also in place of tools that depend on something', async () => {
    const named = (name: string) =>
      tool({ name, description: 'Counts.', parameters: { type: 'object' }, execute: () => name });
    const offered = async (made: Agent) => {
      const provider = on.bench.model([{ text: 'Done.' }]);
      await made.with({ provider, contextId: 'own' }).run('Go');
      return provider.calls[0]?.tools?.map((each) => each.function.name);
    };
    const plain = agent({ provider: scriptedLLM([]), tools: [named('one')] });
    const dependencies = { prefix: 'my' };
    const tools = ({ prefix }: typeof dependencies) => [named(`${prefix}-one`)];
    const dependent = agent({ provider: scriptedLLM([]), tools, dependencies });
    expect([await offered(plain), await offered(dependent)]).toEqual([['one'], ['my-one']]);
    for (const made of [plain, dependent])
      expect(await offered(made.with({ tools: [named('other')] }))).toEqual(['other']);
  });

  it('S0-01 S4-57 takes a provider as it is or by its name, and lists the names it knows', async () => {
    const providers = { main: on.bench.model([{ text: 'main' }]), spare: on.bench.model([]) };
    await expect(on.agent([], { providers, provider: 'main' }).run('Who?')).resolves.toMatchObject({ text: 'main' });
    await expect(on.agent([{ text: 'itself' }]).run('Who?')).resolves.toMatchObject({ text: 'itself' });
    const unknown = () => on.agent([], { providers, provider: 'toString' });
    expect(unknown).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringContaining('main, spare') }),
    );
  });

  it.each([
    [{ busy: 'wait' }, /busy must be one of reject, queue, steer/],
    [{ messageStore: {} }, /messageStore must be a MessageStore/],
    [{ systemPrompt: 7 }, /systemPrompt must be a string or a function/],
    [{ name: '' }, /name must be a non-empty text/],
    [{ metadata: 'x' }, /metadata must be an object/],
    [{ maxIterations: 0 }, /maxIterations must be a whole number/],
    [{ messageStor: 1 }, /has no option "messageStor"/],
    [{ providers: null }, /providers must be an object, not null/],
    [{ model: {} }, /model must be a name or an object with a name/],
    [{ description: 7 }, /description must be a non-empty text/],
    [{ artifactStore: {} }, /artifactStore must be an ArtifactStore/],
    [{ enableUsageTracking: 'no' }, /enableUsageTracking must be true or false/],
    [{ toolProviders: 7 }, /toolProviders must be an array/],
    [
      {
        tools: [
          tool({ name: 'a', description: 'A.', parameters: { type: 'object' }, execute: () => 1 }),
          { name: 'b' },
        ],
      },
      /tools\[1\] must be what tool\({ … }\) makes, not an object/,
    ],
    [{ provider: undefined }, /provider must be an LLMProvider .*, not undefined; give an object with a call/],
    [{ contextManagement: false }, /contextManagement must be an object of options, or null, not false/],
    [{ extensions: {} }, /extensions must be an array/],
    [{ tools: {} }, /tools must be an array of tools/],
    [{ tools: [{}] }, /tools\[0\] must be what tool\(/],
    [{ tools: () => [] }, /tools that are a function need dependencies/],
    [{ dependencies: {}, tools: () => 7 }, /tools must be an array of tools, not 7/],
    [{ dependencies: 7, tools: () => [] }, /dependencies must be an object, not 7/],
    [{ outputSchema: 'Report' }, /^outputSchema: schema is "Report"; give a Standard Schema or a JSON Schema/],
    [{ output: { schema: {}, mode: 'xml' } }, /^output: mode is "xml"; give/],
    [{ output: { schema: {}, jsonSchema: {} } }, /^output: jsonSchema is .*; it goes with a Standard Schema only/],
    [{ outputSchema: { properties: {} } }, /^outputSchema: schema.type is undefined; .*: give type "object"/],
    [{ outputSchema: zod3 }, /^outputSchema: its zod schema does not tell its JSON Schema; use zod 4/],
    [{ output: { schema: zod3 } }, /^output: its zod schema does not tell its JSON Schema; use zod 4/],
    [{ extensions: [], output: { schema: z.date() } }, /^output: its zod schema has no JSON Schema \(Date/],
    [{ provider: {} }, /provider must be an LLMProvider or the name of one of providers, not an object/],
  ])('says what is wrong with %j', (wrong, message) => {
    const options: object = { provider: scriptedLLM([]), ...wrong };
    expect(() => Reflect.apply(agent, undefined, [options])).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) }),
    );
  });

  it('asks a function for its system prompt once a turn, in front of system messages, and never stores it', async () => {
    const messageStore = on.messages();
    const asked: string[] = [];
    const provider = on.bench.model([...countThenSay, { text: 'Bye.' }]);
    const ada = on.agent([], {
      provider,
      messageStore,
      toolProviders: [count],
      systemPrompt: async ({ contextId }) => `You are in ${contextId}, ${asked.push(contextId)}.`,
    });
    await ada.run([{ role: 'system', content: 'Be brief.' }, user('How many?')]);
    await ada.run('Bye', { systemPrompt: 'Say goodbye.' });
    const prompts = provider.calls.map(({ messages }) => messages[0]?.content);
    expect(prompts).toEqual([
      'You are in c, 1.\n\nBe brief.',
      'You are in c, 1.\n\nBe brief.',
      'Say goodbye.\n\nBe brief.',
    ]);
    expect(JSON.stringify(messageStore.load('c'))).not.toContain('You are in');
  });

  it('S2-11 gives tools the dependencies of the turn, and the configured ones again', async () => {
    const seen: string[] = [];
    const ada = agent({
      id: 'ada',
      provider: on.bench.model([0, 1].flatMap(() => [{ toolCalls: [{ name: 'look' }] }, { text: 'Done.' }])),
      clock: on.bench.clock,
      dependencies: { shop: 'real', desk: 'front' },
      tools: ({ shop, desk }) => [
        tool({
          name: 'look',
          description: 'Looks.',
          parameters: { type: 'object' },
          execute: () => seen.push(`${shop} ${desk}`),
        }),
      ],
    });
    await ada.run('Look.', { dependencies: { shop: 'fake' } });
    await ada.run('Look.');
    expect(seen).toEqual(['fake front', 'real front']);
    const without = on.agent([]);
    expect(() => without.startTurn('Look.', { dependencies: {} })).toThrow(/has no dependencies to override/);
  });

  it('S2-05 takes every service from its options', async () => {
    const used = new Set<string>();
    const noted = <T>(service: string, answer: T): T => {
      used.add(service);
      return answer;
    };
    const messageStore = on.messages();
    const load = messageStore.load.bind(messageStore);
    messageStore.load = (...given) => noted('messageStore', load(...given));
    const create = on.bench.store.create.bind(on.bench.store);
    on.bench.store.create = (...given) => noted('taskStateStore', create(...given));
    const artifactStore = new InMemoryArtifactStore();
    const list = artifactStore.list.bind(artifactStore);
    artifactStore.list = (...given) => noted('artifactStore', list(...given));
    const log = () => noted('logger', undefined);
    const logger = { debug: log, info: log, warn: log, error: log };
    const provider = on.bench.model([{ toolCalls: [{ name: 'list_artifacts' }] }, { text: 'Hi.' }]);
    const { stream } = provider;
    const ada = on.agent([], {
      provider: { call: provider.call, stream: (params) => noted('provider', stream?.(params) ?? EMPTY) },
      messageStore,
      artifactStore,
      logger,
      generateId: () => noted('generateId', 'id-1'),
      clock: { ...on.bench.clock, now: () => noted('clock', 0) },
    });
    const { taskId, message } = await ada.run('Hello');
    expect([taskId, message, [...used].sort()]).toEqual([
      'id-1',
      says('Hi.'),
      ['artifactStore', 'clock', 'generateId', 'logger', 'messageStore', 'provider', 'taskStateStore'],
    ]);
  });
});

it('an agent is refused a context id that no store accepts', () => {
  expect(() => on.agent([], { contextId: 'a b' })).toThrow(
    expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(/contextId must be .*"a b".*/) }),
  );
});
