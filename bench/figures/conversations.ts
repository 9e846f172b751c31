import {
  AgentLoop,
  agent,
  fromAsyncIterable,
  InMemoryMessageStore,
  InMemoryStateStore,
  type LLMProvider,
  type Message,
  type MessageStore,
} from 'millrace';
import { fakeModel } from '../fake-model.ts';
import { type Contender, race, type Timing } from '../measure.ts';
import { printRows } from '../table.ts';

const lengths = [10, 100, 1_000, 10_000];
const question: Message = { role: 'user', content: 'Hello' };

const said = (length: number): readonly Message[] =>
  Array.from({ length }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: `${at} ${'word '.repeat(30)}`,
  }));

function provider(): LLMProvider {
  const model = fakeModel({ iterations: 0 });
  return {
    call: () => Promise.reject(new Error('The bench streams.')),
    stream: ({ messages }) => fromAsyncIterable(() => model(messages)),
  };
}

const journal = () => new InMemoryStateStore({ maxEndedTasks: 0 });

/** A loop that gets the conversation with each turn. */
function loop(length: number): Contender {
  const given = [...said(length), question];
  const made = new AgentLoop({ agentId: 'bench', llmProvider: provider(), taskStateStore: journal() });
  return { name: `AgentLoop, ${length} messages given`, run: () => made.startTurn(given).result() };
}

/** A store whose conversations stay as long as they are: what turns add is dropped. */
function constant(store: InMemoryMessageStore): MessageStore {
  const append: MessageStore['append'] = (contextId, taskId) => store.append(contextId, taskId, []);
  return new Proxy(store, {
    get(target, name) {
      if (name === 'append') return append;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

/** An agent whose process has read the conversation before. */
function reading(length: number): Contender {
  const messages = new InMemoryMessageStore();
  messages.append('c', 'earlier', said(length));
  const made = agent({
    id: 'bench',
    provider: provider(),
    messageStore: constant(messages),
    taskStateStore: journal(),
    contextId: 'c',
  });
  return { name: `agent(), ${length} messages before`, run: () => made.run(question.content as string) };
}

/** What runs once a turn is compiled only after thousands of turns. */
const firstWarmUpMs = 8_000;

/** What a plain turn costs behind a conversation, with journals in memory. */
export async function measureConversations(): Promise<void> {
  const timings: Timing[] = [];
  for (const length of lengths)
    timings.push(...(await race([loop(length), reading(length)], timings.length === 0 ? firstWarmUpMs : undefined)));
  const rows = timings.map(({ name, median, least }, index) => {
    const given = timings[index - 1];
    const ratio = index % 2 === 1 && given ? `  ${(median / given.median).toFixed(1)}x of the loop` : '';
    return { figure: name, measured: `${median.toFixed(0)} µs (least ${least.toFixed(0)})${ratio}`, target: '' };
  });
  printRows('A plain turn behind a conversation that the process has read before', rows);
}
