import type { Context, Span } from '@opentelemetry/api';
import { startHookSpan } from '../observability/spans/hook-span.ts';
import type { CallSettings, LLMProvider } from '../providers/interfaces.ts';
import type { AuthContext, ToolDefinition } from '../tools/interfaces.ts';
import type { AbortScope } from './abort-scope.ts';
import { maxIterationsOf } from './call-settings.ts';
import type { Clock } from './clock.ts';
import type {
  Extension,
  HookContext,
  IterationStep,
  ToolCallOutcome,
  ToolCallRequest,
  TurnEnd,
  TurnFinish,
} from './extension.ts';
import type { HookName } from './hooks.ts';
import { type ToolCall, textOf } from './messages.ts';
import type { Finish, RecordedCall, ToolResultRecord } from './records.ts';
import type { LoopState, PendingToolCall, TurnOutcome } from './state.ts';
import type { OfferedTool, ToolSet } from './tool-set.ts';
import type { RunDeps } from './turn-deps.ts';

/** What a hook needs of the run that it belongs to. */
export interface HookDeps extends RunDeps {
  /** Absent where the turn ended before its tools were known. */
  readonly tools?: ToolSet;
}

/** Where a hook is asked. */
export interface HookPlace {
  readonly state: LoopState;
  readonly traceContext: Context;
}

/** What a question is about. */
interface Question {
  readonly deps: HookDeps;
  readonly state: LoopState;
  readonly parent: Context;
  readonly extension: Extension;
  readonly hook: HookName;
}

/** What a hook made of a question by reading it. */
interface Opened {
  over: boolean;
  scope?: AbortScope;
  traced?: { readonly span: Span; readonly traceContext: Context };
}

/** Of every question that is over without having been read. */
const neverOpened: Opened = Object.freeze({ over: true });

/**
 * One question to one hook: what it is told. Its signal and its span are made when they are read. Two fields and no more: one is made
 * for each hook of each extension at each of its points, and each field would cost more than all else in asking.
 */
export class AskedHook implements HookContext {
  readonly #question: Question;
  #opened: Opened | undefined;

  constructor(deps: HookDeps, { state, traceContext }: HookPlace, extension: Extension, hook: HookName) {
    this.#question = { deps, state, parent: traceContext, extension, hook };
  }

  get state(): LoopState {
    return this.#question.state;
  }

  get taskId(): string {
    return this.state.turn.taskId;
  }

  get agentId(): string {
    return this.state.turn.agentId;
  }

  get contextId(): string {
    return this.state.turn.contextId;
  }

  get metadata(): Readonly<Record<string, unknown>> {
    return this.state.turn.metadata;
  }

  get authContext(): AuthContext | undefined {
    return this.#question.deps.authContext;
  }

  get iteration(): number {
    return this.state.iteration;
  }

