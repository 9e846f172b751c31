import type { Context } from '@opentelemetry/api';
import { Observable } from 'rxjs';
import { startSegmentSpan } from '../../observability/spans/run-spans.ts';
import {
  cancelSpan,
  failSpan,
  silentSpanBelow,
  type TracedSpan,
  turnTracing,
} from '../../observability/spans/tracing-options.ts';
import {
  type AgentLoopConfig,
  AgentLoopError,
  type AgentSetup,
  messageOf,
  type ToolProvider,
} from '../contracts/index.ts';
import type { SegmentContext } from '../hooks/hook-context.ts';
import { hookLists } from '../hooks/hook-table.ts';
import type { Commit, LoopState, Signal, TurnIdentity, TurnSettings } from '../journal/index.ts';
import type { ResolvedConfig } from '../options/index.ts';
import { after, Outlet, type Sink, Source } from '../streams/index.ts';
import { checkToolsOfOpenCalls } from '../tool-call/tool-plan.ts';
import { listTools, noTools, providerName, type ToolSet } from '../tool-call/tool-set.ts';
import { loopIterations } from './loop.ts';
import type { Run } from './run.ts';

/**
 * Runs the loop (`loop.ts`) for one agent after another. A segment is the part of a turn that one agent runs, with its own model, tools and
 * limits; a turn without hand-off has one. `resumed`: another process has run or created the turn. The stack does not grow with the number of
 * segments. Errors as `loopSegment`, and with `MISSING_AGENT` for an agent that the configuration does not know.
 */
export function loopSegments(deps: Run, traceContext: Context, run: SegmentRun): (state: LoopState) => Source<Signal> {
  if (!run.config.agents) return loopSegment(deps, traceContext, run);
  return (state) => new Source((to) => new SegmentLoop({ deps, traceContext, run, state, to }).advance());
}

interface SegmentRun extends ListingRun {
  /** As it was given. */
  readonly config: ResolvedConfig;
}

interface ListingRun {
  readonly resumed: boolean;
  /** Emitted once the tools of the open calls are there. */
  readonly begin?: Commit | undefined;
}

interface SegmentLoopOptions {
  readonly deps: Run;
  readonly traceContext: Context;
  readonly run: SegmentRun;
  readonly state: LoopState;
  readonly to: Sink<Signal>;
}

/** The agents of one run of a turn, one after another. */
class SegmentLoop {
  readonly #options: SegmentLoopOptions;
  readonly #first: SegmentContext;
  #state: LoopState;
  #advancing = false;
  #again = false;
  #begin: Commit | undefined;

  constructor(options: SegmentLoopOptions) {
    this.#options = options;
    this.#first = options.deps.segment;
    this.#state = options.state;
    this.#begin = options.run.begin;
  }

