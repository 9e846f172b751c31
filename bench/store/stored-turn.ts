import { AgentLoop, fromAsyncIterable, type LLMProvider, LocalToolProvider, type TaskStateStore, tool } from 'millrace';
import { echoParameters } from '../echo-tool.ts';
import { type FakeModel, fakeModel } from '../fake-model.ts';

/** What a tool of these turns answers: 2 KB. */
export const result = 'result. '.repeat(256);

/** An iteration of these turns: one answer of the model without text, and two calls. */
export const work = { calls: 2, deltas: 0 } as const;

export function provider(model: FakeModel): LLMProvider {
  return {
    call: () => Promise.reject(new Error('The bench streams.')),
    stream: ({ messages }) => fromAsyncIterable(() => model(messages)),
  };
}

export const toolProviders = [
  new LocalToolProvider([
    tool({ name: 'echo', description: 'Answers.', parameters: echoParameters, execute: async () => result }),
  ]),
];

export interface StoredTurn {
  readonly store: TaskStateStore;
  readonly iterations: number;
  readonly taskId?: string;
}

/** One turn with one subscriber: so many iterations with tools, then the answer. */
export async function runStoredTurn({ store, iterations, taskId }: StoredTurn): Promise<void> {
  const loop = new AgentLoop({
    agentId: 'bench',
    maxIterations: 1_000_000,
    llmProvider: provider(fakeModel({ ...work, iterations })),
    toolProviders,
    taskStateStore: store,
  });
  const turn = loop.startTurn([{ role: 'user', content: 'Hello' }], taskId === undefined ? {} : { taskId });
  turn.subscribe();
  await turn.settled;
}
