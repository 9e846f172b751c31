import {
  type AgentEvent,
  AgentLoop,
  agent,
  type Extension,
  fromAsyncIterable,
  InMemoryStateStore,
  type LLMProvider,
  LocalToolProvider,
  tool,
} from 'millrace';
import { echo, echoParameters } from './echo-tool.ts';
import type { FakeModel } from './fake-model.ts';

const tools = [
  tool({ name: 'echo', description: 'Says it again.', parameters: echoParameters, execute: (args) => echo(args) }),
];
const toolProviders = [new LocalToolProvider(tools)];

const providerOf = (model: FakeModel): LLMProvider => ({
  call: () => Promise.reject(new Error('The bench streams.')),
  stream: ({ messages }) => fromAsyncIterable(() => model(messages)),
});

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
    llmProvider: providerOf(model),
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

/** Runs turns of an agent, each the first of a conversation, with one subscriber, everything not named at its defaults. */
export function agentTurns(model: FakeModel, options: Pick<EngineOptions, 'toolConcurrency' | 'onEvent'>) {
  const { toolConcurrency, onEvent } = options;
  const made = agent({
    id: 'bench',
    maxIterations: 1_000_000,
    provider: providerOf(model),
    tools,
    ...(toolConcurrency === undefined ? {} : { toolConcurrency }),
  });
  let turns = 0;
  return async (): Promise<string> => {
    const turn = made.startTurn('Hello', { contextId: `c${turns++}` });
    turn.subscribe(onEvent);
    const { text } = await turn.result();
    return text;
  };
}
