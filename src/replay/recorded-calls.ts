import {
  type ApprovalDecision,
  type ArgumentCheck,
  type Extension,
  limitOf,
  parsedJson,
  type ToolDefinition,
  type ToolError,
} from '../core/contracts/index.ts';
import type {
  JournalRecord,
  Question,
  RecordedCall,
  Stamped,
  ToolIntent,
  ToolResultRecord,
  TurnAsked,
} from '../core/journal/index.ts';
import { callIdOf, difference } from './recording.ts';

/** What became of one call. */
export interface RecordedCallRun {
  readonly recorded: RecordedCall;
  readonly intents: readonly Stamped<ToolIntent>[];
  readonly asked: readonly Stamped<TurnAsked>[];
  readonly result: Stamped<ToolResultRecord> | undefined;
  /** Whether it ran at the same time as another. */
  readonly overlaps: boolean;
}

/** A call on its way through the recording. */
interface Gathered {
  readonly recorded: RecordedCall;
  readonly intents: Stamped<ToolIntent>[];
  readonly asked: Stamped<TurnAsked>[];
  result: Stamped<ToolResultRecord> | undefined;
  overlaps: boolean;
}

/** All calls of a recording, in order. One that was still looked at when a later one started, or was refused, did not run alone. */
export function recordedCalls(records: readonly JournalRecord[]): readonly RecordedCallRun[] {
  const calls = new Map<string, Gathered>();
  const running = new Set<Gathered>();
  let batch: Gathered[] = [];
  for (const record of records) {
    if (record.type === 'llm.done') {
      batch = [];
      for (const recorded of record.calls) {
        const call: Gathered = { recorded, intents: [], asked: [], result: undefined, overlaps: false };
        calls.set(recorded.callId, call);
        batch.push(call);
      }
    }
    const callId = callIdOf(record);
    const call = callId === undefined ? undefined : calls.get(callId);
    if (!call) continue;
    gather(call, record, running);
    for (const each of batch.slice(0, batch.indexOf(call))) if (isSilent(each)) each.overlaps = true;
  }
  return [...calls.values()];
}

function gather(call: Gathered, record: JournalRecord, running: Set<Gathered>): void {
  switch (record.type) {
    case 'tool.intent':
      call.intents.push(record);
      running.add(call);
      if (running.size > 1) for (const each of running) each.overlaps = true;
      return;
    case 'turn.asked':
      call.asked.push(record);
      break;
    case 'tool.result':
      call.result = record;
      break;
    case 'turn.answered':
      break;
    default:
      // These are about no call.
      record.type satisfies
        | 'turn.started'
        | 'turn.resumed'
        | 'llm.start'
        | 'llm.done'
        | 'turn.suspended'
        | 'agent.changed'
        | 'turn.done'
        | 'turn.failed'
        | 'turn.canceled'
        | `x.${string}`;
      return;
  }
  // One that is refused needs a place, as a start does.
  if (!running.delete(call)) for (const each of running) each.overlaps = true;
}

/** Whether a question was asked by the tool itself, not about it. */
export function isOwnQuestion({ kind }: Question): boolean {
  return kind !== 'approval' && kind !== 'in-doubt';
}

/** A tool that takes and refuses what it took and refused then. Its `onInDoubt` asks where that was asked, else `settle` says. */
export function recordedTool(
  offered: ToolDefinition['function'],
  calls: readonly RecordedCallRun[],
  settle: Settle,
): ToolDefinition {
  const own = calls.filter(({ recorded }) => recorded.call.function.name === offered.name);
  return {
    type: 'function',
    function: offered,
    acceptsRaw: own.some(({ recorded, intents }) => intents.length > 0 && argumentsOf(recorded) === undefined),
    ...(ranAlone(own) && !calls.some(isSilent) ? { sequential: true } : {}),
    ...timeoutOf(own),
    ...doubtPolicy(own, settle),
    checkArguments: recordedCheck(own),
  };
}

/**
 * A definition that brings no check: whether its schema was checked then, and by which version, the recording says. Such a check changes no
 * arguments, so those of an intent are what the model gave, or what an extension made of it.
 */
export function withRecordedCheck(definition: ToolDefinition, calls: readonly RecordedCallRun[]): ToolDefinition {
  if (definition.checkArguments) return definition;
  const own = calls.filter(({ recorded }) => recorded.call.function.name === definition.function.name);
  const check = recordedCheck(own);
  return {
    ...definition,
    checkArguments(value) {
      const said = check(value);
      return said instanceof Promise || !said.ok ? said : { ok: true, value };
    },
  };
}

function recordedCheck(own: readonly RecordedCallRun[]): NonNullable<ToolDefinition['checkArguments']> {
  const checks = recordedChecks(own);
  return (value) => checks.get(JSON.stringify(value))?.() ?? { ok: true, value };
}

/** Lets run, asks about and rejects what was run, asked about and rejected then. */
export function recordedApprovals(calls: readonly RecordedCallRun[]): NonNullable<Extension['approveToolCall']> {
  const byId = new Map(calls.map((run) => [run.recorded.callId, run]));
  return ({ callId }) => {
    const { intents = [], asked = [], result } = byId.get(callId) ?? {};
    const question = asked.find((record) => record.question.kind === 'approval')?.question;
    if (question) return { decision: 'ask', ...(question.prompt === undefined ? {} : { prompt: question.prompt }) };
    if (isUndecided(result)) return new Promise(() => {});
    if (result?.error?.reason === 'rejected') return rejectionOf(result.error);
    return intents.length > 0 || result ? undefined : new Promise(() => {});
  };
}

