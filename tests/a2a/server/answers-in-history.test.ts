import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Message, Part, Task } from '@a2a-js/sdk';
import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore, type LLMProvider } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { LmdbStateStore } from 'millrace/lmdb';
import { plainTools } from '../../core/plain-tools.ts';
import { reach, wires } from '../../security/reach.ts';
import { a2aBench, call, send } from '../bench.ts';
import { data, isTask, message, request, text, textOfPart } from '../messages.ts';
import { serverBench } from './test-server.ts';

const on = serverBench();

const questions = 3;

/** Has the tool ask once in each iteration. */
const asking: LLMProvider = {
  async call({ messages }) {
    const results = messages.filter(({ role }) => role === 'tool').length;
    if (results >= questions) return { message: { role: 'assistant', content: 'Done.' } };
    const call = { id: `c${results}`, type: 'function' as const, function: { name: 'more', arguments: '{}' } };
    return { message: { role: 'assistant', content: null, toolCalls: [call] } };
  },
};
const more = plainTools({ more: ({ ask }) => String(ask({ prompt: 'More?' })) });

const ofUser = ({ history }: Task) => history.filter(({ role }) => role === 1);
const received = ({ messageId, parts, metadata, extensions }: Message) => ({ messageId, parts, metadata, extensions });

describe.each(wires)('over %s of A2A %s', (...way) => {
  // CORE-HIST-005 of the conformance suite: the texts of the answers to a task that waited are in its history in the order in which they were
  // sent. CORE-HIST-006: each of them is there as it was sent.
  it('P-15 the history of a task shows its answers as they were sent, in order, also after a restart', async () => {
    const path = await mkdtemp(join(tmpdir(), 'answers-'));
    on.after(() => rm(path, { recursive: true, force: true }));
    const open = async () => {
      const taskStateStore = new LmdbStateStore({ path });
      const agent = on.echo([], { provider: asking, taskStateStore, toolProviders: [more] });
      const { url, server } = await on.serve({ agent, grpc: { port: 0 } });
      const { client, options } = await reach(url, way);
      return {
        async sent(each: Message): Promise<Task> {
          const task = await client.sendMessage({ ...request(each), configuration: undefined }, options);
          if (!isTask(task)) throw new Error('no task');
          return task;
        },
        get: (id: string) => client.getTask({ tenant: '', id, historyLength: 10 }, options),
        close: () => server.close().then(() => taskStateStore.close()),
      };
    };
    const about = { metadata: { from: 'a form' }, extensions: ['urn:example:form'] };
    const first = await open();
    const begun = await first.sent(message('Begin', about));
    expect(begun.status?.state).toBe(6);
    const answers = ['history message 1', 'history message 2', 'complete'].map((words) =>
      message([text(words)], { taskId: begun.id, ...about }),
    );
    const [one, two, three] = answers as [Message, Message, Message];
    expect((await first.sent(one)).status?.state).toBe(6);
    await first.close();

    const second = await open();
    on.after(second.close);
    expect((await second.sent(two)).status?.state).toBe(6);
    const done = await second.sent(three);
    expect(done.status?.state).toBe(3);
    for (const task of [done, await second.get(begun.id)]) {
      expect(ofUser(task).map(received).slice(1)).toEqual(answers.map(received));
      expect(ofUser(task).flatMap(({ parts }) => parts.map(textOfPart))).toEqual([
        'Begin',
        'history message 1',
        'history message 2',
        'complete',
      ]);
      expect(task.history.map(({ role }) => role)).toEqual([1, 2, 1, 2, 1, 2, 1, 2]);
    }
  });
});

