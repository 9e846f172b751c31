import { describe, expect, it } from '@jest/globals';
import { approvals, type Question, signApproval } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { LLMStep } from 'millrace/testing';
import type { ApprovalsOptions } from 'millrace/types';
import { question } from '../../core/dead-turn.ts';
import { plainTools } from '../../core/plain-tools.ts';
import { turnBench } from '../../core/turn-bench.ts';
import { watch } from '../../core/watch-events.ts';

const bench = turnBench();
const key = 'only the approver knows it';
const pays = (amount: number): LLMStep => ({ toolCalls: [{ name: 'pay', arguments: { amount } }] });
const done: LLMStep = { text: 'Paid.' };

/** Runs until nobody is asked any more, each time in a new process; gives the calls that were asked about and what ran. */
async function run(
  steps: readonly LLMStep[],
  options: ApprovalsOptions,
  answer: (question: Question) => unknown = () => ({ approved: true }),
) {
  const paid: unknown[] = [];
  const asked: string[] = [];
  const model = bench.model(steps);
  const config = () =>
    bench.config(model, {
      toolProviders: [
        plainTools({
          pay: ({ arguments: args }) => paid.push(args),
          look: { execute: () => 'seen', readOnly: true },
        }),
      ],
      extensions: [approvals(options)],
    });
  let result = await new AgentLoop(config()).startTurn(question, { taskId: 'order' }).result();
  while (result.status === 'input-required') {
    for (const { id } of result.questions) asked.push(id);
    const answers = Object.fromEntries(result.questions.map((each) => [each.id, answer(each)]));
    result = await AgentLoop.resume('order', config(), { answers }).result();
  }
  return { paid, asked, result };
}

describe('approvals', () => {
  it('ask about each call of a tool that is not read-only', async () => {
    const steps = [{ toolCalls: [{ name: 'look' }] }, pays(5), pays(5), done];
    expect(await run(steps, {})).toMatchObject({ asked: ['2:0', '3:0'], paid: [{ amount: 5 }, { amount: 5 }] });
  });

  it('ask once about a tool, and remember the answer over a crash', async () => {
    const { asked, paid } = await run([pays(5), pays(7), done], { policy: 'once' });
    expect({ asked, paid }).toEqual({ asked: ['1:0'], paid: [{ amount: 5 }, { amount: 7 }] });
  });

  it('ask once about equal arguments', async () => {
    const { asked } = await run([pays(5), pays(5), pays(7), done], { policy: 'same-arguments' });
    expect(asked).toEqual(['1:0', '3:0']);
  });

  it('do not take a no for a yes later', async () => {
    const { asked, paid } = await run([pays(5), pays(5), done], { policy: 'once' }, ({ id }) => ({
      approved: id !== '1:0',
    }));
    expect({ asked, paid }).toEqual({ asked: ['1:0', '2:0'], paid: [{ amount: 5 }] });
  });

  it('ask in their own words, about the tools that they name', async () => {
    const loop = bench.loop([pays(5)], {
      toolProviders: [plainTools({ pay: () => '' })],
      extensions: [approvals({ tools: ['p*'], prompt: ({ arguments: args }) => `Pay ${JSON.stringify(args)}?` })],
    });
    const { questions } = await loop.startTurn(question).result();
    expect(questions).toMatchObject([{ id: '1:0', prompt: 'Pay {"amount":5}?' }]);
  });
});

describe('approvals that have to be signed', () => {
  it('show no key in an error, though it is too short', () => {
    const message = 'approvals: signingKey must be a secret of at least 16 characters or bytes.';
    expect(() => approvals({ signingKey: 'hunter2' })).toThrow(expect.objectContaining({ message }));
  });

  const options = { signingKey: key, policy: 'once' } as const;
  const signed = (question: Question) => signApproval(key, { taskId: 'order', question, approved: true });

  it('count with the right signature', async () => {
    const { paid, asked } = await run([pays(5), pays(7), done], options, signed);
    expect({ paid, asked }).toEqual({ paid: [{ amount: 5 }, { amount: 7 }], asked: ['1:0'] });
  });

  it.each<[string, (question: Question) => unknown]>([
    ['none', () => ({ approved: true })],
    [
      'that of another key',
      (of) => signApproval('a key of somebody else', { taskId: 'order', question: of, approved: true }),
    ],
    ['that of another task', (of) => signApproval(key, { taskId: 'other', question: of, approved: true })],
    [
      'that of other arguments',
      (of) => signApproval(key, { taskId: 'order', question: { ...of, data: { amount: 1 } }, approved: true }),
    ],
    [
      'that of a no',
      (of) => ({ ...signApproval(key, { taskId: 'order', question: of, approved: false }), approved: true }),
    ],
  ])('deny the call with a wrong signature: %s', async (_, answer) => {
    const { paid, result } = await run([pays(5), done], options, answer);
    expect(paid).toEqual([]);
    expect(result.messages[1]).toMatchObject({
      role: 'tool',
      status: 'error',
      content: expect.stringContaining('not signed'),
    });
  });

  it('do not take a forged yes for a yes later', async () => {
    const { asked, paid } = await run([pays(5), pays(5), done], options, (each) =>
      each.id === '1:0' ? { approved: true } : signed(each),
    );
    expect({ asked, paid }).toEqual({ asked: ['1:0', '2:0'], paid: [{ amount: 5 }] });
  });

  it('are checked as well where the turn still runs when the answer comes', async () => {
    const paid: unknown[] = [];
    let free = () => {};
    const gate = new Promise<void>((resolve) => {
      free = resolve;
    });
    const toolProviders = [
      plainTools({ pay: () => paid.push(1), wait: { readOnly: true, execute: async () => gate } }),
    ];
    const steps = [{ toolCalls: [{ name: 'pay' }, { name: 'wait' }] }, done];
    const turn = bench.loop(steps, { toolProviders, extensions: [approvals(options)] }).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('internal:tool-start');
    await turn.answer('1:0', { approved: true });
    await watcher.until('internal:tool-complete', ({ callId }) => callId === '1:0');
    free();
    const result = await turn.result();
    expect(paid).toEqual([]);
    expect(result.messages[1]).toMatchObject({ content: expect.stringContaining('not signed') });
  });
});