  get maxIterations(): number {
    return maxIterationsOf(this.#question.deps, this.state);
  }

  get data(): unknown {
    return this.state.changes.data[this.#question.extension.name];
  }

  get provider(): LLMProvider {
    return this.#question.deps.provider;
  }

  get clock(): Clock {
    return this.#question.deps.config.clock;
  }

  get tools(): readonly ToolDefinition[] {
    return [...(this.#question.deps.tools?.byName.values() ?? [])].map(({ definition }) => definition);
  }

  get signal(): AbortSignal {
    const opened = this.#open();
    opened.scope ??= this.#question.deps.scope.child();
    return opened.scope.signal;
  }

  get traceContext(): Context {
    const { deps, extension, hook, parent } = this.#question;
    const opened = this.#open();
    opened.traced ??= startHookSpan(
      deps.tracing,
      { extension: extension.name, hook, iteration: this.iteration },
      parent,
    );
    return opened.traced.traceContext;
  }

  /** Its span, where the hook made one or answers later. */
  get span(): Span | undefined {
    return this.#opened?.traced?.span;
  }

  /** Whether its answer does not count any more. */
  get isOver(): boolean {
    return this.#opened?.over === true;
  }

  /** Nobody waits for this hook any more. */
  leave(reason: unknown): void {
    this.#opened?.scope?.abort(reason);
    this.done();
  }

  done(): void {
    const opened = this.#opened;
    if (opened?.over) return;
    if (opened === undefined) {
      this.#opened = neverOpened;
      return;
    }
    opened.over = true;
    opened.scope?.release();
    opened.traced?.span.end();
  }

  #open(): Opened {
    if (this.#opened === undefined) this.#opened = { over: false };
    else if (this.#opened === neverOpened) this.#opened = { over: true };
    return this.#opened;
  }
}

/** A model call that is about to be made. */
export class AskedModelCall extends AskedHook {
  readonly #chosen: LLMProvider | undefined;

  constructor(asked: ConstructorParameters<typeof AskedHook>, chosen: LLMProvider | undefined) {
    super(...asked);
    this.#chosen = chosen;
  }

  /** What earlier extensions chose counts, so that several can stand around one call. */
  override get provider(): LLMProvider {
    return this.#chosen ?? super.provider;
  }
}

/** A call that is about to run. */
export class AskedCall extends AskedHook implements ToolCallRequest {
  readonly callId: string;
  readonly call: ToolCall;
  readonly tool: ToolDefinition;
  readonly arguments: unknown;

  constructor(
    asked: ConstructorParameters<typeof AskedHook>,
    pending: Pick<PendingToolCall, 'callId' | 'call'>,
    { tool, arguments: args }: { readonly tool: OfferedTool; readonly arguments: unknown },
  ) {
    super(...asked);
    this.callId = pending.callId;
    this.call = pending.call;
    this.tool = tool.definition;
    this.arguments = args;
  }
}

/** A call that ran. */
export class AskedOutcome extends AskedCall implements ToolCallOutcome {
  readonly result: ToolResultRecord;
  readonly thrown: unknown;

  constructor(
    asked: ConstructorParameters<typeof AskedHook>,
    ran: {
      readonly pending: Pick<PendingToolCall, 'callId' | 'call'>;
      readonly tool: OfferedTool;
      readonly arguments: unknown;
      readonly result: ToolResultRecord;
      readonly thrown: unknown;
    },
  ) {
    super(asked, ran.pending, ran);
    this.result = ran.result;
    this.thrown = ran.thrown;
  }
}

/** An iteration that is over. */
export class AskedStep extends AskedHook implements IterationStep {
  readonly finish: Finish | undefined;
  readonly #settings: CallSettings;
  readonly #offered: IterationStep['offered'] | undefined;

  constructor(
    asked: ConstructorParameters<typeof AskedHook>,
    { finish, settings, offered }: Pick<IterationStep, 'finish' | 'settings'> & Partial<Pick<IterationStep, 'offered'>>,
  ) {
    super(...asked);
    this.finish = finish;
    this.#settings = settings;
    this.#offered = offered;
  }

  get finished(): boolean {
    return this.finish !== undefined;
  }

  get settings(): CallSettings {
    return this.#settings;
  }

  get response(): LoopState['lastResponse'] {
    return this.state.lastResponse;
  }

  get text(): string {
    return textOf(this.response?.message.content);
  }

  get calls(): readonly RecordedCall[] {
    return this.response?.calls ?? [];
  }

  get results(): readonly ToolResultRecord[] {
    return this.state.closedCalls.flatMap(({ result }) => result ?? []);
  }

  get offered(): readonly ToolDefinition['function'][] {
    return this.#offered ?? this.state.availableTools;
  }
}

/** A turn that is about to complete. */
export class AskedFinish extends AskedHook implements TurnFinish {
  readonly text: string;
  readonly reason: string;
  readonly value: unknown;

  constructor(asked: ConstructorParameters<typeof AskedHook>, { text, reason, value }: Required<Finish>) {
    super(...asked);
    this.text = text;
    this.reason = reason;
    this.value = value;
  }
}

/** A turn that ended, or is about to. */
export class AskedEnd extends AskedHook implements TurnEnd {
  readonly outcome: TurnOutcome;
  readonly text: string;
  readonly value: unknown;

  constructor(
    asked: ConstructorParameters<typeof AskedHook>,
    end: { readonly outcome: TurnOutcome; readonly text: string; readonly value: unknown },
  ) {
    super(...asked);
    this.outcome = end.outcome;
    this.text = end.text;
    this.value = end.value;
  }
}
