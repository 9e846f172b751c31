import assert from 'node:assert/strict';
import { refuses } from '../store-contract/expectations.ts';
import { type MessageCases, turnOf } from './message-case.ts';

export const agentCases: MessageCases = {
  name: 'the agent that answers next',
  cases: [
    {
      title: 'append writes the agent with the messages, and one that names none leaves it',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        assert.deepEqual(await store.append(contextId, 'one', turnOf('one')), { appended: true });
        assert.equal('agentId' in (await peer.load(contextId)), false);
        await store.append(contextId, 'two', turnOf('two'), { agentId: 'billing' });
        const { agentId, total, version } = await peer.load(contextId, { limit: 1 });
        assert.deepEqual({ agentId, total, version }, { agentId: 'billing', total: 4, version: 0 });
        await peer.append(contextId, 'three', turnOf('three'), {});
        await peer.setMetadata(contextId, { a: 1 });
        await peer.begin(contextId, 'four');
        assert.equal((await store.load(contextId)).agentId, 'billing');
        await store.append(contextId, 'four', [], { agentId: 'Übersetzer 🐘' });
        assert.equal((await peer.load(contextId)).agentId, 'Übersetzer 🐘');
      },
    },
    {
      title: 'a turn that is saved again changes neither messages nor agent',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        await store.append(contextId, 'one', turnOf('one'), { agentId: 'billing' });
        await store.append(contextId, 'two', turnOf('two'), { agentId: 'support' });
        assert.deepEqual(await peer.append(contextId, 'one', turnOf('one'), { agentId: 'billing' }), {
          appended: false,
        });
        assert.equal((await store.load(contextId)).agentId, 'support');
      },
    },
    {
      title: 'of several that save a turn at once, the one that appends its messages writes its agent',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const names = ['a', 'b', 'c', 'd', 'e', 'f'];
        const save = async (name: string, index: number) =>
          (index % 2 ? store : peer).append(contextId, 't', turnOf(name), { agentId: name });
        const answers = await Promise.all(names.map(save));
        const [winner] = names.filter((_, index) => answers[index]?.appended);
        const { agentId, messages } = await store.load(contextId);
        assert.equal(agentId, winner);
        assert.deepEqual(messages, turnOf(winner ?? ''));
      },
    },
    {
      title: 'setAgent sets the agent of its context alone, also of a new one, until delete',
      async run({ store, peer, newContextId }) {
        const [contextId, other] = [newContextId(), newContextId()];
        await store.setAgent(contextId, 'billing');
        assert.deepEqual(await peer.load(contextId), {
          contextId,
          messages: [],
          from: 0,
          total: 0,
          metadata: {},
          version: 0,
          agentId: 'billing',
          openTurns: [],
        });
        assert.equal('agentId' in (await peer.load(other)), false);
        const { contexts } = await peer.contexts();
        assert.deepEqual(
          contexts.map((context) => context.contextId),
          [contextId],
        );
        await peer.append(contextId, 't', turnOf('said'));
        await peer.setAgent(contextId, 'support');
        assert.equal((await store.load(contextId)).agentId, 'support');
        await store.delete(contextId);
        assert.equal('agentId' in (await peer.load(contextId)), false);
      },
    },
    {
      title: 'an agent id that is empty, too long or no string is refused as INVALID_INPUT and writes nothing',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        const bad: readonly string[] = JSON.parse(JSON.stringify(['', 'x'.repeat(257), 7, null, {}]));
        for (const agentId of bad) {
          await refuses('INVALID_INPUT', () => store.append(contextId, 't', turnOf('said'), { agentId }));
          await refuses('INVALID_INPUT', () => store.setAgent(contextId, agentId));
        }
        await refuses('INVALID_INPUT', () => store.setAgent('a b', 'billing'));
        assert.deepEqual(await store.contexts(), { contexts: [] });
        const longest = 'x'.repeat(256);
        await store.setAgent(contextId, longest);
        assert.equal((await store.load(contextId)).agentId, longest);
      },
    },
  ],
};
