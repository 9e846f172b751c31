import { describe, expect, it } from '@jest/globals';
import { redactSecrets, secretRedactor } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { deadTurn } from '../../core/dead-turn.ts';
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

  it('keeps secrets of the caller from model, journal and events, also those by which the turn is steered', async () => {
    const model = bench.model([{ text: 'Fine.' }]);
    const loop = new AgentLoop(bench.config(model, { extensions: [redactSecrets()] }));
    const content = [{ type: 'text' as const, text: `My key: ${secret}` }];
    const turn = loop.startTurn([{ role: 'user', content }], { taskId: 't' });
    turn.steer({ role: 'user', content: `Use ${secret} now.` });
    const watcher = watch(turn);
    const result = await turn.result();
    const sent = model.calls[0]?.messages;
    expect(sent).toMatchObject([
      { content: [{ text: 'My key: sk-[redacted]' }] },
      { content: 'Use sk-[redacted] now.' },
    ]);
    for (const place of [sent, bench.store.read('t'), watcher.events, result])
      expect(JSON.stringify(place)).not.toContain(secret);
  });

  it('keeps secrets from the model that a turn was started with where it was not there', async () => {
    const model = bench.model([{ text: 'Fine.' }]);
    const given = [{ role: 'user' as const, content: `My key: ${secret}` }];
    deadTurn(bench, [], { messages: given });
    await AgentLoop.resume('t', bench.config(model, { extensions: [redactSecrets()] })).result();
    expect(model.calls[0]?.messages).toMatchObject([{ content: 'My key: sk-[redacted]' }]);
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

  it('shows no secret in an error that was given in a wrong way', () => {
    const message = 'redactSecrets: values must be an array of strings.';
    // @ts-expect-error no list
    expect(() => redactSecrets({ values: secret })).toThrow(expect.objectContaining({ message }));
  });

  it('takes the longest of secrets that hold each other', () => {
    const redact = secretRedactor({ values: ['abc', 'abcdef', ''] });
    expect(redact('abcdef and abc')).toBe('[redacted] and [redacted]');
  });
});