/** Whether a call was refused because nobody approved or rejected it in time. */
function isUndecided(result: ToolResultRecord | undefined): boolean {
  return result?.error?.reason === 'undecided';
}

function rejectionOf({ details }: ToolError): ApprovalDecision {
  const says = details?.['says'];
  return { decision: 'reject', ...(typeof says === 'string' ? { reason: says } : {}) };
}

type Settle = Extract<ToolDefinition['onInDoubt'], (...given: never[]) => unknown>;

/** What the tool said then of calls in doubt, at once where it did; where it differed from call to call, `settle` says it. */
function doubtPolicy(
  own: readonly RecordedCallRun[],
  settle: Settle,
): Pick<ToolDefinition, 'onInDoubt' | 'idempotent'> {
  if (own.some(({ asked }) => asked.some(({ question }) => question.kind === 'in-doubt'))) return { onInDoubt: 'ask' };
  const outcomes = new Set(own.flatMap(doubtsOf));
  const [only] = outcomes;
  if (outcomes.size !== 1 || only === 'answered') return { onInDoubt: settle };
  return only === 'retried' ? { onInDoubt: 'retry', idempotent: true } : { onInDoubt: 'fail' };
}

/** What became of a call each time that another owner of the turn found it started. */
function doubtsOf({ intents, asked, result }: RecordedCallRun): readonly ('retried' | 'unknown' | 'answered')[] {
  const last = intents.at(-1);
  const retried = intents.flatMap((intent, index) =>
    index > 0 && intent.epoch !== intents[index - 1]?.epoch ? (['retried'] as const) : [],
  );
  // One that has neither a result nor a question may run again, and did not: the turn was failing, or its process ended.
  if (last && !result && asked.length === 0) return [...retried, 'retried'];
  if (!last || !result || result.epoch === last.epoch) return retried;
  return [...retried, result.error?.reason === 'in_doubt' ? 'unknown' : 'answered'];
}

/** Whether nothing came of a call. In a replay it keeps its place, so that it does not start; nothing could run alone beside it. */
export function isSilent({ intents, asked, result }: RecordedCallRun): boolean {
  return intents.length === 0 && asked.length === 0 && !result;
}

/** Also of calls that waited for their place until the turn ended: in a replay they must not start either. */
function ranAlone(own: readonly RecordedCallRun[]): boolean {
  return own.some((run) => run.intents.length > 0 || isSkipped(run)) && !own.some(({ overlaps }) => overlaps);
}

function isSkipped({ result }: RecordedCallRun): boolean {
  return result?.error?.code === 'TOOL_SKIPPED';
}

/** How long the check of a call had, where one took longer. */
function timeoutOf(own: readonly RecordedCallRun[]): Pick<ToolDefinition, 'timeoutMs'> {
  const late = own.find(({ intents, result }) => intents.length === 0 && result?.error?.code === 'TOOL_TIMEOUT');
  const limitMs = limitOf(late?.result?.error);
  return limitMs === undefined ? {} : { timeoutMs: limitMs };
}

type Check = () => ArgumentCheck | Promise<ArgumentCheck>;

/**
 * What the check said of arguments, by their JSON; of the same arguments it says the same. Where they became something else from call
 * to call, an extension did that.
 */
function recordedChecks(calls: readonly RecordedCallRun[]): ReadonlyMap<string, Check> {
  const checks = new Map<string, Check>();
  const seen = new Map<string, string>();
  const changing = new Set<string>();
  for (const run of calls) {
    const key = JSON.stringify(argumentsOf(run.recorded));
    const check = checkOf(run);
    const became = JSON.stringify(run.intents[0]?.arguments ?? run.result?.arguments);
    const other = seen.get(key);
    if (became !== undefined) seen.set(key, became);
    if (other !== undefined && became !== undefined && other !== became) changing.add(key);
    if (check && !checks.has(key)) checks.set(key, check);
  }
  for (const key of changing) checks.delete(key);
  return checks;
}

function checkOf({ intents: [intent], asked, result }: RecordedCallRun): Check | undefined {
  if (intent) return () => ({ ok: true, value: intent.arguments });
  const approval = asked.find(({ question }) => question.kind === 'approval');
  if (approval) return () => ({ ok: true, value: approval.question.data });
  if (isUndecided(result)) return undefined;
  const { code, message } = result?.error ?? {};
  if (code === 'TOOL_ARGUMENTS' && message !== undefined) return () => ({ ok: false, message });
  return code === 'TOOL_TIMEOUT' ? () => new Promise(() => {}) : undefined;
}

/** The arguments of a call; undefined where they are not JSON. */
function argumentsOf({ call }: RecordedCall): unknown {
  const text = call.function.arguments.trim();
  try {
    return text === '' ? {} : parsedJson(text);
  } catch {
    return undefined;
  }
}

/** The recorded result of a call that the recording may not have: of the same call, else of one with the same tool and arguments. */
export function likelyResult(
  calls: readonly RecordedCallRun[],
  wanted: { readonly callId: string; readonly name: string; readonly arguments: unknown },
): ToolResultRecord | undefined {
  const alike = calls.filter(
    ({ recorded, intents, result }) =>
      recorded.call.function.name === wanted.name &&
      result !== undefined &&
      intents.some((intent) => difference(intent.arguments, wanted.arguments) === undefined),
  );
  return (alike.find(({ recorded }) => recorded.callId === wanted.callId) ?? alike[0])?.result;
}
