import type { Context, Span } from '@opentelemetry/api';
import { startHookSpan } from '../../observability/spans/call-spans.ts';
import type { TurnTracing } from '../../observability/spans/tracing-options.ts';
import {
  type AgentUsage,
  type AuthContext,
  addUsed,
  type Clock,
  type Extension,
  type HookContext,
  type LLMProvider,
  type ToolDefinition,
} from '../contracts/index.ts';
import {
  type CommitDraft,
  type LoopState,
  maxIterationsOf,
  type Stamper,
  type TurnIdentity,
} from '../journal/index.ts';
import { viewSince } from '../model-call/view.ts';
import type { ResolvedConfig } from '../options/index.ts';
import { isLeft, ParentTurn, parentTurn, type TurnNode } from '../ownership/child-turns.ts';
import type { LeaseHold } from '../ownership/lease.ts';
import type { AbortScope } from '../streams/index.ts';
import type { ToolSet } from '../tool-call/tool-set.ts';
import type { HookName, Hooks } from './hook-table.ts';

/** The run that a hook belongs to. A run is the part of a turn in one process, from its start or resume on. */
export interface HookDeps extends Stamper {
  readonly config: ResolvedConfig;
  /** With the id and the metadata of the current agent. */
  readonly turn: TurnIdentity;
  readonly systemPrompt: string | undefined;
  /** Unless an extension changed it; see `maxIterationsOf`. */
  readonly maxIterations: number;
  readonly provider: LLMProvider;
  /** As the caller passed it, for tools; never journaled, traced or logged. */
  readonly authContext: AuthContext | undefined;
  /** The `context` of the start options, as the caller passed it. */
  readonly context: unknown;
  readonly tracing: TurnTracing;
  readonly hooks: Hooks<HookDeps>;
  /** Aborted when the turn is cancelled. */
  readonly scope: AbortScope;
  /** Aborted when the process shuts down and releases the turn to another. */
  readonly drain: AbortScope;
  /** The turn in the tree of its child turns. */
  readonly node: TurnNode;
  /** Whether the lease is certainly valid. Absent without a store: no other process can own the turn then. */
  readonly leaseHold: LeaseHold | undefined;
  /** Absent if the turn ended before its tools were known. */
  readonly tools?: ToolSet;
}

/** The state and span in which a hook is called. */
export interface HookPlace {
  readonly state: LoopState;
  readonly traceContext: Context;
}

/** A place whose state includes the changes of earlier extensions. */
export class DraftPlace implements HookPlace {
  readonly traceContext: Context;
  readonly #draft: CommitDraft;

  constructor(draft: CommitDraft, traceContext: Context) {
    this.#draft = draft;
    this.traceContext = traceContext;
  }

  get state(): LoopState {
    return this.#draft.after;
  }
}

/** One call of one hook, shared by all extensions until one of them changes the state. */
export interface HookQuestion {
  readonly deps: HookDeps;
  readonly state: LoopState;
  readonly parent: Context;
  readonly hook: HookName;
}

/** The wait for a promised answer. */
interface Wait {
  readonly stop: () => void;
  /** Fails the wait as timed out. */
  readonly expire: (afterMs: number) => void;
}

/** The objects that a hook's reads have created. */
interface Opened {
  over: boolean;
  scope?: AbortScope;
  parents?: ParentTurn[];
  wait?: Wait;
  traced?: { readonly span: Span; readonly traceContext: Context };
}

/** For every hook that ended without creating any. */
const neverOpened: Opened = Object.freeze({ over: true });

/**
 * The context of a hook. Its signal and its span are created on access. A context is created per hook call and extension,
 * so its shared members are kept in the question.
 */
export class AskedHook implements HookContext {
  readonly #question: HookQuestion;
  readonly #extension: Extension;
  #opened: Opened | undefined;

  constructor(question: HookQuestion, extension: Extension) {
    this.#question = question;
    this.#extension = extension;
  }

  get state(): LoopState {
    return this.#question.state;
  }

  get taskId(): string {
    return this.state.turn.taskId;
  }

  get agentId(): string {
    return this.state.agentId;
  }

  get contextId(): string {
    return this.state.turn.contextId;
  }

  get metadata(): Readonly<Record<string, unknown>> {
    return this.deps.turn.metadata;
  }

  get authContext(): AuthContext | undefined {
    return this.deps.authContext;
  }

  get context(): unknown {
    return this.deps.context;
  }

