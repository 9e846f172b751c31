import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Logger, Message } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { openResources, scriptedLLM } from 'millrace/testing';

let ledger = openResources();
beforeEach(() => {
  ledger = openResources();
});
afterEach(() => ledger.assertNone());

const _agent = { agentId: 'tester', llmProvider: scriptedLLM([]) };
const question: readonly Message[] = [{ role: 'user', content: 'Hello' }];

describe('a logger', () => {
  function recording() {
    const lines: unknown[][] = [];
    const at =
      (level: string) =>
      (...line: unknown[]) =>
        lines.push([level, ...line]);
    return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  }

  it('S1-105 gets metrics of responses and errors with ids, and no content', async () => {
    const logger = recording();
    const usage = { promptTokens: 12, completionTokens: 3, totalTokens: 15 };
    const model = scriptedLLM([{ text: 'Sesame.', usage, finishReason: 'stop' }, { error: new Error('broken') }]);
    const loop = new AgentLoop({ agentId: 'tester', llmProvider: model, logger });
    await loop.startTurn(question, { taskId: 'one' }).result();
    await loop
      .startTurn(question, { taskId: 'two' })
      .result()
      .catch(() => undefined);
    const error = { type: 'Error', message: 'broken', stack: expect.any(String) };
    expect(logger.lines).toEqual([
      [
        'debug',
        'model call done',
        { taskId: 'one', durationMs: expect.any(Number), finishReason: 'stop', totalTokens: 15 },
      ],
      ['warn', 'model call failed', { taskId: 'two', agentId: 'tester', code: 'PROVIDER_FAILED', error }],
      ['error', 'turn failed', { taskId: 'two', agentId: 'tester', code: 'PROVIDER_FAILED' }],
    ]);
    expect(JSON.stringify(logger.lines)).not.toMatch(/Sesame|Hello/);
  });

  it('that throws does not disturb a turn', async () => {
    const broken = () => {
      throw new Error('the disk is full');
    };
    const logger = { debug: broken, info: broken, warn: broken, error: broken };
    const model = scriptedLLM([{ text: 'Hi.' }, { error: new Error('no') }]);
    const loop = new AgentLoop({ agentId: 'tester', llmProvider: model, logger });
    expect(await loop.startTurn(question).result()).toMatchObject({ status: 'completed' });
    await expect(loop.startTurn(question).result()).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
  });

  it('keeps its `this`', async () => {
    class Counter implements Logger {
      #count = 0;
      debug() {
        this.#count++;
      }
      info() {}
      warn() {}
      error() {}
      get count() {
        return this.#count;
      }
    }
    const logger = new Counter();
    await new AgentLoop({ agentId: 'tester', llmProvider: scriptedLLM([{ text: 'Hi.' }]), logger })
      .startTurn(question)
      .result();
    expect(logger.count).toBe(1);
  });
});
