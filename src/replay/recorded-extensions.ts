import type {
  EndChange,
  Extension,
  Failure,
  HookContext,
  IterationChange,
  IterationView,
  StepChange,
  ToolCallChange,
  ToolCallRequest,
  ToolError,
} from '../core/contracts/index.ts';
import type { HookName } from '../core/hooks/index.ts';
import type {
  CallHook,
  ExtensionRecord,
  JournalRecord,
  LlmStart,
  RecordedHook,
  Stamped,
} from '../core/journal/index.ts';
import { hookParentOf } from '../tasks/child-turn.ts';
import { type RecordedCallRun, recordedApprovals } from './recorded-calls.ts';
import { callIdOf, difference, extensionCodes } from './recording.ts';
import type { Score } from './score.ts';

interface RecordedExtensionsOptions {
  readonly score: Score;
  readonly records: readonly JournalRecord[];
  readonly calls: readonly RecordedCallRun[];
  /** Whether the recording says which calls are approved; else the policies of the tools do. */
  readonly approves: boolean;
  /** Resolves once the result of a call is due. */
  readonly whenDue: (callId: string) => Promise<void>;
}

/**
 * The extensions of a recording, without their code: each changes what its records say, at the hook that they come from, and what left
 * no record of its own (an ending, a failure, a call that did not run, what the model was offered) is the first one's.
 */
export function recordedExtensions(options: RecordedExtensionsOptions): readonly Extension[] {
  const { records, calls, score, approves } = options;
  const unnamed = unnamedHooks(options);
  const { prepareIteration, beforeToolCall, ...others } = unnamed;
  const approvals = approves ? { approveToolCall: recordedApprovals(calls), beforeToolCall } : {};
  const own = records.filter(isOfExtension);
  const players = orderOf(records).map((name) => player(score, name, own));
  const taken = players.map((each) => each.name);
  const name = freeName('recording', taken);
  if (!showsExtensions(records, calls))
    return [{ name, timeoutMs, ...(approves ? { ...approvals, prepareIteration } : {}) }];
  // Whoever decides about a call is asked last: the others have said by then what their child turns used.
  const last = { name: freeName('recorded-decisions', taken), timeoutMs, ...approvals, beforeToolCall };
  return [{ name, timeoutMs, prepareIteration, ...withoutNothing(others) }, ...players, last];
}

type Hooks = { readonly [Name in HookName]?: Extension[Name] | undefined };

function withoutNothing(hooks: Hooks): Partial<Extension> {
  return Object.fromEntries(Object.entries(hooks).filter(([, hook]) => hook));
}

/** What was not decided in the recording is not decided in its replay either, however long that takes. */
const timeoutMs = 0;

type OwnRecord = Stamped<ExtensionRecord> & { readonly hook: RecordedHook | CallHook };

function isOfExtension(record: JournalRecord): record is OwnRecord {
  return 'hook' in record && record.hook !== undefined;
}

function freeName(wanted: string, taken: readonly string[]): string {
  let name = wanted;
  while (taken.includes(name)) name += '-';
  return name;
}

/** Whether a turn went as it goes only with extensions. */
function showsExtensions(records: readonly JournalRecord[], calls: readonly RecordedCallRun[]): boolean {
  const last = records.at(-1);
  if (records.some(isOfExtension) || calls.some((run) => isDecided(run) || failureIn(run))) return true;
  return last?.type === 'turn.failed' && extensionCodes.has(last.code);
}

/** Whether a call got its result in place of a run. */
function isDecided({ intents, asked, result }: RecordedCallRun): boolean {
  if (!result || intents.length > 0 || asked.length > 0) return false;
  return result.success || isDenied(result.error) || result.error?.code === 'TOOL_FAILED';
}

function isDenied(error: ToolError | undefined): boolean {
  return error?.reason === 'denied';
}

/** The names of the extensions, in an order in which each hook can have asked them. */
function orderOf(records: readonly JournalRecord[]): readonly string[] {
  const before = new Map<string, Set<string>>();
  let last: JournalRecord | undefined;
  for (const record of records) {
    if (isOfExtension(record)) {
      const name = nameOf(record);
      const earlier = before.get(name) ?? new Set();
      before.set(name, earlier);
      if (last && isOfExtension(last) && last.hook === record.hook && nameOf(last) !== name) earlier.add(nameOf(last));
    }
    last = record;
  }
  const order: string[] = [];
  while (order.length < before.size) {
    const rest = [...before.keys()].filter((name) => !order.includes(name));
    const isNext = (name: string) => [...(before.get(name) ?? [])].every((each) => order.includes(each));
    order.push(rest.find(isNext) ?? rest[0] ?? '');
  }
  return order;
}

