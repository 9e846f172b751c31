import type { Context } from '@opentelemetry/api';
import { type AgentUsage, type EndChange, type Extension, waitingState } from '../contracts/index.ts';
import { askHooks } from '../hooks/ask-hooks.ts';
import { DraftPlace, type HookPlace } from '../hooks/hook-context.ts';
import { type Ended, finishOf } from '../hooks/hook-subjects.ts';
import type { StepHook } from '../hooks/hook-table.ts';
import { type AnyChange, agentChange, jsonOf, recordOfChange, usageRecord } from '../hooks/record-of-change.ts';
import {
  CommitDraft,
  type DecisionPoint,
  type LoopState,
  openQuestions,
  type TurnDone,
  type TurnSuspended,
} from '../journal/index.ts';
import type { ModelCallDeps } from '../model-call/usage.ts';
import { type PauseRequest, steeringRecords } from '../ownership/inbox.ts';

export interface StepQuestion {
  readonly hook: StepHook;
  /** The end that the turn is about to record, if any. */
  readonly ending?: TurnDone | undefined;
}

/**
 * Calls the extensions between two steps, and returns their decisions as one atomic append. Synchronous if all of
 * them answer synchronously. Throws or rejects as `askHooks`.
 */
export function decideStep(
  deps: ModelCallDeps,
  traceContext: Context,
): (state: LoopState, question: StepQuestion) => CommitDraft | Promise<CommitDraft> {
  return (state, question) => {
    deps.hooks.noteAsked(question.hook, state);
    const draft = new CommitDraft(deps, state);
    const decision = new Decision(deps, { draft, traceContext, ending: question.ending });
    const close = () => {
      const change = agentChange(deps, draft.after);
      if (change) draft.add(change);
      return draft;
    };
    const asked = decision.ask(question.hook);
    return asked instanceof Promise ? asked.then(close) : close();
  };
}

interface DecisionOptions {
  readonly draft: CommitDraft;
  readonly traceContext: Context;
  readonly ending: TurnDone | undefined;
}

class Decision {
  readonly #deps: ModelCallDeps;
  readonly #draft: CommitDraft;
  readonly #place: HookPlace;
  #ending: TurnDone | undefined;

  constructor(deps: ModelCallDeps, { draft, traceContext, ending }: DecisionOptions) {
    this.#deps = deps;
    this.#draft = draft;
    this.#ending = ending;
    this.#place = new DraftPlace(draft, traceContext);
  }

  ask(hook: StepHook): void | Promise<void> {
    switch (hook) {
      case 'beforeTurn':
        return this.#beforeTurn();
      case 'afterIteration':
        return this.#afterIteration();
      case 'beforeFinish':
        return this.#beforeFinish();
      case 'shouldPause':
        return this.#shouldPause();
      case 'afterTurn':
        return this.#afterTurn();
      default:
        return hook satisfies never;
    }
  }

  #beforeTurn(): void | Promise<void> {
    return askHooks(this.#deps, {
      hook: 'beforeTurn',
      place: this.#place,
      about: noSubject,
      take: (change, extension, { childUsage }) => this.#change('beforeTurn', extension, change, childUsage),
      count: (used, { name }) => this.#draft.add(usageRecord(used, { name, hook: 'beforeTurn' })),
    });
  }

  #afterIteration(): void | Promise<void> {
    const { lastCall } = this.#deps.hooks;
    const params = lastCall?.iteration === this.#draft.after.iteration ? lastCall.params : undefined;
    const last = { ending: this.#ending, params };
    return askHooks(this.#deps, {
      hook: 'afterIteration',
      place: this.#place,
      about: () => last,
      take: (change, extension, { childUsage }) => this.#change('afterIteration', extension, change, childUsage),
      count: (used, { name }) => this.#draft.add(usageRecord(used, { name, hook: 'afterIteration' })),
    });
  }

  /** Skips the remaining extensions once one of them continues the turn. */
  #beforeFinish(): void | Promise<void> {
    return askHooks(this.#deps, {
      hook: 'beforeFinish',
      place: this.#place,
      about: (state) => finishOf(this.#ending, state),
      take: (change, extension, { childUsage }) => {
        this.#change('beforeFinish', extension, change, childUsage);
        return (change.messages ?? []).length === 0 && change.agent === undefined;
      },
      count: (used, { name }) => this.#draft.add(usageRecord(used, { name, hook: 'beforeFinish' })),
    });
  }

  #shouldPause(): void | Promise<void> {
    return askHooks(this.#deps, {
      hook: 'shouldPause',
      place: this.#place,
      about: noSubject,
      take: (pause, { name }) => {
        if (pause === false) return true;
        const reason = pause === true ? `paused by ${name}` : pause.reason;
        if (typeof reason !== 'string') throw new TypeError('it gave no reason; answer true, false or { reason }');
        // Without a store the turn waits in this process for `Turn.resume`, which revokes the pause.
        if (!this.#deps.config.taskStateStore) this.#deps.inbox.requestPause(reason);
        else this.#draft.add(suspension(this.#draft.after, { reason, commands: [] }));
        return false;
      },
    });
  }

  #afterTurn(): void | Promise<void> {
    this.#deps.inbox.close(this.#draft.after);
    for (const record of steeringRecords(this.#deps, true)) this.#draft.add(record);
    const asked = askHooks(this.#deps, {
      hook: 'afterTurn',
      place: this.#place,
      about: () => endOf(this.#ending),
      take: (change, { name }) => this.#changeEnding(name, change),
    });
    return asked instanceof Promise ? asked.then(() => this.#end()) : this.#end();
  }

  #change(hook: DecisionPoint, { name }: Extension, change: AnyChange, used: readonly AgentUsage[]): true {
    const record = recordOfChange(change, { deps: this.#deps, state: this.#draft.after, name, hook, used });
    if (record) this.#draft.add(record);
    return true;
  }

  #changeEnding(name: string, { text, value }: EndChange): true {
    if (!this.#ending || (text === undefined && value === undefined)) return true;
    if (text !== undefined && typeof text !== 'string') throw new TypeError('text must be a string');
    this.#ending = {
      ...this.#ending,
      ...(text === undefined ? {} : { text }),
      ...(value === undefined ? {} : { value: jsonOf('value', value) }),
    };
    const { type: _, ...finish } = this.#ending;
    this.#draft.add({ type: `x.${name}`, effects: { finish }, hook: 'afterTurn' });
    return true;
  }

  #end(): void {
    if (this.#ending) this.#draft.add(this.#ending);
  }
}

const noSubject = () => undefined;

function endOf(ending: TurnDone | undefined): Ended {
  const { text = '', value, reason = 'stop' } = ending ?? {};
  return { outcome: { state: 'completed', reason, error: undefined, questions: [] }, text, value };
}

/** The record that suspends a turn. `waitsHere`: the turn has no store, so it waits in this process for `Turn.resume`. */
export function suspension(state: LoopState, { reason, commands }: PauseRequest, waitsHere = false): TurnSuspended {
  const questions = openQuestions(state);
  const record = {
    type: 'turn.suspended' as const,
    state: waitingState(questions),
    reason,
    questions,
    ...(waitsHere && { hold: {} }),
  };
  return commands.length === 0 ? record : { ...record, commands };
}
