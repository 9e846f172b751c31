import { checkContent } from '../contracts/check-messages.ts';
import type { ToolAnswer, ToolCallChange, ToolOutcomeChange } from '../contracts/extension.ts';
import { shownValue } from '../contracts/shown-value.ts';
import { toolError } from '../contracts/tool-errors.ts';
import { askHooks } from '../hooks/ask-hooks.ts';
import type { AskedHook, HookPlace } from '../hooks/hook-context.ts';
import type { RanCall } from '../hooks/hook-subjects.ts';
import { type AnyChange, recordOfChange, usageRecord } from '../hooks/record-of-change.ts';
import type { ExtensionRecord, ToolResultRecord } from '../journal/records.ts';
import type { PendingToolCall } from '../journal/state.ts';
import type { TurnDeps } from '../turn/turn-deps.ts';
import { answeredCall, type CheckedCall } from './tool-results.ts';

/** Where a call stands that is checked. */
export interface CallPlace extends HookPlace {
  readonly pending: PendingToolCall;
}

/** Arguments that an extension put in place of the model's, not yet checked. */
export interface ChangedArguments {
  readonly changed: unknown;
}

/** What extensions made of a call that is about to run. */
export interface ChangedToolCall {
  readonly answer: CheckedCall | ChangedArguments;
  /** The earliest that they gave. Milliseconds since 1970. */
  readonly deadline: number | undefined;
}

type Allowed = Extract<CheckedCall, { verdict: 'run' }>;

/** Asks the extensions about a call that is about to run; the first that denies or answers it is the last. Throws or rejects as `askHooks`. */
export function changeToolCall(
  deps: TurnDeps,
  { pending, state, traceContext }: CallPlace,
  checked: Allowed,
): ChangedToolCall | Promise<ChangedToolCall> {
  let deadline: number | undefined;
  let decided: CheckedCall | ChangedArguments = checked;
  const argumentsNow = () => ('changed' in decided ? decided.changed : decided.arguments);
  const asked = askHooks(deps, {
    hook: 'beforeToolCall',
    place: { state, traceContext },
    about: () => ({ pending, tool: checked.tool, arguments: argumentsNow() }),
    asked: (question) => deps.callNotes.add(pending.call, { question }),
    take(change) {
      deadline = earliest(deadline, change.deadline);
      decided = decisionOf(change, argumentsNow()) ?? decided;
      return 'changed' in decided || decided.verdict === 'run';
    },
  });
  const answered = () => deps.callNotes.add(pending.call, { question: undefined });
  const changed = () => ({ answer: decided, deadline });
  return asked instanceof Promise ? asked.finally(answered).then(changed) : changed();
}

function earliest(one: number | undefined, other: number | undefined): number | undefined {
  if (other === undefined) return one;
  if (!Number.isFinite(other)) throw new TypeError(`its deadline is ${shownValue(other)}, not a time in milliseconds`);
  return one === undefined ? other : Math.min(one, other);
}

function decisionOf(change: ToolCallChange, before: unknown): CheckedCall | ChangedArguments | undefined {
  const { deny, answer } = change;
  const args = 'arguments' in change ? change.arguments : before;
  if (deny !== undefined) {
    if (typeof deny !== 'string') throw new TypeError(`its deny is ${shownValue(deny)}, not a reason`);
    return { verdict: 'refused', error: toolError('denied', { says: deny }), arguments: args };
  }
  if (answer !== undefined) return { verdict: 'answered', answer: checkedAnswer(answer), arguments: args };
  return 'arguments' in change ? { changed: args } : undefined;
}

function checkedAnswer(answer: ToolAnswer): ToolAnswer {
  if (answer?.content === undefined) throw new TypeError('it answers with no content; give { content: "…" }');
  checkContent(answer.content, 'its content');
  const { success, error } = answer;
  if (success !== undefined && typeof success !== 'boolean')
    throw new TypeError(`its success is ${shownValue(success)}, neither true nor false`);
  if (error !== undefined && typeof error !== 'string')
    throw new TypeError(`its error must be a string, not ${shownValue(error)}`);
  return answer;
}

/** What extensions made of the outcome of a call: its result, and what they changed besides. */
export interface ChangedOutcome {
  readonly result: ToolResultRecord;
  readonly records: readonly ExtensionRecord[];
}

/** Where a call stands that has run, and what receives the question that its outcome waits for. */
interface OutcomePlace extends HookPlace {
  readonly asked: (question: AskedHook) => void;
}

/** Asks the extensions about the outcome of a call, before it is recorded. Throws or rejects as `askHooks`. */
export function changeOutcome(
  deps: TurnDeps,
  { asked: waiting, ...place }: OutcomePlace,
  ran: RanCall,
): ChangedOutcome | Promise<ChangedOutcome> {
  let shown = ran;
  const records: ExtensionRecord[] = [];
  const asked = askHooks(deps, {
    hook: 'afterToolCall',
    place,
    about: () => shown,
    asked: waiting,
    take(change, { name }, { childUsage: used }) {
      if (change.result) shown = { ...shown, result: answeredCall(checkedAnswer(change.result), shown.result) };
      const record = recordOfChange(besides(change), { deps, state: place.state, name, hook: 'afterToolCall', used });
      if (record) records.push(record);
      return true;
    },
    count: (used, { name }) => records.push(usageRecord(used, { name, hook: 'afterToolCall' })),
  });
  const changed = () => ({ result: shown.result, records });
  return asked instanceof Promise ? asked.then(changed) : changed();
}

function besides({ messages, finish, agent, usage, usageBy, data, events }: ToolOutcomeChange): AnyChange {
  return {
    ...(messages && { messages }),
    ...(finish && { finish }),
    ...(agent && { agent }),
    ...(usage && { usage }),
    ...(usageBy && { usageBy }),
    ...(data === undefined ? {} : { data }),
    ...(events && { events }),
  };
}