  get iteration(): number {
    return this.state.iteration;
  }

  get maxIterations(): number {
    return maxIterationsOf(this.deps, this.state);
  }

  get data(): unknown {
    return this.state.changes.data[this.#extension.name];
  }

  get provider(): LLMProvider {
    return this.deps.provider;
  }

  get clock(): Clock {
    return this.deps.config.clock;
  }

  get tools(): readonly ToolDefinition[] {
    return [...(this.deps.tools?.byName.values() ?? [])].map(({ definition }) => definition);
  }

  get signal(): AbortSignal {
    return this.#scope.signal;
  }

  /** The parent for a child turn of the hook; each has its own name. */
  [parentTurn](name: string): ParentTurn {
    const { deps, state, iteration, agentId } = this;
    const callId = `${iteration}.${name}`;
    const parent = new ParentTurn(deps, {
      callId,
      agentId,
      scope: this.#scope,
      recorded: deps.node.state.changes.branches?.[callId] ?? [],
      show: () => {},
      view: () => viewSince(deps.hooks.lastCall, state),
    });
    const opened = this.#open();
    opened.parents = [...(opened.parents ?? []), parent];
    deps.node.noteHook(parent);
    return parent;
  }

  get hasChildren(): boolean {
    return this.#opened?.parents !== undefined;
  }

  /** The usage of its child turns. */
  get childUsage(): readonly AgentUsage[] {
    return (this.#opened?.parents ?? []).reduce<readonly AgentUsage[]>((sum, { usageBy }) => addUsed(sum, usageBy), []);
  }

  get traceContext(): Context {
    const { deps, hook, parent } = this.#question;
    const { name } = this.#extension;
    const opened = this.#open();
    const { iteration } = this;
    opened.traced ??= startHookSpan(deps.tracing, { extension: name, hook, iteration, now: deps.now }, parent);
    return opened.traced.traceContext;
  }

  /** Its span, if the hook created one or returned a promise. */
  get span(): Span | undefined {
    return this.#opened?.traced?.span;
  }

  /** Whether its answer no longer counts. */
  get isOver(): boolean {
    return this.#opened?.over === true;
  }

  /** Registers the wait for a promised answer; it is stopped once the question is over. */
  awaited(wait: Wait): void {
    this.#open().wait = wait;
  }

  /** The time limit of its caller expired before its own. */
  expire(afterMs: number): void {
    if (!this.isOver) this.#opened?.wait?.expire(afterMs);
  }

  /** Returns the usage of its child turns that have ended or are suspended, for the caller to record now. */
  endSettled(): readonly AgentUsage[] {
    const settled = (this.#opened?.parents ?? []).filter(({ isSettled }) => isSettled);
    for (const parent of settled) parent.end();
    return settled.reduce<readonly AgentUsage[]>((sum, { usageBy }) => addUsed(sum, usageBy), []);
  }

  /**
   * Returns its child turns that have ended or are suspended: the caller records their usage, and ends them. The usage of all
   * others is recorded with the end of the turn.
   */
  takeBranches(): readonly ParentTurn[] {
    const parents = this.#opened?.parents ?? [];
    delete this.#opened?.parents;
    return parents.filter(({ isSettled }) => isSettled);
  }

  /** Aborts the hook. The usage of its child turns is recorded with the end of the turn. */
  leave(reason: unknown): void {
    const opened = this.#opened;
    opened?.scope?.abort(reason);
    if (opened && !isLeft(reason)) delete opened.parents;
    this.done();
  }

  /** Drops its answer: the usage of its child turns is recorded with the end of the turn. */
  drop(): void {
    for (const parent of this.#opened?.parents ?? []) this.deps.node.noteHook(parent);
  }

  done(): void {
    const opened = this.#opened;
    if (opened?.over) return;
    if (opened === undefined) {
      this.#opened = neverOpened;
      return;
    }
    opened.over = true;
    opened.wait?.stop();
    for (const parent of opened.parents ?? []) parent.end();
    opened.scope?.release();
    opened.traced?.span.end();
  }

  /** The run that calls the hook. */
  protected get deps(): HookDeps {
    return this.#question.deps;
  }

  get #scope(): AbortScope {
    const opened = this.#open();
    opened.scope ??= this.deps.scope.child();
    return opened.scope;
  }

  #open(): Opened {
    if (this.#opened === undefined) this.#opened = { over: false };
    else if (this.#opened === neverOpened) this.#opened = { over: true };
    return this.#opened;
  }
}
