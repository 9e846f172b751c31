import type { OnInDoubt, Reconciled, ToolContext } from '../tools/interfaces.ts';
import { AgentLoopError, messageOf } from './errors.ts';
import type { ToolResultRecord } from './records.ts';
import type { LoopState, PendingToolCall } from './state.ts';
import type { TurnDeps } from './turn-deps.ts';

/** Calls that another owner of the turn had started and that have no result: their outcome is unknown. */
export function doubtfulCalls(epoch: number, state: LoopState): readonly PendingToolCall[] {
  return state.pendingToolCalls.filter(({ intent, result }) => !result && intent && intent.epoch !== epoch);
}

/** What becomes of a call in doubt: `'run'` it again, or its result. */
export type Settled = 'run' | ToolResultRecord;

/**
 * Settles a call in doubt as its tool's `onInDoubt` says: `retry` runs it again where the tool is `idempotent` or `readOnly`;
 * a `reconcile` function answers itself, and counts as unknown where it throws; all else tells the model that the outcome
 * is unknown.
 */
export function settleDoubt(
  deps: TurnDeps,
  pending: PendingToolCall,
  context: ToolContext,
): Settled | Promise<Settled> {
  const tool = deps.tools.byName.get(pending.call.function.name);
  if (!tool) return unknownOutcome(pending);
  const { onInDoubt = 'fail', idempotent, readOnly } = tool.definition;
  if (typeof onInDoubt === 'function') return reconcile(onInDoubt, pending, context);
  return onInDoubt === 'retry' && (idempotent || readOnly) ? 'run' : unknownOutcome(pending);
}

async function reconcile(
  ask: Extract<OnInDoubt, (...given: never[]) => unknown>,
  pending: PendingToolCall,
  context: ToolContext,
): Promise<Settled> {
  try {
    return reconciled(pending, await ask(context.idempotencyKey, context));
  } catch (error) {
    return unknownOutcome(pending, `; asking the tool failed: ${messageOf(error)}`);
  }
}

function reconciled(pending: PendingToolCall, answer: Reconciled): Settled {
  if (answer.outcome === 'not-applied') return 'run';
  if (answer.outcome === 'unknown') return unknownOutcome(pending);
  return { type: 'tool.result', callId: pending.callId, content: answer.content, success: true, durationMs: 0 };
}

function unknownOutcome(pending: PendingToolCall, detail = ''): ToolResultRecord {
  const message = `OUTCOME_UNKNOWN: the process stopped while this call ran, so it may or may not have taken effect${detail}; check before you repeat it`;
  return {
    type: 'tool.result',
    callId: pending.callId,
    content: `Tool error: ${message}`,
    success: false,
    error: { code: 'OUTCOME_UNKNOWN', message },
    durationMs: 0,
  };
}

/** Errors with `MISSING_TOOL` where an open call names a tool that was offered before and is not there any more. */
export function checkToolsOfOpenCalls(deps: Pick<TurnDeps, 'tools'>, state: LoopState): void {
  for (const { call, result } of state.pendingToolCalls) {
    const { name } = call.function;
    if (result || deps.tools.byName.has(name) || !state.availableTools.some((tool) => tool.name === name)) continue;
    throw new AgentLoopError(
      'MISSING_TOOL',
      `The turn has an open call of the tool "${name}", which no tool provider offers any more; add it and resume again.`,
      { taskId: state.turn.taskId },
    );
  }
}
