import assert from 'node:assert/strict';
import { gate } from 'millrace/testing';
import { plainTools } from '../../core/plain-tools.ts';
import { a2aBench, call, refusal, send } from '../bench.ts';
import { artifactText, data, message, request, text } from '../messages.ts';
import type { Rule } from './rule.ts';

const deep: unknown = JSON.parse(`${'['.repeat(20_000)}${']'.repeat(20_000)}`);
const many = Object.fromEntries(Array.from({ length: 20_001 }, (_, index) => [`key-${index}`, index]));
const says = () => ({ text: 'Hi.' });
const refund = plainTools({ refund: { needsApproval: true, execute: () => 'refunded' } });
const signIn = plainTools({ login: ({ ask }) => ask({ kind: 'auth' }) });
const asking = (name: string, toolProvider = refund) =>
  a2aBench({ steps: [{ toolCalls: [{ name }] }, { text: 'Done.' }], agent: { toolProviders: [toolProvider] } });

export const sendRules: readonly Rule[] = [
  {
    where: '1.0 §3.2.2',
    must: 'a message that is not to return immediately MUST wait until the task is over, and give its artifacts',
    async check() {
      const model = gate();
      const { handler } = a2aBench({ steps: [() => ({ gate: model.pass(), text: 'Hi.' })] });
      const sent = send(handler, 'Hi');
      await model.reached;
      model.open();
      const task = await sent;
      assert.equal(task.status?.state, 3);
      assert.equal(artifactText(task, 'answer-1'), 'Hi.');
    },
  },
  {
    where: '1.0 §3.2.2',
    must: 'a message that is not to return immediately MUST wait no longer than until the task needs input',
    async check() {
      assert.equal((await send(asking('refund').handler, 'Refund')).status?.state, 6);
    },
  },
  {
    where: '1.0 §3.2.2',
    must: 'a message that is not to return immediately MUST wait no longer than until the task needs a login',
    async check() {
      assert.equal((await send(asking('login', signIn).handler, 'Log in')).status?.state, 8);
    },
  },
  {
    where: '1.0 §3.2.2',
    must: 'a message that is to return immediately MUST return as soon as there is a task',
    async check() {
      const model = gate();
      const { handler } = a2aBench({ steps: [() => ({ gate: model.pass(), text: 'Hi.' })] });
      const task = await send(handler, 'Hi', { returnImmediately: true });
      assert.ok(task.status?.state === 1 || task.status?.state === 2);
      model.open();
    },
  },
  {
    where: '1.0 §3.4.1',
    must: 'a message without a context MUST get a new one, which the task names',
    async check() {
      const { handler } = a2aBench({ steps: [says, says] });
      const [one, two] = [await send(handler, 'Hi'), await send(handler, 'Hi')];
      assert.ok(one.contextId !== '' && two.contextId !== '' && one.contextId !== two.contextId);
    },
  },
  {
    where: '1.0 §3.4.1',
    must: 'the context that a client names MUST be accepted and preserved',
    async check() {
      const { handler } = a2aBench({ steps: [says] });
      assert.equal((await send(handler, message('Hi', { contextId: 'my context' }))).contextId, 'my context');
    },
  },
  {
    where: '1.0 §3.4.2',
    must: 'the context of a message that names only its task MUST be inferred',
    async check() {
      const { handler } = asking('refund');
      const { id, contextId } = await send(handler, 'Refund');
      const done = await send(handler, message([data({ approved: true })], { taskId: id }));
      assert.equal(done.contextId, contextId);
      assert.ok(done.history.every((each) => each.contextId === contextId && each.taskId === id));
    },
  },
  {
    where: '1.0 §3.4.2',
    must: 'a message MUST be rejected whose context is not that of its task',
    async check() {
      const { handler } = asking('refund');
      const { id } = await send(handler, 'Refund');
      const stray = message([data({ approved: true })], { taskId: id, contextId: 'another' });
      assert.match(await refusal(send(handler, stray)), /^RequestMalformedError: message\.contextId/);
    },
  },
  {
    where: '1.0 §3.4.3',
    must: 'a message to a task that there is not MUST be answered with TaskNotFound, and start none',
    async check() {
      const { handler, model } = a2aBench({ steps: [says] });
      for (const taskId of [crypto.randomUUID(), 'not a task id!', '../../etc'])
        assert.match(await refusal(send(handler, message('Hi', { taskId }))), /^TaskNotFoundError/);
      assert.equal(model.calls.length, 0);
    },
  },
  ...(['send', 'stream'] as const).map(
    (how): Rule => ({
      where: '1.0 §3.1.1',
      must: `a task that is over MUST take no more messages (${how})`,
      async check() {
        const { handler } = a2aBench({ steps: [says] });
        const { id } = await send(handler, 'Hi');
        const more = message('More', { taskId: id });
        const work = how === 'send' ? send(handler, more) : handler.sendMessageStream(request(more), call());
        assert.match(await refusal(work), /^UnsupportedOperationError/);
        assert.equal((await handler.getTask({ tenant: '', id }, call())).history.length, 2);
      },
    }),
  ),
  {
    where: '1.0 §3.3.1',
    must: 'a message that comes twice starts one task, also at the same time, and in a stream',
    async check() {
      const { handler, model } = a2aBench({ steps: [says] });
      const same = message('Hi');
      const [one, two] = await Promise.all([send(handler, same), send(handler, same)]);
      assert.equal(one.id, two.id);
      const first = await handler.sendMessageStream(request(same), call()).next();
      assert.deepEqual(first.value?.payload?.value, await send(handler, same));
      assert.equal(model.calls.length, 1);
    },
  },
  ...[
    ['no message', undefined, 'message is required'],
    ['no id', message('Hi', { messageId: ' ' }), 'message.messageId is required'],
    ['no parts', message([]), 'message.parts must hold at least one part'],
    ['a part without a content', message([{ ...text(''), content: undefined }]), 'Each part needs a content'],
    ['the role of the agent', message('Hi', { role: 2 }), 'message.role must be ROLE_USER'],
    ['an unknown role', message('Hi', { role: -1 }), 'message.role must be ROLE_USER'],
    ['a very long id', message('Hi', { messageId: 'x'.repeat(257) }), 'message.messageId must have at most 256'],
    [
      'an id that ends a line',
      message('Hi', { messageId: 'm\n1' }),
      'message.messageId must not have control characters',
    ],
    ['a context that steers a terminal', message('Hi', { contextId: '\u001b[2J' }), 'message.contextId must not have'],
    ['half a character as a context', message('Hi', { contextId: 'c\ud800' }), 'message.contextId must not have'],
    ['half a character as a task', message('Hi', { taskId: '\udc00t' }), 'message.taskId must not have'],
    [
      'half a character as a reference',
      message('Hi', { referenceTaskIds: ['\ud800'] }),
      'message.referenceTaskIds must',
    ],
    ['metadata with too many members', message('Hi', { metadata: many }), 'The message has more than 20000 values'],
    ['data with too many values', message([data(Object.values(many))]), 'The message has more than 20000 values'],
    ['too many parts', message(Array.from({ length: 101 }, () => text('x'))), 'message.parts must hold at most 100'],
    ['data that is nested too deeply', message([data(deep)]), 'The message nests deeper than'],
    ['a size beyond the limit', message('x'.repeat(11 * 1024 * 1024)), 'The message is larger than'],
  ].map(
    ([what, sent, words]): Rule => ({
      where: '1.0 §3.3.2',
      must: `what is sent MUST be validated before it is processed: ${String(what)}`,
      async check() {
        const { handler, model } = a2aBench({ steps: [says] });
        const made = { ...request(message('')), message: typeof sent === 'object' ? sent : undefined };
        for (const work of [handler.sendMessage(made, call()), handler.sendMessageStream(made, call())])
          assert.ok((await refusal(work)).startsWith(`RequestMalformedError: ${words}`));
        assert.equal(model.calls.length, 0);
      },
    }),
  ),
  {
    where: '1.0 §3.1.1',
    must: 'a media type that the agent does not take MUST be answered with ContentTypeNotSupported',
    async check() {
      const { handler } = a2aBench({ steps: [says] });
      const video = { ...text(''), content: { $case: 'raw' as const, value: Buffer.from('') }, mediaType: 'video/mp4' };
      assert.match(await refusal(send(handler, message([video]))), /^ContentTypeNotSupportedError: .*image\/\*/);
    },
  },
  ...(
    [
      [[], true],
      [['text/plain'], true],
      [['text/markdown', 'image/png'], true],
      [['Text/Plain; charset=utf-8'], true],
      [['text'], true],
      [['application/*'], true],
      [['*/*'], true],
      [['image/png'], false],
      [['image/*', 'video/mp4'], false],
    ] as const
  ).map(
    ([modes, isTaken]): Rule => ({
      where: '1.0 §3.2.2',
      must: `acceptedOutputModes SHOULD be respected: ${isTaken ? 'a turn for' : 'ContentTypeNotSupported for'} ${JSON.stringify(modes)}`,
      async check() {
        const { handler, model } = a2aBench({ steps: isTaken ? [says] : [] });
        const sent = send(handler, 'Hi', { acceptedOutputModes: [...modes] });
        if (isTaken) assert.equal((await sent).status?.state, 3);
        else assert.match(await refusal(sent), /^ContentTypeNotSupportedError: .*text\/plain, application\/json/);
        assert.equal(model.calls.length, isTaken ? 1 : 0);
      },
    }),
  ),
  {
    where: '1.0 §3.3.4',
    must: 'a client MUST declare the extensions that the card requires',
    async check() {
      const required = { uri: 'urn:x', description: '', required: true, params: undefined };
      const card = { capabilities: { streaming: true, extensions: [required] } };
      const { handler } = a2aBench({ steps: [says], card });
      assert.match(await refusal(send(handler, 'Hi')), /^ExtensionSupportRequiredError: .*urn:x/);
      assert.equal((await send(handler, 'Hi', { extensions: ['urn:x'] })).status?.state, 3);
    },
  },
];
