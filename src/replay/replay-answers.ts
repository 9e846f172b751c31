import {
  AgentLoopError,
  AskedTask,
  type AskOptions,
  asThrown,
  type ChildLink,
  type LLMCallParams,
  type LLMProvider,
  type LLMResponse,
  lessUsage,
  type Message,
  noUsage,
  type Reconciled,
  type ToolCall,
  type ToolContext,
  type ToolDefinition,
  type ToolProvider,
  type ToolResult,
  type Usage,
  usageOf,
} from '../core/contracts/index.ts';
import {
  isTerminal,
  type JournalRecord,
  type LlmDone,
  type LlmStart,
  type Question,
  type RecordedCall,
  type ToolResultRecord,
} from '../core/journal/index.ts';
import { viewOf } from '../core/model-call/index.ts';
import { callParentOf } from '../tasks/child-turn.ts';
import { type Conductor, theModel } from './conductor.ts';
import {
  isOwnQuestion,
  likelyResult,
  type RecordedCallRun,
  recordedCalls,
  recordedTool,
  withRecordedCheck,
} from './recorded-calls.ts';
import { difference, extensionCodes } from './recording.ts';
import type { Score } from './score.ts';

interface ReplayModelOptions {
  readonly conductor: Conductor;
  readonly score: Score;
  readonly records: readonly JournalRecord[];
  /** Of the configuration; a prompt that the turn was given itself is in its recording. */
  readonly systemPrompt: string | undefined;
  /** Whether requests are views that extensions made. */
  readonly hasViews: boolean;
}

/** A model that answers what was recorded, when it is due. What it is asked is compared with what the recording implies. */
export function replayModel(options: ReplayModelOptions): LLMProvider {
  const alike: Alike = new WeakMap();
  return {
    capabilities: { streaming: false },
    call: (params) =>
      new Promise((resolve, reject) => {
        checkRequest(options, params, alike);
        params.noteUsage?.(usageWithoutAnswer(options.score));
        options.conductor.await(theModel, {
          give: (record) =>
            record.type === 'llm.done'
              ? resolve(responseOf(record))
              : reject(failureOf(failureIn(options.score, record))),
          improvise: () => improvise(options, resolve, reject),
        });
      }),
  };
}

/** Messages of requests, and the implied ones that they were found to be the same as: a history is compared once, not at each call. */
type Alike = WeakMap<Message, Message>;

function checkRequest(
  { score, conductor, systemPrompt, hasViews }: ReplayModelOptions,
  params: LLMCallParams,
  alike: Alike,
): void {
  const { state } = score;
  if (!state || hasViews || score.isFree || conductor.isDead) return;
  const prompt = state.changes.settings.systemPrompt ?? state.turn.settings.systemPrompt ?? systemPrompt;
  const implied = viewOf(state.history, { systemPrompt: prompt, summary: state.summary });
  const found = firstDifference(implied, params.messages, alike);
  if (!found) return;
  const { path, expected, got } = found;
  try {
    score.note({ seq: state.seq, what: `the request of iteration ${state.iteration}: ${path}`, expected, got });
  } catch (error) {
    conductor.fail(error);
  }
}

function firstDifference(implied: readonly Message[], asked: readonly Message[], alike: Alike) {
  for (let index = 0; index < Math.max(implied.length, asked.length); index++) {
    const [due, made] = [implied[index], asked[index]];
    if (due && made && alike.get(made) === due) continue;
    const found = difference(due, made, `messages.${index}`);
    if (found) return found;
    if (due && made) alike.set(made, due);
  }
  return undefined;
}

/** What a call took that is recorded with the turn's end; nothing of one that is answered. */
function usageWithoutAnswer(score: Score): Usage {
  for (const record of score.isFree ? [] : score.rest()) {
    if (record.type === 'llm.done') break;
    if (isTerminal(record) || record.type === 'turn.suspended') return record.usage ?? noUsage;
  }
  return noUsage;
}

function responseOf({ message, calls, finishReason, finishWord, usage, model }: LlmDone): LLMResponse {
  return {
    message,
    toolCalls: calls.flatMap(({ callId, call }, at) => [...repeatsBefore(callId, calls[at - 1]), call]),
    finishReason,
    ...(finishWord !== undefined && { finishWord }),
    ...(usage ? { usage } : {}),
    ...(model === undefined ? {} : { model }),
  };
}

