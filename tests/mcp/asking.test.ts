import { afterEach, describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { type AgentLoopConfig, InMemoryStateStore, type LLMCallParams, type TurnResult, textOf } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { McpProcessOptions, McpSamplingOptions } from 'millrace/mcp';
import { gate, recordSpans, scriptedLLM } from 'millrace/testing';
import { eventually } from '../eventually.ts';
import { thrownBy } from '../tools/thrown.ts';
import { toolContext } from '../tools/tool-context.ts';
import { type OddServer, oddServer } from './odd-server.ts';

const open: OddServer[] = [];

function server(options: Partial<McpProcessOptions> = {}): OddServer {
  const made = oddServer(options);
  open.push(made);
  return made;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map(({ tools }) => tools.close()));
});

/** A loop whose model calls these tools at once, and then says "done". */
function loopOf(odd: OddServer, ...names: readonly string[]): AgentLoopConfig {
  return {
    agentId: 'assistant',
    llmProvider: scriptedLLM([{ toolCalls: names.map((name) => ({ name: `odd__${name}` })) }, { text: 'done' }]),
    toolProviders: [odd.tools],
    taskStateStore: new InMemoryStateStore(),
  };
}

function toolTexts({ messages }: TurnResult): readonly string[] {
  return messages.filter(({ role }) => role === 'tool').map(({ content }) => textOf(content));
}

function answered(odd: OddServer): readonly string[] {
  return odd.ledger().filter((line) => line.startsWith('ask'));
}

const hello = [{ role: 'user' as const, content: 'hello' }];

