import { inspect } from 'node:util';
import { describe, expect, it, jest } from '@jest/globals';
import { SpanStatusCode } from '@opentelemetry/api';
import { AgentLoopError, type LLMProvider, type Logger } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { of } from 'rxjs';
import { question } from './dead-turn.ts';
import { plainTools } from './plain-tools.ts';
import { type BenchOptions, turnBench } from './turn-bench.ts';
import { watch } from './watch-events.ts';

const bench = turnBench();

interface Line {
  readonly level: keyof Logger;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>> | undefined;
}

function recordingLogger() {
  const lines: Line[] = [];
  const write = (level: keyof Logger) => (message: string, fields?: Line['fields']) => {
    lines.push({ level, message, fields });
  };
  const logger: Logger = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  return { lines, logger };
}

async function failedTurn(error: unknown, options: BenchOptions = {}) {
  const turn = bench.loop([{ text: 'So far', error }], options).startTurn(question, { taskId: 't' });
  const watcher = watch(turn);
  const [outcome] = await Promise.allSettled([turn.result()]);
  await watcher.ended;
  return { outcome, watcher, last: watcher.events.at(-1) };
}

describe('a provider that fails', () => {
  it('keeps what was said out of logs of its error, which has the result all the same', async () => {
    const looked = { text: 'I look.', toolCalls: [{ name: 'look' }] };
    const toolProviders = [plainTools({ look: () => 'a secret' })];
    const away = new AgentLoopError('PROVIDER_SERVER', 'It is away.');
    const turn = bench.loop([looked, { error: away }], { toolProviders }).startTurn(question);
    const error = await turn.result().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'PROVIDER_SERVER', result: { text: 'I look.', iterations: 2 } });
    const logged = `${inspect(error, { depth: null })} ${JSON.stringify(error)} ${JSON.stringify({ ...Object(error) })}`;
    expect(logged).not.toMatch(/I look|a secret/);
    expect(inspect(error)).toMatch(/It is away\..*PROVIDER_SERVER/s);
  });

  it('S1-12 S1-61 S1-35 S1-88 gives one failed status, last, with its code; the stream completes, result() rejects', async () => {
    const { outcome, watcher, last } = await failedTurn(new AgentLoopError('PROVIDER_RATE_LIMIT', 'slow down'));
    expect(watcher.of('status-update').filter(({ status }) => status.state === 'failed')).toEqual([last]);
    expect(last).toMatchObject({
      final: true,
      reason: 'provider_rate_limit',
      error: { code: 'PROVIDER_RATE_LIMIT', message: 'slow down' },
    });
    expect(watcher.end).toBe('complete');
    expect(outcome).toMatchObject({ reason: { code: 'PROVIDER_RATE_LIMIT', reason: 'provider_rate_limit' } });
  });

  it('S4-42 with an error that is none of ours: PROVIDER_FAILED, and the error is the cause', async () => {
    const error = new TypeError('cable cut');
    const { outcome, last } = await failedTurn(error);
    expect(last).toMatchObject({ error: { code: 'PROVIDER_FAILED', message: expect.stringContaining('cable cut') } });
    expect(outcome).toMatchObject({ reason: { code: 'PROVIDER_FAILED', cause: error } });
  });

  it('keeps what the error knew: whether to try again, when, and the status', async () => {
    const knowing = { retryable: true, retryAfterMs: 1_500, status: 429 };
    const { outcome } = await failedTurn(new AgentLoopError('PROVIDER_RATE_LIMIT', 'slow down', knowing));
    expect(outcome).toMatchObject({ reason: knowing });
  });

  it('S1-35 S1-89 marks the spans from the call to the turn, and logs it once with ids and code', async () => {
    const { lines, logger } = recordingLogger();
    await failedTurn(new AgentLoopError('PROVIDER_SERVER', 'the secret plan'), { logger });
    for (const { name, status, attributes } of bench.spans.spans()) {
      expect([name, status.code, attributes['error.type']]).toEqual([name, SpanStatusCode.ERROR, 'PROVIDER_SERVER']);
    }
    expect(bench.spans.spans().map(({ name }) => name)).toEqual(['agent.execute', 'iteration[1]', 'llm.call']);
    const error = { type: 'PROVIDER_SERVER', message: 'the secret plan', stack: expect.any(String) };
    const errors = lines.filter(({ message }) => message === 'model call failed');
    expect(errors).toEqual([
      {
        level: 'warn',
        message: 'model call failed',
        fields: { taskId: 't', agentId: 'tester', code: 'PROVIDER_SERVER', error },
      },
    ]);
  });

  const broken: readonly [string, LLMProvider][] = [
    [
      'throws where it should answer',
      {
        call: () => {
          throw new Error('broken');
        },
      },
    ],
    ['ends its stream without an answer', { call: () => Promise.reject(new Error('unused')), stream: () => of() }],
  ];

  it.each(broken)('by its own defect: it %s', async (_, llmProvider) => {
    const turn = new AgentLoop(bench.config(llmProvider)).startTurn(question);
    const watcher = watch(turn);
    await expect(turn.result()).rejects.toMatchObject({ code: expect.stringMatching(/^PROVIDER_/) });
    expect(watcher.events.at(-1)).toMatchObject({ status: { state: 'failed' }, final: true });
  });
});

describe('the logger', () => {
  it('S1-105 is told of each response with ids and numbers, never of content', async () => {
    const { lines, logger } = recordingLogger();
    const usage = { promptTokens: 1, completionTokens: 2, totalTokens: 3 };
    const loop = bench.loop(
      [
        { text: 'the secret plan', toolCalls: [{ name: 'count', arguments: { of: 'secrets' } }], usage },
        { text: 'Two.' },
      ],
      { logger, toolProviders: [plainTools({ count: () => 'secret' })] },
    );
    await loop.startTurn([{ role: 'user', content: 'a secret' }], { taskId: 't' }).result();
    expect(lines.filter(({ message }) => message === 'model call done')).toMatchObject([
      { fields: { taskId: 't', durationMs: 0, totalTokens: 3 } },
      { fields: { taskId: 't' } },
    ]);
    expect(JSON.stringify(lines)).not.toContain('secret');
  });

  it('S1-105 is silent by default', async () => {
    const methods = ['debug', 'log', 'info', 'warn', 'error'] as const;
    const spies = methods.map((method) => jest.spyOn(console, method));
    await failedTurn(new Error('cut'));
    const lines = spies.flatMap(({ mock }) => mock.calls);
    for (const spy of spies) spy.mockRestore();
    expect(lines).toEqual([]);
  });
});