/** The record that says how a call failed: the end of the turn, also behind what an extension recorded of the failure. */
function failureIn(score: Score, record: JournalRecord): JournalRecord {
  if (!record.type.startsWith('x.')) return record;
  const next = [...score.rest()].find(({ type }) => !type.startsWith('x.'));
  return next?.type === 'turn.failed' || next?.type === 'turn.suspended' ? next : record;
}

/** Repeats of the call before, for the indexes that were left out: the loop leaves them out again, and the ids of the calls stay the same. */
function repeatsBefore(callId: string, before: RecordedCall | undefined): readonly ToolCall[] {
  if (!before) return [];
  return Array.from({ length: indexOf(callId) - indexOf(before.callId) - 1 }, () => before.call);
}

function indexOf(callId: string): number {
  return Number(callId.slice(callId.indexOf(':') + 1));
}

/** The error that a call failed with, as far as the end of the turn tells it. */
function failureOf(record: JournalRecord): AgentLoopError {
  if (record.type === 'turn.failed') {
    const { code, message, reason, details } = record;
    const retryable = reason === 'retries';
    return new AgentLoopError(code, message, { ...(extensionCodes.has(code) && { reason }), details, retryable });
  }
  if (record.type === 'turn.suspended' && record.hold?.error && record.hold.until !== undefined) {
    const { error, until } = record.hold;
    const { code, message, details } = error;
    return new AgentLoopError(code, message, { details, retryable: true, retryAfterMs: until - record.at });
  }
  return new AgentLoopError(
    'PROVIDER_FAILED',
    'The model call failed when it was recorded; the journal does not say how.',
  );
}

/** Off the recording: what the model answered in this iteration then. */
function improvise(
  { score, records }: ReplayModelOptions,
  resolve: (response: LLMResponse) => void,
  reject: (error: unknown) => void,
): void {
  const iteration = score.state?.iteration ?? 0;
  const answer = records.findLast((record) => record.type === 'llm.done' && record.iteration === iteration);
  if (answer?.type === 'llm.done') return resolve(responseOf(answer));
  reject(new AgentLoopError('DEVIATION', `The recording has no answer of the model in iteration ${iteration}.`));
}

interface ReplayToolsOptions {
  readonly conductor: Conductor;
  readonly records: readonly JournalRecord[];
  /** Whose definitions count. Without them tools are as the recording describes them. */
  readonly providers: readonly ToolProvider[] | undefined;
  /** What the model was offered in the run, by the agent that has the turn when its tools are asked for. */
  readonly offered: () => NonNullable<LlmStart['tools']>;
  /** What went wrong when the tools were asked for. */
  readonly failure: AgentLoopError | undefined;
}

/** Tools that run nothing: each call has its recorded result, when it is due. */
export function replayTools(options: ReplayToolsOptions): readonly ToolProvider[] {
  const { conductor, providers, offered, failure } = options;
  const calls = recordedCalls(options.records);
  const settle = (_key: string, context: ToolContext) => settled(conductor, context);
  const executeTool = (_call: unknown, context: ToolContext) => answered(conductor, context, calls);
  if (providers) {
    return providers.map((provider) => ({
      name: provider.name ?? provider.constructor.name,
      getTools: async (context) =>
        (await provider.getTools(context)).map((each) =>
          withRecordedChild(withoutReconcile(withRecordedCheck(each, calls), settle), calls),
        ),
      executeTool,
    }));
  }
  const getTools = () => {
    if (failure) throw failure;
    return offered().map((each) => withRecordedChild(recordedTool(each, calls, settle), calls));
  };
  return [{ name: 'recording', getTools, executeTool }];
}

/** A tool that is not asked what became of a call in doubt: the recording says it. */
function withoutReconcile(
  definition: ToolDefinition,
  settle: (key: string, context: ToolContext) => Promise<Reconciled>,
): ToolDefinition {
  return typeof definition.onInDoubt === 'function' ? { ...definition, onInDoubt: settle } : definition;
}

