import { messageOf, textOf } from '../contracts/index.ts';
import type { StepHook } from '../hooks/hook-table.ts';
import { agentChange, isIterationOpen } from '../hooks/record-of-change.ts';
import {
  changedOptions,
  type Finish,
  type LlmDone,
  type LlmStart,
  type LoopState,
  leftCall,
  maxIterationsOf,
  neverOffered,
  type TurnDone,
  type TurnRecord,
  waitsForAnswers,
} from '../journal/index.ts';
import type { ModelCall, PreparedView } from '../model-call/change-call.ts';
import { allowedIterations, endWithResponse, failed, limitReason } from '../model-call/response.ts';
import type { ResolvedConfig } from '../options/index.ts';
import { endRecords, type PauseRequest, steeringRecords, takeReply } from '../ownership/inbox.ts';
import { failureBy } from '../tool-call/tool-results.ts';
import type { Offer } from '../tool-call/tool-set.ts';
import { type StepQuestion, suspension } from './between-steps.ts';
import type { Run } from './run.ts';

/** What the loop does next. */
export type NextStep =
  /** Nothing: the turn has ended, another process continues it, or another agent does. */
  | { readonly do: 'end' }
  /** Append these records, then decide again. */
  | { readonly do: 'write'; readonly records: readonly TurnRecord[] }
  /** Call the model. */
  | CallStep
  /** Run the calls of the last response that have no result. */
  | { readonly do: 'tools' }
  /** Call a hook of the extensions that have it. */
  | { readonly do: 'ask'; readonly question: StepQuestion }
  /** Wait until then, in milliseconds since 1970, or until it is resumed. */
  | { readonly do: 'wait'; readonly until: number | undefined };

export interface CallStep extends ModelCall {
  readonly do: 'call';
}

/**
 * Decides the next step of a turn from its state, its limits, and pending requests. The first rule that applies wins: an
 * end or another agent; a cancel; too many crashes (`POISON`); a turn that is held until it is resumed; requests of the caller (answers, messages, a
 * pause); open questions; a shutdown; open calls; a hand-off; the end that the model or an extension chose; the next model call, or the wait for it. `waitedUntil`: the end of the last completed wait.
 */
export function nextStep(deps: Run, state: LoopState, waitedUntil?: number): NextStep {
  if (state.outcome || state.agentId !== deps.segment.turn.agentId) return { do: 'end' };
  if (deps.inbox.scope.aborted) return writeEnd(deps, canceled(deps));
  if (state.turn.deleted) return writeEnd(deps, withoutConversation(state));
  if (state.resumes > deps.segment.config.maxResumes) return writeEnd(deps, poisoned(state));
  const draining = deps.inbox.drain.aborted;
  const { pause } = deps.inbox;
  if (state.hold && state.hold.until === undefined) return whilePaused(deps);
  if (state.phase === 'tools' && deps.inbox.hasReplies) return draining ? recordReply(deps, state) : { do: 'tools' };
  const willSuspend = pause !== undefined || draining;
  if (deps.inbox.hasSteering && (willSuspend || readsSteering(deps, state))) return takeSteering(deps, state);
  if (pause !== undefined) return write(suspension(state, pause, !deps.segment.config.taskStateStore));
  if (waitsForAnswers(state) && !failsByResult(deps, state)) return write(suspension(state, untilAnswered));
  if (draining) return endDrained(deps);
  if (state.phase === 'tools') return { do: 'tools' };
  if (state.changes.agent && state.phase !== 'llm') return handOff(deps, state);
  if (state.phase === 'answered' && state.lastResponse)
    return close(deps, state, endAfterAnswer(deps, state, state.lastResponse));
  if (state.changes.finish) return close(deps, state, turnDone(state, state.changes.finish));
  if (state.phase === 'llm') return callAgain(deps, state, waitedUntil);
  return betweenIterations(deps, state);
}

/** A paused turn without a store waits here for `Turn.resume`: no other process can resume it. */
function whilePaused(deps: Run): NextStep {
  if (deps.inbox.drain.aborted) return endDrained(deps);
  return deps.inbox.pause ? { do: 'wait', until: undefined } : write({ type: 'turn.resumed' });
}

