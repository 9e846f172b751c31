import { describe, expect, it } from '@jest/globals';
import type { AgentLoopConfig, LLMProvider, ToolDefinition, ToolProvider } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { deadTurn, firstCall, question } from './dead-turn.ts';
import { turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();

/** A provider whose answer is against the type, as plain JavaScript may give it. */
function answering(response: string): AgentLoopConfig['llmProvider'] {
  return { call: async () => JSON.parse(response) };
}

describe('a provider whose answer has not the shape of one', () => {
  it.each([
    ['{}', 'message'],
    ['{"message":{"role":"assistant","content":42}}', 'message.content'],
    ['{"message":{"role":"assistant","content":null},"toolCalls":[{"id":"1","type":"function"}]}', 'toolCalls'],
    ['{"message":{"role":"assistant","content":null},"toolCalls":[null]}', 'toolCalls'],
    ['{"message":{"role":"assistant","content":"So"},"finishReason":"end_turn"}', 'finishReason'],
    ['{"message":{"role":"assistant","content":"So"},"usage":{"promptTokens":"a"}}', 'usage'],
  ])('%s fails the turn and names %s', async (response, member) => {
    const turn = new AgentLoop(bench.config(answering(response))).startTurn(question);
    await expect(turn.result()).rejects.toMatchObject({
      code: 'PROVIDER_PROTOCOL',
      message: expect.stringContaining(`whose ${member} is not`),
    });
  });
});

describe('a provider whose answer has no JSON form', () => {
  const itself: Record<string, unknown> = {};
  itself['itself'] = itself;
  const answer = { role: 'assistant', content: 'So' } as const;

  const answers: readonly [member: string, response: object][] = [
    ['message.metadata', { message: { ...answer, metadata: { tokens: 1n } } }],
    ['message.metadata', { message: { ...answer, metadata: itself } }],
    ['message.content', { message: { ...answer, content: [{ type: 'text', text: 'So', cache: 1n }] } }],
    [
      'toolCalls',
      { message: answer, toolCalls: [{ id: '1', type: 'function', function: { name: 'count', arguments: itself } }] },
    ],
  ];

  it.each(answers)('fails the turn by %s, and the journal says so', async (member, response) => {
    const llmProvider: LLMProvider = { call: async () => ({ message: answer, ...response }) };
    const turn = new AgentLoop(bench.config(llmProvider)).startTurn(question, { taskId: 't' });
    const code = 'PROVIDER_PROTOCOL';
    await expect(turn.result()).rejects.toMatchObject({ code, message: expect.stringContaining(`whose ${member} is`) });
    await turn.settled;
    expect(bench.store.read('t').at(-1)).toMatchObject({ type: 'turn.failed', code });
  });
});

describe('tool providers that fail together', () => {
  it('fail the turn once, naming one of them, and leave no rejection unheard', async () => {
    const rejecting: ToolProvider = {
      name: 'registry',
      getTools: () => Promise.reject(new Error('the database is down')),
      executeTool: () => ({ toolCallId: '', content: '', success: true }),
    };
    const throwing: ToolProvider = {
      ...rejecting,
      name: 'files',
      getTools() {
        throw new Error('no such folder');
      },
    };
    const turn = bench.loop([], { toolProviders: [rejecting, throwing] }).startTurn(question);
    await expect(turn.result()).rejects.toMatchObject({
      code: 'TOOL_FAILED',
      message: expect.stringMatching(/^The tool provider (registry|files) cannot list its tools: /),
    });
  });
});

describe('a resumed turn whose tools cannot be had', () => {
  it('is lost, not failed: it can be resumed where they can', async () => {
    deadTurn(bench, [firstCall]);
    const failing = { name: 'registry', getTools: () => Promise.reject(new Error('down')), executeTool: () => answer };
    const lost = AgentLoop.resume('t', bench.config(bench.model([]), { toolProviders: [failing] }));
    await expect(lost.result()).rejects.toMatchObject({
      code: 'MISSING_TOOL',
      retryable: true,
      message: 'The tool provider registry cannot list its tools: down',
    });
    const later = AgentLoop.resume('t', bench.config(bench.model([{ text: 'Two.' }])));
    expect(await later.result()).toMatchObject({ status: 'completed' });
  });
});

describe('a model that asks for more calls than anybody can mean', () => {
  it('fails the turn with PROVIDER_TOO_LARGE', async () => {
    const toolCalls = Array.from({ length: 10_001 }, () => ({ name: 'count' }));
    const turn = bench.loop([{ toolCalls }]).startTurn(question);
    await expect(turn.result()).rejects.toMatchObject({
      code: 'PROVIDER_TOO_LARGE',
      message: 'The model asked for 10001 tool calls in one answer; a turn takes at most 10000.',
    });
  });
});

const answer = { toolCallId: '', content: '', success: true };

describe('a check of arguments that never answers', () => {
  const hanging: ToolProvider = {
    getTools: () => [
      {
        type: 'function',
        function: { name: 'count', description: 'Counts.', parameters: { type: 'object' } },
        checkArguments: () => new Promise(() => {}),
        timeoutMs: 50,
      },
    ],
    executeTool: () => ({ toolCallId: '', content: 'never', success: true }),
  };

  it('refuses the call at the tool’s timeout, and the model reads why', async () => {
    const model = bench.model([{ toolCalls: [{ name: 'count', arguments: {} }] }, { text: 'Two.' }]);
    const turn = new AgentLoop(bench.config(model, { toolProviders: [hanging] })).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('internal:llm-response');
    bench.clock.advance(50);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    expect(watcher.of('internal:tool-complete')).toMatchObject([
      {
        success: false,
        error: {
          code: 'TOOL_TIMEOUT',
          message: 'the check of the arguments did not answer within 50 ms (timeoutMs of the tool, or toolTimeoutMs)',
        },
      },
    ]);
  });

  it('does not hold a cancel', async () => {
    const model = bench.model([{ toolCalls: [{ name: 'count', arguments: {} }] }]);
    const turn = new AgentLoop(bench.config(model, { toolProviders: [hanging] })).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('internal:llm-response');
    await turn.cancel('enough');
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'canceled' }, final: true });
  });
});