describe('a question of an MCP server', () => {
  it('suspends the turn; with the answer the call goes on where it was', async () => {
    const odd = server();
    const config = loopOf(odd, 'ask');
    const turn = new AgentLoop(config).startTurn(hello);
    const asked = await turn.result();
    expect(asked.status).toBe('input-required');
    expect(asked.questions).toMatchObject([
      {
        id: '1:0',
        kind: 'input',
        prompt: 'Who are you?',
        data: { server: 'odd', mode: 'form', requestedSchema: { properties: { name: { minLength: 2 } } } },
      },
    ]);
    const answers = { '1:0': { action: 'accept', content: { name: 'Ada' } } };
    const ended = await AgentLoop.resume(turn.taskId, config, { answers }).result();
    expect(toolTexts(ended)).toEqual(['{"action":"accept","content":{"name":"Ada"}}']);
    expect(answered(odd)).toEqual(['ask begins', 'ask answered {"action":"accept","content":{"name":"Ada"}}']);
  });

  it('is asked again where the answer does not fit, and takes the content alone, or a refusal', async () => {
    const odd = server();
    const config = loopOf(odd, 'ask');
    const { taskId, ...turn } = await suspended(config);
    expect(turn.ids).toEqual(['1:0']);
    const again = await AgentLoop.resume(taskId, config, { answers: { '1:0': { name: 'A' } } }).result();
    expect(again.questions).toMatchObject([
      { id: '1:0.2', prompt: expect.stringMatching(/did not fit: content\.name/) },
    ]);
    const ended = await AgentLoop.resume(taskId, config, { answers: { '1:0.2': 'Ada' } }).result();
    expect(toolTexts(ended)).toEqual(['{"action":"accept","content":{"name":"Ada"}}']);
    expect(answered(odd)).toHaveLength(2);

    const other = loopOf(odd, 'ask');
    const refused = await suspended(other);
    const answers = { '1:0': { action: 'decline' } };
    const declined = await AgentLoop.resume(refused.taskId, other, { answers }).result();
    expect(toolTexts(declined)).toEqual(['{"action":"decline"}']);
  });

  it('finds its answers where the tool runs again from its start, in another process', async () => {
    const config = loopOf(server(), 'ask_twice');
    const { taskId } = await suspended(config);
    const first = await AgentLoop.resume(taskId, config, { answers: { '1:0': { name: 'One' } } }).result();
    expect(first.questions).toMatchObject([{ id: '1:0.2', prompt: 'Second?' }]);
    const elsewhere = server();
    const there = { ...config, toolProviders: [elsewhere.tools] };
    const ended = await AgentLoop.resume(taskId, there, { answers: { '1:0.2': { name: 'Two' } } }).result();
    expect(toolTexts(ended)).toEqual(['[{"name":"One"},{"name":"Two"}]']);
    expect(answered(elsewhere)).toEqual(['ask_twice begins']);
  });

  it('waits no longer than holdMs: then the server is told, and the answer runs the tool again', async () => {
    const odd = server({ elicitation: { holdMs: 50 } });
    const config = loopOf(odd, 'ask');
    const { taskId } = await suspended(config);
    await eventually(() => answered(odd).includes('ask answered {"action":"cancel"}'));
    const ended = await AgentLoop.resume(taskId, config, { answers: { '1:0': { name: 'Ada' } } }).result();
    expect(toolTexts(ended)).toEqual(['{"action":"accept","content":{"name":"Ada"}}']);
  });

  it('belongs to the call that caused it, also where several run', async () => {
    const odd = server();
    const config = loopOf(odd, 'steps', 'ask');
    const { taskId, ids } = await suspended(config);
    expect(ids).toEqual(['1:1']);
    const ended = await AgentLoop.resume(taskId, config, { answers: { '1:1': { name: 'Ada' } } }).result();
    expect(toolTexts(ended)).toEqual(['all steps', '{"action":"accept","content":{"name":"Ada"}}']);
  });

  it('is refused where nobody can tell two of them apart, and the other one is asked', async () => {
    const odd = server();
    const config = loopOf(odd, 'ask', 'ask');
    const { taskId, ids } = await suspended(config);
    expect(ids).toHaveLength(1);
    const ended = await AgentLoop.resume(taskId, config, { answers: { [String(ids[0])]: { name: 'Ada' } } }).result();
    expect([...toolTexts(ended)].sort()).toEqual([
      '{"action":"accept","content":{"name":"Ada"}}',
      '{"action":"cancel"}',
    ]);
  });

  it('that wants somebody to go to an address makes the turn auth-required', async () => {
    const config = loopOf(server(), 'sign_in');
    const turn = new AgentLoop(config).startTurn(hello);
    const { status, questions } = await turn.result();
    expect(status).toBe('auth-required');
    expect(questions).toMatchObject([{ kind: 'auth', data: { mode: 'url', url: 'https://bank.test/login' } }]);
    const ended = await AgentLoop.resume(turn.taskId, config, { answers: { '1:0': true } }).result();
    expect(toolTexts(ended)).toEqual(['{"action":"accept","content":{}}']);
  });

  it('cannot be asked where elicitation is off', async () => {
    const ended = await new AgentLoop(loopOf(server({ elicitation: false }), 'ask')).startTurn(hello).result();
    expect(ended.status).toBe('completed');
    expect(toolTexts(ended)[0]).toBe('Method not found');
  });

  it('ends with the turn that is cancelled while it is put', async () => {
    const odd = server();
    const config = loopOf(odd, 'steps', 'ask');
    const turn = new AgentLoop(config).startTurn(hello);
    turn.subscribe({
      next: (event) => {
        if (event.kind === 'status-update' && event.questions) void turn.cancel();
      },
    });
    await expect(turn.result()).rejects.toMatchObject({ code: 'CANCELED' });
  });
});

async function suspended(config: AgentLoopConfig): Promise<{ taskId: string; ids: readonly string[] }> {
  const turn = new AgentLoop(config).startTurn(hello);
  const { questions } = await turn.result();
  return { taskId: turn.taskId, ids: questions.map(({ id }) => id) };
}

const usage = { promptTokens: 7, completionTokens: 3, totalTokens: 10 };

