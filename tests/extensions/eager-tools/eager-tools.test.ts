import { describe, expect, it } from '@jest/globals';
import {
  eagerTools,
  type LLMChunk,
  type LLMProvider,
  type ToolCall,
  type ToolContext,
  type ToolProvider,
} from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { Subject } from 'rxjs';
import { question } from '../../core/dead-turn.ts';
import { type PlainTool, plainTools } from '../../core/plain-tools.ts';
import { turnBench } from '../../core/turn-bench.ts';
import { watch } from '../../core/watch-events.ts';

const bench = turnBench();

/** A model whose first answer comes as the test says; the second is a text. */
function byHand(answers = [{ text: 'Seen.' }]) {
  const chunks = new Subject<LLMChunk>();
  const rest = bench.model(answers);
  let calls = 0;
  const provider: LLMProvider = {
    call: rest.call,
    stream: (params) => (++calls === 1 ? chunks : (rest.stream?.(params) ?? chunks)),
  };
  const fragment = (index: number, text: string, name?: string) =>
    chunks.next({ type: 'tool-call', index, arguments: text, ...(name && { name, id: `id-${index}` }) });
  const done = (...names: readonly string[]) => {
    const toolCalls: ToolCall[] = names.map((name, index) => ({
      id: `id-${index}`,
      type: 'function',
      function: { name, arguments: '{"at":"home"}' },
    }));
    chunks.next({ type: 'done', response: { message: { role: 'assistant', content: null }, toolCalls } });
    chunks.complete();
  };
  return { provider, chunks, fragment, done };
}

/** A tool that says when it runs, and stops when it is told to. */
function looking(policy: Omit<PlainTool & object, 'execute'> = { readOnly: true }) {
  const runs: ToolContext[] = [];
  let started = () => {};
  const running = new Promise<void>((resolve) => {
    started = resolve;
  });
  const look = async (context: ToolContext) => {
    started();
    return `seen ${runs.push(context)}`;
  };
  return { runs, running, tools: plainTools({ look: { ...policy, execute: look }, other: () => 'other' }) };
}

function eagerly(model: LLMProvider, { tools }: ReturnType<typeof looking>) {
  const { toolProvider, extension } = eagerTools(tools);
  const config = bench.config(model, { toolProviders: [toolProvider], extensions: [extension] });
  const turn = new AgentLoop(config).startTurn(question, { taskId: 't' });
  return { turn, watcher: watch(turn) };
}

