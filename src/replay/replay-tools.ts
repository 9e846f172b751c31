import {
  AgentLoopError,
  type AskOptions,
  asThrown,
  type ChildLink,
  lessUsage,
  type Reconciled,
  type ToolContext,
  type ToolDefinition,
  type ToolProvider,
  type ToolResult,
  usageOf,
} from '../core/contracts/index.ts';
import {
  askedFor,
  type JournalRecord,
  type LlmStart,
  type Question,
  type ToolResultRecord,
} from '../core/journal/index.ts';
import { parentTurnOf } from '../core/ownership/index.ts';
import type { Conductor } from './conductor.ts';
import {
  isOwnQuestion,
  likelyResult,
  type RecordedCallRun,
  recordedCalls,
  recordedTool,
  withRecordedCheck,
} from './recorded-calls.ts';

export interface ReplayToolsOptions {
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
  if (usageBy.length > 0) parentTurnOf(context)?.replay(usageBy);
}

function answered(conductor: Conductor, context: ToolContext, calls: readonly RecordedCallRun[]): Promise<ToolResult> {
  const { callId, call } = context;
  return new Promise((resolve, reject) => {
    const settle = (result: ToolResultRecord | undefined) => {
      if (!result) return reject(nothingRecorded(context));
      const { content, success, error } = result;
      replayUsage(context, result);
      const child = childOf(calls, callId);
      if (child) parentTurnOf(context)?.node.noteEnded(child.taskId);
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
  for (const { question } of questions) context.ask(asOptions(question));
}

function asOptions({ kind, prompt, data, child }: Question): AskOptions {
  const options = {
    ...(kind === 'auth' || kind === 'client-tool' ? { kind } : {}),
    ...(prompt === undefined ? {} : { prompt }),
    ...(data === undefined ? {} : { data }),
  };
  return askedFor(options, child);
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