describe('an answer in the history', () => {
  const refund = { needsApproval: true, execute: () => 'refunded' };
  const twice = (store = new InMemoryStateStore(), calls = 2) =>
    a2aBench({
      steps: [{ toolCalls: Array.from({ length: calls }, () => ({ name: 'refund' })) }, { text: 'Done.' }],
      store,
      agent: { toolProviders: [plainTools({ refund })] },
    });
  const yes = { approved: true };

  it('P-15 is one message, with what was said besides, however many questions it answers', async () => {
    const { handler, model } = twice();
    const { id: taskId } = await send(handler, 'Refund both');
    const form: Part = { ...data({ answers: { '1:0': yes, '1:1': yes } }), metadata: { form: 7 }, filename: 'form' };
    const answer = message([form, text('Be quick.')], { taskId, metadata: { a: 1 }, extensions: ['urn:x'] });
    const task = await send(handler, { ...answer, referenceTaskIds: ['another'] });
    expect(task.status?.state).toBe(3);
    expect(ofUser(task).slice(1)).toEqual([{ ...answer, contextId: task.contextId, referenceTaskIds: ['another'] }]);
    expect(JSON.stringify(model.calls[1]?.messages)).toContain('Be quick.');
    expect(JSON.stringify(model.calls[1]?.messages)).not.toContain('"form"');
  });

  it('P-15 is that of each of two messages, of which one came while the other was worked on', async () => {
    const { handler } = twice();
    const { id: taskId } = await send(handler, 'Refund both');
    const answers = ['1:0', '1:1'].map((id) => message([data({ answers: { [id]: yes } })], { taskId }));
    for (const answer of answers) await send(handler, answer);
    const task = await send(handler, answers[1] ?? '');
    expect(ofUser(task).slice(1).map(received)).toEqual(answers.map(received));
  });

  it('P-15 is a data part where its message was not kept', async () => {
    const store = new InMemoryStateStore();
    const { handler } = twice(store);
    const { id: taskId } = await send(handler, 'Refund both');
    const commandId = (questionId: string) => `a2a/${questionId}/old`;
    await AgentLoop.answer(taskId, { store, answers: { '1:0': yes, '1:1': yes }, commandId });
    const { history } = await handler.getTask({ tenant: '', id: taskId, historyLength: 1 }, call());
    expect(history).toMatchObject([
      {
        messageId: 'old',
        parts: [
          { content: { value: { answers: { '1:0': yes } } } },
          { content: { value: { answers: { '1:1': yes } } } },
        ],
      },
    ]);
    const again = message([data({ answers: { '1:0': yes, '1:1': yes } })], { taskId, messageId: 'old' });
    expect((await send(handler, again)).status?.state).toBe(3);
  });

  it('P-15 has the form in which extensions let its message in', async () => {
    const { handler } = a2aBench({
      steps: [{ toolCalls: [{ name: 'more' }] }, { text: 'Done.' }],
      agent: {
        toolProviders: [more],
        extensions: [
          { name: 'discreet', beforeMessage: (each) => JSON.parse(JSON.stringify(each).replaceAll('4711', '***')) },
        ],
      },
    });
    const { id: taskId } = await send(handler, 'Begin');
    const task = await send(handler, message('My pin is 4711.', { taskId }));
    expect(ofUser(task).at(-1)?.parts.map(textOfPart)).toEqual(['My pin is ***.']);
  });

  it('completes a message whose receiver died between two of its answers, when it comes again', async () => {
    class Failing extends InMemoryStateStore {
      fails = true;
      override post(...args: Parameters<InMemoryStateStore['post']>) {
        const [, command] = args;
        if (!this.fails || command.type !== 'answer' || command.questionId !== '1:1') return super.post(...args);
        this.fails = false;
        throw new Error('away');
      }
    }
    const store = new Failing();
    const { handler } = twice(store, 3);
    const { id: taskId } = await send(handler, 'Refund all');
    const answer = message([data({ answers: { '1:0': yes, '1:1': yes } })], { taskId });
    await expect(send(handler, answer)).rejects.toThrow();
    const other = message([data({ answers: { '1:2': yes } })], { taskId });
    expect((await send(handler, other)).status?.state).toBe(6);
    expect(store.read(taskId).filter(({ type }) => type === 'turn.answered')).toHaveLength(2);
    const task = await send(handler, answer);
    expect(task.status?.state).toBe(3);
    expect(ofUser(task).slice(1).map(received)).toEqual([other, answer].map(received));
  });
});
