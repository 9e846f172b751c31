import { describe, expect, it } from '@jest/globals';
import {
  type AgentEvent,
  AgentLoopError,
  agent,
  agentTools,
  ClientToolProvider,
  InMemoryStateStore,
  retry,
  team,
  tool,
} from 'millrace';
import { type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import { agUiEvents, plainEvents, sentenceOf, type UIMessageOptions, uiMessageChunks } from 'millrace/ui';
import { lastValueFrom, type Observable, toArray } from 'rxjs';
import { foldedOf } from './fold-ui-message.ts';

const secret = 'SECRET';
const empty = { type: 'object' } as const;
const look = tool({
  name: 'look_up',
  description: 'Looks.',
  parameters: { type: 'object', properties: { of: { type: 'string' } } },
  execute: (_, { progress }) => {
    progress(`progress ${secret}`);
    return `result ${secret}`;
  },
});
const fails = tool({
  name: 'fails',
  description: 'Fails.',
  parameters: empty,
  execute: () => {
    throw new Error(`${secret} at /srv/secret.ts`);
  },
});
const refund = tool({
  name: 'refund',
  description: 'Refunds.',
  parameters: empty,
  needsApproval: true,
  execute: () => 'ok',
});

function made(steps: readonly ScriptedLLMStep[], options: object = {}) {
  const provider = scriptedLLM(steps);
  return agent({
    id: 'bo',
    provider,
    tools: [look, fails, refund],
    taskStateStore: new InMemoryStateStore(),
    ...options,
  });
}

const read = (events$: Observable<AgentEvent>) => lastValueFrom(events$.pipe(toArray()));
const eventsOf = (steps: readonly ScriptedLLMStep[], options: object = {}) =>
  read(made(steps, options).startTurn('Hi.', { taskId: 't' }));
const chunksOf = (events: readonly AgentEvent[], options: UIMessageOptions = {}) =>
  events.flatMap(uiMessageChunks(options));

/** All that any of the encoders gives, as it leaves. */
function bytesOf(events: readonly AgentEvent[], options: UIMessageOptions): string {
  return JSON.stringify([
    events.flatMap(uiMessageChunks(options)),
    events.flatMap(agUiEvents({ ...options, threadId: 'th', runId: 'r' })),
    events.flatMap(plainEvents(options)),
  ]);
}

const call = { toolCalls: [{ name: 'look_up', arguments: [`{"of":"${secret}`, '"}'] }] };

describe('uiMessageChunks', () => {
  it('gives text, reasoning and two parallel tools with their results, in the order of the turn', async () => {
    const steps = [
      { reasoning: 'Hm.', text: ['Let me ', 'look.'], toolCalls: [{ name: 'look_up' }, { name: 'look_up' }] },
      { text: 'Found.' },
    ];
    const message = foldedOf(chunksOf(await eventsOf(steps), { reasoning: true, tools: 'full' }));
    const part = {
      type: 'dynamic-tool',
      toolName: 'look_up',
      state: 'output-available',
      input: {},
      output: `result ${secret}`,
    };
    expect(message.parts).toEqual([
      { type: 'step-start' },
      { type: 'reasoning', text: 'Hm.', state: 'done' },
      { type: 'text', text: 'Let me look.', state: 'done' },
      { ...part, toolCallId: 't/1:0' },
      { ...part, toolCallId: 't/1:1' },
      { type: 'step-start' },
      { type: 'text', text: 'Found.', state: 'done' },
    ]);
    expect(message.metadata).toMatchObject({
      taskId: 't',
      state: 'completed',
      reason: 'stop',
      cursor: expect.any(String),
    });
  });

  it('says that tools run dynamically and at the provider, so that no client runs or repeats them', async () => {
    const tools = chunksOf(await eventsOf([call, { text: 'Found.' }])).filter(({ type }) =>
      /^tool-(input|output)-/.test(type),
    );
    expect(tools.length).toBeGreaterThan(2);
    for (const chunk of tools) expect(chunk).toMatchObject({ dynamic: true, providerExecuted: true });
  });

  it('V-06 leaves only the new text where half a text is void: by reset-step in 7, marked in 6', async () => {
    const half = new AgentLoopError('PROVIDER_SERVER', 'cable cut', { retryable: true });
    const steps = [
      { reasoning: 'Hm.', text: 'Half a ', error: half },
      { reasoning: 'Hm!', text: 'Whole.' },
    ];
    const policy = retry({ maxRetries: 1, initialDelayMs: 0 });
    const provider = policy(scriptedLLM(steps));
    const events = await eventsOf([], { provider });
    const seven = chunksOf(events, { reasoning: true });
    expect(seven.map(({ type }) => type)).toContain('reset-step');
    expect(foldedOf(seven).parts).toEqual([
      { type: 'step-start' },
      { type: 'reasoning', text: 'Hm!', state: 'done' },
      { type: 'text', text: 'Whole.', state: 'done' },
    ]);
    const six = chunksOf(events, { reasoning: true, sdk: 6 });
    expect(six.map(({ type }) => type)).not.toContain('reset-step');
    expect(foldedOf(six).parts).toEqual([
      { type: 'step-start' },
      { type: 'reasoning', text: 'Hm.', state: 'done', isVoid: true },
      { type: 'text', text: 'Half a ', state: 'done', isVoid: true },
      { type: 'reasoning', text: 'Hm!', state: 'done' },
      { type: 'text', text: 'Whole.', state: 'done' },
    ]);
    const plain = events.flatMap(plainEvents()).filter(({ event }) => event === 'text');
    expect(plain.map(({ data }) => data)).toEqual([
      { id: 't/answer-1', text: 'Half a ' },
      { id: 't/answer-1', text: '', reset: true },
      { id: 't/answer-1', text: 'Whole.' },
    ]);
  });

  it('V-06 takes back a text that an extension replaces at the end, and keeps the calls before it', async () => {
    const replaced = { name: 'polite', afterTurn: () => ({ text: 'Kindly.' }) };
    const events = await eventsOf([{ text: 'Rude.' }], { extensions: [replaced] });
    for (const sdk of [6, 7] as const) expect(foldedOf(chunksOf(events, { sdk })).text).toBe('Kindly.');
    const agUi = events.flatMap(agUiEvents({ threadId: 'th', runId: 'r' }));
    const snapshot = agUi.find((event) => event.type === 'MESSAGES_SNAPSHOT');
    expect(JSON.stringify(snapshot)).not.toContain('Rude.');
  });

  it('V-07 shows a fixed sentence and the code of what failed, and nothing that was thrown', async () => {
    const provider = scriptedLLM([{ toolCalls: [{ name: 'fails' }] }, { error: new Error(`${secret} key=sk-1`) }]);
    const events = await eventsOf([], { provider, retry: null });
    for (const tools of ['full', 'names', 'hidden'] as const) {
      const raw = bytesOf(events, { tools, reasoning: true });
      expect(raw).not.toMatch(/SECRET|sk-1|secret\.ts|stack/);
      expect(raw).toContain('PROVIDER_FAILED');
    }
    const message = foldedOf(chunksOf(events));
    expect(message.error).toBe(sentenceOf({ code: 'PROVIDER_FAILED' }));
    expect(message.metadata).toMatchObject({ state: 'failed', code: 'PROVIDER_FAILED' });
    expect(message.parts).toContainEqual(
      expect.objectContaining({ state: 'output-error', errorText: sentenceOf({ code: 'TOOL_FAILED' }) }),
    );
  });

  it('V-07 takes the sentences of errorText', async () => {
    const events = await eventsOf([{ error: new Error(secret) }], { retry: null });
    const message = foldedOf(chunksOf(events, { errorText: ({ code }) => `Fehler ${code}` }));
    expect(message.error).toBe('Fehler PROVIDER_FAILED');
  });

  it('V-08 lets no argument, no result and no progress leave, and with hidden no name of a tool', async () => {
    const events = await eventsOf([call, { text: 'Found.' }]);
    expect(bytesOf(events, { tools: 'full' })).toContain(secret);
    const names = bytesOf(events, { tools: 'names' });
    expect(names).not.toContain(secret);
    expect(names).toContain('look_up');
    const hidden = bytesOf(events, { tools: 'hidden' });
    expect(hidden).not.toMatch(/SECRET|look_up/);
    expect(hidden).toContain('Found.');
  });

  it('V-08 asks for the approval of a hidden tool without its name', async () => {
    const events = await eventsOf([{ toolCalls: [{ name: 'refund' }] }]);
    expect(bytesOf(events, { tools: 'hidden' })).not.toContain('refund');
    const message = foldedOf(chunksOf(events, { tools: 'hidden' }));
    expect(message.parts).toContainEqual(expect.objectContaining({ state: 'approval-requested', approvalId: 't/1:0' }));
  });

  it('gives a tool of the client its arguments, unless tools are hidden', async () => {
    const parameters = { type: 'object', properties: { of: { type: 'string' } } } as const;
    const place = { name: 'place', description: 'Where the user is.', parameters };
    const steps = [{ toolCalls: [{ name: 'place', arguments: { of: 'Ann' } }] }];
    const events = await eventsOf(steps, { tools: undefined, toolProviders: [new ClientToolProvider([place])] });
    const question = (options: UIMessageOptions) =>
      chunksOf(events, options).find(({ type }) => type === 'data-question');
    expect(question({})).toMatchObject({ data: { kind: 'client-tool', toolName: 'place', data: { of: 'Ann' } } });
    expect(JSON.stringify(question({ tools: 'hidden' }))).not.toMatch(/place|Ann/);
  });

  it('V-08 lets nothing of a sub-agent leave but its id and that it works', async () => {
    const sub = agent({ id: 'helper', provider: scriptedLLM([call, { text: `text ${secret}` }]), tools: [look] });
    const steps = [{ toolCalls: [{ name: 'helper', arguments: { message: secret } }] }, { text: 'Done.' }];
    const events = await eventsOf(steps, { tools: undefined, toolProviders: [agentTools([sub])] });
    expect(bytesOf(events, { tools: 'names' })).not.toContain(secret);
    const data = chunksOf(events).filter(({ type }) => type === 'data-agent');
    expect(data).toMatchObject([
      { transient: true, data: { agentId: 'helper', callId: 't/1:0', state: 'working' } },
      { transient: true, data: { agentId: 'helper', state: 'completed' } },
    ]);
    expect(bytesOf(events, { tools: 'hidden' })).not.toMatch(/SECRET|helper/);
  });

  it('R-34 a call that waits for an approval has the arguments that are approved as its input', async () => {
    const events = await eventsOf([{ toolCalls: [{ name: 'refund', arguments: { order: '7' } }] }], {
      tools: [refund],
    });
    const inputs = (tools: 'names' | 'full' | 'hidden') =>
      chunksOf(events, { tools }).flatMap((chunk) => (chunk.type === 'tool-input-available' ? [chunk.input] : []));
    expect(inputs('names').at(-1)).toEqual({ order: '7' });
    expect(inputs('full')).toEqual([{ order: '7' }]);
    expect(inputs('hidden')).toEqual([{}]);
  });

  it('asks through the call of a sub-agent for the approval that it needs', async () => {
    const store = new InMemoryStateStore();
    const sub = agent({
      id: 'helper',
      provider: scriptedLLM([{ toolCalls: [{ name: 'refund' }] }]),
      tools: [refund],
      taskStateStore: store,
    });
    const steps = [{ toolCalls: [{ name: 'helper', arguments: { message: 'Go.' } }] }];
    const events = await eventsOf(steps, {
      tools: undefined,
      taskStateStore: store,
      toolProviders: [agentTools([sub])],
    });
    expect(chunksOf(events)).toContainEqual({
      type: 'tool-approval-request',
      approvalId: 't/1:0',
      toolCallId: 't/1:0',
      approvalDescriptor: expect.objectContaining({ toolName: 'refund' }),
    });
    expect(chunksOf(events)).not.toContainEqual(expect.objectContaining({ toolName: 'refund', toolCallId: 't/1:0' }));
  });

  it('shows the value of structured output as an artifact, and not the call that ends the turn', async () => {
    const outputSchema = { type: 'object', properties: { of: { type: 'string' } }, required: ['of'] } as const;
    const steps = [{ toolCalls: [{ name: '__finish__', arguments: { of: 'apples' } }] }];
    const message = foldedOf(chunksOf(await eventsOf(steps, { outputSchema, tools: undefined }), { tools: 'full' }));
    expect(message.parts.filter(({ type }) => type !== 'step-start')).toEqual([
      { type: 'data-artifact', toolCallId: 't/output', data: expect.objectContaining({ data: { of: 'apples' } }) },
    ]);
  });

  it('shows the text of the agent that a turn is handed to in the same message', async () => {
    const ann = agent({
      id: 'ann',
      provider: scriptedLLM([{ toolCalls: [{ name: 'hand_off', arguments: { agentId: 'cy' } }] }]),
    });
    const cy = agent({ id: 'cy', provider: scriptedLLM([{ text: 'Mine.' }]) });
    const both = team({ agents: [ann, cy], handOff: true }).asAgent();
    const message = foldedOf(chunksOf(await read(both.startTurn('Hi.', { taskId: 't' }))));
    expect([message.id, message.text, message.metadata.state]).toEqual(['t', 'Mine.', 'completed']);
  });

  it('refuses options that are not known, naming the cure', () => {
    const wrong = [{ sdk: 5 }, { tools: 'some' }, { errorText: 'Oops' }, { heartbeatMs: -1 }];
    for (const options of wrong) {
      const give = () => Reflect.apply(uiMessageChunks, undefined, [options]);
      expect(give).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
    }
  });
});