function callAgain(deps: Run, state: LoopState, waitedUntil: number | undefined): NextStep {
  const { until } = state.hold ?? {};
  if (until !== undefined && until !== waitedUntil && until > deps.node.now()) return { do: 'wait', until };
  return call(deps, state, state.iteration, state.attempt + 1);
}

function betweenIterations(deps: Run, state: LoopState): NextStep {
  const { hooks } = deps;
  if (state.iteration === state.segment.after && hooks.isDue('beforeTurn', state)) return ask('beforeTurn');
  if (isIterationOpen(deps, state)) return ask('afterIteration');
  const change = agentChange(deps, state);
  if (change) return write(change);
  if (state.iteration >= maxIterationsOf(deps.segment.config, state)) return atLimit(deps, state);
  if (hooks.isDue('shouldPause', state)) return ask('shouldPause');
  return call(deps, state, state.iteration + 1, 1);
}

/** Another agent was chosen: first calls `afterIteration` for the last iteration of the current one. */
function handOff(deps: Run, state: LoopState): NextStep {
  const change = agentChange(deps, state);
  return change ? write(change) : ask('afterIteration');
}

function ask(hook: StepHook, ending?: TurnDone): NextStep {
  return { do: 'ask', question: { hook, ending } };
}

/** The end of a turn after an answer without tool calls. */
function endAfterAnswer(deps: Run, state: LoopState, response: LlmDone): TurnRecord {
  const { finish } = state.changes;
  return finish ? turnDone(state, finish) : endWithResponse(deps.segment.config, state, response);
}

function turnDone(state: LoopState, { text, value, reason = 'stop' }: Finish): TurnDone {
  return {
    type: 'turn.done',
    text: text ?? textOf(state.lastResponse?.message.content),
    reason,
    ...(value === undefined ? {} : { value }),
  };
}

/** The last steps of a turn: each of the hooks `beforeFinish`, `afterIteration` and `afterTurn` that is due, then the record of the end. */
function close(deps: Run, state: LoopState, last: TurnRecord): NextStep {
  if (last.type !== 'turn.done') return writeEnd(deps, last);
  const { hooks } = deps;
  if (!state.summary && hooks.isDue('beforeFinish', state)) return ask('beforeFinish', last);
  if (!state.summary && isIterationOpen(deps, state)) return ask('afterIteration', last);
  return end(deps, state, last);
}

function end(deps: Run, state: LoopState, last: TurnDone): NextStep {
  return deps.hooks.isDue('afterTurn', state) ? ask('afterTurn', last) : writeEnd(deps, last);
}

function writeEnd(deps: Run, last: TurnRecord): NextStep {
  return { do: 'write', records: endRecords(deps.inbox, last) };
}

function readsSteering(deps: Run, state: LoopState): boolean {
  return state.phase !== 'tools' && !isAtLastCall(deps.segment.config, state);
}

/** Before a suspension, too: a call that is repeated after it reads the messages. */
function takeSteering(deps: Run, state: LoopState): NextStep {
  const isRepeated = state.phase === 'llm';
  return { do: 'write', records: steeringRecords(deps.inbox, !isRepeated && isAtLastCall(deps.segment.config, state)) };
}

function canceled({ inbox: { scope }, openModelCall }: Run): TurnRecord {
  return openModelCall.closedBy({ type: 'turn.canceled', reason: messageOf(scope.reason) });
}

function write(record: TurnRecord): NextStep {
  return { do: 'write', records: [record] };
}

/** The record of the first attempt of the next call: the loop's, and that of a turn that is composed by hand. */
export function startOfCall(deps: Run, state: LoopState): LlmStart {
  return call(deps, state, state.iteration + 1, 1).start;
}

function call(deps: Run, state: LoopState, iteration: number, attempt: number): CallStep {
  if (state.phase === 'llm' && state.summary) {
    return { do: 'call', start: { type: 'llm.start', iteration, attempt, summary: true } };
  }
  const start = callStart(state, { iteration, attempt }, deps.segment.tools.after(state.changes.tools));
  const options = changedOptions(deps.segment.config, state, undefined);
  return { do: 'call', start: options ? { ...start, options } : start };
}

