import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { agent, InMemoryMessageStore, type Message, type MessageStore, textOf } from 'millrace';
import { LmdbMessageStore } from 'millrace/lmdb';
import { scriptedLLM } from 'millrace/testing';
import { eventually } from '../eventually.ts';
import { ChildPrograms } from '../stores/lmdb/child-programs.ts';
import { says, user } from './agent-bench.ts';

const programs = new ChildPrograms('tests/agent/children');
afterAll(() => programs.clear());

type Asked = { readonly method: 'load' | 'list'; readonly messages: number };

/** A store as one process sees it: what it reads is noted. `onList` is called before a list. */
function seen(store: MessageStore, onList?: () => void) {
  const asked: Asked[] = [];
  const noted: MessageStore = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return (...args: readonly unknown[]) => {
        if (name === 'list') onList?.();
        const answer: unknown = Reflect.apply(member, target, args);
        if (name === 'load' || name === 'list')
          asked.push({ method: name, messages: (answer as { readonly messages: readonly unknown[] }).messages.length });
        return answer;
      };
    },
  });
  /** The number of messages read so far. */
  const sum = () => asked.reduce((all, { messages }) => all + messages, 0);
  return {
    store: noted,
    sum,
    read: () => {
      const all = sum();
      asked.length = 0;
      return all;
    },
  };
}

/** An agent of a process of its own, which answers `number` by `number`. */
function processOf(
  messageStore: MessageStore,
  settings: { readonly keepLast?: number; readonly window?: number } = {},
) {
  const model = scriptedLLM(Array.from({ length: 70 }, (_, index) => ({ text: `Answer ${index}.` })));
  const { keepLast = 2, window: contextWindow = 1_000_000 } = settings;
  const ada = agent({
    name: 'ada',
    provider: model,
    messageStore,
    contextId: 'c',
    contextManagement: { compaction: { keepLast, contextWindow } },
  });
  agents.push(ada);
  return { ada, asked: () => model.calls.at(-1)?.messages.map(({ content }) => content) };
}

const agents: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of agents.splice(0)) await each.close();
});

const talk = (pairs: number): readonly Message[] =>
  Array.from({ length: pairs }, (_, index) => [user(`Question ${index}?`), says(`Said ${index}.`)]).flat();