  /** A trampoline: synchronous agents do not nest. */
  advance(): void {
    this.#again = true;
    if (this.#advancing) return;
    this.#advancing = true;
    try {
      while (this.#again && !this.#options.to.closed) {
        this.#again = false;
        this.#run();
      }
    } catch (error) {
      this.#options.to.error(error);
    }
    this.#advancing = false;
  }

  #run(): void {
    const { deps, traceContext, run, to } = this.#options;
    const { agentId } = this.#state;
    const segment = this.#segment();
    const begin = this.#begin;
    this.#begin = undefined;
    deps.segment = segment;
    deps.hooks.begin(segment.config.hooks);
    const { span, traceContext: inner } = segmentSpan(segment, this.#state, traceContext);
    let ended = false;
    const running = new Outlet<Signal>({
      next: (signal) => {
        if (signal.type === 'commit') this.#state = signal.after;
        to.next(signal);
      },
      error: (error) => {
        ended = true;
        failSpan(span, error);
        span.end();
        to.error(error);
      },
      complete: () => {
        ended = true;
        if (deps.inbox.scope.aborted) cancelSpan(span);
        span.end();
        if (this.#state.outcome || this.#state.agentId === agentId) to.complete();
        else this.advance();
      },
    });
    to.add(() => {
      if (ended) return;
      ended = true;
      running.unsubscribe();
      cancelSpan(span);
      span.end();
    });
    loopSegment(deps, inner, { resumed: run.resumed, begin })(this.#state).runInto(running);
  }

  /** A turn that only writes its end may have an unknown agent. */
  #segment(): SegmentContext {
    const { deps, run } = this.#options;
    try {
      return segmentOf(this.#first, run.config, this.#state);
    } catch (error) {
      if (!onlyWritesEnd(deps, this.#state)) throw error;
      return { ...this.#first, turn: { ...this.#first.turn, agentId: this.#state.agentId } };
    }
  }
}

/**
 * Runs the loop of one agent once its tools are listed. A cancel and a drain do not wait for tool providers. Errors
 * with the error of a provider, as `MISSING_TOOL` on a resumed turn; also with `MISSING_TOOL` if an open call's tool is missing.
 */
function loopSegment(
  deps: Run,
  traceContext: Context,
  { resumed, begin }: ListingRun,
): (state: LoopState) => Source<Signal> {
  return (state) => {
    const run = (tools: ToolSet, out: Sink<Signal>) => {
      if (!onlyWritesEnd(deps, state)) checkToolsOfOpenCalls(tools, state);
      if (begin) out.next(begin);
      const { config, turn, tracing, authContext, context } = deps.segment;
      // Written out: V8 gives each object made by spread its own hidden class, and the hot path reads this one.
      deps.segment = { config, turn, tracing, tools, authContext, context };
      loopIterations(deps, traceContext)(state).runInto(out);
    };
    return new Source((out) => {
      if (onlyWritesEnd(deps, state)) return run(noTools, out);
      const { config, turn, authContext, context } = deps.segment;
      const waiting = new Set<ToolProvider>();
      const tools = listTools(config.toolProviders, { authContext, context, ...turn }, waiting);
      if (!(tools instanceof Promise)) return run(tools, out);
      const listing = toolsInTime(deps, { tools, waiting, resumed }).subscribe({
        next: (listed) => new Source<Signal>((to) => run(listed, to)).runInto(out),
        error: (error: unknown) => out.error(error),
      });
      out.add(() => listing.unsubscribe());
    });
  };
}

/**
 * Whether the turn only writes its end: it is cancelled or drained, its conversation was deleted, or more than `maxResumes` processes crashed in it
 * without progress. It calls no model and no tool.
 */
function onlyWritesEnd({ inbox, segment }: Run, { resumes, turn }: LoopState): boolean {
  return inbox.scope.aborted || inbox.drain.aborted || turn.deleted === true || resumes > segment.config.maxResumes;
}

interface ListedTools {
  readonly tools: Promise<ToolSet>;
  /** Providers that have not answered yet. */
  readonly waiting: ReadonlySet<ToolProvider>;
  readonly resumed: boolean;
}

/** If the tools of a resumed turn are unavailable, the error is `MISSING_TOOL`, which does not fail the turn: another process, or a later resume, may have them. */
function toolsInTime({ segment, inbox }: Run, { tools, waiting, resumed }: ListedTools): Observable<ToolSet> {
  return new Observable((subscriber) => {
    const give = (tools: ToolSet) => {
      subscriber.next(tools);
      subscriber.complete();
    };
    const fail = (error: unknown) => subscriber.error(resumed ? missingTools(segment, error) : error);
    const { toolListTimeoutMs: ms, clock } = segment.config;
    if (ms > 0) subscriber.add(after(ms, clock, () => fail(lateTools(waiting, ms))));
    for (const scope of [inbox.scope, inbox.drain]) subscriber.add(scope.onAbort(() => give(noTools)));
    tools.then(give).catch(fail);
  });
}

function lateTools(waiting: ReadonlySet<ToolProvider>, ms: number): AgentLoopError {
  const names = [...waiting].map(providerName).join(', ');
  const message = `Tool providers did not list their tools within ${ms} ms (toolListTimeoutMs): ${names}.`;
  return new AgentLoopError('TOOL_TIMEOUT', message, { retryable: true });
}

function missingTools({ turn }: SegmentContext, cause: unknown): AgentLoopError {
  return new AgentLoopError('MISSING_TOOL', messageOf(cause), { cause, retryable: true, taskId: turn.taskId });
}

/**
 * The segment of a state's agent: provider, call settings, prompt, tools and limits of the agent, the extensions of the configuration followed
 * by the agent's own; everything else is the turn's. Errors: `MISSING_AGENT`, retryable, if `agents` does not know the agent.
 */
function segmentOf(
  first: SegmentContext,
  given: ResolvedConfig,
  { agentId, turn, agentChanges }: LoopState,
): SegmentContext {
  if (agentChanges === 0 && agentId === given.agentId) return first;
  const setup = given.agents?.(agentId);
  if (!setup && agentId !== given.agentId) throw missingAgent(turn, agentId);
  const own = setup ? setupConfig(given, agentId, setup) : returnedConfig(given);
  const { systemPrompt, ...settings } = turn.settings;
  // A system prompt that the caller passed for the turn replaces the prompt of the first agent.
  const config = configOf(own, agentChanges <= 1 ? turn.settings : settings);
  const metadata = { ...setup?.metadata, ...turn.metadata };
  const tracing = agentChanges === 0 ? first.tracing : turnTracing(config, { ...turn, agentId });
  return { ...first, config, turn: { ...turn, agentId, metadata }, tracing };
}

/** The configuration of an agent, with what the caller of the turn replaces. */
export function configOf(config: ResolvedConfig, { systemPrompt, maxIterations }: TurnSettings): ResolvedConfig {
  if (systemPrompt === undefined && maxIterations === undefined) return config;
  const replaced = {
    systemPrompt: systemPrompt ?? config.systemPrompt,
    maxIterations: maxIterations ?? config.maxIterations,
  };
  return Object.assign({}, config, replaced);
}

/** The span of a segment; that of the first one is `agent.execute` itself. */
function segmentSpan(
  { tracing, config, turn: { agentId } }: SegmentContext,
  state: LoopState,
  parent: Context,
): TracedSpan {
  if (state.agentChanges === 0) return silentSpanBelow(parent);
  const { name = agentId } = config.agents?.(agentId) ?? {};
  const { reason, from } = state.segment;
  return startSegmentSpan(tracing, { agentName: name, reason, from, provider: config.llmProvider.info }, parent);
}

type TurnOption = Exclude<keyof AgentLoopConfig, keyof AgentSetup | 'agentId' | 'extensions'>;

/** The options that every segment of a turn shares. */
const turnOptions: Readonly<Record<TurnOption, true>> = {
  agents: true,
  maxHandOffs: true,
  argumentChecks: true,
  taskStateStore: true,
  abortGraceMs: true,
  leaseMs: true,
  maxResumes: true,
  retryPlan: true,
  subAgentEvents: true,
  shutdown: true,
  storeDeadlineMs: true,
  enableTracing: true,
  captureContent: true,
  redact: true,
  spanNames: true,
  logger: true,
  clock: true,
  generateId: true,
};

/** Only the agent's own extensions get `beforeTurn`: it ran for the others when the turn began. */
function setupConfig(config: ResolvedConfig, agentId: string, setup: AgentSetup): ResolvedConfig {
  const { name: _, metadata: __, extensions = [], ...own } = setup;
  const ofTurn = Object.fromEntries(Object.entries(config).filter(([option]) => Object.hasOwn(turnOptions, option)));
  const resolved = config.resolve({
    ...ofTurn,
    ...own,
    agentId,
    extensions: [...config.extensions, ...extensions],
  });
  const { beforeTurn } = hookLists(extensions);
  return Object.assign(resolved, { logger: config.logger, hooks: { ...resolved.hooks, beforeTurn } });
}

/** The configuration for the first agent when the turn returns to it: its `beforeTurn` hooks ran when the turn began. */
function returnedConfig(config: ResolvedConfig): ResolvedConfig {
  return Object.assign({}, config, { hooks: { ...config.hooks, beforeTurn: [] } });
}

function missingAgent(turn: TurnIdentity, agentId: string): AgentLoopError {
  const message = `Turn "${turn.taskId}" is at the agent "${agentId}", which this process does not know; add it to agents of the configuration (or to the team: registerAgent), and resume the turn.`;
  return new AgentLoopError('MISSING_AGENT', message, { taskId: turn.taskId, retryable: true });
}