describe('eagerTools', () => {
  it('U-18 starts no call early whose arguments are not what the schema of its tool says', async () => {
    const { provider, fragment, done } = byHand();
    const look = looking();
    const parameters = { type: 'object', properties: { at: { type: 'string' } } };
    const tools: ToolProvider = {
      getTools: () => [
        { type: 'function', readOnly: true, function: { name: 'look', description: 'Looks.', parameters } },
      ],
      executeTool: (call, context) => look.tools.executeTool(call, context),
    };
    const { turn, watcher } = eagerly(provider, { ...look, tools });
    await watcher.until('internal:llm-call');
    fragment(0, '{"at":7}', 'look');
    fragment(1, '{"at":"home"}', 'look');
    await look.running;
    expect(look.runs.map(({ callId }) => callId)).toEqual(['1:1']);
    done('look', 'look');
    await turn.result();
  });

  it('M-03 starts no call early that repeats an earlier one, and gives each other call its own result', async () => {
    const { provider, chunks } = byHand();
    const look = looking();
    const { turn, watcher } = eagerly(provider, look);
    await watcher.until('internal:llm-call');
    const calls = ['{"at":"home"}', '{ "at": "home" }', '{"at":"work"}'].map(
      (text): ToolCall => ({ id: 'same', type: 'function', function: { name: 'look', arguments: text } }),
    );
    for (const [index, { id, function: called }] of calls.entries())
      chunks.next({ type: 'tool-call', index, id, ...called });
    await look.running;
    chunks.next({ type: 'done', response: { message: { role: 'assistant', content: null, toolCalls: calls } } });
    chunks.complete();
    await turn.result();
    expect(look.runs.map(({ callId, arguments: args }) => [callId, args])).toEqual([
      ['1:0', { at: 'home' }],
      ['1:2', { at: 'work' }],
    ]);
    expect(watcher.of('internal:tool-call-delta').map(({ callId }) => callId)).toEqual(['1:0']);
    expect(watcher.of('internal:tool-complete').map(({ callId }) => callId)).toEqual(['1:0', '1:2']);
  });

  it('counts what the model calls of a tool that was started early took', async () => {
    const { provider, fragment, done } = byHand();
    const look = looking();
    const usage = { promptTokens: 2, completionTokens: 1, totalTokens: 3 };
    const tools: ToolProvider = {
      getTools: (context) => look.tools.getTools(context),
      executeTool(call, context) {
        context.noteUsage(usage);
        return look.tools.executeTool(call, context);
      },
    };
    const { turn, watcher } = eagerly(provider, { ...look, tools });
    await watcher.until('internal:llm-call');
    fragment(0, '{"at":"home"}', 'look');
    await look.running;
    done('look');
    await turn.result();
    expect(look.runs).toHaveLength(1);
    expect(bench.store.read('t').find(({ type }) => type === 'tool.result')).toMatchObject({ usage });
  });

  it('S4-35 runs a read-only tool before the stream ends; its events wait for its durable intent', async () => {
    const { provider, fragment, done } = byHand();
    const look = looking();
    const { turn, watcher } = eagerly(provider, look);
    await watcher.until('internal:llm-call');
    fragment(0, '{"at":', 'look');
    fragment(0, '"home"}');
    await look.running;
    expect(watcher.of('internal:tool-start')).toEqual([]);
    expect(bench.store.read('t').map(({ type }) => type)).toEqual(['turn.started', 'llm.start']);
    done('look');
    const result = await turn.result();
    expect(result.messages[1]).toMatchObject({ role: 'tool', content: 'seen 1' });
    expect(look.runs.map(({ arguments: args, callId }) => [args, callId])).toEqual([[{ at: 'home' }, '1:0']]);
    expect(watcher.of('internal:tool-start')).toHaveLength(1);
  });

  it.each([
    ['has effects', {}],
    ['has to be approved', { readOnly: true, needsApproval: () => false }],
    ['runs alone', { readOnly: true, sequential: true }],
  ])('S4-35 does not start a tool early that %s', async (_, policy) => {
    const { provider, fragment, done } = byHand();
    const look = looking(policy);
    const { turn, watcher } = eagerly(provider, look);
    await watcher.until('internal:llm-call');
    fragment(0, '{"at":"home"}', 'look');
    await new Promise((resolve) => setImmediate(resolve));
    expect(look.runs).toEqual([]);
    done('look');
    await turn.result();
    expect(look.runs).toHaveLength(1);
  });

  it('aborts what it started for an attempt that is void, and takes nothing of it', async () => {
    const { provider, chunks, fragment, done } = byHand();
    const look = looking();
    const { turn, watcher } = eagerly(provider, look);
    await watcher.until('internal:llm-call');
    fragment(0, '{"at":"work"}', 'look');
    await look.running;
    chunks.next({ type: 'attempt', state: 'void', reason: 'broke off' });
    expect(look.runs[0]?.signal.aborted).toBe(true);
    chunks.next({ type: 'attempt', state: 'begin' });
    done('look');
    const result = await turn.result();
    expect(result.messages[1]).toMatchObject({ content: 'seen 2' });
    expect(look.runs[1]?.arguments).toEqual({ at: 'home' });
  });

  it('runs a call again whose arguments are other than those that were streamed', async () => {
    const { provider, fragment, done } = byHand();
    const look = looking();
    const { turn, watcher } = eagerly(provider, look);
    await watcher.until('internal:llm-call');
    fragment(0, '{"at":"work"}', 'look');
    await look.running;
    done('look');
    expect((await turn.result()).messages[1]).toMatchObject({ content: 'seen 2' });
  });

  it('runs a call again whose early run gave an error result', async () => {
    const { provider, fragment, done } = byHand();
    let runs = 0;
    let begun = () => {};
    const running = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const flaky: ToolProvider = {
      getTools: () => [
        { type: 'function', function: { name: 'look', description: '', parameters: {} }, readOnly: true },
      ],
      async executeTool({ id }) {
        begun();
        const success = ++runs > 1;
        return { toolCallId: id, content: success ? 'seen' : 'busy', success };
      },
    };
    const { toolProvider, extension } = eagerTools(flaky);
    const config = bench.config(provider, { toolProviders: [toolProvider], extensions: [extension] });
    const turn = new AgentLoop(config).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('internal:llm-call');
    fragment(0, '{"at":"home"}', 'look');
    await running;
    done('look');
    expect((await turn.result()).messages[1]).toMatchObject({ content: 'seen' });
    expect(runs).toBe(2);
  });

  it('aborts it where the turn is cancelled in the middle of the stream', async () => {
    const { provider, fragment } = byHand([]);
    const look = looking();
    const { turn, watcher } = eagerly(provider, look);
    await watcher.until('internal:llm-call');
    fragment(0, '{"at":"home"}', 'look');
    await look.running;
    await turn.cancel('enough');
    await watcher.ended;
    expect(look.runs[0]?.signal.aborted).toBe(true);
  });
});