function nameOf({ type }: OwnRecord): string {
  return type.slice('x.'.length);
}

/** An extension with the hooks that its records come from. */
function player(score: Score, name: string, records: readonly OwnRecord[]): Extension {
  const hooks = new Set<string>(records.filter((record) => nameOf(record) === name).map(({ hook }) => hook));
  const all = {
    ...recordedAnswers((hook, callId) => changeOf(dueOf(score, hook, callId), name)),
    ...recordedUse(score, name),
  };
  return { name, timeoutMs, ...Object.fromEntries(Object.entries(all).filter(([hook]) => hooks.has(hook))) };
}

/** The hooks that leave a record only of what their child turns used: each says it again. */
function recordedUse(score: Score, name: string) {
  const use = async (hook: CallHook, context: HookContext, callId?: string) => {
    const used = branchesOf(score, hook, callId).filter((record) => nameOf(record) === name);
    for (const { branch = '', effects } of used)
      hookParentOf(context, branch.slice(branch.indexOf('.') + 1))?.replay(effects?.usageBy ?? []);
    return undefined;
  };
  return {
    beforeLLMCall: (_, context) => use('beforeLLMCall', context),
    beforeToolCall: (request) => use('beforeToolCall', request, request.callId),
    approveToolCall: (request) => use('approveToolCall', request, request.callId),
  } satisfies Replayed<CallHook>;
}

/** What is recorded of child turns of a hook before the call that it is asked about. */
function branchesOf(score: Score, hook: CallHook, callId: string | undefined): readonly OwnRecord[] {
  const found: OwnRecord[] = [];
  for (const record of score.isFree ? [] : score.rest()) {
    if (isOfExtension(record)) {
      if (record.hook === hook && record.callId === callId) found.push(record);
    } else if (callId === undefined ? record.type !== 'llm.start' : isDecisionOn(record, callId)) {
      break;
    }
  }
  return found;
}

/** Whether a call starts with a record, ends or asks. */
function isDecisionOn(record: JournalRecord, callId: string): boolean {
  return record.type !== 'turn.answered' && callIdOf(record) === callId;
}

/** How each hook that leaves records answers from them: `change` gives what is recorded next of the extension at the hook. */
export function recordedAnswers(change: (hook: RecordedHook, callId?: string) => StepChange | undefined) {
  return {
    beforeTurn: () => change('beforeTurn'),
    prepareIteration: () => change('prepareIteration'),
    afterLLMCall: () => change('afterLLMCall'),
    onLLMError: () => change('onLLMError'),
    afterToolCall: ({ callId }) => withoutResults(change('afterToolCall', callId)),
    beforeFinish: () => change('beforeFinish'),
    afterIteration: () => change('afterIteration'),
    afterTurn: () => endingOf(change('afterTurn')),
  } satisfies Replayed<RecordedHook>;
}

/** The hooks of an extension that replays them: each is there. */
export type Replayed<Name extends keyof E, E extends Extension = Extension> = {
  readonly [Each in Name]-?: NonNullable<E[Each]>;
};

function changeOf(records: readonly OwnRecord[], name: string): StepChange | undefined {
  const record = records.find((each) => nameOf(each) === name);
  if (!record) return undefined;
  const { effects, data, events } = record;
  return { ...effects, ...(data === undefined ? {} : { data }), ...(events && { events }) };
}

/** The reason of an ending stands in its record, and no extension changes it there. */
function endingOf(change: StepChange | undefined): EndChange | undefined {
  if (!change?.finish) return undefined;
  const { reason: _, ...ending } = change.finish;
  return ending;
}

function withoutResults(change: StepChange | undefined) {
  if (!change) return undefined;
  const { results: _, ...rest } = change;
  return rest;
}

/** What extensions record next at a hook: the records after the answer, or the result, of the hook; else those that are due. */
function dueOf(score: Score, hook: RecordedHook, callId: string | undefined): readonly OwnRecord[] {
  if (score.isFree) return [];
  const due: OwnRecord[] = [];
  let isPast = hook !== 'afterLLMCall' && hook !== 'afterToolCall';
  for (const record of score.rest()) {
    if (isOfExtension(record)) {
      if (isPast && record.hook === hook) due.push(record);
    } else if (isPast && !record.type.startsWith('x.')) {
      break;
    }
    isPast ||= record.type === 'llm.done' ? hook === 'afterLLMCall' : isResultOf(record, callId);
  }
  return due;
}