/** The record of a call's start. The offered tools are recorded only if they differ from those of the last call. */
function callStart(
  { availableTools }: LoopState,
  { iteration, attempt }: Pick<LlmStart, 'iteration' | 'attempt'>,
  { functions }: Offer,
): LlmStart {
  if (functions === availableTools || sameTools(functions, availableTools))
    return { type: 'llm.start', iteration, attempt };
  return { type: 'llm.start', iteration, attempt, tools: functions };
}

/** The call step with the changes of `prepareIteration`. */
export function callWith(
  deps: Run,
  state: LoopState,
  { start, view }: { readonly start: LlmStart; readonly view: PreparedView },
): CallStep {
  const offered = start.summary ? start : callStart(state, start, view.offer);
  const options = changedOptions(deps.segment.config, state, view.settings);
  return { do: 'call', start: options ? { ...offered, options } : offered, view };
}

function sameTools(a: LoopState['availableTools'], b: LoopState['availableTools']): boolean {
  if (b === neverOffered) return false;
  return a.length === b.length && a.every((tool, index) => tool === b[index]);
}

/** Records one answer before the turn is released to another process. */
function recordReply(deps: Run, state: LoopState): NextStep {
  const record = takeReply(deps.inbox, state, deps.segment.config.logger);
  return { do: 'write', records: record ? [record] : [] };
}

/** Releases the turn to another process, which repeats the open model call; the usage of the aborted call is recorded. */
function endDrained({ openModelCall }: Run): NextStep {
  const usage = openModelCall.take();
  return usage ? write(leftCall(usage)) : { do: 'end' };
}

/** Whether a result in the open batch fails the turn: the process that recorded it crashed before it recorded the end. */
function failsByResult({ segment: { config } }: Run, { pendingToolCalls }: LoopState): boolean {
  return pendingToolCalls.some(({ result }) => result && failureBy(result, config.toolFailureMode));
}

const untilAnswered: PauseRequest = { reason: 'waits for answers', commands: [] };

function withoutConversation({ turn: { contextId } }: LoopState): TurnRecord {
  const message = `The context "${contextId}" was deleted while this turn of it was open; start the turn again.`;
  return failed('NOT_FOUND', message, { reason: 'deleted' });
}

function poisoned({ resumes, pendingToolCalls }: LoopState): TurnRecord {
  const open = pendingToolCalls
    .filter(({ result }) => !result)
    .map(({ call, callId }) => `${call.function.name} (${callId})`);
  const what = `The processes of the turn crashed ${resumes} times without getting any further (maxResumes)`;
  const calls = open.length === 0 ? '' : `, whose open calls are ${open.join(', ')}`;
  const message = `${what}; look into its journal for what stops the process${calls}.`;
  return failed('POISON', message, { reason: 'poisoned', details: { resumes, openCalls: open } });
}

function atLimit(deps: Run, state: LoopState): NextStep {
  const reason = limitReason(deps.segment.config, state);
  switch (deps.segment.config.onLimit) {
    case 'summarize':
      return { do: 'call', start: { type: 'llm.start', iteration: state.iteration + 1, attempt: 1, summary: true } };
    case 'stop':
      return end(deps, state, turnDone(state, { reason }));
    case 'fail': {
      const allowed = allowedIterations(deps.segment.config, state);
      const limit = `${allowed} iteration${allowed === 1 ? '' : 's'}`;
      const message = `The turn had not ended after ${limit}; raise maxIterations, or choose what happens with onLimit.`;
      return writeEnd(deps, failed('MAX_ITERATIONS', message, { reason, details: { maxIterations: allowed } }));
    }
  }
}

/** The limits of the agent that runs a turn. */
export type LastCallLimits = Pick<ResolvedConfig, 'maxIterations' | 'onLimit'>;

/** Whether the turn is expected to read no more messages; a closing summary after tool calls reads those that arrived before it. */
export function isAtLastCall(limits: LastCallLimits, state: LoopState): boolean {
  if (state.summary) return true;
  if (state.iteration < maxIterationsOf(limits, state)) return false;
  const { phase, changes } = state;
  return limits.onLimit !== 'summarize' || phase === 'llm' || phase === 'answered' || changes.finish !== undefined;
}
