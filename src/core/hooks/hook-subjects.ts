import type {
  Extension,
  IterationStep,
  ToolCallOutcome,
  ToolCallRequest,
  TurnEnd,
  TurnFinish,
} from '../contracts/extension.ts';
import { type ToolCall, textOf } from '../contracts/messages.ts';
import type { CallSettings, LLMCallParams, LLMProvider } from '../contracts/provider.ts';
import type { ToolDefinition } from '../contracts/tool.ts';
import { callSettings, copySettings } from '../journal/call-settings.ts';
import type { Finish, RecordedCall, ToolResultRecord, TurnDone } from '../journal/records.ts';
import type { LoopState, PendingToolCall, TurnOutcome } from '../journal/state.ts';
import type { OfferedTool } from '../tool-call/tool-set.ts';
import { AskedHook, type HookQuestion } from './hook-context.ts';

/** A model call that is about to be made. */
export class AskedModelCall extends AskedHook {
  readonly #chosen: LLMProvider | undefined;

  constructor(question: HookQuestion, extension: Extension, chosen: LLMProvider | undefined) {
    super(question, extension);
    this.#chosen = chosen;
  }

  /** What earlier extensions chose counts, so that several can stand around one call. */
  override get provider(): LLMProvider {
    return this.#chosen ?? super.provider;
  }
}

export interface CallInQuestion {
  readonly pending: Pick<PendingToolCall, 'callId' | 'call'>;
  readonly tool: OfferedTool;
  readonly arguments: unknown;
}

/** A call that is about to run. */
export class AskedCall extends AskedHook implements ToolCallRequest {
  readonly callId: string;
  readonly call: ToolCall;
  readonly tool: ToolDefinition;
  readonly arguments: unknown;

  constructor(question: HookQuestion, extension: Extension, { pending, tool, arguments: args }: CallInQuestion) {
    super(question, extension);
    this.callId = pending.callId;
    this.call = pending.call;
    this.tool = tool.definition;
    this.arguments = args;
  }
}

/** A call that ran, as its record would say it. */
export interface RanCall extends CallInQuestion {
  readonly result: ToolResultRecord;
  /** What the tool threw, where it did. */
  readonly thrown: unknown;
}

/** A call that ran. */
export class AskedOutcome extends AskedCall implements ToolCallOutcome {
  readonly result: ToolResultRecord;
  readonly thrown: unknown;

  constructor(question: HookQuestion, extension: Extension, ran: RanCall) {
    super(question, extension, ran);
    this.result = ran.result;
    this.thrown = ran.thrown;
  }
}

/** What a step knows besides the state. */
export interface LastStep {
  /** How the turn is about to end, where it is. */
  readonly ending: TurnDone | undefined;
  /** What the iteration's call was made with; absent where another process made it. */
  readonly params: LLMCallParams | undefined;
}

/** An iteration that is over. */
export class AskedStep extends AskedHook implements IterationStep {
  readonly #last: LastStep;

  constructor(question: HookQuestion, extension: Extension, last: LastStep) {
    super(question, extension);
    this.#last = last;
  }

  get finish(): Finish | undefined {
    return this.#last.ending && finishOf(this.#last.ending, this.state);
  }

  get finished(): boolean {
    return this.#last.ending !== undefined;
  }

  /** Of a call that another process made it is known what the turn's settings say. */
  get settings(): CallSettings {
    const { params } = this.#last;
    if (!params) return callSettings(this.deps, this.state);
    const settings: CallSettings = {};
    copySettings(settings, params);
    return settings;
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
    const { params } = this.#last;
    return params ? (params.tools?.map((tool) => tool.function) ?? []) : this.state.availableTools;
  }
}

/** A turn that is about to complete. */
export class AskedFinish extends AskedHook implements TurnFinish {
  readonly text: string;
  readonly reason: string;
  readonly value: unknown;

  constructor(question: HookQuestion, extension: Extension, { text, reason, value }: Required<Finish>) {
    super(question, extension);
    this.text = text;
    this.reason = reason;
    this.value = value;
  }
}

/** What a turn is about to end with; an earlier hook may have changed that. */
export function finishOf(ending: TurnDone | undefined, { changes }: LoopState): Required<Finish> {
  const { text = '', value, reason = 'stop' } = { ...ending, ...changes.finish };
  return { text, value, reason };
}

/** How a turn ended, or is about to. */
export interface Ended {
  readonly outcome: TurnOutcome;
  readonly text: string;
  readonly value: unknown;
}

/** A turn that ended, or is about to. */
export class AskedEnd extends AskedHook implements TurnEnd {
  readonly outcome: TurnOutcome;
  readonly text: string;
  readonly value: unknown;

  constructor(question: HookQuestion, extension: Extension, end: Ended) {
    super(question, extension);
    this.outcome = end.outcome;
    this.text = end.text;
    this.value = end.value;
  }
}