function isResultOf(record: JournalRecord, callId: string | undefined): boolean {
  return record.type === 'tool.result' && record.callId === callId;
}

/** How a replay says what left no record of its own, for each hook there is. */
export type UnnamedHooks<E extends Extension = Extension> = { readonly [Name in HookName<E>]: E[Name] | undefined };

/** What left no record of its own, for each hook; nothing where the recording needs no hook to say it. */
function unnamedHooks({ score, calls, whenDue }: RecordedExtensionsOptions) {
  const byId = new Map(calls.map((run) => [run.recorded.callId, run]));
  const failing = () => (score.isFree ? undefined : failureOf(score.due));
  return {
    // Messages are recorded as they were let in.
    beforeMessage: undefined,
    beforeTurn: () => failing(),
    // A pause is a record of its own, and who resumes the turn takes it back.
    shouldPause: undefined,
    prepareIteration: (_view: IterationView, context: HookContext) => failing() ?? viewNext(score, context),
    // The answers of the recording take the place of the model's.
    beforeLLMCall: undefined,
    afterLLMCall: undefined,
    onLLMError: undefined,
    beforeToolCall: (request: ToolCallRequest) => {
      const decision = decisionOf(request, byId.get(request.callId));
      return failsBehindRefusals(score, byId.get(request.callId))
        ? whenDue(request.callId).then(() => decision)
        : decision;
    },
    // `recordedApprovals`, where the recording says what was approved.
    approveToolCall: undefined,
    afterToolCall: ({ callId }) => (score.isFree ? undefined : failureIn(byId.get(callId))),
    beforeFinish: () => failing(),
    afterIteration: () => failing(),
    afterTurn: () => failing(),
    // It changes nothing.
    afterEnd: undefined,
  } satisfies UnnamedHooks;
}

function failureOf(record: JournalRecord | undefined): { readonly fail: Failure } | undefined {
  if (record?.type !== 'turn.failed') return undefined;
  const { code, message, reason, details } = record;
  return { fail: { code, message, reason, ...(details && { details }) } };
}

/** How the turn fails by what an extension said of a call. */
function failureIn(run: RecordedCallRun | undefined): { readonly fail: Failure } | undefined {
  const { fails } = run?.result ?? {};
  return fails && { fail: fails };
}

/**
 * Whether calls of the batch were refused before an extension failed the turn with this one: all calls of a batch are looked at together
 * where they have to be approved, as in a replay, and one after another else.
 */
function failsBehindRefusals(score: Score, run: RecordedCallRun | undefined): boolean {
  if (score.isFree || !failureIn(run)) return false;
  let refusals = 0;
  for (const record of score.rest()) {
    if (record.type === 'llm.done' || record.type.startsWith('x.')) continue;
    if (record === run?.result) return refusals > 0;
    if (record.type !== 'tool.result' || !refusalCodes.has(record.error?.code)) return false;
    refusals++;
  }
  return false;
}

const refusalCodes: ReadonlySet<unknown> = new Set(['TOOL_NOT_FOUND', 'TOOL_ARGUMENTS']);

/** What the next call was offered, as far as there are such tools. A journal that was written by hand may not say it. */
function viewNext(score: Score, { state, tools }: HookContext): IterationChange | undefined {
  let offered: LlmStart['tools'] = state.availableTools.length > 0 ? state.availableTools : undefined;
  for (const record of score.isFree ? [] : score.rest()) {
    if (record.type === 'llm.start') offered = record.tools ?? offered;
    if (!record.type.startsWith('x.')) break;
  }
  const known = new Set(tools.map((tool) => tool.function.name));
  return offered && { view: { tools: offered.map(({ name }) => name).filter((name) => known.has(name)) } };
}

function decisionOf(
  { arguments: given }: ToolCallRequest,
  run: RecordedCallRun | undefined,
): ToolCallChange | undefined {
  const { intents = [], result } = run ?? {};
  const [intent] = intents;
  if (intent) return difference(intent.arguments, given) ? { arguments: intent.arguments } : undefined;
  if (!run || !result) return undefined;
  const { content, success, error } = result;
  if (result.fails) return failureIn(run);
  if (!isDecided(run)) return undefined;
  const shown = difference(result.arguments, given) ? { arguments: result.arguments } : {};
  if (error && isDenied(error)) return { ...shown, deny: String(error.details?.['says']) };
  return { ...shown, answer: { content, success, ...(error ? { error: error.message } : {}) } };
}
