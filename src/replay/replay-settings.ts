import {
  type AgentLoopConfig,
  type AgentSetup,
  type Defined,
  limitOf,
  type OnLength,
  type OnLimit,
} from '../core/contracts/index.ts';
import { foldRecords, type JournalRecord, type Stamped, type ToolResultRecord } from '../core/journal/index.ts';
import { hasFailed } from '../core/tool-call/index.ts';
import { isSilent, recordedCalls } from './recorded-calls.ts';

/** The options of a loop that a journal does not say, as far as what it did shows them. */
type RecordedSettings = Defined<
  Pick<
    AgentLoopConfig,
    'maxIterations' | 'onLimit' | 'onLength' | 'toolConcurrency' | 'toolFailureMode' | 'abortGraceMs' | 'maxResumes'
  >
>;

const defaultGraceMs = 5_000;

/** The options under which a loop does what was recorded. */
export function recordedSettings(records: readonly JournalRecord[]): RecordedSettings {
  return {
    ...iterationsOf(records),
    onLength: onLengthOf(records),
    toolConcurrency: concurrencyOf(records),
    toolFailureMode: failsWithItsTool(records) ? 'fail' : 'continue',
    abortGraceMs: graceOf(records),
    maxResumes: resumesOf(records),
  };
}

/** The agents that a turn was handed to: what each of them brought is what the recording shows. Nothing for a turn of one agent. */
export function recordedAgents(
  records: readonly JournalRecord[],
  settings: AgentSetup & Pick<RecordedSettings, 'maxIterations'>,
): Pick<AgentLoopConfig, 'agents' | 'maxHandOffs'> {
  const isChange = (record: JournalRecord) =>
    record.type === 'agent.changed' || ('effects' in record && record.effects?.agent);
  if (!records.some(isChange)) return {};
  const { agentId: last, segment } = foldRecords(records);
  const { llmProvider, toolProviders = [], onLimit, onLength, toolConcurrency, toolFailureMode } = settings;
  const tools = {
    toolProviders,
    ...(toolConcurrency && { toolConcurrency }),
    ...(toolFailureMode && { toolFailureMode }),
  };
  const common = { llmProvider, ...tools, ...(onLimit && { onLimit }), ...(onLength && { onLength }) };
  const end = records.at(-1);
  const tooOften = end?.type === 'turn.failed' && end.reason === 'max_hand_offs';
  return {
    agents: (id) => ({
      ...common,
      maxIterations: id === last ? Math.max(1, settings.maxIterations - segment.after) : Number.MAX_SAFE_INTEGER,
    }),
    maxHandOffs: tooOften ? segment.handOffs : Number.MAX_SAFE_INTEGER,
  };
}

function iterationsOf(records: readonly JournalRecord[]): {
  readonly maxIterations: number;
  readonly onLimit: OnLimit;
} {
  const { iteration } = foldRecords(records);
  const summary = records.find((record) => record.type === 'llm.start' && record.summary);
  if (summary?.type === 'llm.start') return { maxIterations: summary.iteration - 1, onLimit: 'summarize' };
  const last = records.at(-1);
  if (last?.type === 'turn.done' && last.reason !== 'stop') return { maxIterations: iteration, onLimit: 'stop' };
  const steeredTooLate = last?.type === 'turn.done' && records.at(-2)?.type === 'x.steer';
  if (steeredTooLate) return { maxIterations: iteration, onLimit: 'fail' };
  if (last?.type === 'turn.failed' && last.code === 'MAX_ITERATIONS')
    return { maxIterations: iteration, onLimit: 'fail' };
  return { maxIterations: Number.MAX_SAFE_INTEGER, onLimit: 'fail' };
}

/** An answer that was cut short either ended the turn with the failure, or could complete it. */
function onLengthOf(records: readonly JournalRecord[]): OnLength {
  const last = records.at(-1);
  return last?.type === 'turn.failed' && last.code === 'LENGTH' ? 'fail' : 'complete';
}

/**
 * The most calls that had a place at one time. One that was refused needed a place to be looked at; a call
 * in doubt has one until that is settled, and one that an extension or a check takes its time for while others are looked at; those of
 * which nothing came keep one in a replay, so that they do not start.
 */
function concurrencyOf(records: readonly JournalRecord[]): number {
  const silent = recordedCalls(records).filter(isSilent);
  const open = new Set<string>();
  let waiting: readonly string[] = [];
  let most = 1;
  const place = (callId: string) => {
    const checked = silent.filter(({ recorded }) => isBeside(recorded.callId, callId)).length;
    waiting = waiting.filter((each) => each !== callId);
    const overtaken = waiting.filter((each) => indexOf(each) < indexOf(callId) && !isSilentCall(silent, each)).length;
    most = Math.max(most, open.size + checked + overtaken);
  };
  for (const record of records) {
    if (record.type === 'llm.done') waiting = record.calls.map(({ callId }) => callId);
    if (record.type === 'turn.asked') {
      open.delete(record.question.callId);
      waiting = waiting.filter((each) => each !== record.question.callId);
    }
    if (record.type === 'tool.intent' || record.type === 'tool.result') {
      open.add(record.callId);
      place(record.callId);
    }
    if (record.type === 'tool.result') open.delete(record.callId);
  }
  return most;
}

function isSilentCall(silent: ReturnType<typeof recordedCalls>, callId: string): boolean {
  return silent.some(({ recorded }) => recorded.callId === callId);
}

function indexOf(callId: string): number {
  return Number(callId.slice(callId.lastIndexOf(':') + 1));
}

/** Whether two calls are of the same response. */
function isBeside(callId: string, other: string): boolean {
  return callId.slice(0, callId.lastIndexOf(':')) === other.slice(0, other.lastIndexOf(':'));
}

/** Whether the turn ended with its first failed call: after it nothing started, and no other process handled a call. */
function failsWithItsTool(records: readonly JournalRecord[]): boolean {
  const last = records.at(-1);
  const place = records.findIndex(isFailure);
  const first = records[place];
  if (last?.type !== 'turn.failed' || !first || !isFailure(first)) return false;
  const { code, message } = first.error ?? {};
  if (code !== last.code || message !== last.message) return false;
  const ran = new Set(records.flatMap((record) => (record.type === 'tool.intent' ? record.callId : [])));
  return !records.slice(place + 1).some((record) => {
    if (record.type === 'llm.start' || record.type === 'tool.intent') return true;
    return isResult(record) && record.epoch !== first.epoch && !ran.has(record.callId);
  });
}

function isFailure(record: JournalRecord): record is Stamped<ToolResultRecord> {
  return isResult(record) && hasFailed(record) && !record.fails;
}

function isResult(record: JournalRecord): record is Stamped<ToolResultRecord> {
  return record.type === 'tool.result';
}

/** The time that an abandoned tool was given, as its result says. */
function graceOf(records: readonly JournalRecord[]): number {
  const abandoned = records.filter(isResult).find(({ error }) => error?.reason === 'abandoned');
  return limitOf(abandoned?.error) ?? defaultGraceMs;
}

/** As many as there were, but where one was too many. */
function resumesOf(records: readonly JournalRecord[]): number {
  const last = records.at(-1);
  const { resumes } = foldRecords(records);
  return last?.type === 'turn.failed' && last.code === 'POISON' ? resumes - 1 : Number.MAX_SAFE_INTEGER;
}
