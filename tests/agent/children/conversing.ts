// Runs the turns of all conversations of a plan, those that have ended as well, and dies at the `doom`th moment before, within or behind a call of the
// stores: conversing <kind> <path or url> <prefix> <seed> <doom> <retention>. Says so once all turns have ended here. With `forget` as retention the journals of
// earlier turns are deleted while later ones run.
import {
  type Agent,
  type AgentLoopError,
  agent,
  type LLMProvider,
  type Message,
  type MessageStore,
  type TaskStateStore,
  textOf,
  tool,
} from 'millrace';
import { LmdbStateStore } from 'millrace/lmdb';
import { RedisStateStore } from 'millrace/redis';
import { answerFor, contextIds, type PlannedTurn, planOf, wordsIn } from '../conversation-plan.ts';

const [kind = '', where = '', prefix = '', seed = '0', doom = '0', retention = ''] = process.argv.slice(2);

let moments = 0;
const reach = () => {
  if (++moments === Number(doom)) process.kill(process.pid, 'SIGKILL');
};

/** Replaces methods of a store in place, so that it remains the one that journals refer to. */
function mortal(store: TaskStateStore | MessageStore, names: readonly string[]): void {
  for (const name of names) {
    const method: unknown = Reflect.get(store, name);
    if (typeof method !== 'function') continue;
    Reflect.set(store, name, (...args: readonly unknown[]) => {
      reach();
      const answer: unknown = Reflect.apply(method, store, args);
      reach();
      if (answer instanceof Promise) answer.then(reach, () => {});
      return answer;
    });
  }
}

const store = kind === 'redis' ? new RedisStateStore({ redis: where, prefix }) : new LmdbStateStore({ path: where });
const { messages: messageStore } = store;
mortal(store, ['create', 'acquire', 'append', 'release', 'read']);
mortal(messageStore, ['begin', 'append', 'load', 'list', 'setMetadata']);

const all = (messages: readonly Message[]) => messages.map(({ content }) => textOf(content)).join('\n');
const turns = contextIds.flatMap((contextId) => planOf(contextId, Number(seed)));

/** Answers with the words of all questions that it gets. */
const provider: LLMProvider = {
  info: { model: 'gpt-4o' },
  async call({ messages }) {
    const words = wordsIn(all(messages.filter(({ role }) => role === 'user')));
    const hasCall =
      messages.at(-1)?.role === 'user' && turns.some((turn) => turn.hasCall && turn.word === words.at(-1));
    if (!hasCall) return { message: { role: 'assistant', content: answerFor(words) }, finishReason: 'stop' };
    const look = { id: 'look', type: 'function', function: { name: 'look', arguments: '{}' } } as const;
    return { message: { role: 'assistant', content: null, toolCalls: [look] }, finishReason: 'tool_calls' };
  },
};
const summarizer: LLMProvider = {
  info: { model: 'gpt-4o' },
  call: async ({ messages }) => ({
    message: { role: 'assistant', content: wordsIn(all(messages)).join(' ') },
    finishReason: 'stop',
  }),
};

const countTokens = (what: string | Message) => (typeof what === 'string' ? what : textOf(what.content)).length;
const ada: Agent = agent({
  id: 'ada',
  provider,
  tools: [tool({ name: 'look', description: 'Looks.', parameters: { type: 'object' }, execute: () => 'x'.repeat(60) })],
  taskStateStore: store,
  contextManagement: {
    compaction: { provider: summarizer, contextWindow: 260, threshold: 0.8, keepLast: 2, countTokens },
  },
  leaseMs: 250,
  busy: 'queue',
  maxResumes: 1_000,
  enableTracing: false,
});

/** Whether the turn is in its conversation: its journal may be gone. */
async function isStored(contextId: string, taskId: string): Promise<boolean> {
  const { messages } = await messageStore.list(contextId, { limit: 1_000 });
  return messages.some((stored) => stored.taskId === taskId);
}

async function play(contextId: string, turn: PlannedTurn): Promise<void> {
  const { taskId, word, again, after } = turn;
  const options = { taskId, contextId, ...(after !== undefined && { after }) };
  for (;;) {
    try {
      if (await isStored(contextId, taskId)) return;
      const isKnown = (await store.describe(taskId)) !== null;
      const started =
        again === undefined || isKnown
          ? ada.startTurn(`About ${word}?`, options)
          : await ada.regenerate(again, options);
      await started.result();
      return;
    } catch (error) {
      // Another process has the turn, or the context.
      const { code } = error as AgentLoopError;
      if (code !== 'BUSY' && code !== 'FENCED' && code !== 'AGENT_BUSY' && code !== 'CONFLICT') throw error;
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  }
}

await Promise.all(
  contextIds.map(async (contextId) => {
    // What its process did not store of a turn that had ended, the next turn of the context stores: the last one is left to a process that lives.
    const planned = planOf(contextId, Number(seed)).slice(0, doom === '0' ? undefined : -1);
    for (const [index, turn] of planned.entries()) {
      await play(contextId, turn);
      const old = planned[index - 2];
      if (old && retention === 'forget') await store.delete(old.taskId);
    }
  }),
);
await ada.close();
process.send?.('all');
await store.close();
process.disconnect?.();
