import assert from 'node:assert/strict';
import type { Command } from '../../core/contracts/index.ts';
import { type Reading, refuses, watch } from '../contract/define-contract.ts';
import {
  begin,
  beginHeld,
  type ContractGroup,
  done,
  expire,
  note,
  type StoreUnderTest,
  takeOver,
  upTo,
} from './journal-fixture.ts';

const everyKind: readonly Command[] = [
  { id: 'c1', type: 'steer', message: { role: 'user', content: 'be brief 😀' } },
  { id: 'c2', type: 'pause', reason: 'lunch' },
  { id: 'c3', type: 'steer', message: { role: 'user', content: [{ type: 'text', text: 'and in parts' }] } },
  {
    id: 'c4',
    type: 'answer',
    questionId: '1:0.2',
    answer: { approved: true, by: ['Ann', null] },
    message: { role: 'user', id: 'm', content: 'Yes.' },
  },
  { id: 'c5', type: 'cancel', reason: 'changed my mind' },
];

export const commandCases: ContractGroup = {
  name: 'commands',
  cases: [
    {
      title: 'those posted before come first, then those posted later, in order and unchanged',
      async run(subject) {
        const { taskId } = await beginHeld(subject);
        for (const command of everyKind.slice(0, 2)) await subject.peer.post(taskId, command);
        const owner = listen(subject, taskId);
        await receives(owner, 2);
        for (const command of everyKind.slice(2)) await subject.peer.post(taskId, command);
        await receives(owner, everyKind.length);
        assert.deepEqual(owner.values, everyKind);
        assert.equal(owner.completed, false);
      },
    },
    {
      title: 'the same id again does nothing, before and after somebody listens',
      async run(subject) {
        const taskId = await begin(subject);
        await subject.peer.post(taskId, pause('a', 'first'));
        await subject.store.post(taskId, pause('a', 'again'));
        const owner = listen(subject, taskId);
        await subject.peer.post(taskId, pause('b', 'second'));
        await subject.peer.post(taskId, pause('a', 'once more'));
        await Promise.all(upTo(5).map(async () => subject.peer.post(taskId, pause('c', 'third'))));
        await subject.peer.post(taskId, pause('d', 'last'));
        await receives(owner, 4);
        assert.deepEqual(owner.values, [
          pause('a', 'first'),
          pause('b', 'second'),
          pause('c', 'third'),
          pause('d', 'last'),
        ]);
      },
    },
    {
      title: 'post gives the command that stands under the id, also where another one was posted first',
      async run(subject) {
        const { taskId } = await beginHeld(subject);
        for (const command of everyKind) assert.deepEqual(await subject.peer.post(taskId, command), command);
        for (const command of everyKind) {
          assert.deepEqual(await subject.store.post(taskId, pause(command.id, 'again')), command);
        }
      },
    },
    {
      title: 'of many that come at once no more stand than `most` says; one that stands can still be posted again',
      async run(subject) {
        const { taskId } = await beginHeld(subject);
        const posted = await Promise.all(
          upTo(9).map(async (number) => subject.peer.post(taskId, pause(`c${number}`, 'burst'), { most: 4 })),
        );
        const standing = posted.filter((command) => command !== undefined);
        assert.equal(standing.length, 4);
        const owner = listen(subject, taskId);
        await receives(owner, 4);
        assert.deepEqual(owner.values.map(({ id }) => id).sort(), standing.map(({ id }) => id).sort());
        const [first] = standing;
        assert.deepEqual(await subject.store.post(taskId, pause(first?.id ?? '', 'again'), { most: 1 }), first);
        assert.equal(await subject.store.post(taskId, pause('x', 'too many'), { most: 4 }), undefined);
        assert.deepEqual(await subject.store.post(taskId, pause('x', 'one more'), { most: 5 }), pause('x', 'one more'));
      },
    },
    {
      title: 'need no lease, and reach whoever owns the turn later',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const first = listen(subject, taskId);
        await subject.peer.post(taskId, pause('a', 'for the first'));
        await receives(first, 1);
        first.stop();
        await expire(subject);
        await takeOver(subject, taskId);
        await subject.store.post(taskId, pause('b', 'for the second'));
        const second = watch(subject.peer.commands(taskId), subject);
        await receives(second, 2);
        assert.deepEqual(idsOf(second), ['a', 'b']);
        await refuses('FENCED', () => owner.append(note('overtaken')));
      },
    },
    {
      title: 'a burst arrives whole and in order, whenever one listens',
      async run(subject) {
        const { taskId } = await beginHeld(subject);
        const owners: Reading<Command>[] = [];
        for (const number of upTo(40)) {
          if (number % 10 === 0) owners.push(listen(subject, taskId));
          await subject.peer.post(taskId, pause(`c${number}`, 'burst'));
        }
        const ids = upTo(40).map((number) => `c${number}`);
        for (const owner of owners) {
          await receives(owner, 40);
          assert.deepEqual(idsOf(owner), ids);
        }
      },
    },
    {
      title: 'may be posted from inside a handler',
      async run(subject) {
        const { taskId } = await beginHeld(subject);
        const posts: unknown[] = [];
        const owner = watch(subject.store.commands(taskId), {
          deadlineMs: subject.deadlineMs,
          onValue: ({ id }) => {
            if (id.length < 5) posts.push(subject.store.post(taskId, pause(`${id}x`, 'follow-up')));
          },
        });
        const other = listen(subject, taskId);
        await subject.peer.post(taskId, pause('x', 'first'));
        await Promise.all([owner, other].map((reading) => receives(reading, 5)));
        await Promise.all(posts);
        assert.deepEqual(idsOf(owner), ['x', 'xx', 'xxx', 'xxxx', 'xxxxx']);
        assert.deepEqual(idsOf(other), idsOf(owner));
      },
    },
    {
      title: 'who stopped listening gets nothing more',
      async run(subject) {
        const { taskId } = await beginHeld(subject);
        const gone = listen(subject, taskId);
        const stays = listen(subject, taskId);
        await subject.peer.post(taskId, pause('a', 'for both'));
        await Promise.all([gone, stays].map((reading) => receives(reading, 1)));
        gone.stop();
        await subject.peer.post(taskId, pause('b', 'for one'));
        await receives(stays, 2);
        assert.deepEqual(idsOf(gone), ['a']);
      },
    },
    {
      title: 'of one task say nothing to another',
      async run(subject) {
        const [here, elsewhere] = [await begin(subject), await begin(subject)];
        await subject.store.post(elsewhere, pause('a', 'elsewhere'));
        await subject.store.post(here, pause('a', 'here'));
        const owner = listen(subject, here);
        await receives(owner, 1);
        assert.deepEqual(owner.values, [pause('a', 'here')]);
      },
    },
    {
      title: 'where there is no task, post says NOT_FOUND; where the turn has ended, TERMINAL',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const missing = subject.newTaskId();
        await refuses('NOT_FOUND', () => subject.store.post(missing, pause('a', 'nowhere')));
        assert.equal(await subject.store.load(missing), null);
        await owner.append(done);
        await refuses('TERMINAL', () => subject.store.post(taskId, pause('a', 'too late')));
      },
    },
  ],
};

function pause(id: string, reason: string): Command {
  return { id, type: 'pause', reason };
}

function listen(subject: StoreUnderTest, taskId: string): Reading<Command> {
  return watch(subject.store.commands(taskId), subject);
}

function idsOf(reading: Reading<Command>): readonly string[] {
  return reading.values.map((command) => command.id);
}

function receives(reading: Reading<Command>, count: number): Promise<void> {
  return reading.until(`${count} commands`, ({ values }) => values.length >= count);
}
