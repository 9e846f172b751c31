import { describe, expect, it, jest } from '@jest/globals';
import { recordSession, type SessionEntry } from 'millrace';
import { question } from '../../core/dead-turn.ts';
import { plainTools } from '../../core/plain-tools.ts';
import { turnBench } from '../../core/turn-bench.ts';
import { watch } from '../../core/watch-events.ts';

const bench = turnBench();
const recorder = () => {
  const log: SessionEntry[] = [];
  return { log, extension: recordSession({ write: (entry) => void log.push(entry) }) };
};

describe('recordSession', () => {
  it('S2-16 logs the request and the answer of each call', async () => {
    const { log, extension } = recorder();
    const loop = bench.loop([{ toolCalls: [{ name: 'count' }] }, { text: 'Two.' }], {
      toolProviders: [plainTools({ count: () => 2 })],
      extensions: [extension],
      temperature: 0,
    });
    await loop.startTurn(question, { taskId: 't' }).result();
    expect(log).toMatchObject([
      {
        type: 'llm.request',
        taskId: 't',
        iteration: 1,
        attempt: 1,
        at: bench.clock.now(),
        request: { messages: question, tools: [{ name: 'count' }], temperature: 0 },
      },
      {
        type: 'llm.response',
        iteration: 1,
        durationMs: 0,
        response: { message: { toolCalls: [{ function: { name: 'count' } }] } },
      },
      { type: 'llm.request', iteration: 2, request: { messages: { length: 3 } } },
      { type: 'llm.response', iteration: 2, response: { message: { content: 'Two.' } } },
    ]);
  });

  it('logs why there is no answer', async () => {
    const { log, extension } = recorder();
    const failing = bench.loop([{ error: new Error('down') }], { extensions: [extension] });
    await expect(failing.startTurn(question).result()).rejects.toThrow();
    const turn = bench.loop([{ text: 'So', never: true }], { extensions: [extension] }).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('artifact-update');
    await turn.cancel('enough');
    await watcher.ended;
    expect(log.filter(({ type }) => type === 'llm.error')).toMatchObject([
      { code: 'PROVIDER_FAILED', message: 'down' },
      { code: 'CANCELED' },
    ]);
  });

  it('R-20 writes no secret, and warns once where it cannot write', async () => {
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const { log, extension } = recorder();
    const full = {
      ...recordSession({ write: () => Promise.reject(new Error('disk full')) }),
      name: 'full',
    };
    const loop = bench.loop([{ text: 'Keep sk-abcdefgh12345678 safe.' }], { extensions: [extension, full] });
    const result = await loop.startTurn([{ role: 'user', content: 'password=hunter2hunter2' }]).result();
    expect(result.status).toBe('completed');
    expect(JSON.stringify(log)).not.toMatch(/hunter2|abcdefgh/);
    const warnings = warn.mock.calls.map(([warning]) => warning);
    warn.mockRestore();
    expect(warnings).toEqual(['A listener (option write of recordSession) failed: disk full']);
  });
});