describe('the conversation of a context', () => {
  it('C-04 C-06 is read once; later turns read only what was added, and the check whether to compact nothing', async () => {
    const messages = new InMemoryMessageStore();
    messages.append('c', 't0', talk(100));
    const { store, sum } = seen(messages);
    const { ada, asked } = processOf(store);
    await ada.run('One?');
    await ada.run('Two?');
    expect(asked()).toHaveLength(203);
    expect(sum()).toBe(200 + 1 + 2);
    await ada.run('Three?');
    expect(asked()).toHaveLength(205);
    await ada.close();
    expect(sum()).toBe(203 + 2);
    expect(asked()?.slice(-3)).toEqual(['Two?', 'Answer 1.', 'Three?']);
  });

  it.each([
    ['read and summarized', 'one token above', -1],
    ['not read', 'exactly at', 0],
  ])('C-06 is %s after a turn that leaves it %s its limit', async (_, __, room) => {
    const messages = new InMemoryMessageStore();
    messages.append('c', 't0', talk(10));
    const { store, sum } = seen(messages);
    const countTokens = (what: string | Message) => (typeof what === 'string' ? what : textOf(what.content)).length;
    const length = [...talk(10), user('One?'), says('Answer.')].reduce((all, each) => all + countTokens(each), 0);
    const provider = scriptedLLM([{ text: 'They talked.' }], { info: { model: 'gpt-4o' } });
    const compaction = { keepLast: 2, contextWindow: length + room, threshold: 1, countTokens, provider };
    const ada = agent({
      name: 'ada',
      provider: scriptedLLM([{ text: 'Answer.' }]),
      messageStore: store,
      contextId: 'c',
      contextManagement: { compaction },
    });
    await ada.run('One?');
    if (room < 0) await eventually(() => messages.load('c').metadata['compaction'] !== undefined);
    await ada.close();
    expect(provider.calls).toHaveLength(room < 0 ? 1 : 0);
    expect(sum()).toBe(20 + 1 + (room < 0 ? 2 : 0));
  });

  it('is continued although the counter of tokens throws, which is logged', async () => {
    const warned: string[] = [];
    const nothing = () => {};
    const logger = { debug: nothing, info: nothing, error: nothing, warn: (line: string) => void warned.push(line) };
    const countTokens = () => {
      throw new Error('no tokenizer');
    };
    const ada = agent({
      name: 'ada',
      provider: scriptedLLM([{ text: 'One.' }, { text: 'Two.' }]),
      contextId: 'c',
      contextManagement: { compaction: { countTokens } },
      logger,
    });
    await ada.run('One?');
    await expect(ada.run('Two?')).resolves.toMatchObject({ text: 'Two.' });
    await ada.close();
    expect(warned).toContain('compaction failed');
  });

  it('C-04 is right in two processes that take turns', async () => {
    const path = mkdtempSync(join(tmpdir(), 'millrace-two-processes-'));
    const messages = new LmdbMessageStore({ path });
    const { ada, asked } = processOf(messages);
    const said: string[] = [];
    try {
      for (let turn = 0; turn < 3; turn++) {
        await once(programs.start('turn', path, `t${turn}`), 'exit');
        said.push(`Question of t${turn}.`, `Answer of t${turn}.`);
        const result = await ada.run(`Turn ${turn}?`);
        expect(asked()).toEqual([...said, `Turn ${turn}?`]);
        said.push(`Turn ${turn}?`, result.text);
      }
    } finally {
      await ada.close();
      await messages.close();
      rmSync(path, { recursive: true });
    }
  });

  it('C-04 is right for two that know other parts of it and take turns', async () => {
    const messages = new InMemoryMessageStore();
    const [one, other] = [processOf(seen(messages).store), processOf(seen(messages).store)];
    const said: string[] = [];
    for (let turn = 0; turn < 6; turn++) {
      const { ada, asked } = turn % 2 === 0 ? one : other;
      const result = await ada.run(`Turn ${turn}?`);
      expect(asked()).toEqual([...said, `Turn ${turn}?`]);
      said.push(`Turn ${turn}?`, result.text);
    }
  });

  it.each([0, 1, 3])('C-04 is another one after it was deleted and began anew with %d turns', async (turns) => {
    const messages = new InMemoryMessageStore();
    const { ada, asked } = processOf(messages);
    await ada.run('Old?');
    messages.delete('c');
    const began = talk(turns);
    for (let turn = 0; turn < turns; turn++) messages.append('c', `t${turn}`, began.slice(2 * turn, 2 * turn + 2));
    await ada.run('New?');
    expect(asked()).toEqual([...began.map(({ content }) => content), 'New?']);
  });

  it('C-04 has no message that its store removed, although others were added', async () => {
    const messages = new InMemoryMessageStore();
    const removing: MessageStore = Object.assign(Object.create(InMemoryMessageStore.prototype), {
      begin: messages.begin.bind(messages),
      append: messages.append.bind(messages),
      setMetadata: messages.setMetadata.bind(messages),
      list: messages.list.bind(messages),
      load: (contextId: string, options = {}) => {
        const loaded = messages.load(contextId, options);
        const kept = loaded.messages.filter(({ content }) => content !== 'Secret?');
        const removed = messages.load(contextId).messages.length > 0 ? 1 : 0;
        return { ...loaded, messages: kept, total: loaded.total - removed };
      },
    });
    const { ada, asked } = processOf(removing);
    await ada.run('Secret?');
    await ada.run('Next?');
    await ada.run('And now?');
    expect(asked()).not.toContain('Secret?');
  });

  it('C-04 is whole although another process adds messages while it is read', async () => {
    const messages = new InMemoryMessageStore();
    messages.append('c', 't0', talk(1));
    let added = 0;
    const { store } = seen(messages, () => {
      if (++added <= 4) messages.append('c', `other${added}`, [user(`Meanwhile ${added}.`)]);
    });
    const { ada, asked } = processOf(store);
    for (const text of ['One?', 'Two?', 'Three?']) {
      await ada.run(text);
      const all = messages.load('c').messages.map(({ content }) => content);
      const prompted = asked() ?? [];
      expect(prompted.at(-1)).toBe(text);
      expect(all.slice(0, prompted.length - 1)).toEqual(prompted.slice(0, -1));
    }
  });

  it('C-04 is read anew where the store does not answer what was added', async () => {
    const messages = new InMemoryMessageStore();
    let isBroken = false;
    const { store } = seen(messages, () => {
      if (isBroken) throw new Error('No lists today.');
    });
    const { ada, asked } = processOf(store);
    await ada.run('One?');
    isBroken = true;
    await ada.run('Two?');
    expect(asked()).toEqual(['One?', 'Answer 0.', 'Two?']);
  });

  it('C-04 is kept for the 64 contexts that were read last', async () => {
    const messages = new InMemoryMessageStore();
    for (let index = 0; index < 65; index++) messages.append(`c${index}`, 't0', talk(10));
    const { store, read } = seen(messages);
    const { ada } = processOf(store);
    for (let index = 0; index < 65; index++) await ada.run('Hi.', { contextId: `c${index}` });
    await ada.close();
    read();
    const later = processOf(store).ada;
    await later.run('Again.', { contextId: 'c64' });
    await later.close();
    expect(read()).toBeLessThan(10);
    const last = processOf(store).ada;
    await last.run('Again.', { contextId: 'c0' });
    await last.close();
    expect(read()).toBeGreaterThan(20);
  });

  it('C-04 cannot be changed by a hook of one of its turns', async () => {
    const messages = new InMemoryMessageStore();
    messages.append('c', 't0', [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }]);
    const model = scriptedLLM([{ text: 'One.' }, { text: 'Two.' }]);
    const refused: unknown[] = [];
    const ada = agent({
      name: 'ada',
      provider: model,
      messageStore: messages,
      contextId: 'c',
      extensions: [
        {
          name: 'rude',
          beforeLLMCall({ messages: [first] }) {
            const parts = first?.content;
            if (!Array.isArray(parts)) return;
            try {
              Object.assign(parts[0] ?? {}, { text: 'changed' });
            } catch (error) {
              refused.push(error);
            }
          },
        },
      ],
    });
    agents.push(ada);
    await ada.run('One?');
    await ada.run('Two?');
    expect(refused).toHaveLength(2);
    expect(model.calls[1]?.messages[0]).toEqual({ role: 'user', content: [{ type: 'text', text: 'Hello' }] });
  });
});