describe('an MCP server that asks the model', () => {
  it('may not, unless it is allowed', async () => {
    const odd = server();
    expect((await odd.call('sample')).content).toBe('["Method not found"]');
  });

  it('is answered by the provider, within the limits, below the span of the call', async () => {
    const asked: LLMCallParams[] = [];
    const provider = scriptedLLM([
      (params) => {
        asked.push(params);
        return { text: 'Something.', usage };
      },
    ]);
    const odd = server({ sampling: { provider, model: 'small', maxTokens: 100 } });
    const spans = recordSpans();
    try {
      const parent = trace.getTracer('test').startSpan('tool[sample]', {}, ROOT_CONTEXT);
      const updates: unknown[] = [];
      const traceContext = trace.setSpan(ROOT_CONTEXT, parent);
      const progress = (update: unknown) => updates.push(update);
      const noted: unknown[] = [];
      const noteUsage = (taken: unknown) => noted.push(taken);
      expect((await odd.call('sample', {}, { traceContext, progress, noteUsage })).content).toBe('["Something."]');
      parent.end();
      expect(noted).toEqual([usage]);
      expect(updates).toEqual([{ type: 'mcp-sampling', usage }]);
      expect(spans.tree()).toBe('tool[sample]\n  llm.call');
    } finally {
      await spans.dispose();
    }
    expect(asked[0]).toMatchObject({
      model: 'small',
      maxTokens: 100,
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'text', text: 'Say something.' }] },
      ],
    });
    expect(asked[0]?.tools).toBeUndefined();
  });

  it('adds to the usage of the turn', async () => {
    const provider = scriptedLLM([
      { text: 'one', usage },
      { text: 'two', usage },
    ]);
    const odd = server({ sampling: { provider } });
    const llmProvider = scriptedLLM([
      { toolCalls: [{ name: 'odd__sample', arguments: { times: 2 } }], usage },
      { text: 'done', usage },
    ]);
    const ended = await new AgentLoop({ ...loopOf(odd), llmProvider }).startTurn(hello).result();
    expect(ended.usage).toEqual({ promptTokens: 28, completionTokens: 12, totalTokens: 40 });
  });

  it('has a budget of requests for each tool call', async () => {
    const provider = scriptedLLM([{ text: 'one' }, { text: 'two' }, { text: 'three' }]);
    const odd = server({ sampling: { provider, maxRequests: 2 } });
    const { content } = await odd.call('sample', { times: 3 });
    expect(JSON.parse(String(content))).toEqual(['one', 'two', expect.stringMatching(/may ask the model 2 times/)]);
    expect((await odd.call('sample', {}, toolContext({ idempotencyKey: 'task:2:0' }))).content).toBe('["three"]');
  });

  it('keeps no model busy for a call that was left', async () => {
    const asked = gate();
    let signal: AbortSignal | undefined;
    const provider: McpSamplingOptions['provider'] = {
      call(params) {
        signal = params.signal;
        return asked.pass().then(() => new Promise(() => {}));
      },
    };
    const odd = server({ sampling: { provider } });
    const controller = new AbortController();
    const running = odd.call('sample', {}, { signal: controller.signal });
    await asked.reached;
    expect(signal?.aborted).toBe(false);
    controller.abort();
    expect(await thrownBy(() => running)).toMatchObject({ code: 'CANCELED' });
    expect(signal?.aborted).toBe(true);
  });

  it('is not told why the model did not answer', async () => {
    const provider: McpSamplingOptions['provider'] = {
      call: () => Promise.reject(new Error('401: key sk-123 is not valid')),
    };
    const odd = server({ sampling: { provider } });
    const noted: unknown[] = [];
    const noteUsage = (taken: unknown) => noted.push(taken);
    expect((await odd.call('sample', {}, { noteUsage })).content).toMatch(/the model did not answer/);
    expect(noted).toEqual([]);
  });
});
