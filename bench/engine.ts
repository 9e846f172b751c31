import { type AgentEvent, AgentLoop, fromAsyncIterable, InMemoryStateStore, LocalToolProvider, tool } from 'millrace';
import { echo, echoParameters } from './echo-tool.ts';
import type { FakeModel } from './fake-model.ts';

const toolProviders = [
  new LocalToolProvider([
    tool({ name: 'echo', description: 'Says it again.', parameters: echoParameters, execute: (args) => echo(args) }),
  ]),
];

export interface EngineOptions {
  readonly store: boolean;
  readonly toolConcurrency?: number;
  readonly onEvent: (event: AgentEvent) => void;
}

/** A turn of the engine, with one subscriber, a loop of its own, and everything else at its defaults. */
export async function engine(model: FakeModel, options: EngineOptions): Promise<string> {
  const { store, toolConcurrency, onEvent } = options;
  const loop = new AgentLoop({
    agentId: 'bench',
    maxIterations: 1_000_000,
    llmProvider: {
      call: () => Promise.reject(new Error('The bench streams.')),
      stream: ({ messages }) => fromAsyncIterable(() => model(messages)),
    },
    toolProviders,
    ...(store ? { taskStateStore: new InMemoryStateStore() } : {}),
    ...(toolConcurrency === undefined ? {} : { toolConcurrency }),
  });
  const turn = loop.startTurn([{ role: 'user', content: 'Hello' }]);
  turn.subscribe(onEvent);
  const { text } = await turn.result();
  return text;
}
