import { describe, expect, it } from '@jest/globals';
import { AgentLoopError, agent, InMemoryStateStore, retry, tool } from 'millrace';
import { gate, type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import { type AgUiEvent, agUiHandler, type HandlerOptions } from 'millrace/ui';
import { ChatClient, scopeOf } from './chat-client.ts';
import { dataOf } from './frames.ts';

function made(steps: readonly ScriptedLLMStep[], options: Partial<HandlerOptions> = {}, more: object = {}) {
  let runs = 0;
  const parameters = { type: 'object' } as const;
  const refund = tool({
    name: 'refund',
    description: 'Refunds.',
    parameters,
    needsApproval: true,
    execute: () => `${++runs}`,
  });
  const store = new InMemoryStateStore();
  const bo = agent({
    id: 'bo',
    provider: scriptedLLM(steps),
    tools: [refund],
    taskStateStore: store,
    retry: null,
    ...more,
  });
  const handler = agUiHandler({
    agent: bo,
    scopeOf,
    onDisconnect: 'continue',
    recoverEveryMs: 0,
    tools: 'full',
    ...options,
  });
  return { bo, store, client: new ChatClient(handler), handler, runs: () => runs };
}

const input = (text: string, more: object = {}) => ({
  threadId: 'th',
  runId: 'r',
  messages: [{ id: 'm1', role: 'user', content: text }],
  tools: [],
  context: [],
  ...more,
});

async function eventsOf(response: Response): Promise<readonly AgUiEvent[]> {
  return JSON.parse(`[${dataOf(await response.text()).join(',')}]`);
}

const typesOf = (events: readonly AgUiEvent[]) => events.map(({ type }) => type);

describe('agUiHandler', () => {
  it('streams a run, each start with its end', async () => {
    const { client } = made([{ reasoning: 'Hm.', text: 'Hi Ann.' }], { reasoning: true });
    const events = await eventsOf(await client.ask('POST', '', input('Hello.')));
    expect(typesOf(events)).toEqual([
      'RUN_STARTED',
      'CUSTOM',
      'STEP_STARTED',
      'REASONING_START',
      'REASONING_MESSAGE_START',
      'REASONING_MESSAGE_CONTENT',
      'TEXT_MESSAGE_START',
      'TEXT_MESSAGE_CONTENT',
      'TEXT_MESSAGE_END',
      'REASONING_MESSAGE_END',
      'REASONING_END',
      'STEP_FINISHED',
      'RUN_FINISHED',
    ]);
    expect(events[0]).toMatchObject({ threadId: 'th', runId: 'r' });
    expect(events.at(-1)).toMatchObject({ outcome: { type: 'success' }, usage: [{ inputTokens: expect.any(Number) }] });
  });

  it('interrupts a run with what it asks, and goes on in another with the answer; the tool runs once', async () => {
    const { client, runs } = made([{ toolCalls: [{ name: 'refund' }] }, { text: 'Done.' }]);
    const last = (await eventsOf(await client.ask('POST', '', input('Refund.')))).at(-1);
    if (last?.type !== 'RUN_FINISHED' || last.outcome.type !== 'interrupt') throw new Error('no interrupt');
    const [interrupt] = last.outcome.interrupts;
    expect(interrupt).toMatchObject({
      reason: 'approval',
      toolCallId: interrupt?.id,
      responseSchema: { type: 'object' },
    });
    const resume = [{ interruptId: interrupt?.id, status: 'resolved', payload: { approved: true } }];
    const next = await eventsOf(await client.ask('POST', '', input('Refund.', { runId: 'r2', resume })));
    expect(typesOf(next)).not.toContain('TOOL_CALL_START');
    expect(next).toContainEqual(expect.objectContaining({ type: 'TOOL_CALL_RESULT', content: '1' }));
    expect(next.at(-1)).toMatchObject({ runId: 'r2', outcome: { type: 'success' } });
    expect(runs()).toBe(1);
  });

  it('takes a cancelled interrupt as a call that is not approved, whatever its payload says', async () => {
    const { client, runs } = made([{ toolCalls: [{ name: 'refund' }] }, { text: 'Then not.' }]);
    const last = (await eventsOf(await client.ask('POST', '', input('Refund.')))).at(-1);
    const interrupts =
      last?.type === 'RUN_FINISHED' && last.outcome.type === 'interrupt' ? last.outcome.interrupts : [];
    const payload = { approved: true };
    const resume = interrupts.map(({ id }) => ({ interruptId: id, status: 'cancelled', payload }));
    const next = await eventsOf(await client.ask('POST', '', input('Refund.', { runId: 'r2', resume })));
    expect([next.at(-1)?.type, runs()]).toEqual(['RUN_FINISHED', 0]);
  });

  it('V-06 takes void text back with a snapshot of the whole conversation', async () => {
    const half = new AgentLoopError('PROVIDER_SERVER', 'cut', { retryable: true });
    const provider = retry({ maxRetries: 1, initialDelayMs: 0 })(
      scriptedLLM([{ text: 'Half', error: half }, { text: 'Whole.' }]),
    );
    const { client } = made([], {}, { provider });
    const earlier = [
      { id: 'm0', role: 'user', content: 'Before.' },
      { id: 'a0', role: 'assistant', content: 'Then.' },
    ];
    const messages = [...earlier, { id: 'm1', role: 'user', content: 'Hello.' }];
    const events = await eventsOf(await client.ask('POST', '', input('', { messages })));
    const snapshot = events.find((event) => event.type === 'MESSAGES_SNAPSHOT');
    expect(snapshot).toEqual({ type: 'MESSAGES_SNAPSHOT', messages });
    const after = events.slice(events.findIndex(({ type }) => type === 'MESSAGES_SNAPSHOT'));
    expect(after).toContainEqual(expect.objectContaining({ type: 'TEXT_MESSAGE_CONTENT', delta: 'Whole.' }));
    const ids = events.flatMap((event) => (event.type === 'TEXT_MESSAGE_START' ? [event.messageId] : []));
    expect(new Set(ids).size).toBe(2);
  });

  it('stops the turn of a thread', async () => {
    const held = gate();
    const { client } = made([() => ({ text: ['Half', held.pass()] })]);
    const response = await client.ask('POST', '', input('Hello.'));
    await held.reached;
    expect((await client.ask('POST', '/th/stop')).status).toBe(204);
    expect((await eventsOf(response)).at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'cancelled' } });
  });

  it('V-11 knows no thread and no interrupt of another scope, and writes nothing', async () => {
    const { client, handler, store, runs } = made([{ toolCalls: [{ name: 'refund' }] }]);
    const last = (await eventsOf(await client.ask('POST', '', input('Refund.')))).at(-1);
    const interrupts =
      last?.type === 'RUN_FINISHED' && last.outcome.type === 'interrupt' ? last.outcome.interrupts : [];
    const eve = new ChatClient(handler, 'eve');
    const asked = async (thread: string, id: string) => {
      const resume = [{ interruptId: id, status: 'resolved', payload: { approved: true } }];
      const responses = [
        await eve.ask('POST', `/${thread}/stop`),
        await eve.ask('POST', '', input('Refund.', { threadId: thread, resume })),
      ];
      return Promise.all(responses.map(async (each) => [each.status, await each.text()]));
    };
    const own = await asked('th', interrupts[0]?.id ?? '');
    expect(own).toEqual(await asked('nowhere', 'nothing/1:0'));
    expect(own.map(([status]) => status)).toEqual([404, 404]);
    expect([(await store.list()).length, runs()]).toEqual([1, 0]);
  });

  it('refuses inputs that it cannot take', async () => {
    const { client, handler } = made([]);
    const wrong = [
      { ...input('Hi.'), threadId: 7 },
      { ...input('Hi.'), runId: '' },
      input(''),
      input('Hi.', { messages: [{ id: 'a', role: 'assistant', content: 'Hi.' }] }),
      input('Hi.', { messages: ['Hi.'] }),
      input('Hi.', { resume: [{ interruptId: 'a/b', status: 'maybe' }] }),
      input('Hi.', { resume: 'yes' }),
      input('Hi.', { resume: [{ interruptId: 'a/b', status: 'resolved' }] }),
    ];
    for (const body of wrong) expect((await client.ask('POST', '', body)).status).toBe(400);
    expect((await client.ask('GET', '')).status).toBe(405);
    expect((await new ChatClient(handler, '').ask('POST', '', input('Hi.'))).status).toBe(401);
  });
});
