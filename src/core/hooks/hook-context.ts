import type { Context, Span } from '@opentelemetry/api';
import { startHookSpan } from '../../observability/spans/call-spans.ts';
import { failSpan, type TurnTracing } from '../../observability/spans/tracing-options.ts';
import type { AuthContext, Clock, Extension, HookContext, LLMProvider, ToolDefinition } from '../contracts/index.ts';
import {
  type CommitDraft,
  type ExtensionRecord,
  type LoopState,
  maxIterationsOf,
  type TurnIdentity,
} from '../journal/index.ts';
import { viewSince } from '../model-call/view.ts';
import type { ResolvedConfig } from '../options/index.ts';
import { isLeft, ParentTurn, type TurnNode } from '../ownership/child-turns.ts';
import type { Inbox } from '../ownership/inbox.ts';
import type { AbortScope } from '../streams/index.ts';
import type { ToolSet } from '../tool-call/tool-set.ts';
import type { HookName, Hooks } from './hook-table.ts';

/** What the current agent runs a turn with. A turn without hand-off has one segment. */
export interface SegmentContext {
  /** Of the agent, with the prompt and the limit of iterations that the turn replaces. */
  readonly config: ResolvedConfig;
  /** With the id and the metadata of the agent. */
  readonly turn: TurnIdentity;
  readonly tracing: TurnTracing;
  /** None before they are listed. */
  readonly tools: ToolSet;
  /** As the caller passed it, for tools; never journaled, traced or logged. */
  readonly authContext: AuthContext | undefined;
  /** The `context` of the start options, as the caller passed it. */
  readonly context: unknown;
}

/** What hooks use of the run of a turn. */
export interface HookDeps {
  /** Replaced when another agent takes the turn over. */
  readonly segment: SegmentContext;
  /** How the turn is stopped. */
  readonly inbox: Pick<Inbox, 'scope' | 'drain'>;
  /** The turn in the tree of its child turns, and its lease. */
  readonly node: TurnNode;
  readonly hooks: Hooks;
}

/** The state and span in which a hook is called. */
export interface HookPlace {
  readonly state: LoopState;
  readonly traceContext: Context;
  /** Receives the records of the hook's changes. Without it they have no effect. */
  readonly add?: (record: ExtensionRecord) => void;
}

/** A place whose state includes the changes of earlier extensions: they are added to one append. */
export function draftPlace(draft: CommitDraft, traceContext: Context): HookPlace {
  return {
    traceContext,
    get state() {
      return draft.after;
    },
    add: (record) => draft.add(record),
  };
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
  parents?: readonly ParentTurn[];
  wait?: Wait;
  traced?: { readonly span: Span; readonly traceContext: Context };
  spanEnded?: boolean;
}

const noChildren: readonly ParentTurn[] = [];

/** For every hook that ended without creating any. */
const neverOpened: Opened = Object.freeze({ over: true });

/**
 * The context of a hook. Its signal and its span are created on access. A context is created per hook call and extension,
 * so its shared members are kept in the question.
 */
export class AskedHook implements HookContext {
  readonly #question: HookQuestion;
  readonly extension: Extension;
  #opened: Opened | undefined;

  constructor(question: HookQuestion, extension: Extension) {
    this.#question = question;
    this.extension = extension;
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
    return this.#question.deps.segment.turn.metadata;
  }

  get authContext(): AuthContext | undefined {
    return this.#question.deps.segment.authContext;
  }

  get context(): unknown {
    return this.#question.deps.segment.context;
  }

  get iteration(): number {
    return this.state.iteration;
  }

  get maxIterations(): number {
    return maxIterationsOf(this.#question.deps.segment.config, this.state);
  }

  get data(): unknown {
    return this.state.changes.data[this.extension.name];
  }

  get provider(): LLMProvider {
    return this.#question.deps.segment.config.llmProvider;
  }

  get clock(): Clock {
    return this.#question.deps.segment.config.clock;
  }

  get tools(): readonly ToolDefinition[] {
    return [...this.#question.deps.segment.tools.byName.values()].map(({ definition }) => definition);
  }

  get signal(): AbortSignal {
    return this.#scope.signal;
  }

  /** The parent for a child turn of the hook; each has its own name. */
  parentTurn(name: string): ParentTurn {
    const { state, iteration, agentId } = this;
    const { deps } = this.#question;
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
    opened.parents = [...this.children, parent];
    deps.node.noteHook(parent);
    return parent;
  }

  /** The parents of its child turns. */
  get children(): readonly ParentTurn[] {
    return this.#opened?.parents ?? noChildren;
  }

  get traceContext(): Context {
    const { deps, hook, parent } = this.#question;
    const { name } = this.extension;
    const opened = this.#open();
    const { iteration } = this;
    opened.traced ??= startHookSpan(
      deps.segment.tracing,
      { extension: name, hook, iteration, now: deps.node.now },
      parent,
    );
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

  /**
   * Returns its child turns that have ended or are suspended: the caller records their usage, and ends them. The usage of all
   * others is recorded with the end of the turn.
   */
  takeSettled(): readonly ParentTurn[] {
    const { children } = this;
    if (this.#opened) delete this.#opened.parents;
    return children.filter(({ isSettled }) => isSettled);
  }

  /** Aborts the hook, unless it is over. The usage of its child turns is recorded with the end of the turn. */
  leave(reason: unknown): void {
    if (this.isOver) return;
    const opened = this.#opened;
    opened?.scope?.abort(reason);
    if (opened && !isLeft(reason)) delete opened.parents;
    this.done();
  }

  /** Drops its answer: the usage of its child turns is recorded with the end of the turn. */
  drop(): void {
    for (const parent of this.children) this.#question.deps.node.noteHook(parent);
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
    for (const parent of this.children) parent.end();
    opened.scope?.release();
    if (!opened.spanEnded) opened.traced?.span.end();
  }

  /** Its time limit expired: ends its span with the error now, since what waits for the hook may continue before the error arrives there. */
  endSpan(error: unknown): void {
    const opened = this.#opened;
    if (!opened?.traced || opened.over || opened.spanEnded) return;
    opened.spanEnded = true;
    failSpan(opened.traced.span, error);
    opened.traced.span.end();
  }

  get #scope(): AbortScope {
    const opened = this.#open();
    opened.scope ??= this.#question.deps.inbox.scope.child();
    return opened.scope;
  }

  #open(): Opened {
    if (this.#opened === undefined) this.#opened = { over: false };
    else if (this.#opened === neverOpened) this.#opened = { over: true };
    return this.#opened;
  }
}
