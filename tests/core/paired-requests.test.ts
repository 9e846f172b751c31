import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  type AgentLoopConfig,
  compactHistory,
  type Extension,
  type Logger,
  type Message,
  type ToolCall,
  windowHistory,
} from 'millrace';
import { AgentLoop, Pairing, pairedMessages } from 'millrace/internals';
import type { LLMStep, ScriptedLLM } from 'millrace/testing';
import { agentBench } from '../agent/agent-bench.ts';
import { answerOf, deadTurn, firstCall, question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';

const on = agentBench();
const { bench } = on;
const count: LLMStep = { text: 'Let me count.', toolCalls: [{ name: 'count', id: 'a' }] };
const two: LLMStep = { text: 'Two.' };
const toolProviders = [plainTools({ count: () => '2' })];

const user = (content: string): Message => ({ role: 'user', content });
const result = (toolCallId: string, content = 'found'): Message => ({ role: 'tool', toolCallId, content });
const call = (id: string): ToolCall => ({ id, type: 'function', function: { name: 'count', arguments: '{}' } });
const calling = (...ids: readonly string[]): Message => ({
  role: 'assistant',
  content: null,
  toolCalls: ids.map(call),
});
const missing = (toolCallId: string): Message => ({
  role: 'tool',
  toolCallId,
  content: 'No result: it is not part of this request.',
  status: 'error',
});

/** Roles and ids of a request in short: `user`, `calls a b`, `result a`. */
const shortOf = (messages: readonly Message[] = []) =>
  messages.map((message) => {
    if (message.role === 'tool') return `result ${message.toolCallId}`;
    if (message.role !== 'assistant' || !message.toolCalls) return message.role;
    return ['calls', ...message.toolCalls.map(({ id }) => id)].join(' ');
  });

/** What vendors demand: each call has one result before anything else is said, and each result has its call. */
function expectPaired(messages: readonly Message[]) {
  let open: string[] = [];
  for (const message of messages) {
    if (message.role === 'tool') {
      expect(open).toContain(message.toolCallId);
      open.splice(open.indexOf(message.toolCallId), 1);
    } else if (message.role === 'user' || message.role === 'assistant') {
      expect(open).toEqual([]);
      open = message.role === 'assistant' ? (message.toolCalls ?? []).map(({ id }) => id) : [];
    }
  }
  expect(open).toEqual([]);
}

function warnings() {
  const warned: unknown[] = [];
  const logger: Logger = { debug() {}, info() {}, error() {}, warn: (...given) => void warned.push(given) };
  return { warned, logger };
}

async function ran(
  steps: readonly LLMStep[],
  options: Partial<AgentLoopConfig>,
  messages: readonly Message[] = question,
) {
  const model = bench.model(steps);
  const turn = new AgentLoop(bench.config(model, { toolProviders, ...options })).startTurn(messages, { taskId: 't' });
  return { model, result: await turn.result() };
}

const requests = ({ calls }: ScriptedLLM) => calls.map(({ messages }) => shortOf(messages));

describe('a request', () => {
  it('U-15 has the call of each result and the result of each call, whatever prepareIteration makes of it', async () => {
    const { warned, logger } = warnings();
    const torn: Extension = {
      name: 'torn',
      prepareIteration({ messages }, { iteration }) {
        if (iteration === 0) return undefined;
        return { view: { messages: iteration === 1 ? [result('x'), ...messages.slice(0, 1)] : messages.slice(0, 2) } };
      },
    };
    const again: LLMStep = { toolCalls: [{ name: 'count', id: 'b' }] };
    const { model } = await ran([count, again, two], { extensions: [torn], logger });
    expect(requests(model)).toEqual([['user'], ['user'], ['user', 'calls a', 'result a']]);
    expect(model.calls[2]?.messages[2]).toEqual(missing('a'));
    const line = ['messages repaired', { taskId: 't', extension: 'torn', hook: 'prepareIteration' }];
    expect(warned).toEqual([line, line]);
  });

  it('U-15 shows the next extension what was repaired, and leaves the history as it is', async () => {
    const seen: (readonly string[])[] = [];
    const torn: Extension = {
      name: 'torn',
      prepareIteration: ({ messages }) => ({ view: { messages: messages.filter(({ role }) => role !== 'tool') } }),
    };
    const next: Extension = {
      name: 'next',
      prepareIteration: ({ messages }) => void seen.push(shortOf(messages)),
    };
    const { result: ended } = await ran([count, two], { extensions: [torn, next] });
    expect(seen).toEqual([['user'], ['user', 'calls a', 'result a']]);
    expect(ended.messages[1]).toEqual(result('a', '2'));
  });

  it('U-15 is repaired where beforeLLMCall changes its messages', async () => {
    const { warned, logger } = warnings();
    const torn: Extension = {
      name: 'torn',
      beforeLLMCall: ({ messages }) => ({ params: { messages: [result('x'), ...messages.slice(0, 2)] } }),
    };
    const { model } = await ran([count, two], { extensions: [torn], logger });
    expect(requests(model)).toEqual([['user'], ['user', 'calls a', 'result a']]);
    expect(model.calls[1]?.messages[2]).toEqual(missing('a'));
    const line = ['messages repaired', { taskId: 't', extension: 'torn', hook: 'beforeLLMCall' }];
    expect(warned).toEqual([line, line]);
  });

  const flawed = [result('x'), user('Count.'), calling('p', 'q'), result('q'), user('Well?')];
  const repaired = ['user', 'calls p q', 'result p', 'result q', 'user'];

  it('U-15 is repaired where the caller gives such messages, which the journal keeps as they are', async () => {
    const { model } = await ran([count, two], {}, flawed);
    expect(requests(model)).toEqual([repaired, [...repaired, 'calls a', 'result a']]);
    expect(bench.store.read('t')[0]).toMatchObject({ messages: flawed });
  });

  it('U-15 is repaired in a turn that another process resumes', async () => {
    deadTurn(bench, [firstCall, { ...answerOf(['count']) }], { messages: flawed });
    const model = bench.model([two]);
    await AgentLoop.resume('t', bench.config(model, { toolProviders })).result();
    expect(requests(model)).toEqual([[...repaired, 'calls id-0', 'result id-0']]);
  });

  it('U-15 is repaired where hooks add messages to the turn, and where it is steered', async () => {
    const adding: Extension = {
      name: 'adding',
      beforeTurn: ({ state }) => ({ given: [calling('y'), ...state.messages] }),
      afterIteration: ({ iteration }) => (iteration === 1 ? { messages: [result('x'), calling('z')] } : undefined),
      beforeToolCall: () => void turn.steer(result('w')),
    };
    const model = bench.model([count, two]);
    const loop = new AgentLoop(bench.config(model, { toolProviders, extensions: [adding] }));
    const turn = loop.startTurn(question, { taskId: 't' });
    await turn.result();
    expect(requests(model)).toEqual([
      ['calls y', 'result y', 'user'],
      ['calls y', 'result y', 'user', 'calls a', 'result a', 'calls z', 'result z'],
    ]);
  });

  it('U-15 is repaired in a fork whose edits are torn', async () => {
    await ran([count, two], {});
    const edits = { messages: [result('x'), ...question], append: [calling('z')] };
    await AgentLoop.fork('t', { store: bench.store, clock: bench.clock, at: 1, taskId: 'f', edits });
    const model = bench.model([two]);
    await AgentLoop.resume('f', bench.config(model, { toolProviders })).result();
    expect(requests(model)).toEqual([['user', 'calls a', 'result a', 'calls z', 'result z']]);
  });

  it('U-15 is repaired where the message store has such messages', async () => {
    const messageStore = on.messages();
    messageStore.append('c', 'before', flawed);
    const provider = bench.model([two]);
    await on.agent([], { provider, messageStore }).run('And now?');
    expect(requests(provider)).toEqual([[...repaired, 'user']]);
  });

  it('U-15 is whole where a history that was given torn is compacted', async () => {
    const long = Array.from({ length: 30 }, () => [calling('p'), user('o'.repeat(400))]).flat();
    const summarizer = bench.model([{ text: 'Much was said.' }], { info: { model: 'gpt-4o' } });
    const compact = compactHistory({ contextWindow: 2_000, keepLast: 4, provider: summarizer });
    const { model } = await ran([count, two], { extensions: [compact] }, [...long, ...question]);
    for (const { messages } of model.calls) {
      expectPaired(messages);
      expect(messages[0]?.content).toContain('Much was said.');
      expect(messages.length).toBeLessThan(20);
    }
  });

  it('is not warned about where a window keeps calls and results together', async () => {
    const { warned, logger } = warnings();
    await ran([count, { ...count, toolCalls: [{ name: 'count', id: 'b' }] }, two], {
      extensions: [windowHistory({ maxMessages: 2 })],
      logger,
    });
    expect(warned).toEqual([]);
  });

  it('U-15 is whole for any messages and any view of them', async () => {
    const id = fc.constantFrom('p', 'q');
    const message = fc.oneof(
      id.map((each) => result(each)),
      fc.array(id, { maxLength: 2 }).map((ids) => calling(...ids)),
      fc.constantFrom(user('Hi.'), { role: 'assistant' as const, content: 'Hi.' }),
      fc.constant<Message>({ role: 'developer', content: 'Be brief.' }),
    );
    const messages = fc.array(message, { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(messages, fc.array(fc.nat(12), { maxLength: 8 }), async (given, picks) => {
        const picking: Extension = {
          name: 'picking',
          prepareIteration: (view, { iteration }) =>
            iteration === 2 ? { view: { messages: picks.flatMap((at) => view.messages[at] ?? []) } } : undefined,
        };
        const model = bench.model([count, two]);
        const config = bench.config(model, { toolProviders, extensions: [picking], store: false });
        await new AgentLoop(config).startTurn(given).result();
        for (const { messages: sent } of model.calls) expectPaired(sent);
      }),
      { numRuns: 100 },
    );
  });
});

describe('Pairing', () => {
  it('says the same of a part as of the part alone, and looks anew at shorter ones', () => {
    const messages = [user('Hi.'), calling('a', 'b'), result('b'), result('a'), user('And?'), calling('c')];
    const pairing = new Pairing(messages);
    const whole = messages.map((_, index) => pairing.isWhole(index + 1));
    expect(whole).toEqual([true, false, false, true, true, false]);
    expect(pairing.isWhole(4)).toBe(false);
    expect(new Pairing(messages).isWhole(4)).toBe(true);
    const seen = new Pairing(messages);
    expect([seen.isWhole(5), seen.isWhole(2)]).toEqual([true, false]);
  });

  it('is broken by what is said between a call and its result', () => {
    for (const between of [user('Well?'), { role: 'assistant' as const, content: 'Wait.' }]) {
      const messages = [calling('a'), between, result('a')];
      expect(new Pairing(messages).isWhole(3)).toBe(false);
      expectPaired(pairedMessages(messages));
    }
  });

  it('keeps an array that needs no repair', () => {
    const messages = [calling('a'), result('a')];
    expect(pairedMessages(messages)).toBe(messages);
    expect(pairedMessages([calling('a')])).toEqual([calling('a'), missing('a')]);
  });
});
