import assert from 'node:assert/strict';
import type { Message, MessageStore } from '../../core/contracts/index.ts';
import { notOptions, notText, refusesWrongArguments, type WrongArguments } from '../contract/wrong-arguments.ts';
import { refuses } from '../store-contract/expectations.ts';
import { type MessageCases, turnOf } from './message-case.ts';

const badIds = ['', ' ', 'a b', '}', '{x}', 'a/b', '..\\', 'ä', 'a\n', 'a\0', 'x'.repeat(129)];
const goodIds = ['0', '_', '.', '..', ':', '-', 'A-z_0.9:tail', 'x'.repeat(128), '__proto__', 'constructor'];

/** Messages as they come from a caller that no compiler checks. */
function unchecked(...messages: readonly object[]): readonly Message[] {
  return JSON.parse(JSON.stringify(messages));
}

const loop: { self?: object } = {};
loop.self = loop;
const lossy: readonly unknown[] = [10n, Number.NaN, Number.POSITIVE_INFINITY, new Date(0), new Map(), () => 1, loop];

export const inputCases: MessageCases = {
  name: 'input',
  cases: [
    {
      title: 'H-07 arguments of another type are refused as INVALID_INPUT, and change nothing',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        await store.append(contextId, 't', turnOf('t'));
        const before = await store.load(contextId);
        const turns = notText.flatMap((bad) => [
          [bad, 't2'],
          [contextId, bad],
        ]);
        const calls: WrongArguments<MessageStore> = {
          begin: turns,
          append: [
            ...turns.map((turn) => [...turn, []]),
            ...[undefined, null, 'hello', { 0: 'x' }, [7]].map((bad) => [contextId, 't2', bad]),
            [contextId, 't2', [], 'agent'],
            [contextId, 't2', [], { agentId: 7 }],
            [contextId, 't2', [], { createdAt: '2026-01-01' }],
          ],
          setAgent: turns,
          load: [
            ...notText.map((bad) => [bad]),
            ...notOptions.map((bad) => [contextId, bad]),
            [contextId, { limit: '5' }],
            [contextId, { before: null }],
          ],
          list: [
            ...notText.map((bad) => [bad]),
            ...notOptions.map((bad) => [contextId, bad]),
            [contextId, { limit: '5' }],
            [contextId, { order: 1 }],
            [contextId, { after: 7 }],
          ],
          setMetadata: [
            ...notText.map((bad) => [bad, {}]),
            ...[undefined, null, 'x', 7, []].map((bad) => [contextId, bad]),
            [contextId, {}, 1],
            [contextId, {}, { version: '1' }],
          ],
          contexts: [...notOptions.map((bad) => [bad]), [{ limit: '5' }], [{ after: 7 }]],
          delete: notText.map((bad) => [bad]),
        };
        await refusesWrongArguments(store, calls);
        assert.deepEqual(await store.load(contextId), before);
        assert.equal((await store.contexts()).contexts.length, 1);
      },
    },
    {
      title: 'ids outside the pattern are refused as INVALID_INPUT and write nothing',
      async run({ store }) {
        for (const id of badIds) {
          await refuses('INVALID_INPUT', () => store.begin(id, 't'));
          await refuses('INVALID_INPUT', () => store.begin('c', id));
          await refuses('INVALID_INPUT', () => store.append(id, 't', []));
          await refuses('INVALID_INPUT', () => store.append('c', id, []));
          await refuses('INVALID_INPUT', () => store.load(id));
          await refuses('INVALID_INPUT', () => store.setMetadata(id, {}));
          await refuses('INVALID_INPUT', () => store.delete(id));
          if (id !== '') await refuses('INVALID_INPUT', () => store.contexts({ after: id }));
        }
        assert.deepEqual(await store.contexts(), { contexts: [] });
      },
    },
    {
      title: 'every id of the pattern can be used, as context and as task',
      async run({ store, peer }) {
        for (const id of goodIds) {
          assert.equal(await store.begin(id, id), 'open');
          assert.deepEqual(await store.append(id, id, turnOf(id)), { appended: true });
          assert.deepEqual((await peer.load(id)).messages, turnOf(id));
        }
        assert.equal((await store.contexts()).contexts.length, goodIds.length);
      },
    },
    {
      title: 'what is no message is refused as INVALID_INPUT, and none of its turn is stored',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        const [good] = turnOf('good');
        const bad = [{ role: 'robot', content: 'x' }, { role: 'user' }, { role: 'tool', content: 'x' }];
        for (const message of bad) {
          const messages = [...(good ? [good] : []), ...unchecked(message)];
          await refuses('INVALID_INPUT', () => store.append(contextId, 't', messages));
        }
        assert.equal((await store.load(contextId)).total, 0);
        assert.deepEqual(await store.append(contextId, 't', turnOf('good')), { appended: true });
      },
    },
    {
      title: 'what JSON would lose or change is refused as INVALID_INPUT, naming it',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        for (const value of lossy) {
          const message: Message = { role: 'user', content: 'x', metadata: { deep: [value] } };
          const error = await refuses('INVALID_INPUT', () => store.append(contextId, 't', [message]));
          assert.match(error.message, /messages\[0\]\.metadata\.deep\[0\]/);
          await refuses('INVALID_INPUT', () => store.setMetadata(contextId, { deep: { value } }));
        }
        const { total, version } = await store.load(contextId);
        assert.deepEqual({ total, version }, { total: 0, version: 0 });
      },
    },
    {
      title: 'limits, positions and versions that are no whole numbers are refused as INVALID_INPUT',
      async run({ store }) {
        for (const number of [-1, 1.5, Number.NaN]) {
          await refuses('INVALID_INPUT', () => store.load('c', { limit: number }));
          await refuses('INVALID_INPUT', () => store.load('c', { before: number }));
          await refuses('INVALID_INPUT', () => store.contexts({ limit: number }));
          await refuses('INVALID_INPUT', () => store.setMetadata('c', {}, { version: number }));
        }
        await refuses('INVALID_INPUT', () => store.contexts({ limit: 0 }));
      },
    },
    {
      title: 'messages and metadata beyond the size limit are refused as INVALID_INPUT, naming the cure',
      async run({ store, newContextId }) {
        const contextId = newContextId();
        const huge: Message = { role: 'user', content: 'x'.repeat(33 * 1024 * 1024) };
        const error = await refuses('INVALID_INPUT', () => store.append(contextId, 't', [huge]));
        assert.match(error.message, /ArtifactStore/);
        await refuses('INVALID_INPUT', () => store.setMetadata(contextId, { text: 'x'.repeat(1024 * 1024) }));
        assert.deepEqual((await store.contexts()).contexts, []);
      },
    },
  ],
};
