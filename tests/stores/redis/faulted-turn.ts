import { type AgentLoopConfig, LocalToolProvider, type TaskStateStore, type Turn, tool } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { type Gate, gate, scriptedLLM } from 'millrace/testing';

export interface FaultedTurnOptions extends Partial<AgentLoopConfig> {
  /** Runs within the tool `first`; what it gives is that tool's result. */
  readonly fault?: () => unknown;
  readonly taskId?: string;
}

export interface FaultedTurn {
  readonly turn: Turn;
  /** The tools that ran, in order. */
  readonly ran: readonly string[];
  /** The model's second answer, which calls the tool `second`: it waits here. */
  readonly second: Gate;
  /** What the turn is lost with; undefined where it is not. */
  readonly lost: Promise<unknown>;
}

/** A turn whose model calls `first`, then `second`, then answers; between the two, and in `first`, things go wrong. */
export function faultedTurn(store: TaskStateStore, options: FaultedTurnOptions = {}): FaultedTurn {
  const { fault = () => 'fine', taskId, ...config } = options;
  const ran: string[] = [];
  const second = gate();
  const llmProvider = scriptedLLM([
    { toolCalls: [{ name: 'first' }] },
    () => ({ gate: second.pass(), toolCalls: [{ name: 'second' }] }),
    { text: 'Done.' },
  ]);
  const toolProviders = [toolsOf(ran, { first: fault, second: () => 'fine' })];
  const loop = new AgentLoop({ agentId: 'a', llmProvider, toolProviders, taskStateStore: store, ...config });
  const turn = loop.startTurn([{ role: 'user', content: 'Go' }], taskId === undefined ? {} : { taskId });
  const lost = new Promise<unknown>((resolve) => {
    turn.subscribe({ error: resolve, complete: () => resolve(undefined) });
  });
  turn.settled.catch(() => {});
  return { turn, ran, second, lost };
}

/** Goes on with such a turn, whatever of it is left. */
export function resumedTurn(
  store: TaskStateStore,
  taskId: string,
  steps: Parameters<typeof scriptedLLM>[0],
): FaultedTurn {
  const ran: string[] = [];
  const toolProviders = [toolsOf(ran, { first: () => 'again', second: () => 'again' })];
  const turn = AgentLoop.resume(taskId, {
    agentId: 'a',
    llmProvider: scriptedLLM(steps),
    toolProviders,
    taskStateStore: store,
  });
  const lost = new Promise<unknown>((resolve) => {
    turn.subscribe({ error: resolve, complete: () => resolve(undefined) });
  });
  turn.settled.catch(() => {});
  return { turn, ran, second: gate(), lost };
}

function toolsOf(ran: string[], runs: Readonly<Record<string, () => unknown>>): LocalToolProvider {
  return new LocalToolProvider(
    Object.entries(runs).map(([name, run]) =>
      tool({
        name,
        description: name,
        parameters: { type: 'object' },
        execute: () => {
          ran.push(name);
          return run();
        },
      }),
    ),
  );
}
