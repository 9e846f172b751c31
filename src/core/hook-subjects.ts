import type { CallSettings, LLMProvider } from '../providers/interfaces.ts';
import type { ToolDefinition } from '../tools/interfaces.ts';
import type { IterationStep, ToolCallOutcome, ToolCallRequest, TurnEnd, TurnFinish } from './extension.ts';
import { AskedHook, type HookQuestion } from './hook-context.ts';
import { type ToolCall, textOf } from './messages.ts';
import type { Finish, RecordedCall, ToolResultRecord } from './records.ts';
import type { LoopState, PendingToolCall, TurnOutcome } from './state.ts';
import type { OfferedTool } from './tool-set.ts';

/** A model call that is about to be made. */
export class AskedModelCall extends AskedHook {
  readonly #chosen: LLMProvider | undefined;

  constructor(question: HookQuestion, chosen: LLMProvider | undefined) {
    super(question);
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
    question: HookQuestion,
    pending: Pick<PendingToolCall, 'callId' | 'call'>,
    { tool, arguments: args }: { readonly tool: OfferedTool; readonly arguments: unknown },
  ) {
    super(question);
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
    question: HookQuestion,
    ran: {
      readonly pending: Pick<PendingToolCall, 'callId' | 'call'>;
      readonly tool: OfferedTool;
      readonly arguments: unknown;
      readonly result: ToolResultRecord;
      readonly thrown: unknown;
    },
  ) {
    super(question, ran.pending, ran);
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
    question: HookQuestion,
    { finish, settings, offered }: Pick<IterationStep, 'finish' | 'settings'> & Partial<Pick<IterationStep, 'offered'>>,
  ) {
    super(question);
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

  constructor(question: HookQuestion, { text, reason, value }: Required<Finish>) {
    super(question);
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
    question: HookQuestion,
    end: { readonly outcome: TurnOutcome; readonly text: string; readonly value: unknown },
  ) {
    super(question);
    this.outcome = end.outcome;
    this.text = end.text;
    this.value = end.value;
  }
}
