import { type JournalRecord, type Stamped, textOf } from 'millrace';
import type { ToolIntent, ToolResultRecord } from 'millrace/internals';
import type { Remains, Say } from './invariants.ts';
import { isAgentCall, isRepeated, type PlannedCall, type Policy, tools } from './workload/plan.ts';
import type { Deed } from './workload/world.ts';

type Start = Extract<Deed, { type: 'start' }>;

/** One call in the journal and in the world. */
interface CallRemains {
  readonly callId: string;
  readonly planned: PlannedCall;
  readonly intents: readonly Stamped<ToolIntent>[];
  readonly results: readonly Stamped<ToolResultRecord>[];
  readonly starts: readonly Start[];
  /** By execution: what it answered or threw. */
  readonly answers: ReadonlyMap<string, string>;
}

/** Compares what tools did with what the journal says of it. */
export function checkExecutions(remains: Remains, say: Say): void {
  const calls = callsOf(remains);
  const known = new Set(calls.map(({ callId }) => callId));
  for (const deed of remains.deeds) {
    if (deed.type === 'start' && !known.has(deed.callId)) say('no execution without its intent', `call ${deed.callId}`);
  }
  for (const call of calls) {
    const sayOfCall: Say = (invariant, detail) =>
      say(invariant, `call ${call.callId} (${call.planned.tool}): ${detail}`);
    checkIntents(call, remains, sayOfCall);
    checkStarts(call, remains, sayOfCall);
    checkResult(call, remains, sayOfCall);
  }
}

function callsOf({ plan, records, deeds }: Remains): readonly CallRemains[] {
  return plan.flatMap((calls, iteration) =>
    calls.flatMap((planned, index) => {
      if (isAgentCall(planned) || isRepeated(calls, index)) return [];
      const callId = `${iteration + 1}:${index}`;
      const starts = deeds.filter((deed): deed is Start => deed.type === 'start' && deed.callId === callId);
      const ids = new Set(starts.map(({ id }) => id));
      const answers = deeds.flatMap((deed) =>
        deed.type === 'end' && ids.has(deed.id) ? [[deed.id, deed.content] as const] : [],
      );
      return {
        callId,
        planned,
        intents: records.filter((record) => isOf(record, 'tool.intent', callId)),
        results: records.filter((record) => isOf(record, 'tool.result', callId)),
        starts,
        answers: new Map(answers),
      };
    }),
  );
}

function isOf<T extends 'tool.intent' | 'tool.result'>(
  record: JournalRecord,
  type: T,
  callId: string,
): record is Extract<JournalRecord, { type: T }> {
  return record.type === type && 'callId' in record && record.callId === callId;
}

function checkIntents({ intents, results }: CallRemains, { isCut = false }: Remains, say: Say): void {
  if (results.length !== 1 && !(isCut && results.length === 0)) say('one result a call', `there are ${results.length}`);
  for (const [index, intent] of intents.entries()) {
    if (intent.attempt !== index + 1) say('attempts count on', `intent ${index + 1} says ${intent.attempt}`);
    const before = intents[index - 1];
    if (before && before.epoch >= intent.epoch) say('only a new owner runs a call again', `twice in ${intent.epoch}`);
  }
}

function checkStarts({ callId, planned, intents, results, starts }: CallRemains, remains: Remains, say: Say): void {
  const attempts = new Set(intents.map(({ attempt }) => attempt));
  const seen = new Set<number>();
  for (const { attempt, key, at, pid } of starts) {
    if (!attempts.has(attempt)) say('no execution without its intent', `attempt ${attempt}`);
    if (seen.has(attempt)) say('an intent starts one execution', `attempt ${attempt} ran twice`);
    seen.add(attempt);
    if (key !== `${remains.taskId}:${callId}`) say('the idempotency key is stable', key);
    const late = results.some((result) => at > result.at) && !remains.paused.has(pid);
    if (late) say('no execution after its result was recorded', `attempt ${attempt}`);
  }
  if (starts.length > 1 && policyOf(planned) === 'fail') say('a fail tool runs at most once', `${starts.length} times`);
  if (!runs(planned) && starts.length > 0) say('a refused call never runs', `${starts.length} times`);
}

/** Where the content of a result may come from. */
function checkResult(call: CallRemains, { isCut = false }: Remains, say: Say): void {
  const { planned, results, intents, starts, answers } = call;
  const [result] = results;
  const last = intents.at(-1);
  if (result === undefined || !runs(planned)) return;
  if (last === undefined) return say('no result without its intent', JSON.stringify(result));
  // It was stopped, maybe before it started.
  if (isCut && result.error && (result.error.code === 'CANCELED' || result.error.code === 'TOOL_ABANDONED')) return;
  const content = textOf(result.content);
  const inDoubt = result.epoch !== last.epoch;
  if (result.error?.code === 'OUTCOME_UNKNOWN') {
    const mayDoubt = inDoubt && (policyOf(planned) === 'fail' || policyOf(planned) === 'guess');
    if (!mayDoubt) say('only what is in doubt is unknown', content);
    return;
  }
  const execution = starts.find(({ attempt }) => attempt === last.attempt);
  const own = execution && answers.get(execution.id);
  if (!inDoubt) {
    const expected = 'throws' in toolOf(planned) ? `Tool error: Error: ${own}` : own;
    if (content !== expected) say('no invented result', `"${content}" is recorded, it answered "${own}"`);
  } else if (![...answers.values()].includes(content) || !asks(planned)) {
    say('no invented result', `"${content}" was found out, the world has ${JSON.stringify([...answers.values()])}`);
  }
}

function toolOf({ tool }: PlannedCall): (typeof tools)[keyof typeof tools] {
  return tools[tool === 'vanish' ? 'pay' : tool];
}

function policyOf(planned: PlannedCall): Policy {
  return toolOf(planned).policy;
}

function asks(planned: PlannedCall): boolean {
  return policyOf(planned) === 'reconcile' || policyOf(planned) === 'guess';
}

/** Whether the engine lets the call run at all. */
function runs({ tool, arguments: text }: PlannedCall): boolean {
  return tool !== 'vanish' && text.endsWith('}');
}
