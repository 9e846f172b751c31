import type { Context } from '@opentelemetry/api';
import { Observable, type Subscriber } from 'rxjs';
import { AgentLoopError, messageOf, type OnInDoubt, toolError } from '../contracts/index.ts';
import {
  isReconciled,
  nextQuestionId,
  type PendingToolCall,
  type ToolProgress,
  type ToolResultRecord,
  type TurnAsked,
} from '../journal/index.ts';
import { type AbortScope, after } from '../streams/index.ts';
import { CallContext, type CallRunner, type CallTurn } from './call-context.ts';
import { refusedCall, type ToolCallDeps } from './tool-results.ts';

/** The decision about a call in doubt: `'run'` it again, its result, or a question. */
export type Settled = 'run' | ToolResultRecord | TurnAsked;

interface Doubt {
  readonly pending: PendingToolCall;
  /** The scope of the batch; an `onInDoubt` function gets a child of it. */
  readonly batch: AbortScope;
  readonly traceContext: Context;
  readonly turn: CallTurn;
  /** Emits a progress update of an `onInDoubt` function. */
  readonly progress: (progress: ToolProgress) => void;
}

/**
 * Settles a call in doubt. A recorded answer decides first. A call with a child turn runs again, which continues that turn. Else its tool's
 * `onInDoubt` decides: `retry`, the default of a tool that is `idempotent` or `readOnly`, runs it again; `ask` asks the caller, once for each attempt; a function
 * decides, and the outcome is unknown if it throws or exceeds the tool's timeout, or `abortGraceMs` after a cancel; otherwise the model
 * learns that the outcome is unknown. Returns an Observable of one value for a function; unsubscribing aborts its signal.
 */
export function settleDoubt(deps: ToolCallDeps, doubt: Doubt): Settled | Observable<Settled> {
  const { pending } = doubt;
  const tool = deps.segment.tools.byName.get(pending.call.function.name);
  const answer = answerAbout(pending);
  if (answer) return reconciled(pending, answer);
  if (!tool) return unknownOutcome(pending);
  if (pending.child || tool.definition.childTurn) return 'run';
  const { idempotent, readOnly, timeoutMs = deps.segment.config.toolTimeoutMs } = tool.definition;
  const repeatable = idempotent === true || readOnly === true;
  const { onInDoubt = repeatable ? 'retry' : 'fail' } = tool.definition;
  if (typeof onInDoubt === 'function') return reconcile(deps, doubt, { ask: onInDoubt, timeoutMs });
  if (onInDoubt === 'ask') return askOutcome(pending);
  return onInDoubt === 'retry' && repeatable ? 'run' : unknownOutcome(pending);
}

/** The recorded answer about the last attempt of a call. */
function answerAbout({ answers, attempts }: PendingToolCall): unknown {
  const given = answers.find((each) => each.question.kind === 'in-doubt' && each.attempts === attempts);
  return given?.answer;
}

function askOutcome(pending: PendingToolCall): TurnAsked {
  const { callId, call, intent } = pending;
  const toolName = call.function.name;
  const prompt = `The process stopped while the tool "${toolName}" ran. Did it take effect?`;
  return {
    type: 'turn.asked',
    question: { id: nextQuestionId(pending), callId, kind: 'in-doubt', toolName, prompt, data: intent?.arguments },
  };
}

interface ReconcileOptions {
  readonly ask: Extract<OnInDoubt, (...given: never[]) => unknown>;
  readonly timeoutMs: number;
}

function reconcile(deps: ToolCallDeps, doubt: Doubt, { ask, timeoutMs }: ReconcileOptions): Observable<Settled> {
  const { pending, batch } = doubt;
  return new Observable((to) => {
    const scope = batch.child();
    to.add(() => scope.release());
    const context = contextOf(deps, doubt, scope);
    const settle = (settled: Settled) => {
      to.next(settled);
      to.complete();
    };
    const failed = (why: string) => settle(refusedCall(pending.callId, toolError('in_doubt_failed', { why })));
    limitTime(deps, { scope, timeoutMs }, { to, failed });
    const answer = async () => ask(context.idempotencyKey, context);
    answer().then(
      (answered) => settle(reconciled(pending, answered)),
      (error: unknown) => failed(messageOf(error)),
    );
  });
}

function contextOf(
  deps: ToolCallDeps,
  { pending, traceContext, turn, progress }: Doubt,
  scope: AbortScope,
): CallContext {
  const { callId, call } = pending;
  const toolName = call.function.name;
  const runner: CallRunner = {
    ...{ started: pending, turn, scope, notes: undefined },
    progress: (update) => progress({ type: 'tool-progress', callId, toolName, update }),
    show: () => {},
  };
  return new CallContext(deps, runner, traceContext);
}

function limitTime(
  { segment: { config } }: ToolCallDeps,
  { scope, timeoutMs }: { readonly scope: AbortScope; readonly timeoutMs: number },
  { to, failed }: { readonly to: Subscriber<Settled>; readonly failed: (why: string) => void },
): void {
  const { clock, abortGraceMs } = config;
  const timeout = () => {
    failed(`it did not answer within ${timeoutMs} ms`);
    scope.abort(new AgentLoopError('TOOL_TIMEOUT', `The question ran into its limit of ${timeoutMs} ms.`));
  };
  const abandon = () => failed(`it did not stop within ${abortGraceMs} ms of the cancel`);
  const onAbort = () => to.add(after(abortGraceMs, clock, abandon));
  if (timeoutMs > 0) to.add(after(timeoutMs, clock, timeout));
  if (scope.aborted) onAbort();
  else to.add(scope.onAbort(onAbort));
}

function reconciled(pending: PendingToolCall, answer: unknown): Settled {
  if (!isReconciled(answer)) return refusedCall(pending.callId, toolError('in_doubt_no_answer'));
  if (answer.outcome === 'not-applied') return 'run';
  if (answer.outcome === 'unknown') return unknownOutcome(pending);
  return { type: 'tool.result', callId: pending.callId, content: answer.content, success: true, durationMs: 0 };
}

/** The result of a call that may or may not have taken effect. */
export function unknownOutcome({ callId }: PendingToolCall): ToolResultRecord {
  return refusedCall(callId, toolError('in_doubt'));
}
