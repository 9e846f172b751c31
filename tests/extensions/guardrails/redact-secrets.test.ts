import { describe, expect, it } from '@jest/globals';
import { AgentLoop } from '../../../src/core/agent-loop.ts';
import { redactSecrets, secretRedactor } from '../../../src/extensions/guardrails/redact-secrets.ts';
import { plainTools } from '../../core/plain-tools.ts';
import { turnBench } from '../../core/turn-bench.ts';
import { watch } from '../../core/watch-events.ts';

const bench = turnBench();
const secret = 'sk-abcdefgh12345678';
const card = '4111111111111111';
const own = 'correct horse battery';

describe('redactSecrets', () => {
  it('keeps what tools give and models say out of model, journal, events and result', async () => {
    const model = bench.model([
      { reasoning: `They once said ${own}.`, toolCalls: [{ name: 'read' }, { name: 'fail' }] },
      { text: ['The card is ', card, '.'] },
    ]);
    const toolProviders = [
      plainTools({
        read: () => JSON.stringify({ password: own, note: `paid by ${card}` }),
        fail: () => Promise.reject(new Error(`no access with ${secret}`)),
      }),
    ];
    const extensions = [redactSecrets({ patterns: [/\b\d{16}\b/], values: [own] })];
    const turn = new AgentLoop(bench.config(model, { toolProviders, extensions })).startTurn(
      [{ role: 'user', content: 'Read it.' }],
      { taskId: 't' },
    );
    const watcher = watch(turn);
    const result = await turn.result();
    await watcher.ended;
    expect(result.text).toBe('The card is [redacted].');
    const shownEarly = ['artifact-update', 'internal:reasoning-delta'];
    const streamed = watcher.events.filter(({ kind }) => !shownEarly.includes(kind));
    for (const place of [model.calls[1]?.messages, bench.store.read('t'), streamed, result]) {
      for (const each of [secret, card, own]) expect(JSON.stringify(place)).not.toContain(each);
    }
    expect(result.messages[0]).toMatchObject({ reasoning: 'They once said [redacted].' });
    expect(result.messages.slice(1, 3)).toMatchObject([
      { content: '{"password":"[redacted]","note":"paid by [redacted]"}' },
      { content: 'Tool error: Error: no access with sk-[redacted]', status: 'error' },
    ]);
  });

  it('keeps secrets of the caller from the model', async () => {
    const model = bench.model([{ text: 'Fine.' }]);
    const loop = new AgentLoop(bench.config(model, { extensions: [redactSecrets()] }));
    await loop.startTurn([{ role: 'user', content: [{ type: 'text', text: `My key: ${secret}` }] }]).result();
    expect(JSON.stringify(model.calls[0]?.messages)).not.toContain(secret);
  });

  it('leaves a turn without secrets as it is', async () => {
    const types = async (taskId: string, extensions: readonly ReturnType<typeof redactSecrets>[]) => {
      const toolProviders = [plainTools({ count: () => 2 })];
      const steps = [{ toolCalls: [{ name: 'count' }] }, { text: 'Two.' }];
      await bench
        .loop(steps, { toolProviders, extensions })
        .startTurn([{ role: 'user', content: 'Hi' }], { taskId })
        .result();
      return bench.store.read(taskId).map(({ type }) => type);
    };
    expect(await types('a', [redactSecrets()])).toEqual(await types('b', []));
  });

  it('takes the longest of secrets that hold each other', () => {
    const redact = secretRedactor({ values: ['abc', 'abcdef', ''] });
    expect(redact('abcdef and abc')).toBe('[redacted] and [redacted]');
  });
});