describe('an approval that never answers', () => {
  const never = () => new Promise<never>(() => {});
  const definition = { name: 'count', description: 'Counts.', parameters: { type: 'object' } } as const;
  const provider = (needsApproval: NonNullable<ToolDefinition['needsApproval']>): ToolProvider => ({
    getTools: () => [
      {
        type: 'function',
        function: definition,
        checkArguments: async (value) => ({ ok: true, value }),
        needsApproval,
        timeoutMs: 50,
      },
    ],
    executeTool: () => ({ toolCallId: '', content: 'never', success: true }),
  });

  it.each<[string, Partial<AgentLoopConfig>]>([
    ['the function of the tool', { toolProviders: [provider(never)] }],
    ['an extension', { toolProviders: [provider(false)], extensions: [{ name: 'policy', approveToolCall: never }] }],
  ])('of %s refuses the call at the tool’s timeout, in words of its own', async (_who, options) => {
    const model = bench.model([{ toolCalls: [{ name: 'count', arguments: {} }] }, { text: 'Two.' }]);
    const turn = new AgentLoop(bench.config(model, options)).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('internal:llm-response');
    // The check of the arguments answers in a microtask.
    await new Promise<void>((resolve) => setImmediate(resolve));
    bench.clock.advance(50);
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'Two.' });
    const error = {
      code: 'TOOL_TIMEOUT',
      message: 'nobody decided within 50 ms whether the call may run (timeoutMs of the tool, or toolTimeoutMs)',
    };
    expect(watcher.of('internal:tool-complete')).toMatchObject([{ success: false, error }]);
  });
});

describe('a store that throws what has no code', () => {
  it('loses the turn as UNAVAILABLE, with what was thrown as the cause', async () => {
    const cause = new Error('disk full');
    bench.store.append = () => {
      throw cause;
    };
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question);
    await expect(turn.result()).rejects.toMatchObject({ code: 'UNAVAILABLE', cause });
  });

  it('is refused beforehand where it lacks methods', () => {
    const store = JSON.parse('{}');
    expect(() => bench.loop([], { taskStateStore: store })).toThrow(/^taskStateStore must be a TaskStateStore/);
    expect(() => AgentLoop.observe('t', { store })).toThrow(
      /^store must be a TaskStateStore; give the store of the turn/,
    );
    expect(() => AgentLoop.cancel('t', JSON.parse('{}'))).toThrow(/^store must be a TaskStateStore; give the store/);
    expect(() => AgentLoop.observe('t', { store: bench.store, from: JSON.parse('5') })).toThrow(/^5 is not a cursor/);
  });
});

describe('what a turn is told when it ends', () => {
  it('is refused from the moment on at which the end is written', async () => {
    const turn = bench.loop([{ text: 'Two.' }]).startTurn(question);
    const refused: unknown[] = [];
    turn.subscribe((event) => {
      if (event.kind !== 'internal:llm-response') return;
      try {
        turn.steer({ role: 'user', content: 'More.' });
      } catch (error) {
        refused.push(error);
      }
    });
    await turn.settled;
    expect(refused).toMatchObject([{ code: 'TERMINAL' }]);
  });

  it('stands behind the answer where no further iteration is allowed', async () => {
    const turn = bench.loop([{ text: ['Two', Promise.resolve(), '.'] }], { maxIterations: 1 }).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('artifact-update');
    turn.steer({ role: 'user', content: 'And then?' });
    const { status, text, messages } = await turn.result();
    expect([status, text]).toEqual(['completed', 'Two.']);
    expect(messages.map(({ role, content }) => [role, content])).toEqual([
      ['assistant', 'Two.'],
      ['user', 'And then?'],
    ]);
  });
});
