import { describe, expect, it } from '@jest/globals';
import { InMemoryMessageStore, type Message } from 'millrace';
import { messageStoreContract } from 'millrace/testing';
import type { ContextMetadata, ContextQuery, LoadOptions, MessageQuery, MetadataOptions } from 'millrace/types';
import { runSuite } from './run-contract.ts';

class AppendsTwice extends InMemoryMessageStore {
  #calls = 0;
  override append(contextId: string, taskId: string, messages: readonly Message[]) {
    return super.append(contextId, this.#calls++ % 2 ? `${taskId}-again`.slice(-128) : taskId, messages);
  }
}

class SaysAppended extends InMemoryMessageStore {
  override append(contextId: string, taskId: string, messages: readonly Message[]) {
    super.append(contextId, taskId, messages);
    return { appended: true };
  }
}

class ForgetsStatus extends InMemoryMessageStore {
  override append(contextId: string, taskId: string, messages: readonly Message[]) {
    super.append('check-only', taskId, messages);
    super.delete('check-only');
    const poorer = messages.map((message): Message => {
      if (message.role !== 'tool') return message;
      const { status: _, ...rest } = message;
      return rest;
    });
    return super.append(contextId, taskId, poorer);
  }
}

class DoesNotSettle extends InMemoryMessageStore {
  override append(contextId: string, taskId: string, messages: readonly Message[]) {
    const wasOpen = super.load(contextId).openTurns.includes(taskId);
    const answer = super.append(contextId, taskId, messages);
    if (wasOpen) super.begin(contextId, `${taskId}-open`.slice(-128));
    return answer;
  }
}

class OneForAll extends InMemoryMessageStore {
  override load(contextId: string, options: LoadOptions = {}) {
    super.load(contextId, options);
    const [first = { contextId }] = super.contexts().contexts;
    return super.load(first.contextId, options);
  }
}

class FirstMessages extends InMemoryMessageStore {
  override load(contextId: string, options: LoadOptions = {}) {
    const page = super.load(contextId, options);
    const { messages } = super.load(contextId);
    return { ...page, messages: messages.slice(0, page.messages.length) };
  }
}

class NoCompare extends InMemoryMessageStore {
  override setMetadata(contextId: string, metadata: ContextMetadata, options: MetadataOptions = {}) {
    super.load(contextId, { before: options.version ?? 0 });
    return super.setMetadata(contextId, metadata);
  }
}

class NewestOpenFirst extends InMemoryMessageStore {
  override load(contextId: string, options: LoadOptions = {}) {
    const conversation = super.load(contextId, options);
    return { ...conversation, openTurns: [...conversation.openTurns].reverse() };
  }
}

class OnePage extends InMemoryMessageStore {
  override contexts(query: ContextQuery = {}) {
    return { contexts: super.contexts(query).contexts };
  }
}

class KeepsOpenTurns extends InMemoryMessageStore {
  override delete(contextId: string): void {
    const { openTurns } = super.load(contextId);
    super.delete(contextId);
    for (const taskId of openTurns) super.begin(contextId, taskId);
  }
}

class AgentOfTheLastSave extends InMemoryMessageStore {
  override append(...args: Parameters<InMemoryMessageStore['append']>) {
    const answer = super.append(...args);
    const [contextId, , , { agentId } = {}] = args;
    if (agentId !== undefined) super.setAgent(contextId, agentId);
    return answer;
  }
}

class IgnoresAgent extends InMemoryMessageStore {
  override append(contextId: string, taskId: string, messages: readonly Message[]) {
    return super.append(contextId, taskId, messages);
  }
}

/** Written for 0.1, and given a `list` that brings nothing new. */
class BringsNoIds extends InMemoryMessageStore {
  override list(contextId: string, query: MessageQuery = {}) {
    const { messages, ...page } = super.list(contextId, query);
    return { ...page, messages: messages.map(({ id: _, ...rest }) => ({ ...rest, id: String(undefined) })) };
  }
}

/** Also of a turn that comes again, and of contexts that are gone. */
class CountsEveryAppend extends InMemoryMessageStore {
  #bytes = 0;

  override append(...args: Parameters<InMemoryMessageStore['append']>) {
    this.#bytes += JSON.stringify(args[2]).length;
    return super.append(...args);
  }
  override contexts(query: ContextQuery = {}) {
    const page = super.contexts(query);
    return { ...page, contexts: page.contexts.map((context) => ({ ...context, bytes: this.#bytes })) };
  }
}

class NumbersPages extends InMemoryMessageStore {
  override list(contextId: string, { after, ...query }: MessageQuery = {}) {
    const skipped = Number(after ?? 0);
    const all = super.list(contextId, { ...query, limit: Number.MAX_SAFE_INTEGER }).messages;
    const to = skipped + (query.limit ?? 50);
    return { messages: all.slice(skipped, to), ...(to < all.length && { next: String(to) }) };
  }
}

class TimesOfTheAppend extends InMemoryMessageStore {
  override append(...[contextId, taskId, messages, options = {}]: Parameters<InMemoryMessageStore['append']>) {
    const { createdAt: _, ...rest } = options;
    return super.append(contextId, taskId, messages, rest);
  }
}

/** What is wrong, and the case that has to notice. */
const broken: readonly (readonly [Store: typeof InMemoryMessageStore, title: string])[] = [
  [AppendsTwice, 'the messages of a turn are stored once: the first that came stay'],
  [SaysAppended, 'of several that bring the same turn at once exactly one appends it'],
  [ForgetsStatus, 'messages come back as they were given, with every member'],
  [DoesNotSettle, 'a turn that was begun is open until its messages come'],
  [OneForAll, 'another context sees none of them, also one whose id begins alike'],
  [FirstMessages, 'a page holds the last messages in front of a position, and says where it begins'],
  [NoCompare, 'a change that names an old version is a CONFLICT and changes nothing'],
  [NewestOpenFirst, 'open turns come in the order they were begun, each once, also where it is begun again'],
  [OnePage, 'pages have every context once, in the order of their ids'],
  [CountsEveryAppend, 'the bytes of messages are counted, or not told at all'],
  [AgentOfTheLastSave, 'a turn that is saved again changes neither messages nor agent'],
  [IgnoresAgent, 'append writes the agent with the messages, and one that names none leaves it'],
  [KeepsOpenTurns, 'a deleted context is gone with all that belonged to it, and others stay'],
  [BringsNoIds, 'U-10 every message has an id of its own, a time and its turn, and is as it was appended'],
  [NumbersPages, 'U-10 a page comes after any message, by its id'],
  [TimesOfTheAppend, 'U-10 a message is of the time that it brings, else of the one given with it, else of its append'],
];

describe('messageStoreContract', () => {
  it.each(broken)('notices %p', async (Store, title) => {
    const harness = { name: 'broken', createStore: () => new Store() };
    const { failed } = await runSuite((runner) => messageStoreContract(harness, runner));
    expect([...failed.keys()]).toContain(title);
  });

  it('takes known deviations, says when one passes, and refuses titles that there are not', async () => {
    const [, title] = broken[6] ?? [];
    const deviations = { [`${title}`]: 'it compares nothing' };
    const harness = { name: 'x', deviations, createStore: () => new InMemoryMessageStore() };
    const { failed } = await runSuite((runner) => messageStoreContract(harness, runner));
    expect([...failed.keys()]).toEqual([`${title} (known deviation: it compares nothing)`]);
    const stray = { ...harness, deviations: { 'no such case': '' } };
    await expect(runSuite((runner) => messageStoreContract(stray, runner))).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
    });
  });
});
