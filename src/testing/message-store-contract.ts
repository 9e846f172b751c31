import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { ContextSummary, MaybePromise, MessageStore } from '../core/contracts/index.ts';
import {
  type ContractRunner,
  defineContract,
  type NamedHarness,
  refuses,
  withPair,
} from './contract/define-contract.ts';
import { inputCases, listCases } from './message-store-contract/list-cases.ts';
import {
  type MessageCases,
  type MessageStoreUnderTest,
  openTurnCases,
  turnCases,
  turnOf,
} from './message-store-contract/turn-cases.ts';

/** How the suite gets at the store that it examines. */
export interface MessageStoreContractHarness extends NamedHarness {
  /** Called before each case; the store has to be empty. */
  createStore(): MaybePromise<MessageStore>;
  /** A second instance over the same data, as another process has it. Default: the same instance. */
  createPeer?(store: MessageStore): MaybePromise<MessageStore>;
  /** Called after each case, for the peer before the store. */
  dispose?(store: MessageStore): MaybePromise<void>;
}

/**
 * Defines the contract of `MessageStore` as tests of `runner`: what every store must do so that an agent neither forgets nor repeats a
 * turn. Each case gets its own, empty store. Titles are stable. Errors with `INVALID_CONFIG` where `deviations` names no case.
 */
export function messageStoreContract(harness: MessageStoreContractHarness, runner: ContractRunner): void {
  const examine = async (run: (subject: MessageStoreUnderTest) => Promise<void>): Promise<void> => {
    const newContextId = () => `context-${randomUUID()}`;
    await withPair(harness, await harness.createStore(), (pair) => run({ ...pair, newContextId }));
  };
  const groups = [turnCases, listCases, agentCases, openTurnCases, metadataCases, contextCases, inputCases];
  defineContract({ of: 'MessageStore', groups, examine }, harness, runner);
}

const agentCases: MessageCases = {
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

const metadataCases: MessageCases = {
  name: 'metadata',
  cases: [
    {
      title: 'metadata come back as they were given, and are replaced as a whole',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const metadata = { title: 'Elephants ä 🐘', tags: ['a'], nested: { n: 1.5, no: null }, empty: [] };
        assert.equal(await store.setMetadata(contextId, metadata), 1);
        const first = await peer.load(contextId);
        assert.deepEqual({ metadata: first.metadata, version: first.version }, { metadata, version: 1 });
        assert.equal(await peer.setMetadata(contextId, { other: true }), 2);
        assert.deepEqual((await store.load(contextId)).metadata, { other: true });
      },
    },
    {
      title: 'only a change of the metadata makes a new version',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        await store.begin(contextId, 't');
        await store.append(contextId, 't', turnOf('said'));
        assert.equal((await store.load(contextId)).version, 0);
        await store.setMetadata(contextId, { a: 1 });
        await store.append(contextId, 'u', turnOf('more'));
        const { version, metadata, total } = await store.load(contextId);
        assert.deepEqual({ version, metadata, total }, { version: 1, metadata: { a: 1 }, total: 4 });
      },
    },
    {
      title: 'a change that names an old version is a CONFLICT and changes nothing',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        assert.equal(await store.setMetadata(contextId, { by: 'me' }, { version: 0 }), 1);
        assert.equal(await peer.setMetadata(contextId, { by: 'you' }, { version: 1 }), 2);
        const error = await refuses('CONFLICT', () => store.setMetadata(contextId, { by: 'me' }, { version: 1 }));
        assert.match(error.message, /version 2, not 1/);
        await refuses('CONFLICT', () => store.setMetadata(contextId, { by: 'me' }, { version: 0 }));
        await refuses('CONFLICT', () => store.setMetadata(newContextId(), {}, { version: 1 }));
        const { metadata, version } = await store.load(contextId);
        assert.deepEqual({ metadata, version }, { metadata: { by: 'you' }, version: 2 });
      },
    },
    {
      title: 'of several that change the same version at once exactly one does',
      async run({ store, peer, newContextId }) {
        const contextId = newContextId();
        const change = async (by: number) => (by % 2 ? store : peer).setMetadata(contextId, { by }, { version: 0 });
        const outcomes = await Promise.allSettled([1, 2, 3, 4, 5, 6].map(change));
        const winners = outcomes.flatMap(({ status }, index) => (status === 'fulfilled' ? [index + 1] : []));
        assert.equal(winners.length, 1);
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected') await refuses('CONFLICT', () => Promise.reject(outcome.reason));
        }
        const { metadata, version } = await store.load(contextId);
        assert.deepEqual({ metadata, version }, { metadata: { by: winners[0] }, version: 1 });
      },
    },
  ],
};

