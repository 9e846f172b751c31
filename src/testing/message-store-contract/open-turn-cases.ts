import assert from 'node:assert/strict';
import { type MessageCases, turnOf } from './message-case.ts';

export const openTurnCases: MessageCases = {
  name: 'open turns',
  cases: [
    {
      title: 'a turn that was begun is open until its messages come',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        assert.equal(await store.begin(contextId, 't'), 'open');
        const begun = await peer.load(contextId);
        assert.deepEqual(begun.openTurns, ['t']);
        assert.equal(begun.total, 0);
        await peer.append(contextId, 't', turnOf('said'));
        const settled = await store.load(contextId);
        assert.deepEqual(settled.openTurns, []);
        assert.deepEqual(settled.messages, turnOf('said'));
      },
    },
    {
      title: 'open turns come in the order they were begun, each once, also where it is begun again',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        for (const taskId of ['z', 'a', 'm', 'z', 'a']) {
          assert.equal(await (taskId === 'a' ? peer : store).begin(contextId, taskId), 'open');
        }
        assert.deepEqual((await store.load(contextId)).openTurns, ['z', 'a', 'm']);
        await store.append(contextId, 'a', turnOf('a'));
        assert.deepEqual((await peer.load(contextId)).openTurns, ['z', 'm']);
      },
    },
    {
      title: 'a turn whose messages are here is saved: begun again it is not open',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await store.append(contextId, 't', turnOf('said'));
        assert.equal(await peer.begin(contextId, 't'), 'saved');
        assert.deepEqual((await store.load(contextId)).openTurns, []);
      },
    },
    {
      title: 'an empty list settles a turn that said nothing',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await store.begin(contextId, 't');
        assert.deepEqual(await peer.append(contextId, 't', []), { appended: true });
        assert.equal(await store.begin(contextId, 't'), 'saved');
        const { openTurns, total } = await store.load(contextId);
        assert.deepEqual({ openTurns, total }, { openTurns: [], total: 0 });
      },
    },
    {
      title: 'open turns are of one context: the same task id in another is another turn',
      async run({ store, newContextId }) {
        const [first, second] = [newContextId(), newContextId()];
        await store.begin(first, 't');
        await store.begin(second, 't');
        await store.append(first, 't', turnOf('first'));
        assert.deepEqual((await store.load(second)).openTurns, ['t']);
        assert.deepEqual(await store.append(second, 't', turnOf('second')), { appended: true });
      },
    },
    {
      title: 'a turn that is begun and appended at once is settled in the end',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await Promise.all([
          ...['1', '2', '3', '4'].map(async (taskId) => store.begin(contextId, taskId)),
          ...['1', '2', '3', '4'].map(async (taskId) => peer.append(contextId, taskId, turnOf(taskId))),
        ]);
        const { openTurns, total } = await store.load(contextId);
        assert.deepEqual({ openTurns, total }, { openTurns: [], total: 8 });
      },
    },
  ],
};