/** A tool whose calls name the child turns that they ran as then; none of them runs. */
function withRecordedChild(definition: ToolDefinition, calls: readonly RecordedCallRun[]): ToolDefinition {
  const { childTurn: _, ...own } = definition;
  const children = calls.flatMap(({ recorded, intents }) => {
    const child = intents.find((intent) => intent.child)?.child;
    return child && recorded.call.function.name === own.function.name ? [[recorded.callId, child] as const] : [];
  });
  if (children.length === 0) return own;
  const childOf = (key: string) => children.find(([callId]) => key.endsWith(`:${callId}`))?.[1];
  return { ...own, childTurn: ({ idempotencyKey }) => childOf(idempotencyKey) };
}

function childOf(calls: readonly RecordedCallRun[], callId: string): ChildLink | undefined {
  const run = calls.find(({ recorded }) => recorded.callId === callId);
  return run?.intents.find((intent) => intent.child)?.child;
}

/** Counts what a record says of model calls of a tool and of its child turn. */
function replayUsage(context: ToolContext, { usage, usageBy = [] }: Pick<ToolResultRecord, 'usage' | 'usageBy'>): void {
  if (!usage) return;
  const own = usageBy.length === 0 ? usage : lessUsage(usage, usageOf(usageBy));
  if (own.totalTokens > 0 || usageBy.length === 0) context.noteUsage(own);
  if (usageBy.length > 0) callParentOf(context)?.replay(usageBy);
}

function answered(conductor: Conductor, context: ToolContext, calls: readonly RecordedCallRun[]): Promise<ToolResult> {
  const { callId, call } = context;
  return new Promise((resolve, reject) => {
    const settle = (result: ToolResultRecord | undefined) => {
      if (!result) return reject(nothingRecorded(context));
      const { content, success, error } = result;
      replayUsage(context, result);
      const child = childOf(calls, callId);
      if (child) callParentOf(context)?.node.noteEnded(child.taskId);
      if (error && (error.reason !== undefined || error.code !== 'TOOL_FAILED')) return reject(asThrown(error));
      resolve({ toolCallId: call.id, content, success, ...(error ? { error: error.message } : {}) });
    };
    conductor.await(callId, {
      give(record) {
        if (record.type !== 'turn.asked') return settle(record.type === 'tool.result' ? record : undefined);
        replayUsage(context, record);
        try {
          askUpTo(context, record.seq, calls);
        } catch (error) {
          reject(error);
        }
      },
      improvise: () => settle(likelyResult(calls, { callId, name: call.function.name, arguments: context.arguments })),
    });
  });
}

/** Asks what the tool asked up to a record, the answered questions first; the last one throws. */
function askUpTo(context: ToolContext, seq: number, calls: readonly RecordedCallRun[]): void {
  const run = calls.find(({ recorded }) => recorded.callId === context.callId);
  const questions = run?.asked.filter((record) => record.seq <= seq && isOwnQuestion(record.question)) ?? [];
  for (const { question, private: kept } of questions)
    context.ask({ ...asOptions(question), ...(kept === undefined ? {} : { private: kept }) });
}

function asOptions({ kind, prompt, data, child }: Question): AskOptions {
  return {
    ...(kind === 'auth' || kind === 'client-tool' ? { kind } : {}),
    ...(prompt === undefined ? {} : { prompt }),
    ...(data === undefined ? {} : { data }),
    ...(child && { task: new AskedTask(child) }),
  };
}

function nothingRecorded({ callId, call }: ToolContext): AgentLoopError {
  const message = `the recording has no result of ${call.function.name} with these arguments (${callId})`;
  return new AgentLoopError('DEVIATION', message);
}

/** What a tool answers when it is asked about a call in doubt: what came of that. */
function settled(conductor: Conductor, { callId }: ToolContext): Promise<Reconciled> {
  return new Promise((resolve, reject) => {
    conductor.await(callId, {
      give(record) {
        if (record.type !== 'tool.result') return resolve({ outcome: 'not-applied' });
        if (record.success && typeof record.content === 'string') {
          return resolve({ outcome: 'applied', content: record.content });
        }
        const why = record.error?.details?.['why'];
        if (typeof why === 'string') reject(new Error(why));
        else resolve({ outcome: 'unknown' });
      },
      improvise: () => resolve({ outcome: 'unknown' }),
    });
  });
}
