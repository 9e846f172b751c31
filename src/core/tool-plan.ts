import type { ToolCall } from './messages.ts';
import type { ToolIntent, ToolResultRecord } from './records.ts';
import type { LoopState, PendingToolCall } from './state.ts';
import { type CheckedCall, checkCall } from './tool-set.ts';
import type { TurnDeps } from './turn-deps.ts';

/** The calls of a batch that hold a place: they run, or their arguments are being checked. True for one that runs alone. */
export type BusyCalls = ReadonlyMap<string, boolean>;

/** What comes next in a batch: intents of calls that have a place, results of those that may not run. */
export interface Plan {
  readonly records: readonly (ToolIntent | ToolResultRecord)[];
  /** Calls whose arguments are being checked; plan again when they are. */
  readonly checks: readonly { readonly pending: PendingToolCall; readonly done: Promise<unknown> }[];
}

const nothing: Plan = { records: [], checks: [] };
const nobody: BusyCalls = new Map();

/**
 * Gives free places to the calls of the open batch, in call order: at most `toolConcurrency` at a time, a `sequential` tool
 * only alone, none while the turn is asked to pause or is cancelled. A call of an unknown tool or with wrong arguments takes no
 * place: its error result is part of the plan.
 */
export function planStarts(deps: TurnDeps, state: LoopState, busy: BusyCalls = nobody): Plan {
  if (deps.inbox.pause !== undefined || deps.scope.aborted) return nothing;
  const records: (ToolIntent | ToolResultRecord)[] = [];
  const checks: { pending: PendingToolCall; done: Promise<unknown> }[] = [];
  let places = deps.config.toolConcurrency - busy.size;
  if ([...busy.values()].includes(true)) places = 0;
  for (const pending of state.pendingToolCalls) {
    if (places <= 0) break;
    if (pending.result || busy.has(pending.callId) || pending.intent?.epoch === deps.epoch) continue;
    const checked = checkOnce(deps, pending.call);
    if (checked instanceof Promise) {
      checks.push({ pending, done: checked });
      places--;
    } else if (!checked.ok) {
      records.push(refusal(pending, checked));
    } else if (!checked.tool.definition.sequential) {
      records.push(intentOf(pending, checked.arguments));
      places--;
    } else {
      const alone = places === deps.config.toolConcurrency;
      if (alone) records.push(intentOf(pending, checked.arguments));
      break;
    }
  }
  return { records, checks };
}

/** Checks a call; an asynchronous check is made once and its answer kept for the next plan. */
function checkOnce(deps: TurnDeps, call: ToolCall): CheckedCall | Promise<unknown> {
  const known = deps.checks.get(call);
  if (known) return known;
  const checked = checkCall(deps.tools, call);
  if (!(checked instanceof Promise)) return checked;
  const done = checked.then((answer) => deps.checks.set(call, answer));
  deps.checks.set(call, done);
  return done;
}

function intentOf(pending: PendingToolCall, value: unknown): ToolIntent {
  return {
    type: 'tool.intent',
    callId: pending.callId,
    attempt: (pending.intent?.attempt ?? 0) + 1,
    arguments: value,
  };
}

function refusal(pending: PendingToolCall, checked: Extract<CheckedCall, { ok: false }>): ToolResultRecord {
  return {
    type: 'tool.result',
    callId: pending.callId,
    content: `Tool error: ${checked.message}`,
    success: false,
    error: { code: checked.code, message: checked.message },
    arguments: checked.arguments,
    durationMs: 0,
  };
}
