import { context as activeContext, type Context, type Span } from '@opentelemetry/api';
import { type MonoTypeOperatorFunction, Observable } from 'rxjs';
import type { AgentLoopConfig, Message } from './core/contracts/index.ts';
import { type Commit, commitOf, journalSchema, type LoopState, replayOf, type Signal } from './core/journal/index.ts';
import { callModel as callWithStart } from './core/model-call/index.ts';
import { Inbox, TurnNode } from './core/ownership/index.ts';
import { collectTools, executeTools as executeWithJournal, ToolSet } from './core/tool-call/index.ts';
import {
  loopIterations as loopWithJournal,
  Run,
  startOfCall,
  type TurnDeps,
  withTools as withToolsAndJournal,
} from './core/turn/index.ts';
import { startExecuteSpan } from './observability/spans/run-spans.ts';
import { turnTracing } from './observability/spans/tracing-options.ts';
import { resolveConfig } from './options/config.ts';
import { withArtifactTools } from './tools/artifact-tools.ts';
import { withArgumentChecks } from './tools/schema-checks.ts';

export {
  type Commit,
  type EventProjectorOptions,
  type ExtensionError,
  projectEvents,
  type Signal,
  type Step,
  type StreamChunk,
  type SubAgentSignal,
  type ToolProgress,
} from './core/journal/index.ts';
export {
  type CallSignal,
  catchLLMError,
  mapLLMResponseToState,
  type PreparedCall,
  prepareLLMCall,
  requestLLM,
  tapLLMResponse,
} from './core/model-call/index.ts';
export {
  catchIterationError,
  catchTurnError,
  completeIteration,
  startIterationSpan,
  type TurnDeps,
  tapAfterTurn,
} from './core/turn/index.ts';
export type { TracedSpan } from './observability/spans/tracing-options.ts';

/** All iterations of a turn. Without a journal every record counts as durable once it has been shown. */
export function loopIterations(deps: TurnDeps, traceContext: Context): (state: LoopState) => Observable<Signal> {
  const loop = loopWithJournal(deps, traceContext);
  return (state) => durableAtOnce(loop(state));
}

/**
 * Runs the open calls of a state; each result is emitted the moment it is there, together with the starts of the calls that take its place.
 * On cancel no call starts, and running ones have `abortGraceMs` to stop. Unsubscribing aborts all of them and drops their results.
 */
export function executeTools(deps: TurnDeps, traceContext: Context): (state: LoopState) => Observable<Signal> {
  const execute = executeWithJournal(deps, traceContext);
  return (state) => durableAtOnce(execute(state));
}

/**
 * The next model call of a state: the commit of its start, the `beforeLLMCall` hooks, the deltas, and the commit of the answer. Errors with the
 * `AgentLoopError` of the call. Unsubscribing aborts the request and the hooks.
 */
export function callModel(deps: TurnDeps, traceContext: Context): (state: LoopState) => Observable<Signal> {
  const call = callWithStart(deps, traceContext);
  return (state) => call(state, { start: startOfCall(deps, state) });
}

/** Runs the tools that a model call asks for, behind its signals. Completes when both are over; unsubscribing stops both. */
export function withTools(deps: TurnDeps, traceContext: Context): MonoTypeOperatorFunction<Signal> {
  const follow = withToolsAndJournal(executeWithJournal(deps, traceContext));
  return (signals$) => durableAtOnce(signals$.pipe(follow));
}

/** What waits for an append, such as the start of a call, waits for it to be shown. */
function durableAtOnce(signals$: Observable<Signal>): Observable<Signal> {
  return new Observable((to) =>
    signals$.subscribe({
      next(signal) {
        if (signal.type !== 'commit' || !signal.durable) return to.next(signal);
        const { durable, ...commit } = signal;
        to.next(commit);
        durable();
      },
      error: (error: unknown) => to.error(error),
      complete: () => to.complete(),
    }),
  );
}

/** What is given for a turn that is composed by hand. */
export interface OperatorTurnOptions {
  /** Default: a new one. */
  readonly taskId?: string | undefined;
  /** Default: a new one. */
  readonly contextId?: string | undefined;
  /** The parent of `agent.execute`. Default: none, so the turn is its own trace. */
  readonly parentContext?: Context | undefined;
}

/** A turn that nothing runs yet. */
export interface OperatorTurn {
  /** What each operator factory takes first. */
  readonly deps: TurnDeps;
  /** The signal of the first record: its events come first. */
  readonly started: Commit;
  /** The state after it. */
  readonly state: LoopState;
  /** `agent.execute`; `tapAfterTurn` writes how the turn went, whoever composes the turn ends it. */
  readonly span: Span;
  /** The context in which it is the parent. */
  readonly traceContext: Context;
}

/**
 * What the operators of a turn need, for turns that are composed by hand. Lists the tools. No journal, lease, cancel or resume: those are
 * what `AgentLoop` adds. Rejects with `INVALID_CONFIG`, and with `TOOL_FAILED` where a provider cannot list its tools.
 */
export async function operatorTurn(
  given: Omit<AgentLoopConfig, 'taskStateStore' | 'agents'>,
  messages: readonly Message[],
  options: OperatorTurnOptions = {},
): Promise<OperatorTurn> {
  const config = resolveConfig(withArtifactTools(withArgumentChecks(given)));
  const { agentId, maxIterations } = config;
  const {
    taskId = config.generateId(),
    contextId = config.generateId(),
    parentContext = activeContext.active(),
  } = options;
  const record = { type: 'turn.started' as const, schema: journalSchema, taskId, contextId, agentId };
  const started = replayOf([{ ...record, messages, settings: {}, seq: 1, epoch: 0, at: config.clock.now() }]);
  const { after: state } = started;
  const { turn } = state;
  const tools = new ToolSet(await collectTools(config.toolProviders, { ...turn, authContext: undefined }));
  const tracing = turnTracing(config, turn);
  const segment = { config, turn, tracing, tools, authContext: undefined, context: undefined };
  const deps = new Run(segment, new TurnNode(state, { now: () => config.clock.now() }), new Inbox());
  return { deps, started, state, ...startExecuteSpan(tracing, { maxIterations, resumed: false }, parentContext) };
}

/**
 * The record of a model call that begins, with the tools and settings that changed since the last one, as the signal that comes before its chunks;
 * `after` is what `prepareLLMCall` takes.
 */
export function beginLLMCall(deps: TurnDeps, state: LoopState): Commit {
  return commitOf(deps.node, state, [startOfCall(deps, state)]);
}
