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

/** One question to one hook: what it is told. Its signal and its span are made when they are read. */
export class AskedHook implements HookContext {
  readonly state: LoopState;
  readonly #deps: HookDeps;
  readonly #extension: Extension;
  readonly #hook: HookName;
  readonly #parent: Context;
  #scope: AbortScope | undefined;
  #over = false;
  #traced: { readonly span: Span; readonly traceContext: Context } | undefined;

  constructor(deps: HookDeps, { state, traceContext }: HookPlace, extension: Extension, hook: HookName) {
    this.#deps = deps;
    this.state = state;
    this.#parent = traceContext;
    this.#extension = extension;
    this.#hook = hook;
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
    return this.#deps.authContext;
  }

  get iteration(): number {
    return this.state.iteration;
  }

  get maxIterations(): number {
    return maxIterationsOf(this.#deps, this.state);
  }

  get data(): unknown {
    return this.state.changes.data[this.#extension.name];
  }

  get provider(): LLMProvider {
    return this.#deps.provider;
  }

  get clock(): Clock {
    return this.#deps.config.clock;
  }

  get tools(): readonly ToolDefinition[] {
    return [...(this.#deps.tools?.byName.values() ?? [])].map(({ definition }) => definition);
  }

  get signal(): AbortSignal {
    this.#scope ??= this.#deps.scope.child();
    return this.#scope.signal;
  }

  get traceContext(): Context {
    this.#traced ??= startHookSpan(
      this.#deps.tracing,
      { extension: this.#extension.name, hook: this.#hook, iteration: this.iteration },
      this.#parent,
    );
    return this.#traced.traceContext;
  }

  /** Its span, where the hook made one or answers later. */
  get span(): Span | undefined {
    return this.#traced?.span;
  }

  /** Whether its answer does not count any more. */
  get isOver(): boolean {
    return this.#over;
  }

  /** Nobody waits for this hook any more. */
  leave(reason: unknown): void {
    this.#scope?.abort(reason);
    this.done();
  }

  done(): void {
    if (this.#over) return;
    this.#over = true;
    this.#scope?.release();
    this.#traced?.span.end();
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
