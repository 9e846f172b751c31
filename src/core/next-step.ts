import { messageOf } from './errors.ts';
import type { PauseRequest } from './inbox.ts';
import { textOf } from './messages.ts';
import type { LlmStart, TurnRecord } from './records.ts';
import { takeReply } from './replies.ts';
import { endWithResponse, failed, limitReason } from './response.ts';
import { type LoopState, openQuestions, waitingState, waitsForAnswers } from './state.ts';
import type { TurnDeps } from './turn-deps.ts';

/** What a turn does next: it is over, it writes records and looks again, it calls the model, or it runs an open batch. */
export type NextStep =
  | { readonly do: 'end' }
  | { readonly do: 'write'; readonly records: readonly TurnRecord[] }
  | { readonly do: 'call'; readonly start: LlmStart }
  | { readonly do: 'tools' };

/** Decides between two steps of a turn, from its state, its limits, and what it was asked to do meanwhile. */
export function nextStep(deps: TurnDeps, state: LoopState): NextStep {
  if (state.outcome) return { do: 'end' };
  if (deps.scope.aborted) return write({ type: 'turn.canceled', reason: messageOf(deps.scope.reason) });
  if (state.resumes > deps.config.maxResumes) return write(poisoned(state));
  const leaving = deps.drain.aborted;
  if (state.phase === 'tools' && deps.inbox.hasReplies) return leaving ? answered(deps, state) : { do: 'tools' };
  const mayTell = state.phase !== 'tools' || deps.inbox.pause !== undefined || leaving;
  if (deps.inbox.hasSteering && !state.summary && mayTell) return { do: 'write', records: steeringRecords(deps) };
  if (deps.inbox.pause !== undefined) return write(suspension(state, deps.inbox.pause));
  if (waitsForAnswers(state)) return write(suspension(state, waiting));
  if (leaving) return { do: 'end' };
  if (state.phase === 'tools') return { do: 'tools' };
  if (state.phase === 'answered' && state.lastResponse) return write(endWithResponse(deps, state, state.lastResponse));
  if (state.phase === 'llm') return call(deps, state, state.iteration, state.attempt + 1);
  if (state.iteration >= deps.maxIterations) return atLimit(deps, state);
  return call(deps, state, state.iteration + 1, 1);
}

function write(record: TurnRecord): NextStep {
  return { do: 'write', records: [record] };
}

function call(deps: TurnDeps, state: LoopState, iteration: number, attempt: number): NextStep {
  const { functions } = deps.tools;
  const start: LlmStart = { type: 'llm.start', iteration, attempt };
  if (state.phase === 'llm' && state.summary) return { do: 'call', start: { ...start, summary: true } };
  return {
    do: 'call',
    start: functions === state.availableTools ? start : { type: 'llm.start', iteration, attempt, tools: functions },
  };
}

/** What was answered is recorded also where this process does nothing more with it. */
function answered(deps: TurnDeps, state: LoopState): NextStep {
  const record = takeReply(deps, state);
  return { do: 'write', records: record ? [record] : [] };
}

const waiting: PauseRequest = { reason: 'waits for answers', commands: [] };

function suspension(state: LoopState, { reason, commands }: PauseRequest): TurnRecord {
  const questions = openQuestions(state);
  const record = { type: 'turn.suspended' as const, state: waitingState(questions), reason, questions };
  return commands.length === 0 ? record : { ...record, commands };
}

function poisoned({ resumes }: LoopState): TurnRecord {
  const message = `The turn was resumed ${resumes} times without getting any further (maxResumes); look into its journal for what stops the process.`;
  return failed('POISON', message, 'poisoned');
}

/** What the turn was told meanwhile, to be added to its history. */
export function steeringRecords(deps: TurnDeps): readonly TurnRecord[] {
  return deps.inbox.takeSteering().map(({ message, command }) => ({
    type: 'x.steer',
    effects: { messages: [message] },
    ...(command === undefined ? {} : { command }),
  }));
}

function atLimit(deps: TurnDeps, state: LoopState): NextStep {
  const reason = limitReason(deps);
  switch (deps.config.onLimit) {
    case 'summarize':
      return { do: 'call', start: { type: 'llm.start', iteration: state.iteration + 1, attempt: 1, summary: true } };
    case 'stop':
      return write({ type: 'turn.done', text: textOf(state.lastResponse?.message.content), reason });
    case 'fail': {
      const limit = `${deps.maxIterations} iteration${deps.maxIterations === 1 ? '' : 's'}`;
      const message = `The model still asked for tools after ${limit}; raise maxIterations, or choose what happens with onLimit.`;
      return write(failed('MAX_ITERATIONS', message, reason));
    }
  }
}