/** All contexts, a page at a time. */
async function pagesOf(store: MessageStore, limit: number): Promise<readonly (readonly ContextSummary[])[]> {
  const pages: (readonly ContextSummary[])[] = [];
  for (let after: string | undefined = ''; after !== undefined; ) {
    const { contexts, next } = await store.contexts(after === '' ? { limit } : { limit, after });
    pages.push(contexts);
    assert.ok(pages.length < 100, 'the pages do not end');
    after = next;
  }
  return pages;
}

const contextCases: MessageCases = {
  name: 'contexts and delete',
  cases: [
    {
      title: 'contexts are listed with what they hold',
      async run({ store, peer }) {
        assert.deepEqual(await store.contexts(), { contexts: [] });
        await store.append('b', 't', turnOf('said'));
        await store.begin('b', 'open');
        await store.begin('a', 'only-begun');
        await store.setMetadata('c', { a: 1 });
        const { contexts } = await peer.contexts();
        assert.deepEqual(
          contexts.map(({ contextId, total, openTurns }) => [contextId, total, openTurns]),
          [
            ['a', 0, 1],
            ['b', 2, 1],
            ['c', 0, 0],
          ],
        );
        for (const { createdAt, updatedAt } of contexts) {
          assert.equal(new Date(createdAt).toISOString(), createdAt);
          assert.ok(updatedAt >= createdAt);
        }
      },
    },
    {
      title: 'the bytes of messages are counted, or not told at all',
      async run({ store, peer }) {
        const bytesOf = async () => (await peer.contexts()).contexts.find(({ contextId }) => contextId === 'b')?.bytes;
        await store.begin('b', 'open');
        const first = await bytesOf();
        await store.append('b', 't', turnOf('said'));
        const second = await bytesOf();
        await store.append('b', 'u', turnOf('\u{1f600}'.repeat(1_000)));
        await store.append('b', 'u', turnOf('once more'));
        const third = await bytesOf();
        if (third === undefined) return assert.deepEqual([first, second], [undefined, undefined]);
        const json = JSON.stringify(turnOf('\u{1f600}'.repeat(1_000)));
        assert.equal(first, 0);
        assert.ok(second !== undefined && second > JSON.stringify(turnOf('said')).length - 2);
        assert.ok(third - second >= Buffer.byteLength(json) - 2 && third - second < Buffer.byteLength(json) + 1_000);
        await store.delete('b');
        await store.begin('b', 'anew');
        assert.equal(await bytesOf(), 0);
      },
    },
    {
      title: 'pages have every context once, in the order of their ids',
      async run({ store, peer }) {
        const ids = ['Z', 'a', 'a-', 'a.', 'a0', 'a_', 'aa', 'b', '_', '0', '9:', ':'];
        for (const contextId of ids) await store.append(contextId, 't', turnOf(contextId));
        for (const limit of [1, 5, 12, 50]) {
          const pages = await pagesOf(peer, limit);
          assert.equal(pages.length, Math.ceil(ids.length / limit));
          assert.deepEqual(
            pages.flat().map(({ contextId }) => contextId),
            [...ids].sort(),
          );
        }
        assert.deepEqual(
          (await store.contexts({ after: 'a_' })).contexts.map(({ contextId }) => contextId),
          ['aa', 'b'],
        );
      },
    },
    {
      title: 'a deleted context is gone with all that belonged to it, and others stay',
      async run({ store, peer }) {
        await store.append('gone', 't', turnOf('said'));
        await store.begin('gone', 'open');
        await store.setMetadata('gone', { a: 1 });
        await store.append('gone-not', 't', turnOf('kept'));
        await peer.delete('gone');
        await peer.delete('gone');
        await peer.delete('never-there');
        const { total, metadata, version, openTurns } = await store.load('gone');
        assert.deepEqual(
          { total, metadata, version, openTurns },
          { total: 0, metadata: {}, version: 0, openTurns: [] },
        );
        assert.deepEqual(
          (await store.contexts()).contexts.map(({ contextId }) => contextId),
          ['gone-not'],
        );
        assert.deepEqual((await store.load('gone-not')).messages, turnOf('kept'));
      },
    },
    {
      title: 'what is written to a deleted context begins it anew',
      async run({ store, peer }) {
        await store.append('c', 't', turnOf('before'));
        await store.delete('c');
        assert.equal(await peer.begin('c', 't'), 'open');
        assert.deepEqual(await peer.append('c', 't', turnOf('after')), { appended: true });
        assert.deepEqual((await store.load('c')).messages, turnOf('after'));
        assert.equal((await store.contexts()).contexts.length, 1);
      },
    },
  ],
};
