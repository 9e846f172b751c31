import {
  type AgentEvent,
  AgentLoop,
  type Extension,
  fromAsyncIterable,
  InMemoryStateStore,
  LocalToolProvider,
  tool,
} from 'millrace';
import { echo, echoParameters } from './echo-tool.ts';
import type { FakeModel } from './fake-model.ts';

const toolProviders = [
  new LocalToolProvider([
    tool({ name: 'echo', description: 'Says it again.', parameters: echoParameters, execute: (args) => echo(args) }),
  ]),
];

export interface EngineOptions {
  /** How many ended turns the memory journal keeps; absent: there is no store. */
  readonly keptTasks?: number;
  readonly toolConcurrency?: number;
  readonly extensions?: readonly Extension[];
  readonly onEvent: (event: AgentEvent) => void;
}

/** Runs turns of the engine, each with one subscriber, everything not named at its defaults. */
export function engine(model: FakeModel, options: EngineOptions): () => Promise<string> {
  const { keptTasks: maxEndedTasks, toolConcurrency, extensions, onEvent } = options;
  const loop = new AgentLoop({
    agentId: 'bench',
    maxIterations: 1_000_000,
    llmProvider: {
      call: () => Promise.reject(new Error('The bench streams.')),
      stream: ({ messages }) => fromAsyncIterable(() => model(messages)),
    },
    toolProviders,
    ...(maxEndedTasks === undefined ? {} : { taskStateStore: new InMemoryStateStore({ maxEndedTasks }) }),
    ...(toolConcurrency === undefined ? {} : { toolConcurrency }),
    ...(extensions === undefined ? {} : { extensions }),
  });
  return async () => {
    const turn = loop.startTurn([{ role: 'user', content: 'Hello' }]);
    turn.subscribe(onEvent);
    const { text } = await turn.result();
    return text;
  };
}
