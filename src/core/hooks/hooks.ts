import type { AgentLoopError } from '../contracts/errors.ts';
import type { LLMCallParams } from '../contracts/provider.ts';
import type { ExtensionError } from '../journal/signals.ts';
import type { LoopState } from '../journal/state.ts';
import type { HookLists, StepHook } from './hook-table.ts';

/** A model call of this run. */
export interface LastCall {
  readonly iteration: number;
  readonly params: LLMCallParams;
  /** How many messages the history had. */
  readonly historyLength: number;
}

/** What an agent runs with: the hooks of its extensions among it. */
interface HookedRun {
  readonly config: { readonly hooks: HookLists };
}

/** The hooks of one run of a turn: where their failures are shown, and which of them were asked between two steps. */
export class Hooks<Run extends HookedRun = HookedRun> {
  lists: HookLists;
  /** What the agent that runs the turn now runs with; absent as long as it is the one that the turn began with. */
  stint: Run | undefined;
  /** Set by a hook around a tool call by which the turn fails; the batch fails it once its calls have stopped. */
  failure: AgentLoopError | undefined;
  /** What the last model call of this run was asked. */
  lastCall: LastCall | undefined;
  /** Where failures of hooks are shown. */
  out: { next(error: ExtensionError): void } | undefined;
  /** The iteration at which each was asked last. */
  #asked: Map<StepHook, number> | undefined;

  constructor(lists: HookLists) {
    this.lists = lists;
  }

  /** Another agent runs the turn from here on. */
  begin(stint: Run): void {
    this.stint = stint;
    this.lists = stint.config.hooks;
    this.lastCall = undefined;
    this.#asked?.delete('beforeTurn');
  }

  /** Whether a hook that comes once in an iteration still has to be asked. */
  isDue(hook: StepHook, state: LoopState): boolean {
    if (this.lists[hook].length === 0) return false;
    const decided: Readonly<Partial<Record<StepHook, number>>> = state.changes.decided;
    return this.#asked?.get(hook) !== state.iteration && decided[hook] !== state.iteration;
  }

  noteAsked(hook: StepHook, { iteration }: LoopState): void {
    this.#asked ??= new Map();
    this.#asked.set(hook, iteration);
  }
}
