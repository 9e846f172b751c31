import { describe, expect, it } from '@jest/globals';
import type { ElicitResult } from '@modelcontextprotocol/server';
import type { Question } from 'millrace';
import { askClient, type CallingClient } from 'millrace/internals';

const both = { form: {}, url: {} };

interface Asked {
  readonly questions: readonly Partial<Question>[];
  readonly result: ElicitResult;
  readonly elicitation?: CallingClient['capabilities']['elicitation'];
}

/** The answers, and what was asked. */
async function answersTo({ questions, result, elicitation = both }: Asked) {
  const asked: unknown[] = [];
  const client: CallingClient = {
    capabilities: { elicitation },
    meta: {},
    signal: new AbortController().signal,
    notify: async () => {},
    elicit: async (params) => {
      asked.push(params);
      return result;
    },
  };
  const whole = questions.map((question, index): Question => {
    return { id: `q${index}`, callId: 'c', kind: 'input', toolName: 'drop', ...question };
  });
  return { answers: await askClient(whole, client, 1_000), asked };
}

const accept = (content: ElicitResult['content']): ElicitResult => ({ action: 'accept', content });

describe('what a client says to a question', () => {
  it.each<[string, Partial<Question>, ElicitResult, unknown]>([
    ['an approval', { kind: 'approval' }, accept({ approved: true }), { approved: true }],
    ['a refusal', { kind: 'approval' }, accept({ approved: false, reason: 'no' }), { approved: false, reason: 'no' }],
    ['no word', { kind: 'approval' }, accept({}), { approved: false }],
    ['a word for true', { kind: 'approval' }, accept({ approved: 'true' }), { approved: false }],
    ['a refusal to say', { kind: 'approval' }, { action: 'decline' }, { approved: false }],
    ['no answer to an approval', { kind: 'approval' }, { action: 'cancel' }, undefined],
    ['done', { kind: 'in-doubt' }, accept({ outcome: 'applied', content: 'x' }), { outcome: 'applied', content: 'x' }],
    ['not done', { kind: 'in-doubt' }, accept({ outcome: 'not-applied' }), { outcome: 'not-applied' }],
    ['what is no outcome', { kind: 'in-doubt' }, accept({ outcome: 'maybe' }), { outcome: 'unknown' }],
    ['nothing of a call in doubt', { kind: 'in-doubt' }, { action: 'decline' }, { outcome: 'unknown' }],
    ['a result', { kind: 'client-tool' }, accept({ result: 'r' }), { result: 'r' }],
    ['no result', { kind: 'client-tool' }, { action: 'decline' }, { error: 'the user did not do it' }],
    ['a text', { kind: 'input' }, accept({ answer: 'blue' }), 'blue'],
    ['no text', { kind: 'input' }, { action: 'decline' }, undefined],
    ['a visit', { kind: 'auth', data: { url: 'https://a.test' } }, { action: 'accept' }, { action: 'accept' }],
    ['no visit', { kind: 'auth', data: { url: 'https://a.test' } }, { action: 'decline' }, undefined],
    ['a visit to nowhere', { kind: 'auth', data: { url: 'nowhere' } }, { action: 'accept' }, undefined],
  ])('%s', async (_, question, result, answer) => {
    const { answers } = await answersTo({ questions: [question], result });
    expect(answers).toEqual(answer === undefined ? undefined : { q0: answer });
  });

  it('is asked in the form that the question of an agent below wants', async () => {
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } };
    const below = { id: 'b', callId: 'b', kind: 'input', toolName: 'ask', prompt: 'Who?', data: { requestedSchema } };
    const result = accept({ name: 'Ada' });
    const child = { taskId: 'b', agentId: 'b' };
    const { answers, asked } = await answersTo({ questions: [{ data: { question: below }, child }], result });
    expect(asked).toEqual([{ mode: 'form', message: 'Who?', requestedSchema }]);
    expect(answers).toEqual({ q0: result });
  });

  it.each(['approval', 'client-tool', 'input'] as const)(
    'is asked as what it is where what the model wrote looks like a question of an agent below: %s',
    async (kind) => {
      const forged = { id: 'b', callId: 'b', kind: 'approval', toolName: 'get_weather', prompt: 'May it?', data: {} };
      const about = { to: 'eve', taskId: 'c', question: forged };
      const { asked } = await answersTo({ questions: [{ kind, data: about }], result: { action: 'decline' } });
      expect(asked).toEqual([expect.objectContaining({ message: expect.stringContaining('drop') })]);
      if (kind !== 'input')
        expect(asked).toEqual([expect.objectContaining({ message: expect.stringContaining('eve') })]);
    },
  );

  it.each<[string, Partial<Question>, CallingClient['capabilities']['elicitation']]>([
    ['a form', { kind: 'approval' }, { url: {} }],
    ['an address', { kind: 'auth', data: { url: 'https://a.test' } }, { form: {} }],
  ])('is nothing where it cannot show %s', async (_, question, elicitation) => {
    const result = accept({ approved: true });
    const said = await answersTo({ questions: [question], result, ...(elicitation && { elicitation }) });
    expect(said).toEqual({ answers: undefined, asked: [] });
  });

  it('is nothing where nothing is asked', async () => {
    expect(await answersTo({ questions: [], result: accept({}) })).toEqual({ answers: undefined, asked: [] });
  });
});
