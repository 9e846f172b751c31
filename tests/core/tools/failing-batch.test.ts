import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { gate, scriptedLLM } from 'millrace/testing';
import { plainTools } from '../plain-tools.ts';

describe('a batch that a failed call ends', () => {
  it('has the result of that call, also where another ends by the abort itself: it waits for an extension', async () => {
    const asked = gate();
    const store = new InMemoryStateStore();
    const loop = new AgentLoop({
      agentId: 'agent',
      llmProvider: scriptedLLM([{ toolCalls: [{ name: 'fine' }, { name: 'broken' }] }]),
      toolProviders: [
        plainTools({
          fine: () => 'fine',
          broken: async () => {
            await asked.reached;
            throw new Error('broken');
          },
        }),
      ],
      extensions: [{ name: 'slow', afterToolCall: ({ callId }) => (callId === '1:0' ? asked.pass() : undefined) }],
      taskStateStore: store,
      toolFailureMode: 'fail',
    });
    const turn = loop.startTurn([{ role: 'user', content: 'go' }], { taskId: 't' });
    const error = await turn.result().catch((thrown: unknown) => thrown);
    asked.open();
    expect(error).toMatchObject({ code: 'TOOL_FAILED', message: expect.stringContaining('broken') });
    const shown = store
      .read('t')
      .map((record) => ('callId' in record ? `${record.type} ${record.callId}` : record.type));
    expect(shown.slice(-3)).toEqual(['tool.result 1:0', 'tool.result 1:1', 'turn.failed']);
  });

  it('does not wait for an extension that is asked about a call which stopped by the abort', async () => {
    const [asked, failed] = [gate(), gate()];
    const loop = new AgentLoop({
      agentId: 'agent',
      llmProvider: scriptedLLM([{ toolCalls: [{ name: 'fine' }, { name: 'broken' }] }]),
      toolProviders: [
        plainTools({
          async fine({ signal }) {
            const aborted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
            failed.open();
            await aborted;
            return 'stopped in order';
          },
          async broken() {
            await failed.pass();
            throw new Error('broken');
          },
        }),
      ],
      extensions: [
        { name: 'slow', timeoutMs: 0, afterToolCall: ({ callId }) => (callId === '1:0' ? asked.pass() : undefined) },
      ],
      toolFailureMode: 'fail',
    });
    const stopped = expect.objectContaining({ role: 'tool', content: 'stopped in order' });
    const turn = loop.startTurn([{ role: 'user', content: 'go' }]);
    const thrown: unknown = await turn.result().catch((error: unknown) => error);
    asked.open();
    expect(thrown).toMatchObject({ code: 'TOOL_FAILED', result: { messages: expect.arrayContaining([stopped]) } });
  });
});
