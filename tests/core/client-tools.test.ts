import { describe, expect, it } from '@jest/globals';
import { ClientToolProvider } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { TurnRecord } from 'millrace/types';
import { answerOf, deadTurn, firstCall, intentOf } from './dead-turn.ts';
import { turnBench } from './turn-bench.ts';

const bench = turnBench();
const toolProviders = [
  new ClientToolProvider([{ name: 'locate', description: 'Where the user is.', parameters: { type: 'object' } }]),
];

function asked(kind: 'client-tool' | 'in-doubt'): TurnRecord {
  return { type: 'turn.asked', question: { id: '1:0', callId: '1:0', kind, toolName: 'locate', data: {} } };
}

describe('the answer of a client', () => {
  it('is taken again where the process died between it and the result', async () => {
    const answered: TurnRecord = {
      type: 'turn.answered',
      callId: '1:0',
      questionId: '1:0',
      answer: { result: 'Oslo' },
    };
    const again: TurnRecord = { type: 'tool.intent', callId: '1:0', attempt: 2, arguments: {} };
    deadTurn(bench, [firstCall, answerOf(['locate']), intentOf(0), asked('client-tool'), answered, again]);
    const model = bench.model([{ text: 'In Oslo.' }]);
    const turn = AgentLoop.resume('t', bench.config(model, { toolProviders }));
    expect(await turn.result()).toMatchObject({ status: 'completed', text: 'In Oslo.' });
    expect(model.calls[0]?.messages.at(-1)).toMatchObject({ role: 'tool', content: 'Oslo' });
  });
});

describe('an answer of the wrong form is refused', () => {
  it.each([
    ['client-tool', 'Oslo', '{ "result": … } or { "error": "…" }'],
    ['client-tool', {}, '{ "result": … } or { "error": "…" }'],
    ['client-tool', { result: 'Oslo', error: 'no GPS' }, '{ "result": … } or { "error": "…" }'],
    ['client-tool', { error: 5 }, '{ "result": … } or { "error": "…" }'],
    ['in-doubt', { outcome: 'applied' }, '"outcome": "applied", "content": "…"'],
    ['in-doubt', { outcome: 'applied', content: 5 }, '"outcome": "applied", "content": "…"'],
    ['in-doubt', { outcome: 'perhaps' }, '"outcome": "applied", "content": "…"'],
  ] as const)('of a %s question: %j', async (kind, answer, form) => {
    deadTurn(bench, [firstCall, answerOf(['locate']), intentOf(0), asked(kind)]);
    const refusal = { code: 'INVALID_INPUT', message: expect.stringContaining(form) };
    const answers = { '1:0': answer };
    await expect(AgentLoop.answer('t', { store: bench.store, answers })).rejects.toMatchObject(refusal);
    const turn = AgentLoop.resume('t', bench.config(bench.model([]), { toolProviders }), { answers });
    await expect(turn.result()).rejects.toMatchObject(refusal);
    expect(bench.store.read('t')).toHaveLength(5);
  });
});
