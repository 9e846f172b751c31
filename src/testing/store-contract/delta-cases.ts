import assert from 'node:assert/strict';
import type { Delta, FollowSignal } from '../../core/contracts/index.ts';
import { type Reading, watch } from '../contract/define-contract.ts';
import {
  beginHeld,
  type ContractGroup,
  done,
  expire,
  llmAnswer,
  llmStart,
  note,
  type StoreUnderTest,
  takeOver,
  textDelta,
  upTo,
} from './journal-fixture.ts';

type Following = Reading<FollowSignal>;

export const deltaCases: ContractGroup = {
  name: 'deltas',
  cases: [
    {
      title: 'the text of an attempt reaches a reader whole, between its llm.start and its llm.done',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const follower = follow(subject, taskId);
        await owner.append(llmStart(1));
        for (const word of ['One ', 'two ', 'three.']) publish(subject, taskId, textDelta(owner.lease.epoch, word));
        await shows(follower, 'One two three.');
        await owner.append(llmAnswer(1, 'One two three.'), done);
        await completes(follower);
        const order = follower.values.map((signal) => (signal.type === 'record' ? signal.record.type : 'delta'));
        const firstDelta = order.indexOf('delta');
        const lastDelta = order.lastIndexOf('delta');
        assert(order.indexOf('llm.start') < firstDelta && lastDelta < order.indexOf('llm.done'), order.join(' '));
        assert.equal(textOf(follower), 'One two three.');
      },
    },
    {
      title: 'who joins in the middle of an attempt first gets its text so far as one chunk, then what follows',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.append(llmStart(1));
        const witness = follow(subject, taskId);
        const words = upTo(50).map((number) => `${number} `);
        for (const word of words) publish(subject, taskId, textDelta(owner.lease.epoch, word));
        await shows(witness, words.join(''));
        const late = follow(subject, taskId);
        await shows(late, words.join(''));
        assert.deepEqual(deltas(late).map(textIn), [words.join('')]);
        publish(subject, taskId, textDelta(owner.lease.epoch, 'and on'));
        await shows(late, `${words.join('')}and on`);
        assert.deepEqual(deltas(late).map(textIn), [words.join(''), 'and on']);
      },
    },
    {
      title: 'a new llm.start voids the text so far for who joins after it',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const { epoch } = owner.lease;
        await owner.append(llmStart(1));
        const witness = follow(subject, taskId);
        publish(subject, taskId, textDelta(epoch, 'discarded'));
        await shows(witness, 'discarded');
        await owner.append(llmStart(1, 2));
        publish(subject, taskId, textDelta(epoch, 'second try', 2));
        const late = follow(subject, taskId);
        await shows(late, 'second try');
      },
    },
    {
      title: 'a void chunk discards the text so far for who joins after it',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const { epoch } = owner.lease;
        await owner.append(llmStart(1));
        const witness = follow(subject, taskId);
        publish(subject, taskId, textDelta(epoch, 'discarded'));
        await shows(witness, 'discarded');
        publish(subject, taskId, {
          ...attempt(epoch),
          chunk: { type: 'attempt', state: 'void', reason: 'overloaded' },
        });
        publish(subject, taskId, { ...attempt(epoch), chunk: { type: 'attempt', state: 'begin' } });
        publish(subject, taskId, textDelta(epoch, 'second try'));
        await shows(witness, 'discardedsecond try');
        const late = follow(subject, taskId);
        await shows(late, 'second try');
        const states = deltas(witness).flatMap(({ chunk }) => (chunk.type === 'attempt' ? [chunk.state] : []));
        assert.equal(states[0], 'void');
      },
    },
    {
      title: 'after llm.done nobody gets the text of the attempt again',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.append(llmStart(1));
        publish(subject, taskId, textDelta(owner.lease.epoch, 'streamed'));
        await owner.append(llmAnswer(1, 'streamed'));
        const late = follow(subject, taskId);
        await owner.append(done);
        await completes(late);
        assert.deepEqual(deltas(late), []);
      },
    },
    {
      title: 'deltas of an owner that was overtaken are not shown',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        await owner.append(llmStart(1));
        const witness = follow(subject, taskId);
        publish(subject, taskId, textDelta(owner.lease.epoch, 'old'));
        await shows(witness, 'old');
        await expire(subject);
        const next = await takeOver(subject, taskId);
        const between = follow(subject, taskId);
        await next.append(llmStart(1, 2));
        publish(subject, taskId, textDelta(owner.lease.epoch, 'too late'));
        publish(subject, taskId, textDelta(next.lease.epoch, 'new', 2));
        await shows(witness, 'oldnew');
        const late = follow(subject, taskId);
        await shows(late, 'new');
        publish(subject, taskId, textDelta(owner.lease.epoch, 'too late'));
        await next.append(llmAnswer(1, 'new'), done);
        await Promise.all([witness, between, late].map(completes));
        assert.equal(textOf(witness), 'oldnew');
        assert.equal(textOf(between), 'new');
        assert.equal(textOf(late), 'new');
      },
    },
    {
      title: 'publish never fails: without readers, without a task, after the end, and of every kind',
      async run(subject) {
        const { taskId, owner } = await beginHeld(subject);
        const { epoch } = owner.lease;
        await owner.append(llmStart(1));
        const kinds: readonly Delta[] = [
          textDelta(epoch, 'text'),
          { ...attempt(epoch), chunk: { type: 'reasoning', text: 'thinking' } },
          {
            ...attempt(epoch),
            chunk: { type: 'tool-call', index: 0, id: 'call_1', name: 'count', arguments: '{"of"' },
          },
          { ...attempt(epoch), chunk: { type: 'attempt', state: 'begin' } },
          { type: 'tool-progress', epoch, callId: '1:0', update: { percent: 50 } },
        ];
        const nowhere = subject.newTaskId();
        for (const delta of kinds) {
          publish(subject, taskId, delta);
          publish(subject, nowhere, delta);
        }
        await owner.append(note('between'), done);
        for (const delta of kinds) publish(subject, taskId, delta);
        assert.equal(await subject.store.load(nowhere), null);
      },
    },
  ],
};

function publish(subject: StoreUnderTest, taskId: string, delta: Delta): void {
  assert.equal(subject.store.publish(taskId, delta), undefined);
}

function attempt(epoch: number) {
  return { type: 'llm', epoch, iteration: 1, attempt: 1 } as const;
}

function follow(subject: StoreUnderTest, taskId: string): Following {
  return watch(subject.peer.follow(taskId), subject);
}

function deltas(follower: Following): readonly Extract<Delta, { type: 'llm' }>[] {
  return follower.values.flatMap((signal) =>
    signal.type === 'delta' && signal.delta.type === 'llm' ? [signal.delta] : [],
  );
}

function textIn({ chunk }: Extract<Delta, { type: 'llm' }>): string {
  return chunk.type === 'text' ? chunk.text : '';
}

function textOf(follower: Following): string {
  return deltas(follower).map(textIn).join('');
}

/** Waits until the text that a reader was shown is `text`, and nothing else. */
async function shows(follower: Following, text: string): Promise<void> {
  await follower.until(`the text "${text}"`, () => textOf(follower).length >= text.length);
  assert.equal(textOf(follower), text);
}

function completes(follower: Following): Promise<void> {
  return follower.until('the stream to complete', ({ completed }) => completed);
}
